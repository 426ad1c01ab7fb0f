// The layers of ARCHITECTURE.md are true because this test compares every include of lib/ and apps/ with
// lib/layers.txt.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path kLib = fs::path(PPCTL_SOURCE_DIR) / "lib";

struct Layer {
  std::set<std::string> modules;
  std::set<std::string> packages;
};

std::set<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::set<std::string> found;
  for (std::string word; stream >> word;) found.insert(word);
  return found;
}

std::map<std::string, Layer> read_table() {
  std::map<std::string, Layer> table;
  std::ifstream file(kLib / "layers.txt");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    const auto open = line.find('[');
    const auto close = line.find(']');
    if (line.empty() || line[0] == '#' || colon == std::string::npos) continue;
    const std::string module = *words(line.substr(0, colon)).begin();
    table[module] = {words(line.substr(colon + 1, open - colon - 1)), words(line.substr(open + 1, close - open - 1))};
  }
  return table;
}

/// The third-party package that a header belongs to, or "" for the standard library and the system.
std::string package_of(const std::string& header) {
  static const std::vector<std::pair<std::string, std::string>> prefixes = {
      {"fmt/", "fmt"},   {"spdlog/", "spdlog"}, {"yaml-cpp/", "yaml-cpp"}, {"nlohmann/", "nlohmann"},
      {"CLI/", "cli11"}, {"mpi.h", "mpi"},      {"nccl.h", "nccl"},        {"ATen/", "torch"},
      {"c10/", "torch"}, {"torch/", "torch"},   {"cuda", "cuda"},          {"xxhash.h", "xxhash"},
      {"png.h", "png"},
  };
  for (const auto& [prefix, package] : prefixes) {
    if (header.rfind(prefix, 0) == 0) return package;
  }
  return "";
}

struct Include {
  std::string header;
  int line;
};

std::vector<Include> includes_of(const fs::path& path) {
  std::vector<Include> found;
  std::ifstream file(path);
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.rfind("#include", 0) != 0) continue;
    const auto begin = line.find_first_of("<\"");
    const auto end = line.find_first_of(">\"", begin + 1);
    if (end != std::string::npos) found.push_back({line.substr(begin + 1, end - begin - 1), number});
  }
  return found;
}

std::vector<fs::path> sources_under(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".hpp" || entry.path().extension() == ".cpp") found.push_back(entry.path());
  }
  return found;
}

std::string module_of(const fs::path& path) { return fs::relative(path, kLib).begin()->string(); }

/// What is wrong with one include of a module, or "".
std::string objection(const std::string& module, const Layer& layer, const fs::path& path, const std::string& header) {
  const std::string package = package_of(header);
  if (!package.empty()) {
    if (!layer.packages.count(package)) return "may not include the package " + package;
    const bool backend = path.string().find("/comm/mpi/") != std::string::npos;
    if (package == "mpi" && !backend) return "MPI is for lib/comm/mpi alone";
    return "";
  }
  if (!fs::exists(kLib / header)) return "";
  const std::string other = module_of(kLib / header);
  if (other != module && !layer.modules.count(other)) return "may not include the module " + other;
  return "";
}

TEST(Layers, EveryModuleIsInTheTable) {
  const auto table = read_table();
  for (const auto& entry : fs::directory_iterator(kLib)) {
    if (entry.is_directory()) {
      EXPECT_TRUE(table.count(entry.path().filename().string())) << entry.path();
    }
  }
}

TEST(Layers, TheTableHasNoCycle) {
  const auto table = read_table();
  // A module's own modules must have been listed above it, so the order of the table is an order of the layers; read it
  // again in order.
  std::set<std::string> above;
  std::ifstream file(kLib / "layers.txt");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (line.empty() || line[0] == '#' || colon == std::string::npos) continue;
    const std::string module = *words(line.substr(0, colon)).begin();
    for (const auto& used : table.at(module).modules) EXPECT_TRUE(above.count(used)) << module << " uses " << used;
    above.insert(module);
  }
}

TEST(Layers, NoFileIncludesWhatItsModuleMayNot) {
  const auto table = read_table();
  for (const auto& path : sources_under(kLib)) {
    const std::string module = module_of(path);
    for (const auto& include : includes_of(path)) {
      EXPECT_EQ(objection(module, table.at(module), path, include.header), "")
          << fs::relative(path, kLib.parent_path()).string() << ":" << include.line << ": #include " << include.header;
    }
  }
}

TEST(Layers, ASourceFileIncludesItsOwnHeaderFirst) {
  for (const auto& path : sources_under(kLib)) {
    fs::path header = path;
    header.replace_extension(".hpp");
    if (path.extension() != ".cpp" || !fs::exists(header)) continue;
    const auto includes = includes_of(path);
    ASSERT_FALSE(includes.empty()) << path;
    EXPECT_EQ(includes.front().header, fs::relative(header, kLib).string()) << path;
  }
}

TEST(Layers, HeadersAreGuardedByPragmaOnce) {
  for (const auto& path : sources_under(kLib)) {
    if (path.extension() != ".hpp") continue;
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_NE(text.str().find("#pragma once"), std::string::npos) << path;
  }
}

bool reaches_torch(const fs::path& path, std::set<fs::path>& seen) {
  if (!seen.insert(path).second) return false;
  for (const auto& include : includes_of(path)) {
    if (package_of(include.header) == "torch") return true;
    if (fs::exists(kLib / include.header) && reaches_torch(kLib / include.header, seen)) return true;
  }
  return false;
}

TEST(Layers, AHeaderThatNamesTensorsReachesThemThroughItsOwnIncludes) {
  for (const auto& path : sources_under(kLib)) {
    if (path.extension() != ".hpp") continue;
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    std::set<fs::path> seen;
    if (text.str().find("at::") != std::string::npos) {
      EXPECT_TRUE(reaches_torch(path, seen)) << path;
    }
  }
}

/// A word that may not be used in a folder: printing and leaving the process belong to apps/ alone.
TEST(Layers, NothingInLibPrintsOrExits) {
  for (const auto& path : sources_under(kLib)) {
    std::ifstream file(path);
    int number = 0;
    for (std::string line; std::getline(file, line);) {
      ++number;
      for (const char* word : {"std::cout", "std::cerr", "std::exit(", "std::abort(", "printf("}) {
        EXPECT_EQ(line.find(word), std::string::npos) << path << ":" << number << ": " << word;
      }
    }
  }
}

}  // namespace
