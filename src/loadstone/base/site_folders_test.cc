#include "loadstone/base/site_folders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace loadstone {
namespace {

namespace fs = std::filesystem;

TEST(SiteFolders, TheProgramsFolderIsOneOfItsOwn) {
  const std::string here = fs::read_symlink("/proc/self/exe").parent_path().string();
  const std::vector<std::string> own = own_folders();
  EXPECT_NE(std::find(own.begin(), own.end(), here), own.end());
}

TEST(SiteFolders, AnEnvironmentAndItsPthFilesAreFound) {
  const fs::path root = fs::temp_directory_path() / "loadstone-site-folders-test";
  const fs::path site = root / "lib/python3.11/site-packages";
  fs::create_directories(site);
  std::ofstream(site / "more.pth") << "# a comment\nimport this\n/somewhere/else\nrelative\n";
  ::setenv("VIRTUAL_ENV", root.c_str(), 1);
  const std::vector<std::string> found = site_folders();
  ::unsetenv("VIRTUAL_ENV");
  EXPECT_EQ(std::count(found.begin(), found.end(), site.string()), 1);
  EXPECT_EQ(std::count(found.begin(), found.end(), "/somewhere/else"), 1);
  EXPECT_EQ(std::count(found.begin(), found.end(), "relative"), 0);
  EXPECT_EQ(glob_paths((site / "*.pth").string()), std::vector<std::string>{(site / "more.pth").string()});
  EXPECT_TRUE(glob_paths((site / "*.none").string()).empty());
  fs::remove_all(root);
}

}  // namespace
}  // namespace loadstone
