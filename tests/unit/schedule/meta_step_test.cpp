#include "schedule/meta_step.hpp"

#include <gtest/gtest.h>

#include <set>

#include "schedule/schedule.hpp"

namespace ppctl {
namespace {

TEST(MetaStep, HasANameForEveryKind) {
  std::set<std::string_view> names;
  for (int i = 0; i < kNumMetaStepTypes; ++i) {
    EXPECT_TRUE(names.insert(to_string(static_cast<MetaStepType>(i))).second) << i;
  }
  EXPECT_EQ(names.count("?"), 0U);
  EXPECT_EQ(to_string(static_cast<MetaStepType>(kNumMetaStepTypes)), "?");
  EXPECT_EQ(to_string(MetaStepType::OVERLAP_B_F), "OVERLAP_B_F");
  EXPECT_EQ(to_string(MetaStepType::RECV_FEATURE_GRADS), "RECV_FEATURE_GRADS");
}

TEST(MetaStep, KeepsItsFieldsUpToTheirLimits) {
  const StageId stage(MetaStep::kMaxStages - 1);
  const MicrobatchId microbatch(MetaStep::kMaxMicrobatches - 1);
  const PipelineRank peer(MetaStep::kMaxRanks - 1);
  const MetaStep step(MetaStepType::SEND_FORWARD, stage, microbatch, peer);
  EXPECT_EQ(step.type(), MetaStepType::SEND_FORWARD);
  EXPECT_EQ(step.stage(), stage);
  EXPECT_EQ(step.microbatch(), microbatch);
  EXPECT_EQ(step.peer(), peer);
}

TEST(MetaStep, HasNoMicrobatchOrPeerWhereNoneWasGiven) {
  const MetaStep step(MetaStepType::UNSHARD, StageId(3));
  EXPECT_EQ(step.stage(), StageId(3));
  EXPECT_FALSE(step.microbatch().valid());
  EXPECT_FALSE(step.peer().valid());
}

TEST(MetaStep, FindsTheSubStepsOfEachComposite) {
  RankSteps rank;
  const MetaStep backward(MetaStepType::BACKWARD, StageId(1), MicrobatchId(0));
  const MetaStep forward(MetaStepType::FORWARD, StageId(0), MicrobatchId(7));
  rank.push_composite(MetaStepType::OVERLAP_B_F, std::vector{backward, forward});
  rank.push_composite(MetaStepType::OVERLAP_B_F, std::vector{forward, backward});
  EXPECT_FALSE(rank.steps[1].stage().valid());
  EXPECT_FALSE(rank.steps[1].microbatch().valid());
  ASSERT_EQ(rank.sub_steps_of(rank.steps[1]).size(), 2U);
  EXPECT_EQ(rank.sub_steps_of(rank.steps[0])[0], backward);
  EXPECT_EQ(rank.sub_steps_of(rank.steps[1])[0], forward);
}

TEST(MetaStep, AddressesFourBillionSubSteps) {
  const MetaStep step = MetaStep::composite(MetaStepType::BATCH_SEND_RECV, 0xfedcba98U, 255, PipelineRank(5));
  EXPECT_EQ(step.sub_index(), 0xfedcba98U);
  EXPECT_EQ(step.sub_count(), 255);
  EXPECT_EQ(step.peer(), PipelineRank(5));
}

}  // namespace
}  // namespace ppctl
