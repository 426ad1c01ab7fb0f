#include "schedule/pair_transfers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "schedule/generator.hpp"
#include "schedule/links.hpp"
#include "schedule/pass.hpp"
#include "schedule/text.hpp"

namespace ppctl {
namespace {

MetaStep step(MetaStepType type, int stage, int microbatch, int peer = -1) {
  return {type, StageId(stage), MicrobatchId(microbatch), peer < 0 ? PipelineRank() : PipelineRank(peer)};
}

/// A rank with the pair [2B0 5F1] in front of other steps.
RankSteps with_pair() {
  RankSteps rank;
  const std::vector<MetaStep> halves = {step(MetaStepType::BACKWARD, 2, 0), step(MetaStepType::FORWARD, 5, 1)};
  rank.push_composite(MetaStepType::OVERLAP_B_F, halves);
  return rank;
}

const MetaStep kSendBackward = step(MetaStepType::SEND_BACKWARD, 2, 0, 1);
MetaStep send_forward(int peer) { return step(MetaStepType::SEND_FORWARD, 5, 1, peer); }
MetaStep receive(int peer) { return step(MetaStepType::RECV_FORWARD, 5, 2, peer); }

/// "index:halves" of each.
std::string found(const RankSteps& rank) {
  std::vector<PairTransfer> transfers;
  find_pair_transfers(rank, 0, transfers);
  std::string text;
  for (const PairTransfer& transfer : transfers) {
    text += fmt::format("{}{}:{}{}", text.empty() ? "" : " ", transfer.step, transfer.halves & kBackwardHalf ? "B" : "",
                        transfer.halves & kForwardHalf ? "F" : "");
  }
  return text;
}

TEST(PairTransfers, LeaveWhenTheHalfThatMakesThemHasEnded) {
  RankSteps rank = with_pair();
  rank.steps.insert(rank.steps.end(), {kSendBackward, send_forward(3), receive(1)});
  EXPECT_EQ(found(rank), "1:B 2:F");
}

TEST(PairTransfers, DoNotOvertakeEachOtherOnTheWayToOnePeer) {
  RankSteps rank = with_pair();
  rank.steps.insert(rank.steps.end(), {kSendBackward, send_forward(1)});
  EXPECT_EQ(found(rank), "1:B 2:BF");
  std::swap(rank.steps[1], rank.steps[2]);
  EXPECT_EQ(found(rank), "1:F 2:BF");
}

TEST(PairTransfers, StayBehindAReceiveFromTheirPeer) {
  RankSteps rank = with_pair();
  rank.steps.insert(rank.steps.end(), {receive(1), kSendBackward, send_forward(3)});
  EXPECT_EQ(found(rank), "3:F");
}

TEST(PairTransfers, InABatchWaitForAllThatItSends) {
  RankSteps rank = with_pair();
  const std::vector<MetaStep> one = {kSendBackward, receive(1)};
  rank.push_composite(MetaStepType::BATCH_SEND_RECV, one, PipelineRank(1));
  EXPECT_EQ(found(rank), "1:B");
  rank = with_pair();
  const std::vector<MetaStep> both = {kSendBackward, send_forward(1), receive(1)};
  rank.push_composite(MetaStepType::BATCH_SEND_RECV, both, PipelineRank(1));
  EXPECT_EQ(found(rank), "1:BF");
  rank = with_pair();
  const std::vector<MetaStep> receives = {receive(1), step(MetaStepType::RECV_BACKWARD, 2, 3, 1)};
  rank.push_composite(MetaStepType::BATCH_SEND_RECV, receives, PipelineRank(1));
  rank.steps.push_back(kSendBackward);
  EXPECT_EQ(found(rank), "");
}

TEST(PairTransfers, EndAtTheNextComputeStepButNotAtThoseOfParametersAndSwap) {
  RankSteps rank = with_pair();
  rank.steps.insert(rank.steps.end(),
                    {MetaStep(MetaStepType::REDUCE_GRAD, StageId(2)), step(MetaStepType::LAUNCH_OFFLOAD, 5, 1),
                     kSendBackward, step(MetaStepType::FORWARD, 4, 2), send_forward(3)});
  EXPECT_EQ(found(rank), "3:B");
}

/// The parts of the transfers of a rank with each peer in the order in which they start, where in every pair the half
/// `first` ends first.
std::map<int, std::vector<MetaStep>> starts(const RankSteps& rank, std::uint8_t first) {
  std::map<int, std::vector<MetaStep>> by_peer;
  const auto start = [&](std::size_t i) {
    for_each_part(rank, rank.steps[i], [&](MetaStep part) { by_peer[part.peer().value].push_back(part); });
  };
  std::vector<PairTransfer> early;
  for (std::size_t i = 0; i < rank.steps.size(); ++i) {
    const MetaStepType type = rank.steps[i].type();
    if (type == MetaStepType::OVERLAP_B_F) {
      find_pair_transfers(rank, i, early);
      for (const bool at_end : {false, true}) {
        for (const PairTransfer& transfer : early) {
          if ((transfer.halves != first) == at_end) start(transfer.step);
        }
      }
    } else if (is_p2p(type) || type == MetaStepType::BATCH_SEND_RECV) {
      if (std::ranges::find(early, i, &PairTransfer::step) == early.end()) start(i);
    }
  }
  return by_peer;
}

TEST(PairTransfers, KeepTheScheduleOrderWithEveryPeerWhicheverHalfEndsFirst) {
  int num_early = 0;
  for (const char* name : {"1f1b", "interleaved_1f1b", "dualpipe", "dualpipe_v"}) {
    for (const int pp : {2, 4}) {
      for (const int passes : {0, 1, 2, 3}) {
        SCOPED_TRACE(fmt::format("{}, pp {}, passes {}", name, pp, passes));
        ScheduleSpec spec{.name = name, .pp = pp, .num_microbatches = 4 * pp};
        Schedule schedule = generate_schedule(spec);
        PassOptions options;
        options.overlap_b_f = true;
        options.overlap_p2p = (passes & 1) != 0;
        options.duplex = (passes & 2) != 0;
        lower_schedule(schedule, options);
        for (const RankSteps& rank : schedule.ranks) {
          std::map<int, std::vector<MetaStep>> in_order;
          for (const MetaStep one : rank.steps) {
            if (!is_p2p(one.type()) && one.type() != MetaStepType::BATCH_SEND_RECV) continue;
            for_each_part(rank, one, [&](MetaStep part) { in_order[part.peer().value].push_back(part); });
          }
          EXPECT_EQ(starts(rank, kBackwardHalf), in_order);
          EXPECT_EQ(starts(rank, kForwardHalf), in_order);
          std::vector<PairTransfer> early;
          for (std::size_t i = 0; i < rank.steps.size(); ++i) {
            if (rank.steps[i].type() != MetaStepType::OVERLAP_B_F) continue;
            find_pair_transfers(rank, i, early);
            num_early += static_cast<int>(early.size());
          }
        }
      }
    }
  }
  EXPECT_GT(num_early, 1000);
}

}  // namespace
}  // namespace ppctl
