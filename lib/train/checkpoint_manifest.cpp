#include "train/checkpoint_manifest.hpp"

#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "storage/content_hash.hpp"
#include "storage/mapped_file.hpp"
#include "storage/step_folders.hpp"
#include "train/batches.hpp"

namespace ppctl {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "ppctl-checkpoint";
constexpr int kVersion = 2;
constexpr const char* kHashKey = "manifest_hash";

std::string hash_of(const Json& manifest) {
  const std::string text = manifest.dump();
  return content_hash(std::as_bytes(std::span(text.data(), text.size())));
}

Json json_of(const SavedFile& file) {
  Json tensors = Json::array();
  for (const SavedRows& rows : file.tensors) {
    tensors.push_back({{"name", rows.name},
                       {"dtype", rows.dtype},
                       {"shape", rows.shape},
                       {"rows", {rows.row_begin, rows.row_end}},
                       {"offset", rows.offset},
                       {"bytes", rows.num_bytes}});
  }
  return {{"file", file.name}, {"bytes", file.num_bytes}, {"hash", file.hash}, {"tensors", std::move(tensors)}};
}

SavedFile file_of(const Json& json) {
  SavedFile file{json.at("file"), json.at("bytes"), json.at("hash"), {}};
  for (const Json& rows : json.at("tensors")) {
    file.tensors.push_back({rows.at("name"), rows.at("dtype"), rows.at("shape").get<std::vector<std::int64_t>>(),
                            rows.at("rows").at(0), rows.at("rows").at(1), rows.at("offset"), rows.at("bytes")});
  }
  return file;
}

CheckpointManifest manifest_of(const Json& json) {
  CheckpointManifest manifest;
  manifest.state = {json.at("step"), json.at("samples"), json.at("tokens")};
  manifest.job = json.at("job");
  manifest.layout = json.at("layout");
  manifest.job_config = json.at("job_config");
  manifest.seed = json.at("seed");
  const Json& data = json.at("data");
  manifest.samples_per_step = data.at("samples_per_step");
  manifest.sequence_length = data.at("sequence_length");
  manifest.data_kind = data.at("kind");
  manifest.data_path = data.at("path");
  manifest.data_order = data.at("order");
  for (const Json& file : json.at("files")) manifest.files.push_back(file_of(file));
  return manifest;
}

}  // namespace

CheckpointManifest manifest_of_job(const JobConfig& job, const TrainState& state) {
  CheckpointManifest manifest;
  manifest.state = state;
  manifest.job = job.name;
  manifest.layout = fmt::format("pp {}, dp_replicate {}, dp_shard {}, schedule {}", job.parallel.pp,
                                job.parallel.dp_replicate, job.parallel.dp_shard, job.pipeline.schedule);
  manifest.job_config = job.text;
  manifest.seed = job.seed;
  manifest.samples_per_step = BatchShape::of(job).samples_per_step();
  manifest.sequence_length = job.data.sequence_length;
  manifest.data_kind = job.data.kind;
  manifest.data_path = fmt::format("{}", fmt::join(job.data.path, ", "));
  manifest.data_order = job.data.order;
  return manifest;
}

std::string to_json(const CheckpointManifest& manifest) {
  Json json{{"format", kFormat},
            {"version", kVersion},
            {"job", manifest.job},
            {"layout", manifest.layout},
            {"step", manifest.state.step},
            {"samples", manifest.state.samples},
            {"tokens", manifest.state.tokens},
            {"seed", manifest.seed},
            {"data",
             {{"samples_per_step", manifest.samples_per_step},
              {"sequence_length", manifest.sequence_length},
              {"kind", manifest.data_kind},
              {"path", manifest.data_path},
              {"order", manifest.data_order}}},
            {"job_config", manifest.job_config},
            {"files", Json::array()}};
  for (const SavedFile& file : manifest.files) json["files"].push_back(json_of(file));
  json[kHashKey] = hash_of(json);
  return json.dump(1) + "\n";
}

std::string to_json(const SavedFile& file) { return json_of(file).dump(); }

SavedFile saved_file_of_json(const std::string& json) { return file_of(Json::parse(json)); }

CheckpointManifest read_manifest(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / kManifestFile).string();
  const MappedFile file(path);
  const auto* text = reinterpret_cast<const char*>(file.bytes().data());
  Json json = Json::parse(text, text + file.bytes().size(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) throw_error("{}: is damaged: it is no JSON", path);
  if (!json.is_object() || json.value("format", Json()) != kFormat) throw_error("{}: is no manifest of ppctl", path);
  if (json.value("version", Json()) != kVersion) {
    throw_error("{}: is of version {}; this ppctl reads version {}", path, json.value("version", Json()).dump(),
                kVersion);
  }
  const Json said = json.value(kHashKey, Json());
  json.erase(kHashKey);
  if (said != hash_of(json)) throw_error("{}: is damaged: it does not have the hash that it was written with", path);
  try {
    return manifest_of(json);
  } catch (const Json::exception& error) {
    throw_error("{}: {}", path, error.what());
  }
}

}  // namespace ppctl
