// Jobs with random damage: each is read, or refused with a position. Deterministic.

#include <gtest/gtest.h>

#include <random>

#include "unit/config/job_text.hpp"

namespace ppctl {
namespace {

const std::string kSeedJob = with_line(4, "data: {path: a.txt, eval_fraction: 0.1}") +
                             "x-e: &e {every: 3}\n"
                             "eval: *e\n"
                             "recompute: {attention: true, every: 2}\n"
                             "optimizer: {lr: 1.0e-3, betas: [0.9, 0.95]}\n"
                             "log:\n  <<: *e\n  json: run.jsonl\n"
                             "sample:\n  prompt: |\n    Once upon\n    a time\n";

/// One to four edits: bytes changed, dropped, doubled, or pieces moved.
std::string damage(const std::string& text, std::mt19937& random) {
  static const std::string kBytes = "{}[]:,&*!|>'\"%@`#-? \n\t\r0123456789abcxyz.~<\\\0\xff\xc3";
  std::string damaged = text;
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  for (std::size_t edits = 1 + below(4); edits > 0 && !damaged.empty(); --edits) {
    const std::size_t at = below(damaged.size());
    const std::size_t length = std::min(damaged.size() - at, 1 + below(12));
    switch (below(4)) {
      case 0:
        damaged[at] = kBytes[below(kBytes.size())];
        break;
      case 1:
        damaged.erase(at, length);
        break;
      case 2:
        damaged.insert(at, damaged.substr(below(damaged.size()), length));
        break;
      default:
        damaged.insert(at, 1, kBytes[below(kBytes.size())]);
        break;
    }
  }
  return damaged;
}

TEST(Mutation, EveryDamagedJobIsReadOrRefusedWithAPosition) {
  std::mt19937 random(20240229);
  int num_read = 0;
  int num_refused = 0;
  for (int i = 0; i < 6000; ++i) {
    const std::string text = damage(kSeedJob, random);
    try {
      parse(text);
      ++num_read;
    } catch (const ConfigError& error) {
      ASSERT_TRUE(error.position().has_value()) << text;
      ASSERT_GE(error.position()->line, 1) << text;
      ASSERT_GE(error.position()->column, 1) << text;
      ASSERT_TRUE(std::string(error.what()).starts_with("job.yaml:")) << error.what();
      ++num_refused;
    }
  }
  // The damage must be of both kinds for the test to say anything.
  EXPECT_GT(num_read, 100);
  EXPECT_GT(num_refused, 3000);
}

TEST(Mutation, EveryPrefixOfAJobIsReadOrRefusedWithAPosition) {
  for (std::size_t length = 0; length < kSeedJob.size(); ++length) {
    const std::string problems = problems_of(kSeedJob.substr(0, length));
    EXPECT_TRUE(problems.empty() || problems.starts_with("job.yaml:")) << problems;
  }
}

TEST(Mutation, EveryDamagedSetIsTakenOrRefused) {
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    const std::string set = damage("pipeline.layers=[2, 2, 2, 2]", random);
    const std::string problems = problems_of(kGoodJob, {set});
    EXPECT_TRUE(problems.empty() || problems.starts_with("--set ") || problems.starts_with("job.yaml:")) << problems;
  }
}

}  // namespace
}  // namespace ppctl
