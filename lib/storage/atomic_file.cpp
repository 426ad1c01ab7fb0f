#include "storage/atomic_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.hpp"

namespace ppctl {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw_error("{}: {}: {}", path, what, std::strerror(errno));
}

void sync_path(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC);
  if (fd < 0) fail(path, "cannot be opened");
  const int result = ::fsync(fd);
  const int saved = errno;
  ::close(fd);
  // Some file systems do not sync folders and say so; there is nothing more to do then.
  errno = saved;
  if (result != 0 && errno != EINVAL) fail(path, "cannot be synced");
}

}  // namespace

OutputFile::OutputFile(const std::string& path, bool append) : path_(path) {
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (append ? O_APPEND : O_TRUNC), 0644);
  if (fd_ < 0) fail(path_, "cannot be written");
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, "cannot be written");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void OutputFile::write(const std::string& text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

void OutputFile::sync() {
  if (::fsync(fd_) != 0 && errno != EINVAL) fail(path_, "cannot be synced");
}

void OutputFile::close() {
  if (::close(std::exchange(fd_, -1)) != 0) fail(path_, "cannot be written");
}

void write_file_atomically(const std::string& path, const std::string& text) {
  const std::string partial = path + ".partial";
  OutputFile file(partial);
  file.write(text);
  file.sync();
  file.close();
  if (std::rename(partial.c_str(), path.c_str()) != 0) fail(path, "cannot be renamed into place");
  const std::string parent = std::filesystem::path(path).parent_path().string();
  sync_folder(parent.empty() ? "." : parent);
}

void sync_folder(const std::string& path) { sync_path(path, O_RDONLY | O_DIRECTORY); }
void sync_file(const std::string& path) { sync_path(path, O_RDONLY); }

}  // namespace ppctl
