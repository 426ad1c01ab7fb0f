#include "simulate/rank_memory.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "arch/family.hpp"
#include "arch/stage_memory.hpp"
#include "schedule/generator.hpp"
#include "schedule/pass.hpp"
#include "simulate/memory_report.hpp"
#include "simulate/model_costs.hpp"

namespace ppctl {
namespace {

ModelSpec llama(const std::string& tied = "false") {
  return parse_model_keys("llama", {{"vocab_size", "32"},
                                    {"hidden_size", "32"},
                                    {"intermediate_size", "24"},
                                    {"num_hidden_layers", "8"},
                                    {"num_attention_heads", "2"},
                                    {"tie_word_embeddings", tied}});
}

Schedule lowered(const std::string& name, int pp, int microbatches, const PassOptions& passes = {}) {
  ScheduleSpec spec;
  spec.name = name;
  spec.pp = pp;
  spec.num_microbatches = microbatches;
  Schedule schedule = generate_schedule(spec);
  lower_schedule(schedule, passes);
  return schedule;
}

MemoryModel model_of(const Schedule& schedule, const ModelSpec& spec = llama()) {
  MemoryModel model;
  model.spec = spec;
  model.layer_counts.assign(static_cast<std::size_t>(schedule.num_stages()), 8 / schedule.num_stages());
  model.shape = {2, 8, 4};
  return model;
}

std::int64_t parameter_bytes(const ModelSpec& spec, std::int64_t element_bytes) {
  std::int64_t bytes = 0;
  for (const GroupLayout& group : stage_groups(spec, StageRange::whole(spec), element_bytes)) {
    bytes += group.numel() * element_bytes;
  }
  return bytes;
}

TEST(RankMemory, AddsUpTheStateOfTheWholeModelOverTheRanks) {
  const Schedule schedule = lowered("1f1b", 4, 8);
  const std::vector<RankMemory> ranks = plan_memory(schedule, model_of(schedule));
  const std::int64_t whole = parameter_bytes(llama(), 4);
  const auto sum = [&](auto member) {
    return std::accumulate(ranks.begin(), ranks.end(), std::int64_t{0},
                           [&](std::int64_t total, const RankMemory& rank) { return total + rank.*member; });
  };
  EXPECT_EQ(sum(&RankMemory::parameters), whole);
  EXPECT_EQ(sum(&RankMemory::gradients), whole);
  EXPECT_EQ(sum(&RankMemory::moments), 2 * whole);
  EXPECT_EQ(sum(&RankMemory::masters), 0);
  // cos and sin for 8 positions of 8 pairs on each of four stages
  EXPECT_EQ(sum(&RankMemory::tables), 4 * 2 * 8 * 8 * 4);
}

TEST(RankMemory, KeepsMastersGradientsAndMomentsInFloat32BelowBfloat16) {
  const Schedule schedule = lowered("1f1b", 2, 4);
  MemoryModel model = model_of(schedule);
  const RankMemory full = plan_rank_memory(schedule, model, PipelineRank(0));
  model.shape.element_bytes = 2;
  const RankMemory half = plan_rank_memory(schedule, model, PipelineRank(0));
  EXPECT_EQ(2 * half.parameters, full.parameters);
  EXPECT_EQ(half.masters, full.parameters);
  EXPECT_EQ(half.gradients, full.gradients);
  EXPECT_EQ(half.moments, full.moments);
}

TEST(RankMemory, OfOneForwardOneBackwardDoesNotGrowWithTheMicrobatches) {
  const auto activations = [](const char* name, int microbatches) {
    const Schedule schedule = lowered(name, 4, microbatches);
    return plan_rank_memory(schedule, model_of(schedule), PipelineRank(0)).activations;
  };
  EXPECT_EQ(activations("1f1b", 8), activations("1f1b", 64));
  EXPECT_GT(activations("gpipe", 64), 7 * activations("gpipe", 8));
}

TEST(RankMemory, OfEarlierRanksHoldsMoreActivations) {
  const Schedule schedule = lowered("1f1b", 4, 8);
  const std::vector<RankMemory> ranks = plan_memory(schedule, model_of(schedule));
  const StageMemory stage = stage_memory(llama(), {2, 4, false, false}, {2, 8, 4});
  // Rank 1 holds three microbatches at its peak, rank 2 two of them: one stage's saved tensors are between the two.
  EXPECT_EQ(ranks[1].activations - ranks[2].activations, stage.saved_bytes);
  EXPECT_EQ(ranks[1].peak_step, "1B0");
}

TEST(RankMemory, CountsReceiveBuffersForWhatIsHeldAtOnce) {
  const Schedule schedule = lowered("1f1b", 4, 8);
  const std::vector<RankMemory> ranks = plan_memory(schedule, model_of(schedule));
  EXPECT_EQ(plan_memory(lowered("1f1b", 1, 8), model_of(lowered("1f1b", 1, 8)))[0].buffers, 0);
  EXPECT_GT(ranks[1].buffers, ranks[2].buffers);
  EXPECT_GT(ranks[2].buffers, ranks[3].buffers);
}

TEST(RankMemory, WithFsdpKeepsAShareOfTheStateBetweenSteps) {
  PassOptions passes;
  passes.fsdp = true;
  const Schedule schedule = lowered("1f1b", 2, 4, passes);
  MemoryModel model = model_of(schedule);
  const RankMemory whole = plan_rank_memory(schedule, model, PipelineRank(1));
  model.dp_shard = 2;
  std::int64_t parameters = 0;
  for (const int shard : {0, 1}) {
    model.shard = shard;
    const RankMemory rank = plan_rank_memory(schedule, model, PipelineRank(1));
    EXPECT_EQ(rank.gradients, 0);
    EXPECT_EQ(rank.moments, 2 * rank.parameters);
    EXPECT_EQ(rank.unsharded, whole.parameters);
    EXPECT_GE(rank.step_gradients, whole.gradients);
    parameters += rank.parameters;
  }
  EXPECT_EQ(parameters, whole.parameters) << "these sizes need no padding";
}

TEST(RankMemory, ReducingEveryMicrobatchHoldsTheWholeGradientsOfOneStageAtATime) {
  const auto peak = [](bool every) {
    PassOptions passes;
    passes.fsdp = true;
    passes.reduce_every_microbatch = every;
    const Schedule schedule = lowered("interleaved_1f1b", 2, 8, passes);
    MemoryModel model = model_of(schedule);
    model.dp_shard = 4;
    model.shape = {1, 1, 4};
    return plan_rank_memory(schedule, model, PipelineRank(0)).tensors_at_peak();
  };
  EXPECT_LT(peak(true), peak(false));
}

TEST(MemoryReport, SaysWhichRanksNeedMoreThanTheyMay) {
  const Schedule schedule = lowered("1f1b", 2, 4);
  MemoryReport report{plan_memory(schedule, model_of(schedule)), "float32", 0};
  EXPECT_EQ(memory_summary(report).find("more than"), std::string::npos);
  report.limit_bytes = static_cast<double>(report.ranks[1].total());
  ASSERT_NE(report.ranks[0].total(), report.ranks[1].total());
  const bool first_is_larger = report.ranks[0].total() > report.ranks[1].total();
  EXPECT_EQ(memory_summary(report).find("on rank 0") != std::string::npos, first_is_larger);
  EXPECT_EQ(report.fits(report.ranks[0]), !first_is_larger);
  EXPECT_TRUE(report.fits(report.ranks[1]));
}

TEST(MemoryReport, WritesBytesForPeople) {
  EXPECT_EQ(bytes_text(96), "96 B");
  EXPECT_EQ(bytes_text(4096), "4.0 KiB");
  EXPECT_EQ(bytes_text(1.5 * 1024 * 1024), "1.5 MiB");
  EXPECT_EQ(bytes_text(3.0 * 1024 * 1024 * 1024), "3.00 GiB");
}

TEST(ModelCosts, MakeAForwardOfTheMeanStageOneMillisecond) {
  const Schedule schedule = lowered("1f1b", 4, 8);
  const CostModel costs = model_costs(model_of(schedule));
  ASSERT_EQ(costs.stages.size(), 4U);
  double forward = 0;
  for (const StageCosts& stage : costs.stages) forward += stage.forward_ms;
  EXPECT_DOUBLE_EQ(forward, 4.0);
  EXPECT_GT(costs.stages[3].forward_ms, costs.stages[2].forward_ms) << "it has the head";
  EXPECT_GT(costs.stages[1].dx_ms, costs.stages[1].dw_ms) << "attention has no weights";
  EXPECT_EQ(costs.stages[0].output_bytes, 2 * 8 * 32 * 4);
  EXPECT_EQ(costs.stages[3].output_bytes, 0);
}

}  // namespace
}  // namespace ppctl
