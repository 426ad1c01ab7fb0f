#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/atomic_file.hpp"
#include "storage/content_hash.hpp"
#include "storage/mapped_file.hpp"

namespace ppctl {

/// One tensor of a safetensors file.
struct SafetensorsEntry {
  std::string dtype;                ///< as in the file: "F32", "BF16", "F16", "F64", "I64", ...
  std::vector<std::int64_t> shape;  ///< empty: a scalar
  std::uint64_t offset = 0;         ///< bytes from the start of the data part
  std::uint64_t num_bytes = 0;

  std::int64_t numel() const;
};

/// Bytes an element of a safetensors dtype; 0 for an unknown one.
std::size_t safetensors_dtype_bytes(std::string_view dtype);

/// A safetensors file, mapped. The layout: eight bytes with the header's length (little-endian), the header (JSON: name
/// -> {dtype, shape, data_offsets}; "__metadata__": texts), the data. Checked in full when it is opened: every fault
/// (a truncated file, broken JSON, offsets that overlap, leave gaps or do not fit shape and dtype) is an Error that
/// names the file, and the tensor where there is one. Reading tensors touches only their own pages. Thread-safe.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::map<std::string, SafetensorsEntry>& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Null where there is no such tensor.
  const SafetensorsEntry* find(const std::string& name) const;
  /// A tensor's bytes. They stay valid for the life of this object.
  std::span<const std::byte> bytes(const SafetensorsEntry& entry) const;

 private:
  void parse_header(std::string_view header);
  void check_layout() const;

  MappedFile file_;
  std::uint64_t data_start_ = 0;
  std::map<std::string, SafetensorsEntry> entries_;
  std::map<std::string, std::string> metadata_;
};

/// Writes a safetensors file tensor by tensor. What exists of it until finish() is `path` + ".partial"; a writer that
/// is destroyed before that removes it. Failures (a full disk, an unwritable folder) are Errors that name the file.
class SafetensorsWriter {
 public:
  struct Tensor {
    std::string name;
    std::string dtype;
    std::vector<std::int64_t> shape;
  };
  /// The header is written at once, so names, dtypes and shapes come first, in the order in which the data will follow.
  /// The data part starts at a multiple of 64 bytes.
  SafetensorsWriter(std::string path, std::span<const Tensor> tensors,
                    const std::map<std::string, std::string>& metadata = {});
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;
  ~SafetensorsWriter();

  /// Appends the next tensor's bytes, all of them or the next part.
  void write(std::span<const std::byte> bytes);
  /// Checks that all data came, syncs, renames. The file is complete once this returns.
  void finish();

  std::uint64_t data_start() const { return data_start_; }                   ///< bytes before the first tensor's data
  std::uint64_t num_bytes() const { return data_start_ + expected_bytes_; }  ///< of the whole file
  /// content_hash() of what was written so far: after finish(), of the file.
  std::string hash() const { return hash_.text(); }

 private:
  std::string path_;
  OutputFile file_;
  ContentHash hash_;
  std::uint64_t data_start_ = 0;
  std::uint64_t expected_bytes_ = 0;
  std::uint64_t written_bytes_ = 0;
  bool finished_ = false;
};

}  // namespace ppctl
