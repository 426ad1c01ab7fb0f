#include <gtest/gtest.h>

#include "arch/stage_memory.hpp"
#include "base/error.hpp"
#include "support/temporary_folder.hpp"
#include "tiny_job.hpp"
#include "train/agreement.hpp"

namespace ppctl {
namespace {

using test::run_job;
using test::RunLog;
using test::some_text;
using test::TemporaryFolder;
using test::tiny_job;
using Sets = std::vector<std::string>;

Sets operator+(Sets sets, const Sets& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

const Sets kEightLayers = {"model.num_hidden_layers=8", "batch.global_size=16", "steps=2", "log.memory=true"};

TEST(Swap, LeavesEveryBitAsItIs) {
  const TemporaryFolder folder;
  const std::string text = folder.write("text", some_text());
  const std::vector<double> plain = run_job(tiny_job(text, kEightLayers + Sets{"parallel.pp=1"})).numbers();
  const std::vector<Sets> schedules = {
      {"pipeline.schedule=gpipe"},
      {"pipeline.schedule=1f1b"},
      {"pipeline.schedule=interleaved_1f1b", "pipeline.overlap_b_f=true"},
      {"pipeline.schedule=zb_v"},
  };
  const std::vector<Sets> modes = {
      {"swap={layers: all}"},
      {"swap={layers: [0, 2, 4, 5], tier: file, folder: '" + folder.path() + "'}"},
      {"swap={layers: all, tier: file, folder: '" + folder.path() + "'}", "recompute={attention: true, every: 2}"},
      {"swap={layers: all}", "recompute=full", "pipeline.layers=auto"},
  };
  for (const Sets& schedule : schedules) {
    for (const Sets& mode : modes) {
      const RunLog log = run_job(tiny_job(text, kEightLayers + Sets{"parallel.pp=4"} + schedule + mode));
      EXPECT_EQ(log.numbers(), plain) << schedule[0] << ", " << mode[0];
      EXPECT_GT(log.result.swap.bytes, 0) << schedule[0] << ", " << mode[0];
      if (mode[0].find("file") == std::string::npos) {
        const auto planned = static_cast<std::size_t>(log.result.planned_memory.at(0).swapped);
        EXPECT_EQ(log.result.most_swapped_bytes, planned) << schedule[0] << ", " << mode[0];
      }
    }
  }
}

TEST(Swap, MovesTheMicrobatchesWhoseBackwardIsFourSlotsAway) {
  const TemporaryFolder folder;
  const JobConfig job =
      tiny_job(folder.write("text", some_text()),
               {"parallel.pp=4", "model.num_hidden_layers=4", "batch.global_size=16", "steps=3", "swap={layers: all}"});
  const Schedule schedule = schedule_of_job(job);
  std::vector<int> offloads;
  std::vector<int> of_rank_one;
  for (const RankSteps& rank : schedule.ranks) {
    offloads.push_back(0);
    for (const MetaStep step : rank.steps) {
      if (step.type() != MetaStepType::LAUNCH_OFFLOAD) continue;
      ++offloads.back();
      if (offloads.size() == 2) of_rank_one.push_back(step.microbatch().value);
    }
  }
  EXPECT_EQ(offloads, (std::vector<int>{8, 6, 0, 0}));
  EXPECT_EQ(of_rank_one, (std::vector<int>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(run_job(job).result.swap.offloads, 3 * 8);
}

TEST(Swap, HalvesTheLiveActivationsOfTheFirstOfEightRanks) {
  const TemporaryFolder folder;
  const Sets sets = {"parallel.pp=8",
                     "model.num_hidden_layers=32",
                     "model.hidden_size=32",
                     "model.intermediate_size=64",
                     "data.sequence_length=32",
                     "batch.global_size=32",
                     "steps=2",
                     "log.memory=true"};
  const std::string text = folder.write("text", some_text());
  const JobConfig job = tiny_job(text, sets);
  const StageMemory chunk = stage_memory(model_of_job(job), {0, 4, true, false}, {2, 32, 4});
  const auto activations = [&](const Sets& more) {
    const MemoryPart measured = run_job(tiny_job(text, sets + more)).result.measured_memory.at(0);
    return (measured.peak - measured.between_steps) / static_cast<double>(chunk.saved_bytes);
  };
  EXPECT_GE(activations({}), 8.0);
  EXPECT_LE(activations({"swap={layers: all}"}), 4.0);
}

TEST(Swap, SaysWhichRankAndStepMetTheLimitOfTheTier) {
  const TemporaryFolder folder;
  const std::string text = folder.write("text", some_text());
  const Sets sets = kEightLayers + Sets{"parallel.pp=4", "checkpoint.folder=" + folder / "saved", "checkpoint.every=1"};
  run_job(tiny_job(text, sets + Sets{"steps=1"}));
  const JobConfig job = tiny_job(
      text, sets + Sets{"swap={layers: all, tier: file, limit_gib: 0.00001, folder: '" + folder.path() + "'}"});
  try {
    run_job(job);
    FAIL() << "the tier was large enough";
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_EQ(what.find("rank 0, step 1, 0LAUNCH_OFFLOAD"), 0U) << what;
    EXPECT_NE(what.find("'swap.limit_gib' allows 10737"), std::string::npos) << what;
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
  }
  // The checkpoint of the step before is whole: a run goes on from it.
  EXPECT_EQ(run_job(tiny_job(text, sets)).steps.size(), 1U);
}

TEST(Swap, RefusesAFolderThatCannotBeWrittenBeforeItTrains) {
  const TemporaryFolder folder;
  const std::string text = folder.write("text", some_text());
  const JobConfig job = tiny_job(text, {"swap={layers: all, tier: file, folder: '" + text + "/below'}"});
  try {
    run_job(job);
    FAIL() << "a file has no folders";
  } catch (const AgreedError& error) {
    EXPECT_NE(std::string(error.what()).find("swap.folder " + text + "/below: cannot be made: Not a directory"),
              std::string::npos)
        << error.what();
  }
}

TEST(SwapOfAuto, MovesNoMoreThanTheMemoryNeeds) {
  const TemporaryFolder folder;
  const std::string text = folder.write("text", some_text());
  const Sets sets = {"parallel.pp=2", "model.num_hidden_layers=8", "data.sequence_length=32", "batch.global_size=16",
                     "pipeline.schedule=gpipe"};
  const auto peak_with = [&](const Sets& more) {
    const JobConfig job = tiny_job(text, sets + more);
    const ModelSpec spec = model_of_job(job);
    const Schedule schedule = schedule_of_job(job);
    const ModelPlan plan = model_plan(job, spec, schedule);
    int swapped = 0;
    for (const LayerActivations& layer : plan.activations) swapped += layer.swapped ? 1 : 0;
    return std::pair{swapped, largest_total(plan_memory(schedule, memory_model(job, spec, plan)))};
  };
  const auto [none, most] = peak_with({});
  const auto [all, least] = peak_with({"swap={layers: all}"});
  EXPECT_EQ(none, 0);
  EXPECT_EQ(all, 8);
  ASSERT_LT(least, most);
  const double gib = 1024.0 * 1024.0 * 1024.0;
  const auto limited = [&](double bytes) {
    return peak_with({"swap={layers: auto}", fmt::format("memory_gib={:.9f}", bytes / gib)});
  };
  EXPECT_EQ(limited(static_cast<double>(most) * 1.01).first, 0);
  const double middle = static_cast<double>(most + least) / 2;
  const auto [some, fits] = limited(middle);
  EXPECT_GT(some, 0);
  EXPECT_LT(some, 8);
  EXPECT_LE(static_cast<double>(fits), middle);
}

}  // namespace
}  // namespace ppctl
