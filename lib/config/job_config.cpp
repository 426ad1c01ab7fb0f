#include "config/job_config.hpp"

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

std::string layers_text(const MpipeConfig& mpipe) {
  if (mpipe.layers == MpipeConfig::kAllLayers) return "all";
  return mpipe.layers == MpipeConfig::kAutoLayers ? "auto" : std::to_string(mpipe.layers);
}

}  // namespace ppctl
