#include "model/hf_folder.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "arch/declare.hpp"
#include "arch/vision.hpp"
#include "base/error.hpp"
#include "storage/safetensors.hpp"

namespace ppctl {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr std::size_t kNamesInMessage = 10;

std::string read_text(const std::string& path) {
  const MappedFile file(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

std::string path_in(const std::string& folder, const std::string& name) { return (fs::path(folder) / name).string(); }

/// Buffers that older checkpoints hold beside the parameters: causal masks of GPT-2, frequencies of Llama.
bool is_buffer(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".embeddings.position_ids");
}

/// The name without the part that a checkpoint of the bare model does not have.
std::string without_base_prefix(const std::string& name) {
  for (const std::string_view prefix : {"model.", "transformer."}) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

std::set<std::string> to_set(std::vector<std::string> names) {
  return {std::make_move_iterator(names.begin()), std::make_move_iterator(names.end())};
}

std::string listed(const std::vector<std::string>& lines) {
  std::string text;
  for (std::size_t i = 0; i < std::min(lines.size(), kNamesInMessage); ++i) text += "\n  " + lines[i];
  if (lines.size() > kNamesInMessage) text += fmt::format("\n  and {} more", lines.size() - kNamesInMessage);
  return text;
}

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::optional<at::ScalarType> float_dtype(const std::string& name) {
  if (name == "F32") return at::kFloat;
  if (name == "BF16") return at::kBFloat16;
  if (name == "F16") return at::kHalf;
  if (name == "F64") return at::kDouble;
  return std::nullopt;
}

std::string safetensors_dtype(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return "F32";
    case at::kBFloat16:
      return "BF16";
    case at::kHalf:
      return "F16";
    case at::kDouble:
      return "F64";
    default:
      throw_bug(__FILE__, __LINE__, fmt::format("dtype {} in a checkpoint", c10::toString(dtype)));
  }
}

/// The files of the index, each once, in order.
std::vector<std::string> indexed_files(const std::string& index_path) {
  const json index = json::parse(read_text(index_path), nullptr, false);
  if (index.is_discarded()) throw_error("{}: not a JSON file", index_path);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    throw_error("{}: weight_map is missing", index_path);
  }
  std::set<std::string> files;
  for (const auto& [name, file] : index["weight_map"].items()) {
    if (!file.is_string()) throw_error("{}: weight_map: the file of '{}' is {}", index_path, name, file.dump());
    files.insert(file.get<std::string>());
  }
  return {files.begin(), files.end()};
}

}  // namespace

struct HfWeights::Impl {
  struct Found {
    const SafetensorsFile* file;
    const SafetensorsEntry* entry;
  };
  std::vector<std::unique_ptr<SafetensorsFile>> files;
  std::map<std::string, Found> tensors;  ///< by the name in the file
  ModelSpec spec;

  void open(const std::string& folder);
  std::vector<std::string> names_of(const std::string& parameter) const;
  const Found* find(const std::string& parameter) const;
  void check(const std::string& folder) const;
};

void HfWeights::Impl::open(const std::string& folder) {
  if (fs::exists(path_in(folder, kSingleFile))) {
    files.push_back(std::make_unique<SafetensorsFile>(path_in(folder, kSingleFile)));
  } else if (fs::exists(path_in(folder, kIndexFile))) {
    for (const std::string& name : indexed_files(path_in(folder, kIndexFile))) {
      files.push_back(std::make_unique<SafetensorsFile>(path_in(folder, name)));
    }
  } else {
    throw_error("{}: there is neither {} nor {}", folder, kSingleFile, kIndexFile);
  }
  for (const auto& file : files) {
    for (const auto& [name, entry] : file->entries()) {
      const auto [place, fresh] = tensors.emplace(name, Found{file.get(), &entry});
      if (!fresh) throw_error("{}: tensor '{}' is also in {}", file->path(), name, place->second.file->path());
    }
  }
}

/// All names under which a file may have the parameter, its own first.
std::vector<std::string> HfWeights::Impl::names_of(const std::string& parameter) const {
  std::vector<std::string> names = other_names(spec, parameter);
  names.insert(names.begin(), {parameter, without_base_prefix(parameter)});
  return names;
}

const HfWeights::Impl::Found* HfWeights::Impl::find(const std::string& parameter) const {
  for (const std::string& name : names_of(parameter)) {
    if (const auto found = tensors.find(name); found != tensors.end()) return &found->second;
  }
  return nullptr;
}

