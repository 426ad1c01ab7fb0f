#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace ppctl {

/// A file mapped read-only into memory; pages are read when they are touched and shared by all ranks of a machine.
/// Movable; unmaps at the end.
class MappedFile {
 public:
  MappedFile() = default;
  /// Throws Error that names the file where it cannot be opened, is no regular file, or cannot be mapped. An empty file
  /// gives an empty span.
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  /// Stays valid for the life of this object (or of the one that it was moved to).
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace ppctl
