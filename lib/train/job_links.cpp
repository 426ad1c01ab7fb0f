#include "train/job_links.hpp"

#include <algorithm>

#include "comm/emulated_link.hpp"

namespace ppctl {

std::unique_ptr<Communicator> emulate_job_links(Communicator& below, const LinkConfig& link) {
  if (!link.is_given()) return nullptr;
  return emulate_links(below, [&](int from, int to) {
    const auto pair =
        std::ranges::find_if(link.pairs, [&](const LinkPairConfig& one) { return one.from == from && one.to == to; });
    if (pair == link.pairs.end()) return LinkModel{link.latency_us, link.bandwidth_gbps, link.rendezvous};
    return LinkModel{pair->latency_us, pair->bandwidth_gbps, link.rendezvous};
  });
}

}  // namespace ppctl
