#include "storage/step_folders.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "storage/atomic_file.hpp"

namespace ppctl {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kPartialSuffix = ".partial";

/// The step of "step-00000100"; nothing for any other name.
std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto [read_to, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (error != std::errc() || read_to != end || step < 0) return std::nullopt;
  return step;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  return names;
}

std::string path_in(const std::string& folder, const std::string& name) { return (fs::path(folder) / name).string(); }

/// Complete checkpoints with their steps, by step.
std::vector<std::pair<std::int64_t, std::string>> complete_by_step(const std::string& folder) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  for (const std::string& name : names_in(folder)) {
    const auto step = step_of(name);
    if (step && is_checkpoint(path_in(folder, name))) found.emplace_back(*step, path_in(folder, name));
  }
  std::ranges::sort(found);
  return found;
}

/// Renamed first: what is half removed must not look complete.
void remove_checkpoint(const std::string& folder) {
  const std::string doomed = partial_folder(folder);
  fs::remove_all(doomed);
  fs::rename(folder, doomed);
  fs::remove_all(doomed);
}

}  // namespace

std::string step_folder(const std::string& folder, std::int64_t step) {
  return path_in(folder, fmt::format("{}{:08}", kPrefix, step));
}

std::string partial_folder(const std::string& step_folder) { return step_folder + std::string(kPartialSuffix); }

std::vector<std::string> complete_checkpoints(const std::string& folder) {
  std::vector<std::string> paths;
  for (auto& [step, path] : complete_by_step(folder)) paths.push_back(std::move(path));
  return paths;
}

bool is_checkpoint(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path_in(path, kManifestFile), error);
}

std::string newest_checkpoint_or(const std::string& path) {
  const std::vector<std::string> found = complete_checkpoints(path);
  return found.empty() ? path : found.back();
}

void remove_partial_checkpoints(const std::string& folder) {
  for (const std::string& name : names_in(folder)) {
    if (name.starts_with(kPrefix) && name.ends_with(kPartialSuffix)) fs::remove_all(path_in(folder, name));
  }
}

void publish_checkpoint(const std::string& step_folder) {
  const std::string partial = partial_folder(step_folder);
  sync_folder(partial);
  const bool replaces = fs::exists(step_folder);
  // Linux exchanges both names at once; elsewhere the old folder is moved away first.
  if (replaces && ::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, step_folder.c_str(), RENAME_EXCHANGE) != 0) {
    if (errno != EINVAL && errno != ENOSYS)
      throw_error("{}: cannot be replaced: {}", step_folder, std::strerror(errno));
    const std::string old = step_folder + "-replaced" + std::string(kPartialSuffix);
    fs::rename(step_folder, old);
    fs::rename(partial, step_folder);
    fs::remove_all(old);
  } else if (!replaces) {
    fs::rename(partial, step_folder);
  }
  const std::string parent = fs::path(step_folder).parent_path().string();
  sync_folder(parent.empty() ? "." : parent);
  if (replaces) fs::remove_all(partial);
}

void keep_newest_checkpoints(const std::string& folder, std::int64_t step, int keep) {
  auto found = complete_by_step(folder);
  const auto later = std::ranges::find_if(found, [step](const auto& entry) { return entry.first > step; });
  for (auto entry = later; entry != found.end(); ++entry) remove_checkpoint(entry->second);
  const auto num_kept = std::min<std::ptrdiff_t>(later - found.begin(), std::max(1, keep));
  for (auto entry = found.begin(); entry != later - num_kept; ++entry) remove_checkpoint(entry->second);
}

}  // namespace ppctl
