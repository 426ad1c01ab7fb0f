#include "simulate/theory.hpp"

#include <algorithm>
#include <cmath>

namespace ppctl {
namespace {

/// What the formulas are made of.
struct Terms {
  int p;
  int v;
  int m;
  double F;
  double I;
  double W;
  double pair;

  double full_backward() const { return I + W; }
  bool equal_parts() const { return F == I && I == W; }
  /// Zero-bubble formulas count on a W that fits where an F or an I would.
  bool small_weight() const { return W <= std::min(F, I); }
};

Theory wall_and_span(double bubble, std::string formula) {
  Theory theory;
  theory.bubble_wall_ms = bubble;
  theory.bubble_span_ms = bubble;
  theory.bubble_formula = std::move(formula);
  return theory;
}

Theory wall_only(double bubble, std::string formula) {
  Theory theory = wall_and_span(bubble, std::move(formula));
  theory.bubble_span_ms.reset();
  return theory;
}

Theory span_only(double bubble, std::string formula) {
  Theory theory = wall_and_span(bubble, std::move(formula));
  theory.bubble_wall_ms.reset();
  return theory;
}

Theory with_peak(Theory theory, int chunks, std::string formula) {
  theory.peak_chunks = chunks;
  theory.peak_formula = std::move(formula);
  return theory;
}

std::optional<Theory> interleaved(const Terms& t) {
  if (t.m < t.p) return std::nullopt;
  // Rounds of k microbatches: R = floor(m / p) of them, the first ones larger where R does not divide m.
  const int rounds = t.m / t.p;
  const int first_round = (t.m + rounds - 1) / rounds;
  const int warmup = std::min(t.m * t.v, (t.v - 1) * first_round + 2 * (t.p - 1));
  return with_peak(wall_and_span((t.p - 1) * (t.F + t.full_backward()), "(p-1)(F+B)"), std::min(t.m * t.v, warmup + 1),
                   "min(mv, (v-1)k+2p-1)");
}

std::optional<Theory> zero_bubble_h(const Terms& t, int h) {
  if (!t.small_weight() || t.m < h * t.p) return std::nullopt;
  if (h == 1) return with_peak(wall_only((t.p - 1) * (t.F + t.I - t.W), "(p-1)(F+I-W)"), t.p, "p");
  return with_peak(span_only((t.p - 1) * (t.F + t.I - 2 * t.W), "(p-1)(F+I-2W)"), 2 * t.p - 1, "2p-1");
}

std::optional<Theory> zb_v(const Terms& t) {
  if (t.equal_parts() && t.m >= 2 * t.p - 1) return with_peak(span_only(0, "0"), 2 * t.p, "2p");
  // With F > I the formula is only a bound from above.
  if (!t.small_weight() || t.F > t.I || t.m < 2 * t.p - 1) return std::nullopt;
  return with_peak(span_only((t.p - 1) * (2 * std::max(t.F, t.I) - 2 * t.W), "(p-1)(2max(F,I)-2W)"), 2 * t.p, "2p");
}

std::optional<Theory> dualpipe_v(const Terms& t) {
  if (t.F != t.I || t.m < 2 * t.p) return std::nullopt;
  return with_peak(span_only((t.p - 1) * (t.pair + t.full_backward() - 3 * t.W), "(p-1)(F&B+B-3W)"), 2 * t.p + 1,
                   "2p+1");
}

std::optional<Theory> dualpipe(const Terms& t) {
  if (t.F != t.I || t.m < 2 * t.p || t.p % 2 != 0) return std::nullopt;
  return with_peak(span_only((t.p / 2 - 1.0) * (t.pair + t.full_backward() - 3 * t.W), "(p/2-1)(F&B+B-3W)"), t.p + 1,
                   "p+1");
}

// The bubbles of these two are fitted to simulations of the papers' patterns at p = 4, 6, 8 and 12, for F = I = W. Our
// v_min is squeezed after that, which at p = 8 gives 23 where the formula says 27.
std::optional<Theory> controllable_memory(const Terms& t, bool half) {
  if (!t.equal_parts() || t.p < 4 || t.p % 2 != 0 || t.m < 2 * t.p || t.m % 2 != 0) return std::nullopt;
  if (half) return with_peak(wall_only((3 * t.p - 7) * t.F, "(3p-7)F"), 2 * ((t.p + 2) / 2), "2floor((p+2)/2)");
  const bool thirds = t.p % 3 == 0;
  Theory theory = wall_only((4 * t.p - (thirds ? 7 : 5)) * t.F, thirds ? "(4p-7)F" : "(4p-5)F");
  theory.at_most = true;
  return with_peak(std::move(theory), 2 * ((t.p + 4) / 3), "2floor((p+4)/3)");
}

}  // namespace

std::optional<Theory> schedule_theory(std::string_view name, int pp, int chunks, int num_microbatches,
                                      const ChunkCosts& costs, double pair) {
  const Terms t{pp, chunks, num_microbatches, costs.forward, costs.dx, costs.dw, pair};
  const double flush = (t.p - 1) * (t.F + t.full_backward());
  if (name == "gpipe") return with_peak(wall_and_span(flush, "(p-1)(F+B)"), t.m, "m");
  if (name == "1f1b") return with_peak(wall_and_span(flush, "(p-1)(F+B)"), std::min(t.m, t.p), "min(m, p)");
  if (name == "interleaved_1f1b") return interleaved(t);
  if (name == "looped_bfs" && t.m >= t.p) return with_peak(wall_and_span(flush, "(p-1)(F+B)"), t.m * t.v, "mv");
  if (name == "interleaved_zb" && t.m >= t.p && t.m % t.p == 0 && t.small_weight()) {
    return with_peak(wall_only((t.p - 1) * (t.F + t.I - t.W), "(p-1)(F+I-W)"), t.v * t.p, "vp");
  }
  if (name == "zb_h1") return zero_bubble_h(t, 1);
  if (name == "zb_h2") return zero_bubble_h(t, 2);
  if (name == "zb_v") return zb_v(t);
  if (name == "dualpipe_v") return dualpipe_v(t);
  if (name == "dualpipe") return dualpipe(t);
  if (name == "v_half") return controllable_memory(t, true);
  if (name == "v_min") return controllable_memory(t, false);
  return std::nullopt;
}

}  // namespace ppctl
