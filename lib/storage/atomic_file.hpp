#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace ppctl {

/// A file that is being written, unbuffered. Every failure (a full disk, a missing folder) is an Error that names the
/// file.
class OutputFile {
 public:
  /// Creates or truncates (`append`: opens at the end, creating where it is missing).
  explicit OutputFile(const std::string& path, bool append = false);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  const std::string& path() const { return path_; }
  /// Writes all of it. After an Error the file's content is undefined.
  void write(std::span<const std::byte> bytes);
  void write(const std::string& text);
  /// Waits until the disk has it.
  void sync();
  /// Closes, reporting what the system held back until now. The destructor closes silently.
  void close();

 private:
  std::string path_;
  int fd_ = -1;
};

/// Writes `text` aside (path + ".partial"), syncs it and renames it to `path`: a reader sees the old content or the
/// new, never a part.
void write_file_atomically(const std::string& path, const std::string& text);
/// Waits until the disk has a folder's entries (after a rename in it).
void sync_folder(const std::string& path);
/// Waits until the disk has a file that someone else wrote.
void sync_file(const std::string& path);

}  // namespace ppctl
