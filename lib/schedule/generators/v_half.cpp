// V-Half (Qi et al., arXiv 2405.15362): half of 1F1B's activations. F0 and I1 move on by one slot a rank, F1 and I0 by
// two.
//
//   bubble where F = I = W = 1: 3p − 7 for even p ≥ 4, 3p − 4 for odd p ≥ 3; peak 2⌊(p + 2)/2⌋ chunks
#include "schedule/generators/generators.hpp"
#include "schedule/generators/v_pattern.hpp"

namespace ppctl::generate {

Schedule v_half(const ScheduleSpec& spec) {
  VPattern pattern{.forward_offset = {1, 2}, .backward_offset = {1, 2}, .peak_chunks = 2 * ((spec.pp + 2) / 2)};
  // The turns keep the four steps of a rank on different slots modulo 6.
  pattern.turn_forward = 1;
  pattern.turn_loss = spec.pp % 2 == 0 ? 3 : 0;
  return v_pattern_schedule(spec, pattern);
}

}  // namespace ppctl::generate
