#pragma once

#include <string>
#include <string_view>

#include "trace/timeline.hpp"

namespace ppctl {

/// How each kind is shown, everywhere the same.
struct EventStyle {
  std::string_view name;    ///< "forward", for legends and tooltips
  std::string_view letter;  ///< "F", for labels; empty for kinds without one
  std::string_view fill;    ///< "#rrggbb", of chunk 0; later chunks are drawn paler
  int ansi = 0;             ///< ANSI 256-colour background
};

const EventStyle& event_style(EventKind kind);

/// Every kind, in the order of legends.
inline constexpr int kNumEventKinds = static_cast<int>(EventKind::kOther) + 1;

/// The label of an event: the text form of its step ("2F0"), without the stage where `with_stage` is false ("F0").
std::string event_label(const TimelineEvent& event, bool with_stage);

/// Whether some rank computes more than one stage, so that labels need the stage.
bool has_several_stages_a_rank(const Timeline& timeline);

}  // namespace ppctl
