#include <fmt/format.h>
#include <gtest/gtest.h>

#include "config/load.hpp"
#include "job_schedule.hpp"
#include "support/temporary_folder.hpp"
#include "support/train_run.hpp"

namespace ppctl {
namespace {

using test::run_job;
using Sets = std::vector<std::string>;

JobConfig parity_job(const std::string& name, Sets sets) {
  sets.emplace_back("steps=3");
  return load_config(fmt::format("{}/configs/parity/{}.yaml", PPCTL_SOURCE_DIR, name), sets, schedule_rules()).job;
}

Sets operator+(Sets sets, const Sets& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

TEST(ParityOfMemory, SwapRecomputeAndAnySplitLeaveTheBitsOfOneRank) {
  const test::TemporaryFolder folder;
  const std::string file = "swap={layers: all, tier: file, folder: '" + folder.path() + "'}";
  const std::vector<double> alone = run_job(parity_job("llama-tiny", {"parallel.pp=1"})).numbers();
  for (const Sets& schedule :
       {Sets{"pipeline.schedule=1f1b"}, Sets{"pipeline.schedule=interleaved_1f1b", "pipeline.overlap_b_f=true"},
        Sets{"pipeline.schedule=zb_v"}}) {
    for (const Sets& mode : {Sets{file}, Sets{"recompute=full"}, Sets{"recompute={attention: true, every: 2}"},
                             Sets{"recompute={mlp: true, stages: [0, 2]}"}, Sets{"pipeline.layers=auto"},
                             Sets{file, "recompute={every: 2}", "pipeline.layers=auto"}}) {
      const JobConfig job = parity_job("llama-tiny", Sets{"parallel.pp=4"} + schedule + mode);
      EXPECT_EQ(run_job(job).numbers(), alone) << schedule.front() << ", " << mode.front();
    }
  }
}

TEST(ParityOfMemory, RecomputedForwardsDropTheSameElements) {
  const Sets dropout = {"model.resid_pdrop=0.1", "model.embd_pdrop=0.1", "model.attn_pdrop=0.1"};
  const std::vector<double> alone = run_job(parity_job("gpt2-tiny", dropout + Sets{"parallel.pp=1"})).numbers();
  for (const Sets& mode : {Sets{"recompute=full"}, Sets{"recompute={attention: true}"}, Sets{"recompute={mlp: true}"},
                           Sets{"swap={layers: all}", "pipeline.schedule=gpipe"},
                           Sets{"swap={layers: all}", "pipeline.schedule=zb_v", "recompute={every: 2}"}}) {
    const JobConfig job = parity_job("gpt2-tiny", dropout + Sets{"parallel.pp=2"} + mode);
    EXPECT_EQ(run_job(job).numbers(), alone) << mode.front();
  }
  EXPECT_NE(run_job(parity_job("gpt2-tiny", {"parallel.pp=2"})).numbers(), alone) << "dropout does something";
}

}  // namespace
}  // namespace ppctl
