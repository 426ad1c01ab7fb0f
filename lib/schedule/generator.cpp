#include "schedule/generator.hpp"

#include <fmt/ranges.h>

#include <array>
#include <vector>

#include "base/did_you_mean.hpp"
#include "base/error.hpp"
#include "schedule/generators/generators.hpp"

namespace ppctl {
namespace {

constexpr PlacementKind kLoop = PlacementKind::kLoop;
constexpr PlacementKind kV = PlacementKind::kV;
constexpr PlacementKind kBidirectional = PlacementKind::kBidirectional;

std::optional<std::string> accept_all(const ScheduleSpec&) { return std::nullopt; }

// name, summary, placement, default chunks, chunks fixed, splits backward, refuse, generate
constexpr auto kGenerators = std::to_array<GeneratorInfo>({
    {"gpipe", "all forwards, then all backwards", kLoop, 1, true, false, accept_all, generate::gpipe},
    {"1f1b", "one forward, one backward; GPipe's bubble in the memory of p microbatches", kLoop, 1, true, false,
     accept_all, generate::one_f_one_b},
    {"interleaved_1f1b", "VPP: 1f1b over several chunks a rank, the bubble divided by their number", kLoop, 2, false,
     false, generate::refuse_interleaved_1f1b, generate::interleaved_1f1b},
    {"looped_bfs", "gpipe over several chunks a rank", kLoop, 2, false, false, accept_all, generate::looped_bfs},
    {"zb_h1", "1f1b with weight gradients in the bubble; a third of it left, memory as 1f1b", kLoop, 1, true, true,
     accept_all, generate::zb_h1},
    {"zb_h2", "as zb_h1 with twice the warm-up; no bubble within a rank, twice the memory", kLoop, 1, true, true,
     accept_all, generate::zb_h2},
    {"interleaved_zb", "zb_h1 over several chunks a rank", kLoop, 2, false, true, accept_all, generate::interleaved_zb},
    {"zb_v", "two chunks in a V; no bubble within a rank, memory as 1f1b", kV, 2, true, true, accept_all,
     generate::zb_v},
    {"v_half", "two chunks in a V; half the memory of 1f1b", kV, 2, true, true, accept_all, generate::v_half},
    {"v_min", "two chunks in a V; a third of the memory of 1f1b", kV, 2, true, true, accept_all, generate::v_min},
    {"dualpipe", "microbatches enter at both ends; forward and backward in pairs, parameters twice", kBidirectional, 2,
     true, true, generate::refuse_dualpipe, generate::dualpipe},
    {"dualpipe_v", "dualpipe on a V; parameters once", kV, 2, true, true, generate::refuse_dualpipe_v,
     generate::dualpipe_v},
    {"auto", "the best order that a search finds for the costs and a memory limit (ZB-1p, ZB-2p)", kLoop, 1, false,
     true, generate::refuse_auto, generate::search},
});

std::vector<std::string_view> generator_names() {
  std::vector<std::string_view> names;
  for (const GeneratorInfo& info : kGenerators) names.push_back(info.name);
  return names;
}

/// Where a number of the spec is out of bounds for any schedule: what it must be.
std::optional<std::string> bad_size(const ScheduleSpec& spec) {
  if (spec.pp < 1 || spec.pp > MetaStep::kMaxRanks) {
    return fmt::format("pp must be 1 to {}, not {}", MetaStep::kMaxRanks, spec.pp);
  }
  if (spec.num_microbatches < 1 || spec.num_microbatches > MetaStep::kMaxMicrobatches) {
    return fmt::format("microbatches must be 1 to {}, not {}", MetaStep::kMaxMicrobatches, spec.num_microbatches);
  }
  if (spec.chunks < 1 || spec.chunks > MetaStep::kMaxStages / spec.pp) {
    return fmt::format("chunks must be 1 to {} with pp = {} (at most {} stages), not {}",
                       MetaStep::kMaxStages / spec.pp, spec.pp, MetaStep::kMaxStages, spec.chunks);
  }
  constexpr std::int64_t kMaxWork = 1'000'000'000;  // 24 GB of steps; also keeps counts of a rank's steps within an int
  const std::int64_t work = std::int64_t{spec.pp} * spec.chunks * spec.num_microbatches;
  if (work > kMaxWork) return fmt::format("pp x chunks x microbatches must be at most {}, not {}", kMaxWork, work);
  return std::nullopt;
}

/// Where an option was set that this schedule does not have, or a fixed number of chunks was changed.
std::optional<std::string> bad_option(const GeneratorInfo& info, const ScheduleSpec& spec) {
  if (info.chunks_fixed && spec.chunks != info.default_chunks) {
    return fmt::format("chunks must be {}, not {}", info.default_chunks, spec.chunks);
  }
  if (spec.group != 0 && info.name != "interleaved_1f1b") return "group is an option of interleaved_1f1b alone";
  if (spec.less_memory && info.name != "interleaved_1f1b") return "less_memory is an option of interleaved_1f1b alone";
  if (spec.memory_limit != 0 && info.name != "auto") return "memory_limit is an option of auto alone";
  return std::nullopt;
}

}  // namespace

std::span<const GeneratorInfo> generators() { return kGenerators; }

const GeneratorInfo* find_generator(std::string_view name) {
  for (const GeneratorInfo& info : kGenerators) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

Schedule generate_schedule(ScheduleSpec spec) {
  const GeneratorInfo* info = find_generator(spec.name);
  if (info == nullptr) {
    const std::vector<std::string_view> names = generator_names();
    throw_error("unknown schedule '{}'{}; schedules are: {}", spec.name, did_you_mean(spec.name, names),
                fmt::join(names, ", "));
  }
  if (const auto refusal = refuse_schedule(spec)) throw_error("schedule {}: {}", spec.name, *refusal);
  if (spec.chunks == 0) spec.chunks = info->default_chunks;
  return info->generate(spec);
}

std::optional<std::string> refuse_schedule(ScheduleSpec spec) {
  const GeneratorInfo* info = find_generator(spec.name);
  PPCTL_CHECK(info != nullptr, "a known schedule, not '{}'", spec.name);
  if (spec.chunks == 0) spec.chunks = info->default_chunks;
  std::optional<std::string> refusal = bad_size(spec);
  if (!refusal) refusal = bad_option(*info, spec);
  if (!refusal) refusal = info->refuse(spec);
  return refusal;
}

}  // namespace ppctl
