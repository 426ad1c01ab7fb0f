#include "simulate/model_plan.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "arch/family.hpp"
#include "arch/job_model.hpp"
#include "arch/layer_profile.hpp"
#include "base/error.hpp"
#include "schedule/generator.hpp"
#include "schedule/pass.hpp"
#include "simulate/model_costs.hpp"
#include "simulate/simulate.hpp"
#include "support/temporary_folder.hpp"

namespace ppctl {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

ModelSpec llama(int layers, int vocabulary = 64) {
  return parse_model_keys("llama", {{"vocab_size", std::to_string(vocabulary)},
                                    {"hidden_size", "32"},
                                    {"intermediate_size", "64"},
                                    {"num_hidden_layers", std::to_string(layers)},
                                    {"num_attention_heads", "2"}});
}

JobConfig job_of(int pp, const char* layers) {
  JobConfig job;
  job.parallel.pp = pp;
  job.pipeline.layers = layers;
  job.data.sequence_length = 16;
  job.batch.global_size = 16;
  job.batch.microbatch_size = 2;
  return job;
}

Schedule lowered(const JobConfig& job, const char* name = "1f1b", int chunks = 1) {
  ScheduleSpec spec;
  spec.name = name;
  spec.pp = job.parallel.pp;
  spec.chunks = chunks;
  spec.num_microbatches = job.num_microbatches();
  Schedule schedule = generate_schedule(spec);
  PassOptions passes;
  passes.swap = !job.swap.layers.empty();
  lower_schedule(schedule, passes);
  return schedule;
}

std::int64_t peak_of(const JobConfig& job, const ModelSpec& spec, const Schedule& schedule) {
  return largest_total(plan_memory(schedule, memory_model(job, spec, model_plan(job, spec, schedule))));
}

TEST(ModelPlan, GivesTheStageOfTheHeadFewerLayersWhereTheHeadIsHeavy) {
  const ModelSpec spec = llama(16, /*vocabulary=*/2048);
  const JobConfig even = job_of(4, "uniform");
  const JobConfig balanced = job_of(4, "auto");
  const Schedule schedule = lowered(even);
  const ModelPlan plan = model_plan(balanced, spec, schedule);
  EXPECT_LT(plan.layer_counts.back(), 4);
  EXPECT_EQ(std::accumulate(plan.layer_counts.begin(), plan.layer_counts.end(), 0), 16);
  // The step is as much shorter as the slowest stage is, but for the fill of the pipeline.
  const auto step_ms = [&](const JobConfig& job) {
    const MemoryModel model = memory_model(job, spec, model_plan(job, spec, schedule));
    return simulate(schedule, model_costs(model)).wall_ms;
  };
  EXPECT_LT(step_ms(balanced), 0.9 * step_ms(even));
}

TEST(ModelPlan, SplitsLayersThatTheRanksDoNotDivide) {
  for (const auto& [layers, pp, chunks] : {std::tuple{7, 2, 1}, std::tuple{40, 16, 1}, std::tuple{40, 16, 2}}) {
    for (const char* mode : {"uniform", "auto"}) {
      const JobConfig job = job_of(pp, mode);
      const Schedule schedule = lowered(job, chunks == 1 ? "1f1b" : "interleaved_1f1b", chunks);
      const std::vector<int> counts = model_plan(job, llama(layers), schedule).layer_counts;
      EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), layers);
      EXPECT_GE(*std::min_element(counts.begin(), counts.end()), 1);
    }
  }
}

TEST(ModelPlan, KeepsEveryRankBelowTheMemoryThatItMayTake) {
  const ModelSpec spec = llama(16);
  for (const auto& [name, chunks] : {std::pair{"1f1b", 1}, std::pair{"interleaved_1f1b", 2}}) {
    JobConfig job = job_of(4, "auto");
    const Schedule schedule = lowered(job, name, chunks);
    const std::int64_t unlimited = peak_of(job, spec, schedule);
    job.memory_gib = 0.93 * static_cast<double>(unlimited) / kGib;
    EXPECT_LE(static_cast<double>(peak_of(job, spec, schedule)), job.memory_gib * kGib) << name;
    job.memory_gib = 0.3 * static_cast<double>(unlimited) / kGib;
    EXPECT_THROW(model_plan(job, spec, schedule), Error) << name;
  }
}

