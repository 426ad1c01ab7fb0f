#include "train/checkpoint_writer.hpp"

#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>

#include "base/error.hpp"
#include "comm/affinity.hpp"
#include "storage/safetensors.hpp"

namespace ppctl {
namespace {

/// Written between two looks at whether to go on.
constexpr std::size_t kPieceBytes = std::size_t{16} << 20;

const char* dtype_name(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return "F32";
    case at::kBFloat16:
      return "BF16";
    default:
      throw_bug(__FILE__, __LINE__, fmt::format("dtype {} in the training state", c10::toString(tensor.scalar_type())));
  }
}

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

/// Writes what `next(i)` gives for tensor i. Stops with Error once `cancelled()`.
SavedFile write_file(const std::string& path, const std::vector<StateTensor>& tensors,
                     const std::function<at::Tensor(std::size_t)>& next, const std::function<bool()>& cancelled) {
  std::vector<SafetensorsWriter::Tensor> header;
  SavedFile file;
  for (const StateTensor& tensor : tensors) {
    header.push_back({tensor.name, dtype_name(tensor.local), tensor.local.sizes().vec()});
    file.tensors.push_back(
        {tensor.name, header.back().dtype, tensor.shape, tensor.row_begin, tensor.row_end, 0, tensor.local.nbytes()});
  }
  SafetensorsWriter writer(path, header);
  std::uint64_t offset = writer.data_start();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    file.tensors[i].offset = offset;
    offset += file.tensors[i].num_bytes;
    const at::Tensor tensor = next(i);
    for (auto bytes = bytes_of(tensor); !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), kPieceBytes))) {
      if (cancelled()) throw_error("{}: writing was given up", path);
      writer.write(bytes.first(std::min(bytes.size(), kPieceBytes)));
    }
  }
  writer.finish();
  file.name = std::filesystem::path(path).filename().string();
  file.num_bytes = writer.num_bytes();
  file.hash = writer.hash();
  return file;
}

template <class Future>
void wait_for(Future& future, Deadline deadline, const std::string& path) {
  const std::chrono::nanoseconds left(std::max<Nanoseconds>(0, deadline.at - monotonic_now()));
  if (future.wait_for(left) != std::future_status::ready)
    throw_error("{}: the disk does not keep up: it was not written before timeout_s had passed", path);
}

}  // namespace

SavedFile write_state_file(const std::string& path, const std::vector<StateTensor>& tensors) {
  return write_file(path, tensors, [&](std::size_t i) { return tensors[i].local; }, [] { return false; });
}

CheckpointWriter::CheckpointWriter(std::string path, std::vector<StateTensor> tensors)
    : path_(std::move(path)), tensors_(std::move(tensors)), copied_(copied_promise_.get_future()) {
  written_ = std::async(std::launch::async, [this] {
    widen_affinity();
    copy();
    return write();
  });
}

CheckpointWriter::~CheckpointWriter() { cancelled_ = true; }

void CheckpointWriter::copy() {
  try {
    for (const StateTensor& tensor : tensors_) {
      copies_.push_back(at::empty(tensor.local.sizes(), tensor.local.options()));
      // One thread, whatever torch thinks it may use here: the others compute.
      std::memcpy(copies_.back().mutable_data_ptr(), tensor.local.const_data_ptr(), tensor.local.nbytes());
    }
  } catch (...) {
    copied_promise_.set_value();
    throw;
  }
  copied_promise_.set_value();
}

SavedFile CheckpointWriter::write() {
  // Each copy is given back once it is written.
  return write_file(
      path_, tensors_, [this](std::size_t i) { return std::move(copies_[i]); }, [this] { return cancelled_.load(); });
}

void CheckpointWriter::wait_copied(Deadline deadline) { wait_for(copied_, deadline, path_); }

bool CheckpointWriter::done() const { return written_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }

SavedFile CheckpointWriter::finish(Deadline deadline) {
  wait_for(written_, deadline, path_);
  return written_.get();
}

}  // namespace ppctl
