#pragma once

#include "schedule/generator.hpp"

namespace ppctl {

/// A building block of the V-shaped schedules with controllable memory (Qi et al., Pipeline Parallelism with
/// Controllable Memory, arXiv 2405.15362), in slots of one step: every rank repeats F0, F1, I1, I0 and two W each 6
/// slots, and the times of neighbouring ranks differ by fixed offsets. The longer a microbatch takes through the V, the
/// more of them are alive, so the offsets decide the memory.
struct VPattern {
  int forward_offset[2] = {1, 1};   ///< between neighbouring ranks, F0 down the V and F1 up
  int backward_offset[2] = {1, 1};  ///< I1 down and I0 up
  int turn_forward = 0;             ///< slots that the last rank waits between its F0 and its F1
  int turn_loss = 0;                ///< that rank 0 waits between its F1 and its I1
  int turn_backward = 0;            ///< that the last rank waits between its I1 and its I0
  int peak_chunks = 0;              ///< most activations a rank may hold
};

/// Repeats the pattern for each microbatch, puts W into the gaps, then draws the steps of warm-up and drain together as
/// far as peak_chunks allows. REQUIRES: no two of F0, F1, I1, I0 of a rank fall on the same slot modulo 6, and the
/// pattern's own peak is at most peak_chunks.
Schedule v_pattern_schedule(const ScheduleSpec& spec, const VPattern& pattern);

}  // namespace ppctl
