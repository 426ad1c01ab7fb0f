#include "train/checkpoint.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "base/error.hpp"
#include "storage/atomic_file.hpp"
#include "storage/safetensors.hpp"
#include "train/agreement.hpp"
#include "train/state_tensors.hpp"

namespace ppctl {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kManifest = "manifest.json";
constexpr const char* kFormat = "ppctl-checkpoint";
constexpr int kVersion = 1;
constexpr const char* kStepPrefix = "step-";

const char* dtype_name(at::ScalarType type) { return type == at::kBFloat16 ? "BF16" : "F32"; }

/// What a rank writes: of a tied weight the first use.
std::vector<StateTensor> written_by(AdamW& optimizer) {
  std::vector<StateTensor> tensors;
  std::set<std::string> names;
  for (StateTensor& tensor : state_tensors(optimizer)) {
    if (names.insert(tensor.name).second) tensors.push_back(std::move(tensor));
  }
  return tensors;
}

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

Json layout_json(const CheckpointLayout& layout) {
  return {{"pp", layout.pp}, {"dp_shard", layout.dp_shard}, {"stages", layout.stages}, {"layers", layout.layers}};
}

/// What a manifest says of one file: its size and tensors, with offsets from the start of the file.
Json describe_file(const std::string& folder, const std::string& name) {
  const SafetensorsFile file((fs::path(folder) / name).string());
  const std::uintmax_t size = fs::file_size(file.path());
  std::uint64_t data_bytes = 0;
  for (const auto& [tensor, entry] : file.entries()) data_bytes = std::max(data_bytes, entry.offset + entry.num_bytes);
  const std::uint64_t data_start = size - data_bytes;
  Json tensors = Json::object();
  for (const auto& [tensor, entry] : file.entries()) {
    tensors[tensor] = {{"dtype", entry.dtype},
                       {"shape", entry.shape},
                       {"offset", data_start + entry.offset},
                       {"bytes", entry.num_bytes}};
  }
  return {{"file", name}, {"bytes", size}, {"tensors", std::move(tensors)}};
}

Json read_manifest(const std::string& folder) {
  const std::string path = (fs::path(folder) / kManifest).string();
  std::ifstream stream(path);
  if (!stream) throw_error("{}: cannot be read", path);
  Json manifest = Json::parse(stream, nullptr, /*allow_exceptions=*/false);
  if (!manifest.is_object() || manifest.value("format", "") != kFormat)
    throw_error("{}: is no manifest of ppctl", path);
  if (manifest.value("version", 0) != kVersion) {
    throw_error("{}: is of version {}; this ppctl reads version {}", path, manifest.value("version", 0), kVersion);
  }
  return manifest;
}

TrainState state_of(const Json& manifest, const std::string& folder) {
  try {
    return {manifest.at("step").get<std::int64_t>(), manifest.at("samples").get<std::int64_t>(),
            manifest.at("tokens").get<std::int64_t>()};
  } catch (const Json::exception& error) {
    throw_error("{}/{}: {}", folder, kManifest, error.what());
  }
}

CheckpointLayout layout_of(const Json& manifest, const std::string& folder) {
  try {
    const Json& layout = manifest.at("layout");
    return {layout.at("pp").get<int>(), layout.at("dp_shard").get<int>(),
            layout.at("stages").get<std::vector<std::vector<int>>>(), layout.at("layers").get<std::vector<int>>()};
  } catch (const Json::exception& error) {
    throw_error("{}/{}: {}", folder, kManifest, error.what());
  }
}

/// The file of each tensor that a manifest lists.
std::map<std::string, std::string> files_of(const Json& manifest, const std::string& folder) {
  std::map<std::string, std::string> file_of;
  try {
    for (const Json& file : manifest.at("files")) {
      for (const auto& tensor : file.at("tensors").items()) file_of.emplace(tensor.key(), file.at("file"));
    }
  } catch (const Json::exception& error) {
    throw_error("{}/{}: {}", folder, kManifest, error.what());
  }
  return file_of;
}

void read_tensor(const SafetensorsFile& file, const StateTensor& into) {
  const SafetensorsEntry* entry = file.find(into.name);
  if (entry == nullptr) throw_error("{}: has no tensor {}", file.path(), into.name);
  if (entry->shape != into.local.sizes().vec() || entry->dtype != dtype_name(into.local.scalar_type())) {
    throw_error("{}: tensor {} is {} {}, the model's is {} {}", file.path(), into.name, entry->dtype,
                Json(entry->shape).dump(), dtype_name(into.local.scalar_type()), Json(into.local.sizes().vec()).dump());
  }
  std::ranges::copy(file.bytes(*entry), bytes_of(into.local).begin());
}

}  // namespace

std::string CheckpointLayout::to_text() const {
  return fmt::format("pp {}, stages by rank {}, layers by stage {}", pp, Json(stages).dump(), Json(layers).dump());
}

