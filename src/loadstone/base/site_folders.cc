#include "loadstone/base/site_folders.h"

#include <dlfcn.h>
#include <glob.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "loadstone/base/cat.h"

namespace loadstone {

namespace {

std::string folder_of_file(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? "." : std::string(path.substr(0, slash));
}

}  // namespace

std::vector<std::string> own_folders() {
  std::vector<std::string> out;
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&own_folders), &info) != 0 && info.dli_fname != nullptr) {
    out.push_back(folder_of_file(info.dli_fname));
  }
  std::string program(PATH_MAX, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", program.data(), program.size());
  if (length > 0) out.push_back(folder_of_file(std::string_view(program).substr(0, static_cast<std::size_t>(length))));
  return out;
}

std::vector<std::string> site_folders() {
  std::vector<std::string> out;
  const auto add_environment = [&](const std::string& root) {
    for (std::string& site : glob_paths(cat(root, "/lib/python3*/site-packages"))) out.push_back(std::move(site));
  };
  for (const std::string& folder : own_folders()) {
    out.push_back(cat(folder, "/.."));     // the extension module's package …
    out.push_back(cat(folder, "/../.."));  // … and the library's, in its folder lib
    add_environment(cat(folder, "/.."));
  }
  if (const char* environment = std::getenv("VIRTUAL_ENV"); environment != nullptr) add_environment(environment);
  for (std::size_t i = 0, n = out.size(); i < n; ++i) {
    for (const std::string& path : glob_paths(cat(out[i], "/*.pth"))) {
      std::ifstream file(path);
      for (std::string line; std::getline(file, line);) {
        if (line.starts_with('/')) out.push_back(line);
      }
    }
  }
  return out;
}

std::vector<std::string> glob_paths(const std::string& pattern) {
  std::vector<std::string> out;
  glob_t found{};
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) out.emplace_back(found.gl_pathv[i]);
  }
  ::globfree(&found);
  return out;
}

}  // namespace loadstone
