#include "train/checkpoint_reader.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "storage/content_hash.hpp"
#include "storage/step_folders.hpp"

namespace ppctl {
namespace {

namespace fs = std::filesystem;

at::ScalarType scalar_type(const SavedRows& rows, const std::string& path) {
  if (rows.dtype == "F32") return at::kFloat;
  if (rows.dtype == "BF16") return at::kBFloat16;
  throw_error("{}: tensor {} has dtype {}, not F32 or BF16", path, rows.name, rows.dtype);
}

}  // namespace

CheckpointReader::CheckpointReader(const std::string& folder) : folder_(folder), manifest_(read_manifest(folder)) {
  for (const SavedFile& file : manifest_.files) {
    std::error_code error;
    const std::uintmax_t size = fs::file_size(path_of(file), error);
    if (error) throw_error("{}: is missing: the checkpoint's {} lists it", path_of(file), kManifestFile);
    if (size != file.num_bytes) {
      throw_error("{}: is damaged: it has {} bytes, {} when it was written", path_of(file), size, file.num_bytes);
    }
    for (const SavedRows& rows : file.tensors) rows_[rows.name].push_back({&file, &rows});
  }
  for (auto& [name, places] : rows_) std::ranges::sort(places, {}, [](const Place& p) { return p.rows->row_begin; });
}

std::string CheckpointReader::path_of(const SavedFile& file) const { return (fs::path(folder_) / file.name).string(); }

void CheckpointReader::check_file(const SavedFile& file) {
  if (!checked_.insert(&file).second) return;
  const MappedFile mapped(path_of(file));
  if (content_hash(mapped.bytes()) != file.hash) {
    throw_error("{}: is damaged, or of another checkpoint: it does not have the hash that {} lists", path_of(file),
                kManifestFile);
  }
}

void CheckpointReader::check_files(int part, int parts) {
  for (std::size_t i = static_cast<std::size_t>(part); i < manifest_.files.size(); i += static_cast<std::size_t>(parts))
    check_file(manifest_.files[i]);
}

void CheckpointReader::check_files_of(std::span<const StateTensor> tensors) {
  for (const StateTensor& tensor : tensors) {
    for (const Place& place : places_of(tensor)) {
      const bool needed = place.rows->row_begin < tensor.row_end && place.rows->row_end > tensor.row_begin;
      if (needed) check_file(*place.file);
    }
  }
}

std::vector<std::string> CheckpointReader::names() const {
  std::vector<std::string> names;
  for (const auto& [name, places] : rows_) names.push_back(name);
  return names;
}

const std::vector<CheckpointReader::Place>& CheckpointReader::places_of(const std::string& name) const {
  const auto found = rows_.find(name);
  if (found == rows_.end()) throw_error("{}: has no tensor {}", folder_, name);
  return found->second;
}

std::string CheckpointReader::dtype_of(const std::string& name) const { return places_of(name).front().rows->dtype; }

const std::vector<CheckpointReader::Place>& CheckpointReader::places_of(const StateTensor& tensor) const {
  const std::vector<Place>& places = places_of(tensor.name);
  const SavedRows& first = *places.front().rows;
  if (first.shape != tensor.shape) {
    throw_error("{}: tensor {} is [{}], the model's is [{}]", folder_, tensor.name, fmt::join(first.shape, ", "),
                fmt::join(tensor.shape, ", "));
  }
  return places;
}

void CheckpointReader::read(std::span<const StateTensor> tensors) {
  for (const StateTensor& tensor : tensors) {
    std::int64_t next = tensor.row_begin;
    for (const Place& place : places_of(tensor)) {
      const std::int64_t end = std::min(place.rows->row_end, tensor.row_end);
      if (place.rows->row_begin > next || end <= next) continue;
      copy_rows(place, next, end, tensor);
      next = end;
    }
    if (next < tensor.row_end) throw_error("{}: no file has row {} of {}", folder_, next, tensor.name);
  }
}

void CheckpointReader::copy_rows(const Place& place, std::int64_t begin, std::int64_t end, const StateTensor& into) {
  const SafetensorsFile& file = open_.try_emplace(place.file, path_of(*place.file)).first->second;
  const SafetensorsEntry* entry = file.find(into.name);
  std::vector<std::int64_t> shape = place.rows->shape;
  shape[0] = place.rows->row_end - place.rows->row_begin;
  if (entry == nullptr || entry->shape != shape || entry->dtype != place.rows->dtype)
    throw_error("{}: does not hold {} as {} lists it", file.path(), into.name, kManifestFile);
  // ATen has no tensors of constant memory; this one is only read.
  const at::Tensor rows = at::from_blob(const_cast<std::byte*>(file.bytes(*entry).data()), shape,
                                        at::TensorOptions().dtype(scalar_type(*place.rows, file.path())));
  at::Tensor target = into.local.narrow(0, begin - into.row_begin, end - begin);
  target.copy_(rows.narrow(0, begin - place.rows->row_begin, end - begin));
}

}  // namespace ppctl
