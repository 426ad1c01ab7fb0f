#include "schedule/text.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "unit/schedule/schedule_cases.hpp"

namespace ppctl {
namespace {

MetaStep step(MetaStepType type, int stage, int microbatch, int peer = -1) {
  return MetaStep(type, StageId(stage), MicrobatchId(microbatch), PipelineRank(peer));
}

std::string reading_fails(std::string_view text) {
  try {
    read_csv(text, "s.csv");
  } catch (const Error& error) {
    return error.what();
  }
  return "read";
}

/// Two ranks, one stage each, two microbatches, with a step of every kind.
Schedule every_kind() {
  Schedule schedule;
  schedule.placement = Placement(PlacementKind::kLoop, 2, 1);
  schedule.num_microbatches = 2;
  schedule.ranks.resize(2);
  using enum MetaStepType;
  auto& first = schedule.ranks[0];
  first.steps = {MetaStep(UNSHARD, StageId(0)), step(RECV_DATA, 0, 0, 1),   step(FORWARD, 0, 0),
                 step(SEND_FORWARD, 0, 0, 1),   step(LAUNCH_OFFLOAD, 0, 0), step(WAIT_OFFLOAD, 0, 0),
                 step(RECV_FEATURES, 0, 1, 1),  step(FORWARD, 0, 1)};
  first.push_composite(BATCH_SEND_RECV, std::vector{step(SEND_FORWARD, 0, 1, 1), step(RECV_BACKWARD, 0, 0, 1)},
                       PipelineRank(1));
  for (const MetaStep next :
       {step(LAUNCH_LOAD, 0, 0), step(WAIT_LOAD, 0, 0), step(BACKWARD_INPUT, 0, 0), step(BACKWARD_WEIGHT, 0, 0),
        step(RECV_BACKWARD, 0, 1, 1), step(BACKWARD, 0, 1), step(SEND_FEATURE_GRADS, 0, 1, 1),
        MetaStep(REDUCE_GRAD, StageId(0)), MetaStep(RESHARD, StageId(0))}) {
    first.steps.push_back(next);
  }
  auto& last = schedule.ranks[1];
  last.steps = {
      step(LOAD_DATA, 0, 0),        step(SEND_DATA, 0, 0, 0),    step(LOAD_DATA, 0, 1), step(PREPROCESS_FORWARD, 0, 1),
      step(SEND_FEATURES, 0, 1, 0), step(RECV_FORWARD, 1, 0, 0), step(FORWARD, 1, 0),   step(RECV_FORWARD, 1, 1, 0)};
  last.push_composite(OVERLAP_B_F, std::vector{step(BACKWARD, 1, 0), step(FORWARD, 1, 1)});
  for (const MetaStep next : {step(SEND_BACKWARD, 1, 0, 0), step(BACKWARD, 1, 1), step(SEND_BACKWARD, 1, 1, 0),
                              step(RECV_FEATURE_GRADS, 0, 1, 0), step(PREPROCESS_BACKWARD, 0, 1),
                              step(PREPROCESS_BACKWARD_INPUT, 0, 1), step(PREPROCESS_BACKWARD_WEIGHT, 0, 1)}) {
    last.steps.push_back(next);
  }
  return schedule;
}

TEST(Text, WritesOneLineARank) {
  const Schedule schedule = generate_schedule({.name = "1f1b", .pp = 2, .num_microbatches = 3});
  EXPECT_EQ(csv_of(schedule), "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n");
}

TEST(Text, SpellsEveryKind) {
  EXPECT_EQ(csv_of(every_kind()),
            "0UNSHARD,0RECV_DATA0,0F0,0SEND_F0,0LAUNCH_OFFLOAD0,0WAIT_OFFLOAD0,0RECV_FEATURES1,0F1,"
            "(0SEND_F1;0RECV_B0)BATCH_SEND_RECV,0LAUNCH_LOAD0,0WAIT_LOAD0,0I0,0W0,0RECV_B1,0B1,0SEND_FEATURE_GRADS1,"
            "0REDUCE_GRAD,0RESHARD\n"
            "0LOAD_DATA0,0SEND_DATA0,0LOAD_DATA1,0PREPROCESS_FORWARD1,0SEND_FEATURES1,1RECV_F0,1F0,1RECV_F1,"
            "(1B0;1F1)OVERLAP_B_F,1SEND_B0,1B1,1SEND_B1,0RECV_FEATURE_GRADS1,0PREPROCESS_BACKWARD1,"
            "0PREPROCESS_BACKWARD_INPUT1,0PREPROCESS_BACKWARD_WEIGHT1\n");
}

TEST(Text, ReadsEveryKindBackWithItsPeer) {
  const Schedule schedule = every_kind();
  const Schedule read = read_csv(csv_of(schedule), "every_kind.csv");
  EXPECT_EQ(read.name, "every_kind.csv");
  EXPECT_EQ(read.placement, schedule.placement);
  EXPECT_EQ(read.num_microbatches, 2);
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(read.ranks[r].steps, schedule.ranks[r].steps) << r;
    EXPECT_EQ(read.ranks[r].sub_steps, schedule.ranks[r].sub_steps) << r;
  }
}

TEST(Text, SkipsIdleCellsAndBlanks) {
  const Schedule read = read_csv("0F0, ,,0B0\r\n,1F0,1B0,\r\n\r\n", "s.csv");
  EXPECT_EQ(csv_of(read), "0F0,0B0\n1F0,1B0\n");
}

TEST(Text, TurnsPyTorchsPairsRound) {
  const Schedule read = read_csv("0F0,(0F1;0B0)OVERLAP_F_B,0B1", "s.csv");
  EXPECT_EQ(format_step(read.ranks[0], read.ranks[0].steps[1]), "(0B0;0F1)OVERLAP_B_F");
}

TEST(Text, FindsThePlacementFromWhereStagesAreComputed) {
  EXPECT_EQ(read_csv("0F0,2F0\n1F0,3F0", "s.csv").placement, Placement(PlacementKind::kLoop, 2, 2));
  EXPECT_EQ(read_csv("0F0,3F0\n1F0,2F0", "s.csv").placement, Placement(PlacementKind::kV, 2, 2));
  EXPECT_EQ(read_csv("0F0,1F1\n1F0,0F1", "s.csv").placement, Placement(PlacementKind::kBidirectional, 2, 2));
}

TEST(Text, RefusesOtherPlacements) {
  EXPECT_EQ(
      reading_fails("0F0,1F0\n2F0,3F0"),
      "s.csv:1:1: rank 0 computes stages 0, 1; with 2 ranks the stages must lie as a loop (rank 0 has 0, 2), as a V "
      "(stages r and 3 - r on rank r) or in two directions (stages r and 1 - r)");
  EXPECT_EQ(reading_fails("0F0\n\n2F0"), "s.csv:2:1: rank 1 computes nothing");
  EXPECT_EQ(
      reading_fails("0F0,1F0\n1F1,0F1"),
      "s.csv:1:5: 1F0 belongs to rank 1: the first half of 2 microbatches enters at rank 0, the second at rank 1");
}

TEST(Text, PointsAtTheCellThatItCannotRead) {
  EXPECT_EQ(reading_fails("0F0,0X0"), "s.csv:1:5: '0X0': unknown action 'X'");
  EXPECT_EQ(reading_fails("0F0\n 1SEND_G0"), "s.csv:2:2: '1SEND_G0': unknown action 'SEND_G' (did you mean 'SEND_F'?)");
  EXPECT_EQ(reading_fails("F0"),
            "s.csv:1:1: 'F0': a step is written stage, action, microbatch, as in 2F0, 3SEND_F1 or 1UNSHARD");
  EXPECT_EQ(reading_fails("0F"), "s.csv:1:1: '0F': F needs a microbatch after it");
  EXPECT_EQ(reading_fails("0UNSHARD1"), "s.csv:1:1: '0UNSHARD1': UNSHARD has no microbatch");
  EXPECT_EQ(reading_fails("0F0B"), "s.csv:1:1: '0F0B': 'B' follows the microbatch");
  EXPECT_EQ(reading_fails("65535F0"), "s.csv:1:1: '65535F0': stage must be 0 to 65534");
  EXPECT_EQ(reading_fails("0F99999999999999999999"),
            "s.csv:1:1: '0F99999999999999999999': microbatch must be 0 to 16777214");
  EXPECT_EQ(reading_fails(" \n"), "s.csv: no steps: a schedule has one line a rank, steps separated by commas");
}

TEST(Text, PointsAtTheCompositeThatItCannotRead) {
  EXPECT_EQ(reading_fails("(0B0;0F1OVERLAP_B_F"), "s.csv:1:1: '(0B0;0F1OVERLAP_B_F': ')' is missing");
  EXPECT_EQ(reading_fails("(0B0;)OVERLAP_B_F"), "s.csv:1:1: '(0B0;)OVERLAP_B_F': an empty sub-step");
  EXPECT_EQ(reading_fails("(0F0;0F1)OVERLAP_B_F"),
            "s.csv:1:1: '(0F0;0F1)OVERLAP_B_F': an overlapped pair is one B or I and one F");
  EXPECT_EQ(reading_fails("(0F0)F"), "s.csv:1:1: '(0F0)F': F has no sub-steps");
  EXPECT_EQ(reading_fails("0OVERLAP_B_F0"),
            "s.csv:1:1: '0OVERLAP_B_F0': OVERLAP_B_F lists its sub-steps, as in (3B1;2F4)OVERLAP_B_F");
  EXPECT_EQ(reading_fails("0F0,(0F1)BATCH_SEND_RECV"), "s.csv:1:5: 0F1 is no send or receive");
  EXPECT_EQ(reading_fails("0F0\n1F0,(1SEND_F0;1SEND_B0)BATCH_SEND_RECV\n2F0"),
            "s.csv:2:5: a batch has one peer, but 1SEND_B0 is with rank 0 and those before it with rank 2");
}

TEST(Text, RefusesMessagesFromNowhere) {
  EXPECT_EQ(reading_fails("0F0,0RECV_F0"),
            "s.csv:1:5: 0RECV_F0: there is no stage -1 on the other side; the schedule's stages are 0 to 0");
  EXPECT_EQ(reading_fails("0F0\n1F0,1SEND_F0"),
            "s.csv:2:5: 1SEND_F0: there is no stage 2 on the other side; the schedule's stages are 0 to 1");
  EXPECT_EQ(reading_fails("0RECV_FEATURES0,0F0"), "s.csv:1:1: 0RECV_FEATURES0: no rank has the other side of it");
}

TEST(Text, RefusesGarbageWithoutFallingOver) {
  EXPECT_TRUE(rc::check("any text is read or refused", [] {
    const std::string alphabet = "0123456789FBIW_SENDRCVOLAP(;),\n\r \"x";
    const auto letter = rc::gen::elementOf(alphabet);
    const std::string text = *rc::gen::container<std::string>(letter);
    try {
      const Schedule schedule = read_csv(text, "garbage.csv");
      RC_ASSERT(csv_of(read_csv(csv_of(schedule), "again.csv")) == csv_of(schedule));
    } catch (const Error& error) {
      RC_ASSERT(std::string(error.what()).rfind("garbage.csv", 0) == 0U);
    }
  }));
}

TEST(Text, RefusesOrReadsSchedulesWithDamagedBytes) {
  EXPECT_TRUE(rc::check("one byte of a schedule changed", [] {
    std::string text = csv_of(every_kind());
    const auto place = *rc::gen::inRange<std::size_t>(0, text.size());
    text[place] = *rc::gen::arbitrary<char>();
    try {
      read_csv(text, "damaged.csv");
    } catch (const Error& error) {
      RC_ASSERT(std::string(error.what()).rfind("damaged.csv", 0) == 0U);
    }
  }));
}

}  // namespace
}  // namespace ppctl
