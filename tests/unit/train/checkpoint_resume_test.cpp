// A checkpoint goes on at any division of the state: ranks, stages a rank, schedule, replicas, dtype.

#include <gtest/gtest.h>

#include <filesystem>

#include "storage/step_folders.hpp"
#include "support/temporary_folder.hpp"
#include "tiny_job.hpp"
#include "train/agreement.hpp"
#include "train/checkpoint.hpp"

namespace ppctl {
namespace {

namespace fs = std::filesystem;
using test::run_job;
using test::RunLog;
using test::some_text;
using test::TemporaryFolder;
using test::text_of;
using test::tiny_job;

struct Layout {
  const char* name;
  /// Layouts that share it give the same bits. Others sum gradients or their norms in another order.
  std::string dp;
  std::vector<std::string> sets;
};

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = {
      {"one rank", "1", {"parallel.pp=1"}},
      {"pp 4, 1f1b", "1", {"parallel.pp=4"}},
      {"pp 2, dp_replicate 2, interleaved_1f1b",
       "replicate 2",
       {"parallel.pp=2", "parallel.dp_replicate=2", "pipeline.schedule=interleaved_1f1b", "pipeline.chunks=2"}},
      {"pp 2, zb_v", "1", {"parallel.pp=2", "pipeline.schedule=zb_v"}},
      {"pp 2, dp_shard 2, interleaved_1f1b",
       "shard 2",
       {"parallel.pp=2", "parallel.dp_shard=2", "pipeline.schedule=interleaved_1f1b", "pipeline.chunks=2"}},
      {"dp_shard 2", "shard 2", {"parallel.pp=1", "parallel.dp_shard=2"}},
      {"dp_shard 4", "shard 4", {"parallel.pp=1", "parallel.dp_shard=4"}},
  };
  return all;
}

class Resume : public testing::Test {
 protected:
  /// The job at a layout; keys on top.
  JobConfig job(const Layout& layout, std::vector<std::string> sets) const {
    sets.insert(sets.end(), layout.sets.begin(), layout.sets.end());
    sets.push_back("batch.microbatch_size=1");
    return tiny_job(text_, sets);
  }
  std::string saved() const { return folder_ / "saved"; }
  std::string keep() const { return "checkpoint.folder=" + saved(); }

