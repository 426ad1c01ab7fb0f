// Reading the text form. Three passes over small things: cells to steps, computed stages to a placement, placement to
// peers.
#include <fmt/ranges.h>
#include <algorithm>

#include <charconv>
#include <unordered_map>

#include "base/did_you_mean.hpp"
#include "base/error.hpp"
#include "schedule/text.hpp"
#include "schedule/text_form.hpp"

namespace ppctl {
namespace {

/// Where a step was read, for errors that only later passes can find.
struct Origin {
  int line = 0;
  int column = 0;
};

/// One rank's steps and, beside each step, where it was.
struct RankText {
  RankSteps steps;
  std::vector<Origin> origins;
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

/// A cell as an error shows it: short and printable, whatever is in the file.
std::string quoted(std::string_view cell) {
  constexpr std::size_t kShown = 60;
  std::string shown;
  for (const char c : cell.substr(0, kShown)) shown += c >= ' ' && c <= '~' ? c : '?';
  return fmt::format("'{}{}'", shown, cell.size() > kShown ? "..." : "");
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view take_digits(std::string_view& text) {
  const auto end = std::find_if_not(text.begin(), text.end(), is_digit);
  const std::string_view digits = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(digits.size());
  return digits;
}

/// Parses cells; knows where it is, to say so.
class CellParser {
 public:
  CellParser(const std::string& file, Origin origin, std::string_view cell)
      : file_(file), origin_(origin), cell_(cell) {}

  void parse(RankSteps& into) const {
    if (cell_.front() == '(') {
      parse_composite(into);
    } else {
      into.steps.push_back(parse_simple(cell_));
    }
  }

  [[noreturn]] void fail(const std::string& why) const {
    throw Error({file_, origin_.line, origin_.column}, fmt::format("{}: {}", quoted(cell_), why));
  }

 private:
  MetaStep parse_simple(std::string_view text) const {
    const std::string_view stage_digits = take_digits(text);
    if (stage_digits.empty()) fail("a step is written stage, action, microbatch, as in 2F0, 3SEND_F1 or 1UNSHARD");
    const auto letters_end = std::find_if(text.begin(), text.end(), is_digit);
    const std::string_view action = text.substr(0, static_cast<std::size_t>(letters_end - text.begin()));
    text.remove_prefix(action.size());
    const std::string_view microbatch_digits = take_digits(text);
    const MetaStepType type = parse_action(action);
    if (is_composite(type)) fail(fmt::format("{} lists its sub-steps, as in (3B1;2F4)OVERLAP_B_F", action));
    if (!text.empty()) fail(fmt::format("{} follows the microbatch", quoted(text)));
    const StageId stage(parse_number("stage", stage_digits, MetaStep::kMaxStages));
    if (!text_form::has_microbatch(type)) {
      if (!microbatch_digits.empty()) fail(fmt::format("{} has no microbatch", action));
      return MetaStep(type, stage);
    }
    if (microbatch_digits.empty()) fail(fmt::format("{} needs a microbatch after it", action));
    return MetaStep(type, stage,
                    MicrobatchId(parse_number("microbatch", microbatch_digits, MetaStep::kMaxMicrobatches)));
  }

  MetaStepType parse_action(std::string_view action) const {
    if (const auto type = text_form::type_of(action)) return *type;
    std::vector<std::string_view> names;
    for (int i = 0; i < kNumMetaStepTypes; ++i) names.push_back(text_form::spelling(static_cast<MetaStepType>(i)));
    fail(fmt::format("unknown action {}{}", quoted(action), action.size() > 2 ? did_you_mean(action, names) : ""));
  }

  int parse_number(std::string_view what, std::string_view digits, int count) const {
    int number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc() || number >= count) fail(fmt::format("{} must be 0 to {}", what, count - 1));
    return number;
  }

  void parse_composite(RankSteps& into) const {
    const std::size_t close = cell_.find(')');
    if (close == std::string_view::npos) fail("')' is missing");
    const std::string_view action = trimmed(cell_.substr(close + 1));
    std::vector<MetaStep> subs;
    std::string_view rest = cell_.substr(1, close - 1);
    while (true) {
      const std::size_t semicolon = rest.find(';');
      const std::string_view sub = trimmed(rest.substr(0, semicolon));
      if (sub.empty()) fail("an empty sub-step");
      subs.push_back(parse_simple(sub));
      if (semicolon == std::string_view::npos) break;
      rest.remove_prefix(semicolon + 1);
    }
    const MetaStepType type = action == "OVERLAP_F_B" ? MetaStepType::OVERLAP_B_F : parse_action(action);
    if (!is_composite(type)) fail(fmt::format("{} has no sub-steps", action));
    if (type == MetaStepType::OVERLAP_B_F) check_pair(subs);
    if (subs.size() > 255) fail(fmt::format("at most 255 sub-steps, not {}", subs.size()));
    into.push_composite(type, subs);
  }

  /// Puts a pair in the order in which ppctl keeps it, (backward, forward).
  void check_pair(std::vector<MetaStep>& subs) const {
    const auto is_backward = [](MetaStep step) {
      return step.type() == MetaStepType::BACKWARD || step.type() == MetaStepType::BACKWARD_INPUT;
    };
    if (subs.size() == 2 && is_backward(subs[1])) std::swap(subs[0], subs[1]);
    if (subs.size() != 2 || !is_backward(subs[0]) || subs[1].type() != MetaStepType::FORWARD) {
      fail("an overlapped pair is one B or I and one F");
    }
  }

  const std::string& file_;
  Origin origin_;
  std::string_view cell_;
};

RankText parse_line(std::string_view line, int line_number, const std::string& file) {
  RankText rank;
  std::size_t begin = 0;
  while (begin <= line.size()) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    const std::string_view cell = trimmed(line.substr(begin, end - begin));
    if (!cell.empty()) {
      const Origin origin{line_number, static_cast<int>(cell.data() - line.data()) + 1};
      CellParser(file, origin, cell).parse(rank.steps);
      rank.origins.push_back(origin);
    }
    begin = end + 1;
  }
  return rank;
}

std::vector<RankText> parse_lines(std::string_view text, const std::string& file) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  if (trimmed(text).empty()) throw Error({file}, "no steps: a schedule has one line a rank, steps separated by commas");
  std::vector<RankText> ranks;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (ranks.size() == MetaStep::kMaxRanks)
      throw Error({file}, fmt::format("more than {} lines", MetaStep::kMaxRanks));
    ranks.push_back(parse_line(text.substr(begin, end - begin), static_cast<int>(ranks.size()) + 1, file));
    begin = end + 1;
  }
  return ranks;
}

