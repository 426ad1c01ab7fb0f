#include "train/swap_tier.hpp"

#include <utility>

namespace ppctl {

std::unique_ptr<ActivationSwap> make_activation_swap(const SwapConfig& config, double timeout_s) {
  constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
  const auto limit = static_cast<std::size_t>(config.limit_gib * kGib);
  std::unique_ptr<SwapStore> store =
      config.tier == "file" ? make_file_store({config.folder, limit, config.direct}) : make_memory_store(limit);
  if (config.bandwidth_gbps > 0) store = make_slowed_store(std::move(store), config.bandwidth_gbps);
  return std::make_unique<ActivationSwap>(std::move(store), timeout_s);
}

}  // namespace ppctl
