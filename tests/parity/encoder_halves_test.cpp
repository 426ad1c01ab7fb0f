// MPipe with the encoder's backward in halves, all of whose weight halves wait until the end of a step.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "config/load.hpp"
#include "schedule/verify.hpp"
#include "storage/safetensors.hpp"
#include "support/divided_encoder.hpp"
#include "support/temporary_folder.hpp"
#include "support/train_run.hpp"

namespace ppctl {
namespace {

using test::run_job;
using test::run_job_on;
using test::RunLog;
using Sets = std::vector<std::string>;

Sets operator+(Sets sets, const Sets& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

JobConfig job_with(const Sets& sets) {
  const std::string file = PPCTL_SOURCE_DIR "/configs/parity/llava-tiny.yaml";
  return load_config(file, Sets{"steps=3"} + sets, schedule_rules()).job;
}
JobConfig mpipe_job(const Sets& sets) { return job_with(Sets{"pipeline.schedule=mpipe_transpose"} + sets); }

RunLog run_divided(const JobConfig& job) {
  const Schedule schedule = test::with_divided_encoder(schedule_of_job(job));
  VerifyOptions options;
  options.fsdp = job.parallel.dp_shard > 1;
  verify_schedule_or_throw(schedule, options);
  return run_job_on(job, schedule);
}

std::vector<double> numbers_alone(const Sets& sets) {
  return run_job(job_with(Sets{"parallel.pp=1"} + sets)).numbers();
}

TEST(EncoderInHalves, GivesTheBitsOfOneRankInEveryModeAndWithAnyBody) {
  const std::vector<double> alone = numbers_alone({});
  for (const Sets& sets :
       {Sets{"parallel.pp=2", "mpipe.mode=before_body"}, Sets{"parallel.pp=4", "mpipe.mode=just_in_time"},
        Sets{"parallel.pp=4", "mpipe.mode=before_body", "mpipe.backward=recompute"},
        Sets{"parallel.pp=2", "mpipe.mode=just_in_time", "mpipe.backward=recompute", "mpipe.body=zb_h1"},
        Sets{"parallel.pp=3", "mpipe.mode=just_in_time", "pipeline.overlap_p2p=true"}}) {
    EXPECT_EQ(run_divided(mpipe_job(sets)).numbers(), alone) << sets[0] << ", " << sets[1];
  }
}

TEST(EncoderInHalves, GivesTheBitsOfOneRankWithShardedParametersAndOverSeveralBatches) {
  const Sets sharded = {"parallel.dp_shard=2"};
  const std::vector<double> alone = numbers_alone(sharded);
  EXPECT_EQ(run_divided(mpipe_job(sharded + Sets{"parallel.pp=2"})).numbers(), alone);
  EXPECT_EQ(run_divided(mpipe_job(sharded + Sets{"parallel.pp=2", "mpipe.backward=recompute"})).numbers(), alone);
  const Sets batches = {"accumulate=2"};
  EXPECT_EQ(run_divided(mpipe_job(batches + Sets{"parallel.pp=2"})).numbers(), numbers_alone(batches));
}

TEST(EncoderInHalves, HasNoBackwardAtAllWhereTheTowerIsNotTrained) {
  for (const char* trained : {"model.encoder=frozen", "model.encoder=projector_only"}) {
    const JobConfig job = mpipe_job({"parallel.pp=2", trained});
    EXPECT_EQ(run_job(job).numbers(), numbers_alone({trained})) << trained;
    for (const RankSteps& rank : schedule_of_job(job).ranks) {
      EXPECT_TRUE(std::ranges::none_of(rank.steps, [](MetaStep step) { return takes_feature_grads(step.type()); }));
    }
  }
}

std::string exported_weights(JobConfig job, bool divided) {
  const test::TemporaryFolder folder;
  job.checkpoint.folder = folder.path();
  job.checkpoint.export_when = "final";
  divided ? run_divided(job) : run_job(job);
  const SafetensorsFile file(folder / "hf/model.safetensors");
  std::string weights;
  for (const auto& [name, entry] : file.entries()) {
    const auto bytes = file.bytes(entry);
    weights.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return weights;
}

TEST(EncoderInHalves, LeavesTheWeightsOfAWholeBackward) {
  for (const Sets& sets : {Sets{"parallel.pp=2"}, Sets{"parallel.pp=2", "parallel.dp_shard=2"}}) {
    const JobConfig job = mpipe_job(sets);
    const std::string whole = exported_weights(job, /*divided=*/false);
    EXPECT_FALSE(whole.empty());
    EXPECT_TRUE(exported_weights(job, /*divided=*/true) == whole) << sets.back();
  }
}

/// Token ids of `num_samples` samples of 32, as a file has them: of every six samples the images are 2, 0, 3, 1, 0, 0,
/// so that of every three microbatches one has none.
std::string tokens_with_images(int num_samples) {
  constexpr int kSequence = 32;
  constexpr int kImageToken = 255;
  constexpr int kTokensAnImage = 4;
  constexpr std::array<int, 6> kImages = {2, 0, 3, 1, 0, 0};
  std::vector<std::uint16_t> tokens;
  for (int sample = 0; sample < num_samples; ++sample) {
    const int end = 1 + kTokensAnImage * kImages[static_cast<std::size_t>(sample) % kImages.size()];
    for (int i = 0; i < kSequence; ++i) {
      const bool is_image = i >= 1 && i < end;
      tokens.push_back(static_cast<std::uint16_t>(is_image ? kImageToken : (sample * 31 + i * i * 7) % kImageToken));
    }
  }
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(std::uint16_t)};
}

TEST(EncoderInHalves, GivesTheBitsOfOneRankWithAnyNumberOfImagesASample) {
  const test::TemporaryFolder folder;
  const Sets data = {"data.path=" + folder.write("tokens.bin", tokens_with_images(64)), "steps=3"};
  const std::vector<double> alone = numbers_alone(data);
  for (const Sets& sets : {Sets{"parallel.pp=4"}, Sets{"parallel.pp=2", "mpipe.backward=recompute"},
                           Sets{"parallel.pp=2", "parallel.dp_shard=2"}}) {
    const std::vector<double> wanted =
        sets.back() == "parallel.dp_shard=2" ? numbers_alone(data + Sets{sets.back()}) : alone;
    EXPECT_EQ(run_divided(mpipe_job(data + sets + Sets{"mpipe.mode=before_body"})).numbers(), wanted) << sets.back();
    EXPECT_EQ(run_job(mpipe_job(data + sets + Sets{"mpipe.mode=just_in_time"})).numbers(), wanted) << sets.back();
  }
}

}  // namespace
}  // namespace ppctl
