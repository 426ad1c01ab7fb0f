#pragma once

#include <string>

#include "trace/timeline.hpp"

namespace ppctl {

struct SvgOptions {
  double width_px = 1400;  ///< of the whole drawing
  double row_px = 26;      ///< height of a rank
  double until_ms = 0;     ///< end of the time axis; 0: the timeline's end. For drawings that are compared by eye.
  int max_ranks = 64;      ///< more ranks leave out the middle ones
};

/// A timeline as an SVG document: a row a rank, steps coloured by kind (chunks of a rank by shade) with their
/// microbatch numbers, transfers and collectives as a thin strip below, idle shares at the right, a time axis and a
/// legend. Steps narrower than a fraction of a pixel are merged with their neighbours of the same kind, so that the
/// size is bounded by the drawing's area, not by the number of steps. Each step has a <title>, which viewers show under
/// the pointer.
std::string render_svg(const Timeline& timeline, const SvgOptions& options = {});

}  // namespace ppctl
