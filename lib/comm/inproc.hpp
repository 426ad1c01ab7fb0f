#pragma once

#include <functional>

#include "comm/transport.hpp"

namespace ppctl {

/// Runs `body` once for each of `ranks` ranks, rank 0 on the calling thread and the others on threads of their own,
/// connected by an in-process transport: the test vehicle, and how a one-rank job runs. When a rank throws, the others'
/// waits fail, all threads are joined, and the first exception is thrown on.
void run_inproc(int ranks, const std::function<void(Communicator&)>& body);

}  // namespace ppctl
