#include "trace/event_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ppctl {
namespace {

// Blue for forwards, warm colours for gradients: told apart also by those who see red and green alike.
constexpr std::array<EventStyle, kNumEventKinds> kStyles = {{
    {"forward", "F", "#5b8def", 75},
    {"backward", "B", "#f0a35e", 215},
    {"backward, input", "I", "#f3c969", 222},
    {"backward, weight", "W", "#8cc49a", 114},
    {"overlapped pair", "B", "#b48ad8", 140},
    {"send", "send", "#9aa7b5", 247},
    {"receive", "recv", "#c3ccd6", 251},
    {"wait", "", "#eceff2", 255},
    {"collective", "coll", "#5fb3b3", 73},
    {"offload", "off", "#c98f8f", 174},
    {"load", "load", "#d9b3b3", 181},
    {"load data", "D", "#a5a58d", 144},
    {"encoder forward", "E", "#4fb0d8", 74},
    {"encoder backward", "G", "#d98555", 173},
    {"encoder backward, input", "J", "#dba94a", 179},
    {"encoder backward, weight", "V", "#6fa383", 72},
    {"optimizer", "opt", "#7a7fa8", 103},
    {"other", "", "#d0d0d0", 252},
}};

}  // namespace

const EventStyle& event_style(EventKind kind) { return kStyles[static_cast<std::size_t>(kind)]; }

std::string event_label(const TimelineEvent& event, bool with_stage) {
  std::string label;
  if (with_stage && event.stage.valid()) label += fmt::format("{}", event.stage);
  label += event_style(event.kind).letter;
  if (event.microbatch.valid()) label += fmt::format("{}", event.microbatch);
  return label;
}

bool has_several_stages_a_rank(const Timeline& timeline) {
  return std::any_of(timeline.ranks.begin(), timeline.ranks.end(), [](const std::vector<TimelineEvent>& events) {
    StageId first;
    for (const TimelineEvent& event : events) {
      if (event.lane > 1 || !event.stage.valid()) continue;
      if (!first.valid()) first = event.stage;
      if (event.stage != first) return true;
    }
    return false;
  });
}

}  // namespace ppctl
