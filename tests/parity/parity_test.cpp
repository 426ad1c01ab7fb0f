#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "config/load.hpp"
#include "storage/safetensors.hpp"
#include "support/temporary_folder.hpp"
#include "support/train_run.hpp"

namespace ppctl {
namespace {

using test::run_job;
using test::RunLog;

/// The same for losses and norms as for the reference's own noise, times ten.
constexpr double kTolerance = 1e-5;
constexpr int kSteps = 20;
constexpr int kMicrobatches = 8;

std::string data_folder(const std::string& name) {
  return std::string(PPCTL_SOURCE_DIR) + "/tests/data/parity/" + name;
}

JobConfig parity_job(const std::string& name, std::vector<std::string> sets) {
  return load_config(std::string(PPCTL_SOURCE_DIR) + "/configs/parity/" + name + ".yaml", sets, schedule_rules()).job;
}

JobConfig parity_job(const std::string& name, int pp, const std::string& schedule) {
  return parity_job(name, {"parallel.pp=" + std::to_string(pp), "pipeline.schedule=" + schedule});
}

nlohmann::json reference_of(const std::string& name) {
  std::ifstream file(data_folder(name) + "/reference.json");
  return nlohmann::json::parse(file);
}

double norm_of(std::span<const std::byte> float32) {
  double squares = 0.0;
  for (std::size_t at = 0; at < float32.size(); at += sizeof(float)) {
    float value = 0.0F;
    std::memcpy(&value, float32.data() + at, sizeof value);
    squares += static_cast<double>(value) * value;
  }
  return std::sqrt(squares);
}

void expect_close(double got, double wanted, const std::string& what) {
  EXPECT_LE(std::abs(got - wanted), kTolerance * std::abs(wanted)) << what << ": " << got << ", reference " << wanted;
}

void expect_matches_reference(const RunLog& log, const std::string& name) {
  const nlohmann::json steps = reference_of(name).at("results").at("steps");
  ASSERT_EQ(log.steps.size(), static_cast<std::size_t>(kSteps));
  ASSERT_EQ(log.microbatches.size(), static_cast<std::size_t>(kSteps * kMicrobatches));
  for (std::size_t step = 0; step < kSteps; ++step) {
    const std::string where = name + ", step " + std::to_string(step);
    expect_close(log.steps[step].loss, steps[step].at("loss"), where + ", loss");
    expect_close(log.steps[step].grad_norm, steps[step].at("grad_norm"), where + ", gradient norm");
    expect_close(log.steps[step].lr, steps[step].at("lr"), where + ", lr");
    for (std::size_t i = 0; i < kMicrobatches; ++i) {
      const MicrobatchRecord& record = log.microbatches[step * kMicrobatches + i];
      EXPECT_EQ(record.step, static_cast<std::int64_t>(step));
      EXPECT_EQ(record.microbatch, static_cast<int>(i));
      expect_close(record.loss, steps[step].at("microbatch_losses").at(i), where + ", microbatch " + std::to_string(i));
    }
  }
}

class Parity : public testing::TestWithParam<const char*> {};

TEST_P(Parity, HoldsOnOneRankAndEveryPipelineGivesTheSameBits) {
  const std::string name = GetParam();
  const RunLog alone = run_job(parity_job(name, 1, "1f1b"));
  expect_matches_reference(alone, name);
  std::vector<int> sizes{1, 2, 3, 4};
  if (name == "llama-tiny") sizes.push_back(8);
  for (const int pp : sizes) {
    for (const char* schedule : {"gpipe", "1f1b"}) {
      const RunLog log = run_job(parity_job(name, pp, schedule));
      EXPECT_EQ(log.numbers(), alone.numbers()) << name << ", pp " << pp << ", " << schedule;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Parity,
                         testing::Values("llama-tiny", "llama-tied", "qwen3-tiny", "gpt2-tiny", "llava-tiny"),
                         [](const auto& test_case) {
                           std::string name = test_case.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(ParityOfSchedules, EverySplitScheduleAndPlacementGivesTheBitsOfOneRank) {
  const std::vector<double> alone = run_job(parity_job("llama-tiny", {"parallel.pp=1", "steps=3"})).numbers();
  for (const char* schedule : {"interleaved_1f1b", "looped_bfs", "zb_h1", "zb_h2", "interleaved_zb", "zb_v", "v_half",
                               "v_min", "dualpipe_v"}) {
    const JobConfig job =
        parity_job("llama-tiny", {"parallel.pp=2", "steps=3", std::string("pipeline.schedule=") + schedule});
    EXPECT_EQ(run_job(job).numbers(), alone) << schedule;
  }
}

TEST(ParityOfSchedules, DualPipeIsWithinRoundingSinceItSumsTwoHalves) {
  const std::vector<double> alone = run_job(parity_job("llama-tiny", {"parallel.pp=1", "steps=3"})).numbers();
  const std::vector<double> both =
      run_job(parity_job("llama-tiny", {"parallel.pp=4", "steps=3", "pipeline.schedule=dualpipe"})).numbers();
  ASSERT_EQ(both.size(), alone.size());
  for (std::size_t i = 0; i < both.size(); ++i) expect_close(both[i], alone[i], "number " + std::to_string(i));
}

TEST(ParityOfFewMicrobatches, OneTwoAndThreeOnFourRanksGiveTheLossesOfOneRank) {
  for (const int microbatches : {1, 2, 3}) {
    const std::vector<std::string> batch{"batch.global_size=" + std::to_string(2 * microbatches), "steps=4"};
    for (const char* schedule : {"gpipe", "1f1b"}) {
      auto sets = batch;
      sets.push_back("parallel.pp=1");
      const RunLog alone = run_job(parity_job("llama-tiny", sets));
      sets.back() = "parallel.pp=4";
      sets.push_back(std::string("pipeline.schedule=") + schedule);
      const RunLog split = run_job(parity_job("llama-tiny", sets));
      EXPECT_EQ(split.numbers(), alone.numbers()) << microbatches << " microbatches, " << schedule;
      EXPECT_EQ(split.microbatches.size(), static_cast<std::size_t>(4 * microbatches));
    }
    // One microbatch of all samples has the same mean.
    auto whole = batch;
    whole.insert(whole.end(), {"parallel.pp=1", "batch.microbatch_size=" + std::to_string(2 * microbatches)});
    auto cut = batch;
    cut.push_back("parallel.pp=4");
    const RunLog one = run_job(parity_job("llama-tiny", whole));
    const RunLog many = run_job(parity_job("llama-tiny", cut));
    for (std::size_t step = 0; step < one.steps.size(); ++step) {
      expect_close(many.steps[step].loss, one.steps[step].loss, "loss");
      expect_close(many.steps[step].grad_norm, one.steps[step].grad_norm, "gradient norm");
    }
  }
}

TEST(ParityOfImages, FrozenPartsKeepTheirBitsAndEveryPipelineGivesThoseOfOneRank) {
  for (const char* encoder : {"frozen", "projector_only"}) {
    const std::vector<std::string> sets{"steps=3", std::string("model.encoder=") + encoder};
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.end(), sets.begin(), sets.end());
      return parity_job("llava-tiny", more);
    };
    const RunLog alone = run_job(with({"parallel.pp=1"}));
    EXPECT_EQ(run_job(with({"parallel.pp=4"})).numbers(), alone.numbers()) << encoder;
    EXPECT_EQ(run_job(with({"parallel.pp=2", "pipeline.schedule=zb_h1", "pipeline.layers=auto"})).numbers(),
              alone.numbers())
        << encoder;
    const test::TemporaryFolder folder;
    JobConfig job = with({"parallel.pp=2"});
    job.checkpoint.folder = folder.path();
    job.checkpoint.export_when = "final";
    run_job(job);
    const SafetensorsFile before(data_folder("llava-tiny") + "/checkpoint/model.safetensors");
    const SafetensorsFile after(folder / "hf/model.safetensors");
    ASSERT_EQ(after.entries().size(), before.entries().size());
    for (const auto& [name, entry] : after.entries()) {
      const bool trained = name.starts_with("multi_modal_projector.") ||
                           (name.starts_with("language_model.") && std::string(encoder) == "frozen");
      EXPECT_NE(std::ranges::equal(after.bytes(entry), before.bytes(before.entries().at(name))), trained) << name;
    }
  }
}

TEST(ParityOfImages, UnusedTensorsStayAsTheyAreAndTheOthersArriveAtTheReference) {
  const nlohmann::json known = reference_of("llava-tiny").at("parameters").at("tensors");
  const test::TemporaryFolder folder;
  JobConfig job = parity_job("llava-tiny", {"parallel.pp=2", "parallel.dp_shard=2"});
  job.checkpoint.folder = folder.path();
  job.checkpoint.export_when = "final";
  run_job(job);
  const SafetensorsFile before(data_folder("llava-tiny") + "/checkpoint/model.safetensors");
  const SafetensorsFile after(folder / "hf/model.safetensors");
  int unused = 0;
  for (const auto& [name, entry] : after.entries()) {
    const auto& reference = known.at(name);
    const bool is_unused = reference.at(3).get<double>() == 0.0;  // the norm of its change
    unused += is_unused ? 1 : 0;
    EXPECT_EQ(std::ranges::equal(after.bytes(entry), before.bytes(before.entries().at(name))), is_unused) << name;
    if (is_unused) continue;
    // The gradient of a key's bias is zero but for rounding, which AdamW blows up: the reference knows by how much.
    const double tolerance = std::max(1e-3, 10 * reference.at(4).get<double>());
    EXPECT_NEAR(norm_of(after.bytes(entry)), reference.at(2).get<double>(), tolerance * reference.at(3).get<double>())
        << name;
  }
  EXPECT_EQ(unused, 18);
}

TEST(ParityOfMpipe, GivesTheBitsOfOneRankInBothModesWithAnyBodyAndFewerMicrobatchesThanRanks) {
  const auto numbers_of = [](std::vector<std::string> sets) {
    sets.push_back("steps=3");
    return run_job(parity_job("llava-tiny", sets)).numbers();
  };
  const std::string mpipe = "pipeline.schedule=mpipe_transpose";
  const std::vector<double> alone = numbers_of({"parallel.pp=1"});
  for (const char* layers : {"all", "0"}) {
    for (const char* mode : {"before_body", "just_in_time"}) {
      for (const char* pp : {"2", "4"}) {
        EXPECT_EQ(numbers_of({mpipe, std::string("mpipe.layers=") + layers, std::string("mpipe.mode=") + mode,
                              std::string("parallel.pp=") + pp}),
                  alone)
            << layers << ", " << mode << ", pp " << pp;
      }
    }
  }
  EXPECT_EQ(numbers_of({mpipe, "parallel.pp=3", "mpipe.body=zb_h1", "mpipe.backward=recompute"}), alone);
  EXPECT_EQ(numbers_of({mpipe, "parallel.pp=2", "mpipe.body=interleaved_1f1b", "pipeline.overlap_p2p=true"}), alone);
  EXPECT_EQ(numbers_of({mpipe, "parallel.pp=4", "batch.global_size=4"}),
            numbers_of({"parallel.pp=1", "batch.global_size=4"}));
  EXPECT_EQ(numbers_of({mpipe, "parallel.pp=4", "model.encoder=frozen"}),
            numbers_of({"parallel.pp=1", "model.encoder=frozen"}));
  EXPECT_EQ(numbers_of({mpipe, "parallel.pp=2", "parallel.dp_shard=2"}),
            numbers_of({"parallel.pp=1", "parallel.dp_shard=2"}));
  EXPECT_EQ(numbers_of({mpipe, "parallel.pp=2", "accumulate=2"}), numbers_of({"parallel.pp=1", "accumulate=2"}));
}

TEST(ParityOfReplicas, MatchTheReferenceWithTheBatchDividedOverThem) {
  for (const auto& [pp, dp] : {std::pair{1, 2}, std::pair{2, 2}, std::pair{1, 4}}) {
    const JobConfig job =
        parity_job("llama-tied", {"parallel.pp=" + std::to_string(pp), "parallel.dp_replicate=" + std::to_string(dp)});
    expect_matches_reference(run_job(job), "llama-tied");
  }
}

/// Trains a case and compares what is exported with the reference's final weights.
void expect_final_weights(const std::string& name, const std::vector<std::string>& sets) {
  const nlohmann::json known = reference_of(name).at("parameters").at("tensors");
  const test::TemporaryFolder folder;
  JobConfig job = parity_job(name, sets);
  job.checkpoint.folder = folder.path();
  job.checkpoint.export_when = "final";
  run_job(job);
  const SafetensorsFile file(folder / "hf/model.safetensors");
  EXPECT_EQ(file.entries().size(), known.size());
  for (const auto& [tensor, entry] : file.entries()) {
    // [norm before, norm of the step-0 gradient, norm after, norm of the change, noise of the change]
    const auto& reference = known.at(tensor);
    EXPECT_NEAR(norm_of(file.bytes(entry)), reference.at(2).get<double>(), 1e-3 * reference.at(3).get<double>())
        << tensor << ", " << name << ", " << sets.front();
  }
}

TEST(ParityOfFinalWeights, AreTheReferencesAfterTwentySteps) {
  expect_final_weights("llama-tiny", {"parallel.pp=4"});
  expect_final_weights("llama-tiny", {"parallel.pp=2", "parallel.dp_shard=2"});
  for (const char* name : {"mixtral-tiny", "mixtral-aux", "qwen3moe-tiny"}) {
    expect_final_weights(name, {"parallel.pp=2", "parallel.dp_shard=2", "parallel.ep=2"});
  }
}

}  // namespace
}  // namespace ppctl