void HfWeights::Impl::check(const std::string& folder) const {
  std::set<std::string> expected;
  std::vector<std::string> missing;
  std::vector<std::string> wrong;
  for (const Parameter& parameter : all_parameters(spec)) {
    expected.merge(to_set(names_of(parameter.name)));
    if (!parameter.tied_to.empty()) continue;
    const Found* found = find(parameter.name);
    if (found == nullptr) {
      missing.push_back(parameter.name);
    } else if (found->entry->shape != parameter.shape) {
      wrong.push_back(fmt::format("{} is {}, config.json makes it {}", parameter.name, shape_text(found->entry->shape),
                                  shape_text(parameter.shape)));
    } else if (!float_dtype(found->entry->dtype)) {
      wrong.push_back(fmt::format("{} has dtype {}, not F32, BF16, F16 or F64", parameter.name, found->entry->dtype));
    }
  }
  std::vector<std::string> unexpected;
  for (const auto& [name, found] : tensors) {
    if (!expected.contains(name) && !is_buffer(name)) unexpected.push_back(name);
  }
  if (!missing.empty()) throw_error("{}: {} tensors are missing:{}", folder, missing.size(), listed(missing));
  if (!wrong.empty()) throw_error("{}: {} tensors do not fit:{}", folder, wrong.size(), listed(wrong));
  if (!unexpected.empty())
    throw_error("{}: {} tensors are not part of the model:{}", folder, unexpected.size(), listed(unexpected));
}

HfWeights::HfWeights(const std::string& folder, const ModelSpec& spec) : impl_(std::make_unique<Impl>()) {
  impl_->spec = spec;
  impl_->open(folder);
  impl_->check(folder);
}

HfWeights::~HfWeights() = default;
HfWeights::HfWeights(HfWeights&&) noexcept = default;

void HfWeights::load(StageModule& stage) const {
  for (const ParameterGroup* group : stage.parameter_groups()) load(*group, group->flat_data());
}

void HfWeights::load(const ParameterGroup& group, const at::Tensor& flat) const {
  // Padding between parameters takes part in whole-buffer arithmetic: it must be finite.
  flat.zero_();
  for (std::size_t i = 0; i < group.parameters().size(); ++i) {
    const Parameter& parameter = group.parameters()[i];
    const Impl::Found* found = impl_->find(parameter.tied_to.empty() ? parameter.name : parameter.tied_to);
    PPCTL_CHECK(found != nullptr && found->entry->shape == parameter.shape, "'{}' is not what was checked",
                parameter.name);
    const std::span<const std::byte> bytes = found->file->bytes(*found->entry);
    // ATen has no tensors of constant memory; this one is only read.
    const at::Tensor source = at::from_blob(const_cast<std::byte*>(bytes.data()), parameter.shape,
                                            at::TensorOptions().dtype(*float_dtype(found->entry->dtype)));
    group.view(flat, static_cast<int>(i)).copy_(source);
  }
}

std::vector<HfTensor> hf_tensors(StageModule& stage) {
  std::vector<HfTensor> result;
  for (ParameterGroup* group : stage.parameter_groups()) {
    for (std::size_t i = 0; i < group->parameters().size(); ++i) {
      const Parameter& parameter = group->parameters()[i];
      if (parameter.tied_to.empty()) result.push_back({parameter.name, group->data(static_cast<int>(i))});
    }
  }
  return result;
}

std::string hf_shard_name(int shard, int num_shards) {
  return num_shards == 1 ? kSingleFile : fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, num_shards);
}

HfShard write_hf_shard(const std::string& folder, const std::vector<HfTensor>& tensors, int shard, int num_shards) {
  HfShard result;
  result.file = hf_shard_name(shard, num_shards);
  std::vector<SafetensorsWriter::Tensor> header;
  for (const HfTensor& tensor : tensors) {
    header.push_back({tensor.name, safetensors_dtype(tensor.data.scalar_type()), tensor.data.sizes().vec()});
    result.names.push_back(tensor.name);
    result.num_bytes += static_cast<std::int64_t>(tensor.data.nbytes());
  }
  SafetensorsWriter writer(path_in(folder, result.file), header, {{"format", "pt"}});
  for (const HfTensor& tensor : tensors) {
    PPCTL_CHECK(tensor.data.is_contiguous(), "'{}' is not contiguous", tensor.name);
    writer.write({static_cast<const std::byte*>(tensor.data.const_data_ptr()), tensor.data.nbytes()});
  }
  writer.finish();
  return result;
}

void write_hf_index(const std::string& folder, const ModelSpec& spec, at::ScalarType dtype,
                    const std::vector<HfShard>& shards) {
  if (shards.size() > 1) {
    json index;
    std::int64_t total = 0;
    for (const HfShard& shard : shards) {
      total += shard.num_bytes;
      for (const std::string& name : shard.names) index["weight_map"][name] = shard.file;
    }
    index["metadata"]["total_size"] = total;
    write_file_atomically(path_in(folder, kIndexFile), index.dump(2) + "\n");
  }
  json config = json::parse(spec.config_json);
  config[config.contains("torch_dtype") ? "torch_dtype" : "dtype"] = c10::toString(dtype) == std::string("BFloat16")
                                                                         ? "bfloat16"
                                                                     : dtype == at::kDouble ? "float64"
                                                                                            : "float32";
  write_file_atomically(path_in(folder, "config.json"), config.dump(2) + "\n");
}

}  // namespace ppctl
