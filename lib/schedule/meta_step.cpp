#include "schedule/meta_step.hpp"

#include <array>

namespace ppctl {
namespace {

constexpr std::array<std::string_view, kNumMetaStepTypes> kNames = {
    "FORWARD",
    "BACKWARD",
    "BACKWARD_INPUT",
    "BACKWARD_WEIGHT",
    "SEND_FORWARD",
    "RECV_FORWARD",
    "SEND_BACKWARD",
    "RECV_BACKWARD",
    "BATCH_SEND_RECV",
    "OVERLAP_B_F",
    "UNSHARD",
    "RESHARD",
    "REDUCE_GRAD",
    "LAUNCH_OFFLOAD",
    "WAIT_OFFLOAD",
    "LAUNCH_LOAD",
    "WAIT_LOAD",
    "LOAD_DATA",
    "PREPROCESS_FORWARD",
    "PREPROCESS_BACKWARD",
    "PREPROCESS_BACKWARD_INPUT",
    "PREPROCESS_BACKWARD_WEIGHT",
    "SEND_DATA",
    "RECV_DATA",
    "SEND_FEATURES",
    "RECV_FEATURES",
    "SEND_FEATURE_GRADS",
    "RECV_FEATURE_GRADS",
};

}  // namespace

std::string_view to_string(MetaStepType type) {
  const auto index = static_cast<std::size_t>(type);
  return index < kNames.size() ? kNames[index] : "?";
}

}  // namespace ppctl
