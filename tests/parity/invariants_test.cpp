// What may not change a bit of a run: passes, accumulation, stopping and resuming; and labels that weigh the same on
// any replica.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "parity/ragged_samples.hpp"
#include "parity/training.hpp"

namespace ppctl::parity {
namespace {

std::string pp(int ranks) { return "parallel.pp=" + std::to_string(ranks); }
std::string schedule(std::string_view name) { return "pipeline.schedule=" + std::string(name); }

TEST(Invariants, PassesChangeNoBit) {
  const std::string one = bits(train("llama-tiny", {pp(1), "steps=4"}));
  for (const char* name : {"1f1b", "interleaved_1f1b"}) {
    for (const char* option : {"pipeline.overlap_p2p=true", "pipeline.duplex=true", "pipeline.split_backward=true"}) {
      EXPECT_EQ(bits(train("llama-tiny", {pp(4), schedule(name), option, "steps=4"})), one) << name << ", " << option;
    }
  }
}

TEST(Invariants, TwoAccumulatedBatchesOfFourMicrobatchesAreOneOfEight) {
  const std::vector<std::string> halves = {pp(2), "batch.global_size=8", "accumulate=2"};
  expect_reference(train("llama-tiny", halves), "llama-tiny", 1e-5);
  EXPECT_EQ(bits(train("llama-tiny", halves)), bits(train("llama-tiny", {pp(2)})));
}

TEST(Invariants, RaggedLabelsWeighTheSameOverTwoReplicas) {
  const auto samples = std::make_shared<RaggedSamples>();
  const std::vector<std::string> common = {"data.sequence_length=16", "batch.microbatch_size=1", "steps=6"};
  auto alone = common;
  alone.insert(alone.end(), {pp(1)});
  auto replicated = common;
  replicated.insert(replicated.end(), {pp(2), "parallel.dp_replicate=2"});
  const TrainingRun one = train("llama-tiny", alone, samples);
  const TrainingRun two = train("llama-tiny", replicated, samples);
  ASSERT_EQ(one.steps.size(), two.steps.size());
  for (std::size_t s = 0; s < one.steps.size(); ++s) {
    EXPECT_EQ(one.steps[s].num_labels, two.steps[s].num_labels);
    EXPECT_NEAR(one.steps[s].loss, two.steps[s].loss, 1e-6 * one.steps[s].loss);
    EXPECT_NEAR(one.steps[s].grad_norm, two.steps[s].grad_norm, 1e-5 * one.steps[s].grad_norm);
  }
  // Sample 3 has no label: that is no error, and no placeholder loss is averaged in.
  EXPECT_EQ(one.microbatches[3].num_labels, 0);
}

/// A folder of a test's own.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("ppctl-parity-" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

TEST(Invariants, ARunThatResumesGoesOnAsIfNothingHadHappened) {
  const Folder folder;
  const std::string whole = bits(train("llama-tied", {pp(2), "steps=8"}));
  const std::string keep = "checkpoint.folder=" + folder.path();
  const std::string first = bits(train("llama-tied", {pp(2), "steps=5", keep}));
  const std::string rest = bits(train("llama-tied", {pp(2), "steps=8", keep}));
  EXPECT_NE(first, whole);
  const auto lines_of_step = [](const std::string& text, int step) {
    std::string found;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind(std::to_string(step) + " ", 0) == 0) found += line + "\n";
    }
    return found;
  };
  for (int step = 0; step < 8; ++step) {
    EXPECT_EQ(lines_of_step(step < 5 ? first : rest, step), lines_of_step(whole, step)) << "step " << step;
  }
}

}  // namespace
}  // namespace ppctl::parity
