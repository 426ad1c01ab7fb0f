#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ppctl {

/// What one part of a model took for one microbatch.
struct PartTimes {
  double forward_ms = 0.0;
  double dx_ms = 0.0;
  double dw_ms = 0.0;
  std::int64_t saved_bytes = 0;  ///< kept for the backward
};

/// What `ppctl bench --profile` measured of a job's model, part by part.
struct LayerProfile {
  std::string family;
  std::string dtype;
  std::int64_t samples = 0;   ///< of a microbatch
  std::int64_t sequence = 0;  ///< tokens a sample
  PartTimes embedding;
  std::vector<PartTimes> layers;
  PartTimes head;  ///< norm, projection and loss
};

/// The profile as JSON text, and back. Throws Error that names `origin` and what is missing or wrong.
std::string profile_json(const LayerProfile& profile);
LayerProfile parse_profile(const std::string& text, const std::string& origin);
/// Reads a file. Throws Error.
LayerProfile read_profile(const std::string& path);

}  // namespace ppctl
