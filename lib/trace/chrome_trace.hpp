#pragma once

#include <iosfwd>
#include <span>

#include "trace/timeline.hpp"

namespace ppctl {

/// Writes timelines (of one or more steps or runs) as one Chrome trace: JSON that chrome://tracing and ui.perfetto.dev
/// open. Each timeline is a group of processes, one a rank, named "rank 2" or "<title> rank 2" where there are several;
/// lanes are its threads ("compute", "second thread", "communication"); each event has its name ("F3 s2"), category and
/// arguments (stage, microbatch, peer). Times are microseconds.
void write_chrome_trace(std::ostream& out, std::span<const Timeline> timelines);
void write_chrome_trace(std::ostream& out, const Timeline& timeline);

}  // namespace ppctl
