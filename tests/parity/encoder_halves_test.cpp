// MPipe with the encoder's backward in halves, all of whose weight halves wait until the end of a step.
#include <gtest/gtest.h>

#include <algorithm>

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

}  // namespace
}  // namespace ppctl