  TemporaryFolder folder_;
  std::string text_ = folder_.write("text", some_text());
};

constexpr int kSavedAfter = 3;
constexpr int kStepsAfter = 10;

TEST_F(Resume, GoesOnAtEveryLayoutWithTheLossesOfTheUninterruptedRun) {
  const std::string all_steps = "steps=" + std::to_string(kSavedAfter + kStepsAfter);
  for (const Layout& before : layouts()) {
    fs::remove_all(saved());
    const RunLog whole = run_job(job(before, {all_steps}));
    run_job(job(before, {"steps=" + std::to_string(kSavedAfter), keep()}));
    for (const Layout& after : layouts()) {
      SCOPED_TRACE(std::string(before.name) + ", then " + after.name);
      const RunLog rest = run_job(job(after, {all_steps, keep(), "checkpoint.keep=9"}));
      ASSERT_EQ(rest.steps.size(), static_cast<std::size_t>(kStepsAfter));
      for (std::size_t i = 0; i < rest.steps.size(); ++i) {
        const StepRecord& expected = whole.steps[kSavedAfter + i];
        EXPECT_EQ(rest.steps[i].step, expected.step);
        EXPECT_EQ(rest.steps[i].tokens, expected.tokens);
        if (before.dp == after.dp) {
          EXPECT_EQ(rest.steps[i].loss, expected.loss);
          EXPECT_EQ(rest.steps[i].grad_norm, expected.grad_norm);
        } else {
          EXPECT_NEAR(rest.steps[i].loss, expected.loss, 1e-6 * expected.loss);
        }
      }
      fs::remove_all(step_folder(saved(), kSavedAfter + kStepsAfter));
    }
  }
}

TEST_F(Resume, GoesOnWithTiedWeightsWhereverTheirUsesLie) {
  const std::string tied = "model.tie_word_embeddings=true";
  const Layout& one = layouts()[0];
  const Layout& four = layouts()[1];
  const RunLog whole = run_job(job(one, {"steps=5", tied}));
  run_job(job(four, {"steps=3", tied, keep()}));
  EXPECT_EQ(run_job(job(one, {"steps=4", tied, keep()})).steps.at(0).loss, whole.steps[3].loss);
  EXPECT_EQ(run_job(job(four, {"steps=5", tied, keep()})).steps.at(0).loss, whole.steps[4].loss);
}

TEST_F(Resume, ConvertsBetweenDtypes) {
  const Layout& layout = layouts()[0];
  const RunLog whole = run_job(job(layout, {"steps=4"}));
  run_job(job(layout, {"steps=3", keep()}));
  const RunLog half = run_job(job(layout, {"steps=4", keep(), "model.dtype=bfloat16"}));
  ASSERT_EQ(half.steps.size(), 1u);
  EXPECT_NEAR(half.steps[0].loss, whole.steps[3].loss, 0.02 * whole.steps[3].loss);
  const RunLog back = run_job(job(layout, {"steps=5", keep()}));
  ASSERT_EQ(back.steps.size(), 1u);
  EXPECT_EQ(back.steps[0].step, 4);
}

TEST_F(Resume, LeavesNoSampleOutWhenTheGlobalBatchChanges) {
  const Layout& layout = layouts()[0];
  run_job(job(layout, {"steps=3", keep(), "data.order=sequential"}));
  const RunLog other = run_job(job(layout, {"steps=4", keep(), "data.order=sequential", "batch.global_size=2"}));
  ASSERT_EQ(other.steps.size(), 1u);
  EXPECT_EQ(other.result.state.samples, 26);
  EXPECT_EQ(other.steps[0].tokens, 26 * 8);
  EXPECT_EQ(other.messages.at(3), saved() +
                                      "/step-00000003: a step has 2 samples now, 8 before: no sample is left out or "
                                      "seen twice (sample 24 is next), and steps, the learning rate and checkpoint "
                                      "names go on counting steps, from 3");
  // The same samples with the same weights, reached in steps of two samples that teach nothing.
  JobConfig still = job(layout, {"steps=13", "data.order=sequential", "batch.global_size=2", "optimizer.lr=0"});
  still.model = ModelConfig{.from = saved() + "/step-00000003"};
  EXPECT_EQ(other.steps[0].loss, run_job(still).steps.at(12).loss);
}

TEST_F(Resume, SaysWhatChangesWithOtherData) {
  const Layout& layout = layouts()[0];
  run_job(job(layout, {"steps=1", keep()}));
  const RunLog other = run_job(job(layout, {"steps=2", keep(), "data.sequence_length=16", "seed=9"}));
  EXPECT_EQ(other.messages.at(3), saved() +
                                      "/step-00000001: the data changes (data.sequence_length was 8, is 16; seed was "
                                      "1, is 9): its sample 8 is next, as 8 were read before");
}

TEST_F(Resume, RefusesAnotherModelWithBothValues) {
  const Layout& layout = layouts()[0];
  run_job(job(layout, {"steps=1", keep()}));
  EXPECT_EQ(text_of<AgreedError>([&] {
              run_job(job(layout, {"steps=2", keep(), "model.num_attention_heads=4", "model.rope_theta=5"}));
            }),
            saved() +
                "/step-00000001: is of another model: num_attention_heads is 2 there and 4 in the job; head_dim is 8 "
                "there and 4 in the job; rope_theta is 10000 there and 5 in the job");
}

TEST_F(Resume, StartsANewRunFromTheWeightsOfACheckpoint) {
  const Layout& one = layouts()[0];
  run_job(job(one, {"steps=3", keep()}));
  for (const std::string& from : {saved(), saved() + "/step-00000003"}) {
    for (const Layout& layout : layouts()) {
      std::vector<std::string> sets = layout.sets;
      sets.insert(sets.end(), {"batch.microbatch_size=1", "steps=1"});
      JobConfig job = tiny_job(text_, sets);
      job.model = ModelConfig{.from = from};
      const RunLog log = run_job(job);
      const RunLog other = run_job(this->job(one, {"steps=1"}));
      EXPECT_EQ(log.steps.at(0).step, 0);
      EXPECT_NE(log.steps[0].loss, other.steps.at(0).loss);
      EXPECT_LT(log.steps[0].loss, other.steps[0].loss) << "three steps were learnt";
    }
  }
}

}  // namespace
}  // namespace ppctl
