#include "loadstone/format/arrow/plugin.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/base/site_folders.h"

namespace loadstone {

namespace {

constexpr const char* kPlugin = "libloadstone_arrow.so";
constexpr const char* kCure = "install pyarrow " LOADSTONE_ARROW_MAJOR
                              ".x into the environment of loadstone (pip install 'pyarrow==" LOADSTONE_ARROW_MAJOR
                              ".*'), or name its folder in LOADSTONE_ARROW_DIR";

/// Where the plugin may be: in the folder named, beside the library, in a build tree, in the package that belongs to
/// the command.
std::vector<std::string> plugin_candidates() {
  std::vector<std::string> out;
  if (const char* named = std::getenv("LOADSTONE_PLUGIN_DIR"); named != nullptr && *named != '\0') {
    out.push_back(cat(named, "/", kPlugin));
  }
  for (const std::string& folder : own_folders()) {
    for (const char* relative : {"/", "/../"}) out.push_back(cat(folder, relative, kPlugin));
  }
  for (const std::string& site : site_folders()) out.push_back(cat(site, "/loadstone/lib/", kPlugin));
  return out;
}

/// Arrow's own libraries, when the plugin's RPATH does not lead to them.
std::vector<std::string> arrow_folders() {
  std::vector<std::string> out;
  if (const char* named = std::getenv("LOADSTONE_ARROW_DIR"); named != nullptr && *named != '\0')
    out.emplace_back(named);
  for (const std::string& site : site_folders()) out.push_back(cat(site, "/pyarrow"));
  return out;
}

/// Loads libarrow and libparquet from one of the folders; they stay. What fails here shows when the plugin is opened.
void load_arrow() {
  for (const std::string& folder : arrow_folders()) {
    const std::string suffix = ".so." LOADSTONE_ARROW_MAJOR "00";
    if (dlopen(cat(folder, "/libarrow", suffix).c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr &&
        dlopen(cat(folder, "/libparquet", suffix).c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) {
      return;
    }
  }
}

struct Opened {
  const ArrowPlugin* plugin = nullptr;
  std::string reason;
};

Opened open_plugin() {
  Opened out;
  std::string found;
  for (const std::string& path : plugin_candidates()) {
    if (access(path.c_str(), R_OK) == 0) {
      found = path;
      break;
    }
  }
  if (found.empty()) {
    out.reason = cat("this build of loadstone has no ", kPlugin, " (it is built when pyarrow is there at build time)");
    return out;
  }
  void* library = dlopen(found.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    load_arrow();
    library = dlopen(found.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    const char* said = dlerror();
    out.reason = cat(said == nullptr ? "its library cannot be opened" : said, "; ", kCure);
    return out;
  }
  const auto entry = reinterpret_cast<ArrowPluginEntry>(dlsym(library, kArrowPluginEntry));
  const ArrowPlugin* plugin = entry == nullptr ? nullptr : entry();
  if (plugin == nullptr || plugin->abi != kArrowPluginAbi) {
    out.reason = cat("'", found, "' belongs to another version of loadstone");
    return out;
  }
  out.plugin = plugin;
  return out;
}

const Opened& opened() {
  static const Opened kOpened = open_plugin();
  return kOpened;
}

}  // namespace

const ArrowPlugin& arrow_plugin() {
  const Opened& found = opened();
  if (found.plugin == nullptr) {
    throw Error(ErrorKind::system, cat("Parquet is read through Arrow, which is not there: ", found.reason));
  }
  return *found.plugin;
}

std::string arrow_plugin_report(bool& found) {
  try {
    const Opened& it = opened();
    found = it.plugin != nullptr;
    return found ? cat("Arrow ", it.plugin->version()) : it.reason;
  } catch (const std::exception& error) {
    found = false;
    return error.what();
  }
}

}  // namespace loadstone
