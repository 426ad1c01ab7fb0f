// V-Min (Qi et al., arXiv 2405.15362): a third of 1F1B's activations. Every step moves on by one slot a rank, so that a
// microbatch lives as briefly as it can.
//
//   bubble where F = I = W = 1: at most 4p − 5, and 4p − 7 when 3 divides p; peak 2⌊(p + 4)/3⌋ chunks
#include "schedule/generators/generators.hpp"
#include "schedule/generators/v_pattern.hpp"

namespace ppctl::generate {

Schedule v_min(const ScheduleSpec& spec) {
  VPattern pattern{.forward_offset = {1, 1}, .backward_offset = {1, 1}, .peak_chunks = 2 * ((spec.pp + 4) / 3)};
  // F0 and I1 of a rank are 2p + turn slots apart, which must not be a multiple of 6.
  if (spec.pp % 3 == 0) pattern.turn_loss = 2;
  return v_pattern_schedule(spec, pattern);
}

}  // namespace ppctl::generate
