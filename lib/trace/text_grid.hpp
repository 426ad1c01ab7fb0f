#pragma once

#include <string>

#include "trace/timeline.hpp"

namespace ppctl {

struct TextGridOptions {
  int width = 160;      ///< columns of the whole grid, rank names included; a longer timeline leaves out its middle
  int max_ranks = 32;   ///< more ranks leave out the middle ones
  bool colour = false;  ///< ANSI colours by kind
};

/// A timeline as aligned text, one line a rank and time from left to right: each compute step is its label, drawn as
/// long as it took
/// ("B0---"), idle time is dots. The shortest step that can be read sets the scale. Lane 0 is drawn; an overlapped pair
/// shows both parts.
std::string render_text_grid(const Timeline& timeline, const TextGridOptions& options = {});

}  // namespace ppctl
