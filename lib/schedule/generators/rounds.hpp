#pragma once

#include <algorithm>

namespace ppctl {

/// How interleaved schedules cut m microbatches: rounds, within each of which a rank runs one chunk after the other
/// over the round's microbatches. The first `num_large` rounds have `large` microbatches, the others `small`.
struct Rounds {
  int num_microbatches = 0;
  int large = 0;
  int num_large = 0;
  int small = 0;

  /// R = max(1, ⌊m/p⌋) rounds whose sizes differ by at most one, the larger ones first; all of size m/R where R divides
  /// m.
  static Rounds even(int m, int p) {
    const int count = std::max(1, m / p);
    if (m % count == 0) return {m, m / count, count, 0};
    return {m, m / count + 1, m % count, m / count};
  }
  /// Megatron's variable group: rounds of g, and what remains.
  static Rounds groups(int m, int g) { return {m, g, m / g, m % g}; }

  int size(int round) const { return round < num_large ? large : small; }
  int first_size() const { return size(0); }
};

/// Walks through the table of an interleaved schedule: forwards take the chunks of a round upwards, backwards
/// downwards.
class RoundWalk {
 public:
  enum class Direction { kForward, kBackward };

  RoundWalk(const Rounds& rounds, int chunks, Direction direction)
      : rounds_(rounds), chunks_(chunks), backward_(direction == Direction::kBackward), size_(rounds.first_size()) {}

  int chunk() const { return backward_ ? chunks_ - 1 - turn_ : turn_; }
  int microbatch() const { return begin_ + offset_; }
  void advance() {
    if (++offset_ < size_) return;
    offset_ = 0;
    if (++turn_ < chunks_) return;
    turn_ = 0;
    begin_ += size_;
    size_ = rounds_.size(++round_);
  }

 private:
  Rounds rounds_;
  int chunks_;
  bool backward_;
  int round_ = 0;
  int size_;
  int begin_ = 0;   // the round's first microbatch
  int turn_ = 0;    // chunks of the round that are done
  int offset_ = 0;  // microbatches of the chunk that are done
};

}  // namespace ppctl
