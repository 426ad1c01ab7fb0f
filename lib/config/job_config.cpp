#include "config/job_config.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace ppctl {

int JobConfig::num_microbatches() const {
  if (batch.microbatches > 0) return static_cast<int>(batch.microbatches);
  PPCTL_CHECK(batch.microbatch_size > 0, "a job has microbatches or microbatch_size");
  return static_cast<int>(batch.global_size / (dp() * batch.microbatch_size));
}

std::int64_t JobConfig::microbatch_size() const {
  if (batch.microbatch_size > 0) return batch.microbatch_size;
  PPCTL_CHECK(batch.microbatches > 0, "a job has microbatches or microbatch_size");
  return batch.global_size / (dp() * batch.microbatches);
}

Error JobConfig::fault(std::string_view key, const std::string& what) const {
  for (std::string_view at = key;; at = at.substr(0, at.rfind('.'))) {
    const auto found = places.find(std::string(at));
    if (found != places.end()) return {found->second, what};
    if (at.find('.') == std::string_view::npos) return Error(file.empty() ? what : fmt::format("{}: {}", file, what));
  }
}

std::string layers_text(const MpipeConfig& mpipe) {
  if (mpipe.layers == MpipeConfig::kAllLayers) return "all";
  return mpipe.layers == MpipeConfig::kAutoLayers ? "auto" : std::to_string(mpipe.layers);
}

}  // namespace ppctl