/// Calls visit(step, origin) for every step that is no composite, sub-steps included, in order.
template <class Visit>
void for_each_simple(const RankText& rank, const Visit& visit) {
  for (std::size_t i = 0; i < rank.steps.steps.size(); ++i) {
    const MetaStep step = rank.steps.steps[i];
    if (!is_composite(step.type())) {
      visit(step, rank.origins[i]);
      continue;
    }
    for (const MetaStep sub : rank.steps.sub_steps_of(step)) visit(sub, rank.origins[i]);
  }
}

/// The stages that a rank computes, ascending.
std::vector<int> computed_stages(const RankText& rank) {
  std::vector<int> stages;
  int last = -1;
  for_each_simple(rank, [&](MetaStep step, Origin) {
    if (!is_compute(step.type()) || step.stage().value == last) return;
    last = step.stage().value;
    const auto place = std::lower_bound(stages.begin(), stages.end(), last);
    if (place == stages.end() || *place != last) stages.insert(place, last);
  });
  return stages;
}

bool holds(const Placement& placement, const std::vector<std::vector<int>>& stages) {
  for (int r = 0; r < placement.pp(); ++r) {
    std::vector<int> expected;
    for (const StageId stage : placement.stages_of(PipelineRank(r))) expected.push_back(stage.value);
    std::sort(expected.begin(), expected.end());
    if (expected != stages[static_cast<std::size_t>(r)]) return false;
  }
  return true;
}

Placement find_placement(const std::vector<RankText>& ranks, const std::string& file) {
  std::vector<std::vector<int>> stages;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    stages.push_back(computed_stages(ranks[r]));
    if (stages.back().empty()) {
      throw Error({file, static_cast<int>(r) + 1, 1}, fmt::format("rank {} computes nothing", r));
    }
  }
  const int pp = static_cast<int>(ranks.size());
  const int chunks = static_cast<int>(stages[0].size());
  std::vector<Placement> candidates = {Placement(PlacementKind::kLoop, pp, chunks)};
  if (chunks == 2) candidates.emplace_back(PlacementKind::kV, pp, 2);
  if (chunks == 2 && pp % 2 == 0) candidates.emplace_back(PlacementKind::kBidirectional, pp, 2);
  for (const Placement& placement : candidates) {
    if (holds(placement, stages)) return placement;
  }
  for (int r = 0; r < pp; ++r) {
    const auto& computed = stages[static_cast<std::size_t>(r)];
    std::vector<int> loop;
    for (int chunk = 0; chunk < chunks; ++chunk) loop.push_back(chunk * pp + r);
    if (computed == loop) continue;
    throw Error(
        {file, r + 1, 1},
        fmt::format("rank {} computes stages {}; with {} ranks the stages must lie as a loop (rank {} has {}), as a V "
                    "(stages r and {} - r on rank r) or in two directions (stages r and {} - r)",
                    r, fmt::join(computed, ", "), pp, r, fmt::join(loop, ", "), 2 * pp - 1, pp - 1));
  }
  PPCTL_CHECK(false, "a loop was not found to be one");
}

/// Gives communication steps their peers.
class PeerFinder {
 public:
  PeerFinder(const Schedule& schedule, const std::string& file) : schedule_(schedule), file_(file) {}

  /// Learns which rank works for the consumers of MPipe's data and features.
  void learn_owners(const RankText& rank, PipelineRank at) {
    for_each_simple(rank, [&](MetaStep step, Origin) {
      const MetaStepType type = step.type();
      const bool owner_side = type == MetaStepType::SEND_DATA || type == MetaStepType::SEND_FEATURES ||
                              type == MetaStepType::RECV_FEATURE_GRADS;
      if (owner_side) owners_[step.microbatch().value] = at;
    });
  }