std::vector<std::string> complete_checkpoints(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool whole = name.starts_with(kStepPrefix) && entry->path().extension().empty();
    if (whole && fs::exists(entry->path() / kManifest)) found.push_back(entry->path().string());
  }
  std::ranges::sort(found);
  return found;
}

CheckpointStore::CheckpointStore(const JobConfig& job, CheckpointLayout layout, Group& world, int pipeline_rank,
                                 bool writes)
    : job_(job), layout_(std::move(layout)), world_(world), pipeline_rank_(pipeline_rank), writes_(writes) {}

std::string CheckpointStore::rank_file() const { return fmt::format("rank-{:05}.safetensors", pipeline_rank_); }

std::string CheckpointStore::save(AdamW& optimizer, const TrainState& state, Deadline deadline) {
  const std::string final_folder = fmt::format("{}/{}{:08}", job_.checkpoint.folder, kStepPrefix, state.step);
  const std::string partial = final_folder + ".partial";
  agree(world_, deadline, [&] {
    if (world_.rank() == 0) fs::remove_all(partial);
    return std::string();
  });
  const std::vector<std::string> files = agree(world_, deadline, [&] {
    fs::create_directories(partial);
    return writes_ ? write_rank_file(partial, optimizer) : std::string();
  });
  agree(world_, deadline, [&] {
    if (world_.rank() != 0) return std::string();
    write_manifest(partial, state, files);
    sync_folder(partial);
    fs::remove_all(final_folder);
    fs::rename(partial, final_folder);
    sync_folder(job_.checkpoint.folder);
    remove_old();
    return std::string();
  });
  return final_folder;
}

std::string CheckpointStore::write_rank_file(const std::string& folder, AdamW& optimizer) const {
  const std::vector<StateTensor> tensors = written_by(optimizer);
  std::vector<SafetensorsWriter::Tensor> header;
  for (const StateTensor& named : tensors) {
    header.push_back({named.name, dtype_name(named.local.scalar_type()), named.local.sizes().vec()});
  }
  SafetensorsWriter writer(folder + "/" + rank_file(), header);
  for (const StateTensor& named : tensors) writer.write(bytes_of(named.local));
  writer.finish();
  return describe_file(folder, rank_file()).dump();
}

void CheckpointStore::write_manifest(const std::string& folder, const TrainState& state,
                                     const std::vector<std::string>& files) const {
  Json manifest{{"format", kFormat},
                {"version", kVersion},
                {"job", job_.name},
                {"step", state.step},
                {"samples", state.samples},
                {"tokens", state.tokens},
                {"seed", job_.seed},
                {"layout", layout_json(layout_)},
                {"schedule", job_.pipeline.schedule},
                {"dp_replicate", job_.parallel.dp_replicate},
                {"files", Json::array()}};
  for (const std::string& file : files) {
    if (!file.empty()) manifest["files"].push_back(Json::parse(file));
  }
  write_file_atomically(folder + "/" + kManifest, manifest.dump(1) + "\n");
}

void CheckpointStore::remove_old() const {
  const std::vector<std::string> all = complete_checkpoints(job_.checkpoint.folder);
  const auto keep = static_cast<std::size_t>(std::max(1, job_.checkpoint.keep));
  for (std::size_t i = 0; i + keep < all.size(); ++i) {
    // Renamed first: what is half removed must not look complete.
    const std::string doomed = all[i] + ".partial";
    fs::rename(all[i], doomed);
    fs::remove_all(doomed);
  }
}

std::optional<TrainState> CheckpointStore::resume(AdamW& optimizer, Deadline deadline) {
  // Rank 0 chooses, so that all load the same one.
  const std::string folder = agree(world_, deadline, [&] {
                               if (world_.rank() != 0) return std::string();
                               const std::vector<std::string> all = complete_checkpoints(job_.checkpoint.folder);
                               return all.empty() ? std::string() : all.back();
                             }).front();
  if (folder.empty()) return std::nullopt;
  TrainState state;
  agree(world_, deadline, [&] {
    const Json manifest = read_manifest(folder);
    state = state_of(manifest, folder);
    const CheckpointLayout saved = layout_of(manifest, folder);
    if (saved != layout_) {
      throw_error(
          "{}: was saved at another layout ({}) than this job's ({}); this version resumes at the same one only. "
          "Give the job that layout, another checkpoint.folder, or checkpoint.resume: false",
          folder, saved.to_text(), layout_.to_text());
    }
    load(folder, files_of(manifest, folder), optimizer);
    return std::string();
  });
  optimizer.set_num_steps(state.step);
  return state;
}

void CheckpointStore::load(const std::string& folder, const std::map<std::string, std::string>& file_of,
                           AdamW& optimizer) const {
  std::map<std::string, SafetensorsFile> files;
  for (const StateTensor& named : state_tensors(optimizer)) {
    const auto found = file_of.find(named.name);
    if (found == file_of.end()) throw_error("{}/{}: lists no tensor {}", folder, kManifest, named.name);
    const SafetensorsFile& file = files.try_emplace(found->second, folder + "/" + found->second).first->second;
    read_tensor(file, named);
  }
}

}  // namespace ppctl
