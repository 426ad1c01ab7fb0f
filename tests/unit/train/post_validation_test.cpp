#include "train/post_validation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "support/temporary_folder.hpp"
#include "tiny_job.hpp"

namespace ppctl {
namespace {

using test::run_job;
using test::RunLog;
using test::some_text;
using test::TemporaryFolder;
using test::tiny_job;

using Sets = std::vector<std::string>;

Sets with_post_validation(Sets sets) {
  sets.push_back("pipeline.post_validation=true");
  return sets;
}

/// A clipping threshold that the steps of a run lie on both sides of.
std::string middling_clip(const std::string& text, Sets sets) {
  std::vector<double> norms;
  for (const StepRecord& step : run_job(tiny_job(text, sets)).steps) norms.push_back(step.grad_norm);
  std::ranges::sort(norms);
  const std::size_t middle = norms.size() / 2;
  return fmt::format("optimizer.clip_norm={}", (norms[middle - 1] + norms[middle]) / 2);
}

int num_clipped(const RunLog& log, double clip_norm) {
  return static_cast<int>(
      std::ranges::count_if(log.steps, [&](const StepRecord& step) { return step.grad_norm > clip_norm; }));
}

TEST(PostValidation, ChangesNoBitWhetherStepsAreClippedOrNot) {
  const TemporaryFolder folder;
  const std::string text = folder.write("text", some_text());
  Sets sets{"steps=8", "optimizer.lr=0.02"};
  sets.push_back(middling_clip(text, sets));
  const JobConfig job = tiny_job(text, sets);
  const RunLog barrier = run_job(job);
  EXPECT_GT(num_clipped(barrier, job.optimizer.clip_norm), 0);
  EXPECT_LT(num_clipped(barrier, job.optimizer.clip_norm), 8);
  for (const Sets& more : std::vector<Sets>{{},
                                            {"parallel.pp=1"},
                                            {"parallel.pp=4"},
                                            {"parallel.pp=4", "pipeline.schedule=zb_h2", "pipeline.overlap_p2p=true"},
                                            {"pipeline.schedule=zb_v", "pipeline.duplex=true"},
                                            {"pipeline.schedule=interleaved_1f1b", "pipeline.chunks=2"}}) {
    Sets all = sets;
    all.insert(all.end(), more.begin(), more.end());
    SCOPED_TRACE(fmt::format("{}", more.empty() ? "pp=2" : more.back()));
    const RunLog log = run_job(tiny_job(text, with_post_validation(all)));
    EXPECT_EQ(log.numbers(), barrier.numbers());
    ASSERT_EQ(log.steps.size(), 8u);
    EXPECT_EQ(log.steps.back().step, 7);
    EXPECT_EQ(log.steps.back().tokens, barrier.steps.back().tokens);
    EXPECT_EQ(log.result.last_loss, barrier.result.last_loss);
  }
}

TEST(PostValidation, ChangesNoBitWithReplicasTiedWeightsAndAccumulatedBatches) {
  const TemporaryFolder folder;
  const std::string text = folder.write("text", some_text());
  Sets sets{"steps=6", "parallel.dp_replicate=2", "accumulate=2", "model.tie_word_embeddings=true",
            "batch.global_size=16"};
  sets.push_back(middling_clip(text, sets));
  EXPECT_EQ(run_job(tiny_job(text, with_post_validation(sets))).numbers(), run_job(tiny_job(text, sets)).numbers());
}

TEST(PostValidation, EvaluatesAndSavesTheParametersOfValidatedSteps) {
  const TemporaryFolder folder;
  const std::string text = folder.write("text", some_text());
  const auto sets = [&](const std::string& name) {
    return Sets{"steps=4",      "optimizer.clip_norm=0.1", "data.eval_fraction=0.2",
                "eval.every=2", "checkpoint.every=2",      "checkpoint.folder=" + folder.path() + "/" + name};
  };
  const RunLog barrier = run_job(tiny_job(text, sets("barrier")));
  const RunLog log = run_job(tiny_job(text, with_post_validation(sets("none"))));
  EXPECT_EQ(log.numbers(), barrier.numbers());
  ASSERT_EQ(log.evals.size(), barrier.evals.size());
  for (std::size_t i = 0; i < log.evals.size(); ++i) EXPECT_EQ(log.evals[i].loss, barrier.evals[i].loss);
  Sets more = with_post_validation(sets("barrier"));
  more[0] = "steps=6";
  const RunLog resumed = run_job(tiny_job(text, more));
  Sets whole = sets("whole");
  whole[0] = "steps=6";
  const RunLog uninterrupted = run_job(tiny_job(text, whole));
  ASSERT_EQ(resumed.steps.size(), 2u);
  EXPECT_EQ(resumed.steps.back().loss, uninterrupted.steps.back().loss);
  EXPECT_EQ(resumed.steps.back().grad_norm, uninterrupted.steps.back().grad_norm);
}

/// One parameter a rank under AdamW, with gradients set by hand.
class HandMadeRank {
 public:
  explicit HandMadeRank(int rank) : group_("layer", at::kFloat) {
    Parameter parameter;
    parameter.name = fmt::format("w{}", rank);
    parameter.shape = {5};
    parameter.trainable = true;
    group_.add(parameter);
    group_.allocate();
    group_.data(0).copy_(at::linspace(-1.0, 1.0 + rank, 5));
    shard_.emplace(group_);
  }

