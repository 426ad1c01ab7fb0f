#pragma once

#include <string>
#include <vector>

#include "config/load.hpp"

namespace ppctl {

/// A job without faults.
inline const std::string kGoodJob =
    "name: tiny\n"                                                     // line 1
    "steps: 20\n"                                                      // 2
    "model: {family: llama, hidden_size: 64, num_hidden_layers: 8}\n"  // 3
    "data: {kind: tokens, path: tokens.bin, sequence_length: 32}\n"    // 4
    "batch: {global_size: 16, microbatch_size: 2}\n"                   // 5
    "parallel: {pp: 4}\n"                                              // 6
    "pipeline: {schedule: 1f1b}\n";                                    // 7

/// Rules as a front gives them: two schedules on a loop.
inline ScheduleRules two_schedules() {
  ScheduleRules rules;
  rules.names = {"gpipe", "1f1b", "interleaved_1f1b"};
  rules.num_stages = [](const JobConfig& job) {
    return std::optional<int>(job.parallel.pp * (job.pipeline.chunks > 0 ? job.pipeline.chunks : 1));
  };
  rules.refuse = [](const JobConfig& job) -> std::optional<std::string> {
    if (job.pipeline.schedule == "1f1b" && job.pipeline.chunks > 1)
      return "schedule 1f1b: chunks must be 1, not " + std::to_string(job.pipeline.chunks);
    return std::nullopt;
  };
  return rules;
}

inline JobConfig parse(const std::string& text, const std::vector<std::string>& sets = {}) {
  return parse_config(text, "job.yaml", sets, two_schedules()).job;
}

/// The whole text of what is wrong with a job; "" where nothing is.
inline std::string problems_of(const std::string& text, const std::vector<std::string>& sets = {}) {
  try {
    parse(text, sets);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

/// kGoodJob with one of its lines (from 1) replaced.
inline std::string with_line(int number, const std::string& line) {
  std::string text;
  std::size_t begin = 0;
  for (int i = 1; begin < kGoodJob.size(); ++i) {
    const std::size_t end = kGoodJob.find('\n', begin) + 1;
    text += i == number ? line + "\n" : kGoodJob.substr(begin, end - begin);
    begin = end;
  }
  return text;
}

}  // namespace ppctl