  MetaStep with_peer(MetaStep step, Origin origin) const {
    switch (step.type()) {
      case MetaStepType::SEND_FORWARD:
      case MetaStepType::RECV_BACKWARD:
        return with_stage_peer(step, step.stage().value + 1, origin);
      case MetaStepType::RECV_FORWARD:
      case MetaStepType::SEND_BACKWARD:
        return with_stage_peer(step, step.stage().value - 1, origin);
      case MetaStepType::SEND_DATA:
      case MetaStepType::SEND_FEATURES:
      case MetaStepType::RECV_FEATURE_GRADS:
        return with_stage_peer(step, step.stage().value, origin);
      case MetaStepType::RECV_DATA:
      case MetaStepType::RECV_FEATURES:
      case MetaStepType::SEND_FEATURE_GRADS:
        return with_owner_peer(step, origin);
      default:
        return step;
    }
  }

  [[noreturn]] void fail(Origin origin, const std::string& why) const {
    throw Error({file_, origin.line, origin.column}, why);
  }

 private:
  MetaStep with_stage_peer(MetaStep step, int stage, Origin origin) const {
    if (stage < 0 || stage >= schedule_.num_stages()) {
      fail(origin, fmt::format("{}: there is no stage {} on the other side; the schedule's stages are 0 to {}",
                               format_step(step), stage, schedule_.num_stages() - 1));
    }
    const auto peer = schedule_.placement.rank_of(StageId(stage), step.microbatch(), schedule_.num_microbatches);
    return MetaStep(step.type(), step.stage(), step.microbatch(), peer);
  }

  MetaStep with_owner_peer(MetaStep step, Origin origin) const {
    const auto owner = owners_.find(step.microbatch().value);
    if (owner == owners_.end()) fail(origin, fmt::format("{}: no rank has the other side of it", format_step(step)));
    return MetaStep(step.type(), step.stage(), step.microbatch(), owner->second);
  }

  const Schedule& schedule_;
  const std::string& file_;
  std::unordered_map<int, PipelineRank> owners_;
};

/// Gives every step of a rank its peer, and every batch the one peer of its sub-steps.
void set_peers(RankText& rank, const PeerFinder& finder) {
  for (std::size_t i = 0; i < rank.steps.steps.size(); ++i) {
    MetaStep& step = rank.steps.steps[i];
    const Origin origin = rank.origins[i];
    if (!is_composite(step.type())) {
      step = finder.with_peer(step, origin);
      continue;
    }
    if (step.type() != MetaStepType::BATCH_SEND_RECV) continue;
    PipelineRank peer;
    for (int k = 0; k < step.sub_count(); ++k) {
      MetaStep& sub = rank.steps.sub_steps[step.sub_index() + static_cast<std::uint32_t>(k)];
      sub = finder.with_peer(sub, origin);
      if (!sub.peer().valid()) finder.fail(origin, fmt::format("{} is no send or receive", format_step(sub)));
      if (k > 0 && sub.peer() != peer) {
        finder.fail(origin, fmt::format("a batch has one peer, but {} is with rank {} and those before it with rank {}",
                                        format_step(sub), sub.peer(), peer));
      }
      peer = sub.peer();
    }
    step = MetaStep::composite(step.type(), step.sub_index(), step.sub_count(), peer);
  }
}

/// In two directions the microbatch decides the rank as well.
void check_computed_here(const RankText& rank, PipelineRank at, const Schedule& schedule, const std::string& file) {
  for_each_simple(rank, [&](MetaStep step, Origin origin) {
    if (!is_compute(step.type())) return;
    const auto home = schedule.placement.rank_of(step.stage(), step.microbatch(), schedule.num_microbatches);
    if (home == at) return;
    throw Error(
        {file, origin.line, origin.column},
        fmt::format("{} belongs to rank {}: the first half of {} microbatches enters at rank 0, the second at rank {}",
                    format_step(step), home, schedule.num_microbatches, schedule.pp() - 1));
  });
}

}  // namespace

Schedule read_csv(std::string_view text, const std::string& file_name) {
  std::vector<RankText> ranks = parse_lines(text, file_name);
  Schedule schedule;
  schedule.name = file_name;
  schedule.placement = find_placement(ranks, file_name);
  for (const RankText& rank : ranks) {
    for_each_simple(rank, [&](MetaStep step, Origin) {
      if (is_compute(step.type()))
        schedule.num_microbatches = std::max(schedule.num_microbatches, step.microbatch().value + 1);
    });
  }
  PeerFinder finder(schedule, file_name);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const PipelineRank at(static_cast<int>(r));
    if (schedule.placement.kind() == PlacementKind::kBidirectional) {
      check_computed_here(ranks[r], at, schedule, file_name);
    }
    finder.learn_owners(ranks[r], at);
  }
  for (RankText& rank : ranks) {
    set_peers(rank, finder);
    schedule.ranks.push_back(std::move(rank.steps));
  }
  return schedule;
}

}  // namespace ppctl