  std::vector<GroupShard*> shards() { return {&*shard_}; }
  void set_grad(float value) { group_.flat_grad().fill_(value); }
  at::Tensor data() { return group_.data(0).clone(); }

 private:
  ParameterGroup group_;
  std::optional<GroupShard> shard_;
};

/// Parameters of each rank after a step for each of `grads` ([step][rank]), and the outcomes. In one: with a barrier.
struct HandMadeRun {
  std::vector<at::Tensor> data;
  std::vector<NormOutcome> outcomes;
};

HandMadeRun run_by_hand(const OptimizerConfig& config, const std::vector<std::vector<float>>& grads, bool validates) {
  const int num_ranks = static_cast<int>(grads.front().size());
  HandMadeRun run;
  run.data.resize(grads.front().size());
  run_inproc(num_ranks, [&](Communicator& communicator) {
    const int rank = communicator.transport().rank();
    const Deadline soon = Deadline::after_seconds(30);
    PipelineRanks ranks{&communicator.transport(), PipelineRank(rank), {}};
    for (int i = 0; i < num_ranks; ++i) ranks.world_ranks.push_back(i);
    const auto world = communicator.group(ranks.world_ranks, "world");
    HandMadeRank mine(rank);
    AdamW optimizer(config, mine.shards());
    PostValidation post_validation(config, GradNorm(mine.shards(), *world, soon), optimizer, ranks);
    const GradNorm norm(mine.shards(), *world, soon);
    for (const std::vector<float>& step : grads) {
      mine.set_grad(step[static_cast<std::size_t>(rank)]);
      NormOutcome outcome;
      if (validates) {
        post_validation.step(0.1, soon);
        outcome = post_validation.validate(soon);
      } else {
        std::vector<double> all;
        for (const float grad : step) all.push_back(5.0 * grad * grad);
        outcome.norm = norm.combine(all, 1);
        outcome.scale = step_scale(outcome.norm, config);
        if (!outcome.scale.skipped) {
          norm.scale(outcome.scale.factor);
          optimizer.step(0.1);
        }
      }
      if (rank == 0) run.outcomes.push_back(outcome);
    }
    run.data[static_cast<std::size_t>(rank)] = mine.data();
  });
  return run;
}

TEST(PostValidation, GoesBackToTheLastBitWhereALaterRankFindsItsStepInvalid) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  OptimizerConfig config;
  config.clip_norm = 2.0;
  config.skip_nonfinite = true;
  const std::vector<std::vector<float>> grads{
      {0.1F, 0.2F, 0.3F},       // plain
      {0.1F, 0.2F, 4.0F},       // the last rank's gradients ask for clipping
      {5.0F, 0.2F, 0.1F},       // the first one's
      {0.1F, kNan, 0.1F},       // the second rank's step must not be taken by anyone
      {0.3F, 0.1F, kInfinity},  // nor this one, which two ranks have taken
      {0.2F, 0.2F, 0.2F},
  };
  const HandMadeRun barrier = run_by_hand(config, grads, false);
  const HandMadeRun validated = run_by_hand(config, grads, true);
  for (std::size_t step = 0; step < grads.size(); ++step) {
    EXPECT_EQ(validated.outcomes[step].scale, barrier.outcomes[step].scale) << step;
  }
  EXPECT_TRUE(validated.outcomes[0].scale.plain());
  EXPECT_LT(validated.outcomes[1].scale.factor, 1.0);
  EXPECT_TRUE(validated.outcomes[4].scale.skipped);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(at::equal(validated.data[rank], barrier.data[rank])) << rank;
    EXPECT_TRUE(at::isfinite(validated.data[rank]).all().item<bool>()) << rank;
  }
}

}  // namespace
}  // namespace ppctl
