#include "schedule/generators/dualpipe_order.hpp"

#include <deque>

namespace ppctl {
namespace {

/// Says the phases in DualPipe's words: F0 and F1 are the next forwards of the two flows, B the next whole backward, I
/// the next input gradient, whose W waits in one queue.
class Phases {
 public:
  Phases(RankOrder order, const DualPipeRank& rank) : order_(std::move(order)), rank_(rank) {}

  void f(int flow) { order_.push(MetaStepType::FORWARD, rank_.chunk[flow], next_forward(flow)); }
  void b(int flow) { order_.push(MetaStepType::BACKWARD, rank_.chunk[flow], next_backward(flow)); }
  void i(int flow) {
    const int microbatch = next_backward(flow);
    order_.push(MetaStepType::BACKWARD_INPUT, rank_.chunk[flow], microbatch);
    weights_.push_back({rank_.chunk[flow], microbatch});
  }
  /// The oldest W that waits.
  void w() {
    order_.push(MetaStepType::BACKWARD_WEIGHT, weights_.front().chunk, weights_.front().microbatch);
    weights_.pop_front();
  }
  void pair(int forward_flow, int backward_flow) {
    const MetaStep backward =
        order_.step(MetaStepType::BACKWARD, rank_.chunk[backward_flow], next_backward(backward_flow));
    order_.pair(backward, order_.step(MetaStepType::FORWARD, rank_.chunk[forward_flow], next_forward(forward_flow)));
  }
  RankSteps take() { return order_.take(); }

 private:
  struct Waiting {
    int chunk;
    int microbatch;
  };

  int next_forward(int flow) { return rank_.first[flow] + forwards_[flow]++; }
  int next_backward(int flow) { return rank_.first[flow] + backwards_[flow]++; }

  RankOrder order_;
  DualPipeRank rank_;
  int forwards_[2] = {0, 0};
  int backwards_[2] = {0, 0};
  std::deque<Waiting> weights_;
};

/// (r + 1) × (B1, B0), of which the second half leaves its W for the phases after it.
void drain_both(Phases& steps, int r) {
  const int pairs = r + 1;
  for (int k = 0; k < 2 * pairs; ++k) {
    const int flow = k % 2 == 0 ? 1 : 0;
    if (k < pairs) {
      steps.b(flow);
    } else {
      steps.i(flow);
    }
  }
}

}  // namespace

RankSteps dualpipe_order(RankOrder order, const DualPipeRank& rank) {
  Phases steps(std::move(order), rank);
  const int p = rank.depth;
  const int r = rank.position;
  const int m = rank.num_microbatches;
  // 1: 2(p − r − 1) × F0
  for (int k = 0; k < 2 * (p - r - 1); ++k) steps.f(0);
  // 2: (r + 1) × (F0, F1)
  for (int k = 0; k < r + 1; ++k) steps.f(0), steps.f(1);
  // 3: (p − r − 1) × (I1, W1, F1)
  for (int k = 0; k < p - r - 1; ++k) steps.i(1), steps.w(), steps.f(1);
  // 4: (m − 2p + r + 1) × (F0 & B1, F1 & B0); the innermost rank's first pair is not fused, since its F0 is what the
  // others wait for
  for (int k = 0; k < m - 2 * p + r + 1; ++k) {
    if (k == 0 && r == p - 1) {
      steps.f(0), steps.b(1);
    } else {
      steps.pair(0, 1);
    }
    steps.pair(1, 0);
  }
  // 5: (p − r − 1) × (B1, F1 & B0)
  for (int k = 0; k < p - r - 1; ++k) steps.b(1), steps.pair(1, 0);
  // 6: (r + 1) × (B1, B0), the second half of them I
  drain_both(steps, r);
  // 7: (p − r − 1) × (W, I0)
  for (int k = 0; k < p - r - 1; ++k) steps.w(), steps.i(0);
  // 8: (r + 1) × W
  for (int k = 0; k < r + 1; ++k) steps.w();
  return steps.take();
}

}  // namespace ppctl
