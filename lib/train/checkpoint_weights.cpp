#include "train/checkpoint_weights.hpp"

#include <filesystem>
#include <numeric>

#include "arch/declare.hpp"
#include "arch/family.hpp"
#include "base/error.hpp"
#include "model/hf_folder.hpp"
#include "storage/safetensors.hpp"

namespace ppctl {
namespace {

namespace fs = std::filesystem;

StateTensor whole(const Parameter& parameter, at::Tensor local) {
  const std::string& name = parameter.tied_to.empty() ? parameter.name : parameter.tied_to;
  return {name, parameter.shape, 0, parameter.shape.front(), std::move(local)};
}

std::int64_t bytes_of(const Parameter& parameter, at::ScalarType dtype) {
  return std::accumulate(parameter.shape.begin(), parameter.shape.end(), std::int64_t{1}, std::multiplies<>()) *
         static_cast<std::int64_t>(c10::elementSize(dtype));
}

at::ScalarType stored_dtype(const CheckpointReader& reader, const ModelSpec& model) {
  return reader.dtype_of(all_parameters(model).front().name) == "BF16" ? at::kBFloat16 : at::kFloat;
}

/// The parameters of each file: as many as fit, in forward order.
std::vector<std::vector<Parameter>> divide(const ModelSpec& model, at::ScalarType dtype, std::int64_t max_bytes) {
  std::vector<std::vector<Parameter>> files(1);
  std::int64_t used = 0;
  for (const Parameter& parameter : all_parameters(model)) {
    if (!parameter.tied_to.empty()) continue;
    const std::int64_t bytes = bytes_of(parameter, dtype);
    if (used > 0 && used + bytes > max_bytes) {
      files.emplace_back();
      used = 0;
    }
    used += bytes;
    files.back().push_back(parameter);
  }
  return files;
}

HfShard write_shard(CheckpointReader& reader, const std::string& path, const std::vector<Parameter>& parameters,
                    at::ScalarType dtype) {
  HfShard shard;
  shard.file = fs::path(path).filename().string();
  std::vector<SafetensorsWriter::Tensor> header;
  for (const Parameter& parameter : parameters) {
    header.push_back({parameter.name, dtype == at::kBFloat16 ? "BF16" : "F32", parameter.shape});
    shard.names.push_back(parameter.name);
    shard.num_bytes += bytes_of(parameter, dtype);
  }
  SafetensorsWriter writer(path, header, {{"format", "pt"}});
  for (const Parameter& parameter : parameters) {
    const at::Tensor local = at::empty(parameter.shape, at::TensorOptions().dtype(dtype));
    const StateTensor tensor = whole(parameter, local);
    reader.read({&tensor, 1});
    writer.write({static_cast<const std::byte*>(local.const_data_ptr()), local.nbytes()});
  }
  writer.finish();
  return shard;
}

}  // namespace

void load_checkpoint_weights(CheckpointReader& reader, const ParameterGroup& group, const at::Tensor& flat) {
  std::vector<StateTensor> tensors;
  // Padding between parameters takes part in whole-buffer arithmetic: it must be finite.
  flat.zero_();
  for (std::size_t i = 0; i < group.parameters().size(); ++i)
    tensors.push_back(whole(group.parameters()[i], group.view(flat, static_cast<int>(i))));
  reader.check_files_of(tensors);
  reader.read(tensors);
}

void export_checkpoint(const std::string& checkpoint, const std::string& out, std::optional<at::ScalarType> asked,
                       std::int64_t max_bytes) {
  CheckpointReader reader(checkpoint);
  reader.check_files();
  const ModelSpec model = read_hf_config(checkpoint);
  if (fs::exists(out) && (!fs::is_directory(out) || !fs::is_empty(out)))
    throw_error("{}: is there already and not an empty folder", out);
  const at::ScalarType dtype = asked.value_or(stored_dtype(reader, model));
  // Aside, so that a folder of this name is always whole.
  const std::string partial = out + ".partial";
  fs::remove_all(partial);
  fs::create_directories(partial);
  const auto files = divide(model, dtype, max_bytes);
  std::vector<HfShard> shards;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string name = hf_shard_name(static_cast<int>(i), static_cast<int>(files.size()));
    shards.push_back(write_shard(reader, (fs::path(partial) / name).string(), files[i], dtype));
  }
  write_hf_index(partial, model, dtype, shards);
  fs::remove(out);
  fs::rename(partial, out);
}

}  // namespace ppctl
