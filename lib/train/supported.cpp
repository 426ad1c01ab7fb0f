#include "train/supported.hpp"

#include "base/error.hpp"

namespace ppctl {

void check_supported(const JobConfig& job) {
  const auto refuse = [](bool asked, const char* key, const char* instead) {
    if (asked) throw_error("{} is not supported by this version of ppctl; {}", key, instead);
  };
  refuse(job.device != "cpu", "device: cuda", "set device: cpu");
}

}  // namespace ppctl