TEST(ModelPlan, TakesAsLittleMemoryForManyMicrobatchesAsForFew) {
  const ModelSpec spec = llama(8);
  JobConfig job = job_of(4, "uniform");
  std::vector<std::int64_t> activations;
  for (const int microbatches : {8, 64}) {
    job.batch.global_size = 2 * microbatches;
    const Schedule schedule = lowered(job);
    const MemoryModel model = memory_model(job, spec, model_plan(job, spec, schedule));
    activations.push_back(plan_rank_memory(schedule, model, PipelineRank(0)).activations);
  }
  EXPECT_EQ(activations[0], activations[1]);
}

TEST(ModelPlan, MakesStepsLongerAndLeanerByRecompute) {
  const ModelSpec spec = llama(8);
  JobConfig job = job_of(4, "uniform");
  const Schedule schedule = lowered(job);
  const auto measure = [&](const RecomputeConfig& recompute) {
    job.recompute = recompute;
    const MemoryModel model = memory_model(job, spec, model_plan(job, spec, schedule));
    return std::pair{model_costs(model).stages[1].dx_ms,
                     plan_rank_memory(schedule, model, PipelineRank(1)).activations};
  };
  const auto [time, bytes] = measure({});
  const auto [attention_time, attention_bytes] = measure({.attention = true});
  const auto [full_time, full_bytes] = measure({.full = true});
  EXPECT_LT(time, attention_time);
  EXPECT_LT(attention_time, full_time);
  EXPECT_GT(bytes, attention_bytes);
  EXPECT_GT(attention_bytes, full_bytes);
}

TEST(LayerProfile, ComesBackFromItsFileAndSplitsTheLayers) {
  const test::TemporaryFolder folder;
  LayerProfile profile{"llama", "float32", 2, 16, {1.0, 0.0, 0.5, 0}, {}, {6.0, 6.0, 6.0, 4096}};
  for (int i = 0; i < 8; ++i) profile.layers.push_back({1.0, 1.0, 1.0, 1000});
  const std::string path = folder.write("profile.json", profile_json(profile));
  EXPECT_EQ(profile_json(read_profile(path)), profile_json(profile));
  JobConfig job = job_of(2, "auto");
  job.profile = path;
  // The head is as long as six layers: 7 + 1 with it makes 21 + 1.5 and 21.
  EXPECT_EQ(layers_per_stage(job, llama(8), Placement(PlacementKind::kLoop, 2, 1)), (std::vector<int>{7, 1}));
  const MemoryModel model = memory_model(job, llama(8), ModelPlan{{7, 1}, {}});
  const CostModel costs = model_costs(model, model_work(job, llama(8), {}));
  EXPECT_DOUBLE_EQ(costs.stages[0].forward_ms, 8.0);
  EXPECT_DOUBLE_EQ(costs.stages[1].dw_ms, 7.0);
}

TEST(LayerProfile, OfAnotherJobIsRefused) {
  const test::TemporaryFolder folder;
  const LayerProfile profile{"llama", "float32", 4, 16, {}, std::vector<PartTimes>(8), {}};
  JobConfig job = job_of(2, "auto");
  job.profile = folder.write("profile.json", profile_json(profile));
  try {
    model_work(job, llama(8), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), job.profile +
                                             ": measured with microbatch_size 4, but the job has 2; measure again with "
                                             "`ppctl bench --profile`");
  }
  EXPECT_THROW(parse_profile("{}", "empty.json"), Error);
}

}  // namespace
}  // namespace ppctl
