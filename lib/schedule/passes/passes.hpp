#pragma once

#include "schedule/pass.hpp"

/// The passes, one a file. pass.cpp's table says in which order they run, what each needs and what each keeps.
namespace ppctl {

void apply_split_backward(Schedule& schedule, const PassOptions& options);
void apply_sequential_b_f(Schedule& schedule, const PassOptions& options);
void apply_overlap_b_f(Schedule& schedule, const PassOptions& options);
void apply_communication(Schedule& schedule, const PassOptions& options);
void apply_overlap_p2p(Schedule& schedule, const PassOptions& options);
void apply_duplex(Schedule& schedule, const PassOptions& options);
void apply_mpipe(Schedule& schedule, const PassOptions& options);
void apply_fsdp(Schedule& schedule, const PassOptions& options);
void apply_swap(Schedule& schedule, const PassOptions& options);

}  // namespace ppctl
