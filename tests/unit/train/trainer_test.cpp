#include "train/trainer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "support/temporary_folder.hpp"
#include "tiny_job.hpp"
#include "train/agreement.hpp"

namespace ppctl {
namespace {

using test::run_job;
using test::RunLog;
using test::some_text;
using test::TemporaryFolder;
using test::text_of;
using test::tiny_job;

bool says(const RunLog& log, const std::string& part) {
  return std::ranges::any_of(log.messages,
                             [&](const std::string& text) { return text.find(part) != std::string::npos; });
}

TEST(Trainer, LearnsAndReportsEveryStepAndMicrobatch) {
  const TemporaryFolder folder;
  const RunLog log = run_job(tiny_job(folder.write("text", some_text()), {"steps=30", "optimizer.lr=0.01"}));
  ASSERT_EQ(log.steps.size(), 30u);
  ASSERT_EQ(log.microbatches.size(), 120u);
  EXPECT_LT(log.steps.back().loss, log.steps.front().loss - 1.0);
  EXPECT_EQ(log.steps.back().tokens, 30 * 8 * 8);
  EXPECT_EQ(log.steps.back().num_labels, 64);
  EXPECT_GT(log.steps.back().tokens_per_s, 0.0);
  EXPECT_GT(log.steps.back().memory_mib, 0.0);
  EXPECT_GT(log.microbatches.back().forward_ms, 0.0);
  EXPECT_GT(log.microbatches.back().backward_ms, 0.0);
  EXPECT_GT(log.result.unigram_entropy, 1.0);
  EXPECT_EQ(log.result.last_loss, log.steps.back().loss);
}

TEST(Trainer, GivesTheSameBitsTwiceAndForAnyNumberOfRanks) {
  const TemporaryFolder folder;
  const std::string text = folder.write("text", some_text());
  const RunLog once = run_job(tiny_job(text));
  EXPECT_EQ(run_job(tiny_job(text)).numbers(), once.numbers());
  EXPECT_EQ(run_job(tiny_job(text, {"parallel.pp=1"})).numbers(), once.numbers());
  EXPECT_EQ(run_job(tiny_job(text, {"parallel.pp=4", "pipeline.schedule=gpipe"})).numbers(), once.numbers());
  EXPECT_NE(run_job(tiny_job(text, {"seed=2"})).numbers(), once.numbers());
}

TEST(Trainer, GivesTheSameBitsWithOverlappedPairs) {
  const TemporaryFolder folder;
  const std::string text = folder.write("text", some_text());
  const RunLog once = run_job(tiny_job(text));
  for (const char* schedule : {"1f1b", "interleaved_1f1b", "dualpipe_v"}) {
    SCOPED_TRACE(schedule);
    const RunLog log =
        run_job(tiny_job(text, {fmt::format("pipeline.schedule={}", schedule), "pipeline.overlap_b_f=true"}));
    EXPECT_EQ(log.numbers(), once.numbers());
  }
}

/// ScheduleZBVZeroBubble with communication, for two ranks and four microbatches, as PyTorch 2.13 writes it.
constexpr const char* kPyTorchZbv =
    "0UNSHARD,3UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,3RECV_F0,0F2,0SEND_F2,3F0,3RECV_F1,3I0,3SEND_B0,3W0,"
    "3F1,3I1,3SEND_B1,0RECV_B0,3W1,0F3,0SEND_F3,3RECV_F2,0I0,0W0,3F2,3I2,3SEND_B2,0RECV_B1,3W2,0I1,3R"
    "ECV_F3,0W1,3F3,3I3,3SEND_B3,0RECV_B2,3W3,3REDUCE_GRAD,0RECV_B3,3RESHARD,0I2,0W2,0I3,0W3,0REDUCE_"
    "GRAD,0RESHARD\n"
    "1UNSHARD,2UNSHARD,1RECV_F0,1F0,1RECV_F1,2F0,2SEND_F0,1RECV_F2,1F1,2F1,2SEND_F1,2RECV_B0,2I0,2W0,"
    "1F2,2RECV_B1,1I0,1SEND_B0,1W0,1RECV_F3,2F2,2SEND_F2,2I1,2W1,1F3,2RECV_B2,1I1,1SEND_B1,1W1,2F3,2S"
    "END_F3,2I2,2W2,2RECV_B3,1I2,1SEND_B2,2I3,1I3,1SEND_B3,1W2,2W3,2REDUCE_GRAD,2RESHARD,1W3,1REDUCE_"
    "GRAD,1RESHARD\n";

TEST(Trainer, RunsTheScheduleOfAFileThatPyTorchWrote) {
  const TemporaryFolder folder;
  const std::string text = folder.write("text", some_text());
  const std::string schedule = folder.write("zbv.csv", kPyTorchZbv);
  const RunLog log = run_job(tiny_job(text, {"pipeline.schedule={file: " + schedule + "}"}));
  EXPECT_EQ(log.numbers(), run_job(tiny_job(text)).numbers());
}

TEST(Trainer, SplitsLayersByListAndByCostToo) {
  const TemporaryFolder folder;
  const std::string text = folder.write("text", some_text());
  const RunLog uniform = run_job(tiny_job(text));
  EXPECT_TRUE(says(uniform, "4 layers over 2 stages as 2+2"));
  const RunLog listed = run_job(tiny_job(text, {"pipeline.layers=[1, 3]"}));
  EXPECT_TRUE(says(listed, "as 1+3"));
  EXPECT_EQ(listed.numbers(), uniform.numbers());
  const RunLog balanced = run_job(tiny_job(text, {"pipeline.layers=auto"}));
  EXPECT_TRUE(says(balanced, "as 3+1")) << "the head costs more than a layer";
  EXPECT_EQ(balanced.numbers(), uniform.numbers());
}

TEST(Trainer, AccumulatesBatchesAsOneLargerOne) {
  const TemporaryFolder folder;
  const std::string text = folder.write("text", some_text());
  const RunLog whole = run_job(tiny_job(text, {"batch.global_size=16"}));
  const RunLog parts = run_job(tiny_job(text, {"accumulate=2"}));
  EXPECT_EQ(parts.numbers(), whole.numbers());
  EXPECT_EQ(parts.result.state.samples, whole.result.state.samples);
}

TEST(Trainer, StopsAtATokenCountAndSaysWhenAnEpochBegins) {
  const TemporaryFolder folder;
  const RunLog log = run_job(tiny_job(folder.write("text", some_text()), {"steps=0", "stop_tokens=2100"}));
  EXPECT_EQ(log.steps.size(), 33u);  // 64 tokens a step
  EXPECT_TRUE(says(log, "step 31: the data is at its end, epoch 1 begins"));
  EXPECT_EQ(log.steps[30].epoch, 0);
  EXPECT_EQ(log.steps[31].epoch, 1);
}

TEST(Trainer, EvaluatesFirstAndBetweenWithoutChangingTraining) {
  const TemporaryFolder folder;
  const std::string text = folder.write("text", some_text());
  const std::vector<std::string> held_out{"data.eval_fraction=0.2"};
  const RunLog plain = run_job(tiny_job(text, held_out));
  const RunLog log = run_job(tiny_job(text, {"data.eval_fraction=0.2", "eval.every=2", "eval.batches=3"}));
  EXPECT_EQ(log.numbers(), plain.numbers());
  ASSERT_EQ(log.evals.size(), 3u);
  EXPECT_EQ(log.evals[0].step, 0);
  EXPECT_EQ(log.evals[1].step, 2);
  EXPECT_EQ(log.evals[2].step, 4);
  EXPECT_EQ(log.evals[0].num_labels, 3 * 64);
  EXPECT_LT(log.evals[2].loss, log.evals[0].loss);
}

/// Samples of 8 random-looking bytes of which a number that differs from sample to sample has no label; some have none
/// at all.
class RaggedSamples final : public SampleSource {
 public:
  std::int64_t num_samples() const override { return 64; }
  std::int64_t sequence_length() const override { return 8; }
  void read(std::int64_t index, std::span<std::int64_t> ids, std::span<std::int64_t> labels) const override {
    for (std::int64_t i = 0; i < 8; ++i) {
      ids[static_cast<std::size_t>(i)] = (index * 37 + i * 11) % 256;
      labels[static_cast<std::size_t>(i)] = i < num_labels(index) ? (index * 37 + (i + 1) * 11) % 256 : kIgnoredLabel;
    }
  }
  std::int64_t num_labels(std::int64_t index) const override { return index % 4 < 2 ? 0 : (index * 5) % 9; }
};

TEST(Trainer, WeightsRaggedLabelsOverReplicasAsOneReplicaDoes) {
  const TemporaryFolder folder;
  const std::string text = folder.write("text", some_text());
  TrainOptions options;
  options.samples = std::make_shared<RaggedSamples>();
  const RunLog alone = run_job(tiny_job(text, {"data.order=sequential"}), options);
  const RunLog replicas = run_job(tiny_job(text, {"data.order=sequential", "parallel.dp_replicate=2"}), options);
  ASSERT_EQ(replicas.steps.size(), alone.steps.size());
  for (std::size_t step = 0; step < alone.steps.size(); ++step) {
    EXPECT_NEAR(replicas.steps[step].loss, alone.steps[step].loss, 1e-6 * alone.steps[step].loss);
    EXPECT_NEAR(replicas.steps[step].grad_norm, alone.steps[step].grad_norm, 1e-6 * alone.steps[step].grad_norm);
    EXPECT_EQ(replicas.steps[step].num_labels, alone.steps[step].num_labels);
  }
  ASSERT_EQ(replicas.microbatches.size(), alone.microbatches.size());
  for (std::size_t i = 0; i < alone.microbatches.size(); ++i) {
    EXPECT_EQ(replicas.microbatches[i].microbatch, alone.microbatches[i].microbatch);
    EXPECT_EQ(replicas.microbatches[i].num_labels, alone.microbatches[i].num_labels);
    EXPECT_NEAR(replicas.microbatches[i].loss, alone.microbatches[i].loss, 1e-5);
  }
  EXPECT_EQ(alone.microbatches[0].num_labels, 0);
  EXPECT_EQ(alone.microbatches[0].loss, 0.0);
}

TEST(Trainer, EndsAfterTheStepInWhichAnyRankWasAskedTo) {
  const TemporaryFolder folder;
  const std::string text = folder.write("text", some_text());
  std::atomic<int> calls{0};
  TrainOptions options;
  options.stop_requested = [&] { return ++calls == 4; };  // one rank of two, in its second step
  const RunLog log = run_job(tiny_job(text, {"checkpoint.folder=" + folder.path() + "/saved"}), options);
  EXPECT_TRUE(log.result.stopped);
  EXPECT_EQ(log.steps.size(), 2u);
  EXPECT_TRUE(says(log, "saved " + folder.path() + "/saved/step-00000002"));
}

TEST(Trainer, ContinuesAPromptAsOneRankDoes) {
  const TemporaryFolder folder;
  const std::string text = folder.write("text", some_text());
  const std::vector<std::string> sample{"sample.prompt='line '", "sample.tokens=12"};
  auto alone = sample;
  alone.push_back("parallel.pp=1");
  const RunLog split = run_job(tiny_job(text, sample));
  EXPECT_EQ(split.result.sample.size(), 5u + 12u);
  EXPECT_EQ(split.result.sample.substr(0, 5), "line ");
  EXPECT_EQ(run_job(tiny_job(text, alone)).result.sample, split.result.sample);
  auto interleaved = sample;
  interleaved.push_back("pipeline.schedule=zb_v");
  EXPECT_EQ(run_job(tiny_job(text, interleaved)).result.sample, split.result.sample);
}

TEST(Trainer, EvaluatesAndContinuesAPromptWithShardedParameters) {
  const TemporaryFolder folder;
  const std::string text = folder.write("text", some_text());
  std::vector<std::string> sets{"data.eval_fraction=0.2", "eval.every=2",    "eval.batches=3",
                                "sample.prompt='line '",  "sample.tokens=8", "parallel.dp_replicate=2"};
  const RunLog replicated = run_job(tiny_job(text, sets));
  sets.back() = "parallel.dp_shard=2";
  for (const char* reshard : {"false", "true"}) {
    sets.push_back(std::string("fsdp.reshard_after_forward=") + reshard);
    const RunLog sharded = run_job(tiny_job(text, sets));
    ASSERT_EQ(sharded.evals.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(sharded.evals[i].loss, replicated.evals[i].loss, 1e-5);
    EXPECT_EQ(sharded.result.sample, replicated.result.sample);
  }
}

TEST(Trainer, RefusesByNameWhatItCannotDo) {
  const TemporaryFolder folder;
  const std::string text = folder.write("text", some_text());
  JobConfig job = tiny_job(text);
  job.device = "cuda";
  EXPECT_EQ(text_of<AgreedError>([&] { run_job(job); }),
            "device: cuda is not supported by this version of ppctl; set device: cpu");
}

TEST(Trainer, SaysOnceWhatIsWrongWithTheDataOnEveryRank) {
  const TemporaryFolder folder;
  const std::string path = folder.write("text", "short");
  EXPECT_EQ(text_of<AgreedError>([&] { run_job(tiny_job(path)); }),
            path + ": holds 5 tokens; one sample of data.sequence_length 8 takes 9, with the last label");
}

TEST(Trainer, EndsOnEveryRankWhenTheDataFailsInAStep) {
  const TemporaryFolder folder;
  std::string bytes;
  for (int i = 0; i < 200; ++i) bytes += std::string(1, static_cast<char>(i == 150 ? 99 : 1)) + '\0';
  const std::string path = folder.write("tokens", bytes);
  JobConfig job = tiny_job(path, {"data.kind=tokens", "data.order=sequential", "model.vocab_size=64"});
  const std::string said = text_of<Error>([&] { run_job(job); });
  EXPECT_NE(said.find(path + ", token 150: token id 99 is outside the model's vocabulary of 64"), std::string::npos)
      << said;
}

}  // namespace
}  // namespace ppctl
