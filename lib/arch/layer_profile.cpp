#include "arch/layer_profile.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "storage/mapped_file.hpp"

namespace ppctl {
namespace {

using nlohmann::json;

json to_json(const PartTimes& part) {
  return {
      {"forward_ms", part.forward_ms}, {"dx_ms", part.dx_ms}, {"dw_ms", part.dw_ms}, {"saved_bytes", part.saved_bytes}};
}

PartTimes part_of(const json& object) {
  PartTimes part{object.at("forward_ms"), object.at("dx_ms"), object.at("dw_ms"), object.at("saved_bytes")};
  for (const double time : {part.forward_ms, part.dx_ms, part.dw_ms}) {
    if (!(std::isfinite(time) && time >= 0.0)) throw_error("a time of {} ms", time);
  }
  return part;
}

}  // namespace

std::string profile_json(const LayerProfile& profile) {
  json layers = json::array();
  for (const PartTimes& layer : profile.layers) layers.push_back(to_json(layer));
  const json object = {{"family", profile.family},
                       {"dtype", profile.dtype},
                       {"samples", profile.samples},
                       {"sequence", profile.sequence},
                       {"embedding", to_json(profile.embedding)},
                       {"layers", layers},
                       {"head", to_json(profile.head)}};
  return object.dump(2) + "\n";
}

LayerProfile parse_profile(const std::string& text, const std::string& origin) {
  try {
    const json object = json::parse(text);
    LayerProfile profile;
    profile.family = object.at("family");
    profile.dtype = object.at("dtype");
    profile.samples = object.at("samples");
    profile.sequence = object.at("sequence");
    profile.embedding = part_of(object.at("embedding"));
    for (const json& layer : object.at("layers")) profile.layers.push_back(part_of(layer));
    profile.head = part_of(object.at("head"));
    return profile;
  } catch (const std::exception& error) {
    throw_error("{}: not a profile of layers as `ppctl bench --profile` writes it: {}", origin, error.what());
  }
}

LayerProfile read_profile(const std::string& path) {
  const MappedFile file(path);
  return parse_profile({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
}

}  // namespace ppctl
