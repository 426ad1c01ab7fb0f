#include "simulate/memory_report.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ppctl {

std::string bytes_text(double bytes) {
  constexpr double kUnit = 1024.0;
  if (bytes >= kUnit * kUnit * kUnit) return fmt::format("{:.2f} GiB", bytes / (kUnit * kUnit * kUnit));
  if (bytes >= kUnit * kUnit) return fmt::format("{:.1f} MiB", bytes / (kUnit * kUnit));
  if (bytes >= kUnit) return fmt::format("{:.1f} KiB", bytes / kUnit);
  return fmt::format("{:.0f} B", bytes);
}

std::string memory_terms(const JobConfig& job) {
  std::string text = job.precision.param.empty() ? job.model.dtype : job.precision.param;
  if (job.parallel.dp_shard > 1) {
    text += fmt::format(", dp_shard {}, reduce {} in {}", job.parallel.dp_shard, job.fsdp.reduce, job.precision.reduce);
  }
  if (job.parallel.ep > 1) text += fmt::format(", ep {} with balanced routing", job.parallel.ep);
  return text;
}

std::string memory_summary(const MemoryReport& report) {
  const auto fullest = std::max_element(report.ranks.begin(), report.ranks.end(),
                                        [](const RankMemory& a, const RankMemory& b) { return a.total() < b.total(); });
  std::string text = fmt::format("{} on rank {} at {} ({})", bytes_text(static_cast<double>(fullest->total())),
                                 fullest - report.ranks.begin(), fullest->peak_step, report.terms);
  std::string over;
  for (std::size_t rank = 0; rank < report.ranks.size(); ++rank) {
    if (!report.fits(report.ranks[rank])) over += fmt::format("{}{}", over.empty() ? "" : ", ", rank);
  }
  if (!over.empty()) text += fmt::format("\n         more than {} on rank {}", bytes_text(report.limit_bytes), over);
  return text;
}

HtmlTable memory_table(const MemoryReport& report) {
  const auto any = [&](auto member) {
    return std::any_of(report.ranks.begin(), report.ranks.end(), [&](const RankMemory& r) { return r.*member > 0; });
  };
  const bool has_masters = any(&RankMemory::masters);
  const bool has_unsharded = any(&RankMemory::unsharded);
  HtmlTable table;
  table.title = "Memory";
  table.header = {"rank", "parameters"};
  if (has_unsharded) table.header.emplace_back("gathered");
  table.header.emplace_back("gradients");
  const bool has_folded = any(&RankMemory::encoder_gradients);
  if (has_folded) table.header.emplace_back("encoder's, by microbatch");
  if (has_masters) table.header.emplace_back("masters");
  for (const char* name : {"moments", "activations", "batch, tables", "receive buffers", "total", "peak at"}) {
    table.header.emplace_back(name);
  }
  const bool has_swapped = any(&RankMemory::swapped);
  if (has_swapped) table.header.insert(table.header.end() - 1, "swapped");
  const auto text = [](std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  for (std::size_t rank = 0; rank < report.ranks.size(); ++rank) {
    const RankMemory& memory = report.ranks[rank];
    std::vector<std::string> row = {fmt::format("{}", rank), text(memory.parameters)};
    if (has_unsharded) row.push_back(text(memory.unsharded));
    row.push_back(text(memory.gradients + memory.step_gradients));
    if (has_folded) row.push_back(text(memory.encoder_gradients));
    if (has_masters) row.push_back(text(memory.masters));
    row.push_back(text(memory.moments));
    row.push_back(text(memory.activations));
    row.push_back(text(memory.batch + memory.tables));
    row.push_back(text(memory.buffers));
    row.push_back(text(memory.total()));
    if (has_swapped) row.push_back(text(memory.swapped));
    row.push_back(memory.peak_step + (report.fits(memory) ? "" : "  does not fit"));
    table.rows.push_back(row);
  }
  return table;
}

}  // namespace ppctl
