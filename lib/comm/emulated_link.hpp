#pragma once

#include <functional>
#include <memory>

#include "comm/transport.hpp"

namespace ppctl {

/// A link from one rank to another that is slower than the transport below.
struct LinkModel {
  double latency_us = 0;
  double bandwidth_gbps = 0;  ///< in 10^9 bits a second; 0: without limit
  bool rendezvous = false;    ///< a message starts to cross when it is sent and its receive is posted, as with NCCL
};

/// The link of each ordered pair of world ranks.
using LinkOf = std::function<LinkModel(int from, int to)>;

/// A communicator whose messages take as long as over the links that `link_of` describes: a message of n bytes that is
/// sent at time t, when its link has finished its previous messages at time f, is complete at the receiver at max(t, f)
/// + latency + n / bandwidth, and not before the transport below has brought it. Links work while ranks compute, each
/// direction on its own. A message from a rank to itself takes no time. Collectives are made of such messages. With
/// `rendezvous` it is also not complete before latency + n / bandwidth have passed since its receive was posted.
/// `below` must outlive it.
///
/// Time is read from the clock of the machine, so the ranks must share one. A receive that waits for the link sleeps.
std::unique_ptr<Communicator> emulate_links(Communicator& below, const LinkOf& link_of);
std::unique_ptr<Communicator> emulate_links(Communicator& below, LinkModel link);

}  // namespace ppctl
