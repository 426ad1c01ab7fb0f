#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "storage/safetensors.hpp"

namespace ppctl {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kLengthBytes = 8;

std::string partial_path(const std::string& path) { return path + ".partial"; }

/// Length and JSON header, padded with spaces so that the data starts aligned. Sets the number of data bytes.
std::string make_header(std::span<const SafetensorsWriter::Tensor> tensors,
                        const std::map<std::string, std::string>& metadata, std::uint64_t& data_bytes) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  if (!metadata.empty()) object["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const SafetensorsWriter::Tensor& tensor : tensors) {
    SafetensorsEntry entry{tensor.dtype, tensor.shape, offset, 0};
    entry.num_bytes = static_cast<std::uint64_t>(entry.numel()) * safetensors_dtype_bytes(tensor.dtype);
    PPCTL_CHECK(safetensors_dtype_bytes(tensor.dtype) != 0, "dtype '{}'", tensor.dtype);
    PPCTL_CHECK(!object.contains(tensor.name), "tensor '{}' is written twice", tensor.name);
    object[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + entry.num_bytes}}};
    offset += entry.num_bytes;
  }
  data_bytes = offset;
  std::string text = object.dump();
  text.append((kAlignment - (kLengthBytes + text.size()) % kAlignment) % kAlignment, ' ');
  std::string result;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    result.push_back(static_cast<char>(static_cast<std::uint64_t>(text.size()) >> (8 * i) & 0xFF));
  }
  return result + text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::string path, std::span<const Tensor> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : path_(std::move(path)), file_(partial_path(path_)) {
  const std::string header = make_header(tensors, metadata, expected_bytes_);
  data_start_ = header.size();
  hash_.add(std::as_bytes(std::span(header.data(), header.size())));
  file_.write(header);
}

SafetensorsWriter::~SafetensorsWriter() {
  if (!finished_) std::remove(partial_path(path_).c_str());
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  PPCTL_CHECK(written_bytes_ + bytes.size() <= expected_bytes_, "{}: more data than the header has room for", path_);
  hash_.add(bytes);
  file_.write(bytes);
  written_bytes_ += bytes.size();
}

void SafetensorsWriter::finish() {
  PPCTL_CHECK(written_bytes_ == expected_bytes_, "{}: {} of {} bytes were written", path_, written_bytes_,
              expected_bytes_);
  file_.sync();
  file_.close();
  std::error_code fault;
  std::filesystem::rename(partial_path(path_), path_, fault);
  if (fault) throw_error("{}: cannot be put in its place: {}", path_, fault.message());
  finished_ = true;
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  sync_folder(folder.empty() ? "." : folder);
}

}  // namespace ppctl
