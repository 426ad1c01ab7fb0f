#pragma once

#include <string>
#include <vector>

#include "config/job_config.hpp"
#include "simulate/rank_memory.hpp"
#include "trace/html_report.hpp"

namespace ppctl {

/// What a plan says about memory.
struct MemoryReport {
  std::vector<RankMemory> ranks;  ///< by pipeline rank; of dp_shard ranks, the one with the largest shards
  std::string terms;              ///< "float32, dp_shard 2, reduce step"
  double limit_bytes = 0;         ///< of a rank; 0: none was given

  bool fits(const RankMemory& rank) const {
    return limit_bytes <= 0 || static_cast<double>(rank.total()) <= limit_bytes;
  }
};

/// The terms of a job.
std::string memory_terms(const JobConfig& job);

/// "1.5 GiB", "12.3 MiB", "4.0 KiB", "96 B".
std::string bytes_text(double bytes);

/// The fullest rank, when, and which ranks need more than the limit. One or two lines.
std::string memory_summary(const MemoryReport& report);
/// A line a rank.
HtmlTable memory_table(const MemoryReport& report);

}  // namespace ppctl
