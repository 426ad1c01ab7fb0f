#include <gtest/gtest.h>

#include "config/load.hpp"
#include "job_schedule.hpp"
#include "mpipe_choice.hpp"
#include "parity/training.hpp"
#include "support/temporary_folder.hpp"
#include "support/train_run.hpp"

namespace ppctl {
namespace {

using test::run_job;
using Sets = std::vector<std::string>;

/// A vision tower of four used layers, a language model of eight.
JobConfig deep_job(Sets sets) {
  sets.push_back("steps=2");
  return load_config(std::string(PPCTL_SOURCE_DIR) + "/configs/parity/llava-deep.yaml", sets, schedule_rules()).job;
}

Sets operator+(Sets sets, const Sets& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

std::vector<double> numbers_of(const Sets& sets) { return run_job(deep_job(sets)).numbers(); }

TEST(ParityOfMpipe, ADeepTowerTransposedInPartIsTheReferences) {
  parity::expect_reference(parity::train("llava-deep", {"parallel.pp=4", "mpipe={layers: 2}"}), "llava-deep", 1e-5);
}

TEST(ParityOfMpipe, AnyNumberOfLayersOfADeepTowerInBothModesHasTheBitsOfOneRank) {
  const std::vector<double> alone = numbers_of({"parallel.pp=1"});
  for (const char* layers : {"0", "1", "3", "all"}) {
    for (const char* mode : {"before_body", "just_in_time"}) {
      for (const char* pp : {"parallel.pp=2", "parallel.pp=4"}) {
        const std::string mpipe = std::string("mpipe={layers: ") + layers + ", mode: " + mode + "}";
        EXPECT_EQ(numbers_of({mpipe, pp}), alone) << mpipe << ", " << pp;
      }
    }
  }
}

TEST(ParityOfMpipe, ComposesWithBodiesCommunicationSwapAndRecompute) {
  const test::TemporaryFolder folder;
  const std::vector<double> alone = numbers_of({"parallel.pp=1"});
  const std::string swap = "swap={layers: all, tier: file, folder: '" + folder.path() + "'}";
  const Sets interleaved = {"pipeline.schedule=interleaved_1f1b", "parallel.pp=2"};
  const std::vector<Sets> ways = {
      interleaved + Sets{"pipeline.overlap_b_f=true"},
      interleaved + Sets{"pipeline.overlap_p2p=true", "pipeline.duplex=true"},
      interleaved + Sets{swap},
      Sets{"pipeline.overlap_p2p=true"},
      Sets{"pipeline.duplex=true"},
      Sets{swap, "pipeline.schedule=gpipe"},
      Sets{swap, "recompute={attention: true, every: 2}"},
      Sets{"recompute=full"},
      Sets{"pipeline.layers=auto"},
      Sets{"pipeline.split_backward=true"},
      Sets{"pipeline.schedule=zb_v", "parallel.pp=2"},
      Sets{"pipeline.schedule=zb_h2", "pipeline.overlap_p2p=true"},
      Sets{"pipeline.schedule=dualpipe_v", "parallel.pp=2", "pipeline.overlap_b_f=true"},
  };
  for (const Sets& way : ways) {
    for (const char* mpipe : {"mpipe={layers: all}", "mpipe={layers: 2, backward: recompute}"}) {
      EXPECT_EQ(numbers_of(way + Sets{mpipe}), alone) << way.front() << ", " << way.back() << ", " << mpipe;
    }
  }
}

TEST(ParityOfMpipe, TakesALayerListOfWhatIsLeftToTheStages) {
  EXPECT_EQ(numbers_of({"mpipe={layers: 2}", "pipeline.layers=[3, 1, 4, 2]"}), numbers_of({"parallel.pp=1"}));
  EXPECT_EQ(numbers_of({"mpipe={layers: all}", "pipeline.layers=[1, 3, 2, 2]"}), numbers_of({"parallel.pp=1"}));
}

TEST(ParityOfMpipe, TheOtherDirectionOfDualPipeTakesFeaturesToo) {
  const std::vector<double> alone = numbers_of({"parallel.pp=1"});
  const std::vector<double> both = numbers_of({"pipeline.schedule=dualpipe", "mpipe={}"});
  ASSERT_EQ(both.size(), alone.size());
  // Two copies of each stage sum a half of the microbatches each.
  for (std::size_t i = 0; i < both.size(); ++i) EXPECT_NEAR(both[i], alone[i], 1e-5 * alone[i]) << i;
}

TEST(ParityOfMpipe, ShardsTheEncoderWithGradientsReducedEveryStepOrEveryMicrobatch) {
  const Sets shards = {"parallel.dp_shard=2"};
  for (const Sets& mode :
       {shards, shards + Sets{"fsdp.reduce=microbatch"}, shards + Sets{"fsdp.reduce=microbatch", "accumulate=2"},
        shards + Sets{"fsdp.reduce=microbatch", "precision.reduce=bfloat16"},
        shards + Sets{"fsdp.reshard_after_forward=true"}}) {
    const std::vector<double> alone = numbers_of(mode + Sets{"parallel.pp=1"});
    for (const Sets& way : {Sets{"mpipe={}"}, Sets{"mpipe={layers: 2}", "pipeline.schedule=zb_h1"},
                            Sets{"mpipe={layers: 2, backward: recompute, mode: before_body}"}}) {
      EXPECT_EQ(numbers_of(mode + way + Sets{"parallel.pp=2"}), alone) << mode.back() << ", " << way.front();
    }
  }
}

TEST(ParityOfMpipe, WhatIsChosenForTheEncoderHasTheBitsOfOneRank) {
  const Sets open = {"mpipe={layers: auto, mode: auto}", "pipeline.layers=auto"};
  const JobConfig asked = deep_job(open);
  const MpipeChoice choice = choose_mpipe(asked);
  ASSERT_TRUE(choice.was_asked());
  EXPECT_FALSE(choice.job.mpipe.is_auto());
  EXPECT_EQ(run_job(choice.job).numbers(), numbers_of({"parallel.pp=1"}));
  EXPECT_FALSE(choose_mpipe(deep_job({"mpipe={}"})).was_asked());
}

TEST(ParityOfMpipe, ChoosesWithinTheMemoryThatARankMayTake) {
  const Sets open = {"mpipe={layers: auto, mode: auto}"};
  const MpipeChoice free = choose_mpipe(deep_job(open));
  const auto leanest = std::ranges::min_element(free.ways, {}, &MpipeWay::peak_bytes)->peak_bytes;
  ASSERT_LT(leanest, free.ways.front().peak_bytes);
  const auto within = [&](double bytes) {
    JobConfig job = deep_job(open);
    job.memory_gib = bytes / (1024.0 * 1024 * 1024);
    return choose_mpipe(job);
  };
  const MpipeChoice lean = within(static_cast<double>(leanest) + 1);
  EXPECT_TRUE(lean.fits);
  EXPECT_EQ(lean.ways.front().peak_bytes, leanest);
  EXPECT_GE(lean.ways.front().step_ms, free.ways.front().step_ms);
  EXPECT_FALSE(within(1).fits);
}

}  // namespace
}  // namespace ppctl
