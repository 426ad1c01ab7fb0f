#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "schedule/schedule.hpp"

namespace ppctl {

/// The text form of a step, as PyTorch's pipelining writes it: stage, action, microbatch. "2F0", "2B0", "2I0", "2W0",
/// "3SEND_F1", "3RECV_B1", "1UNSHARD"; composites list their sub-steps: "(3B1;2F4)OVERLAP_B_F". PyTorch's
/// "(2F4;3B1)OVERLAP_F_B" is read too.
std::string format_step(const RankSteps& rank, MetaStep step);
/// The text form of a step that is no composite.
std::string format_step(MetaStep step);

/// One line a rank, steps separated by commas; an empty cell is an idle column of PyTorch's compute-only form and is
/// skipped on reading.
void write_csv(std::ostream& out, const Schedule& schedule);

/// Reads a schedule from text. The placement is found from where stages are computed (loop, V or bidirectional; others
/// are refused); peers of sends and receives follow from it. Throws Error with file:line:column.
Schedule read_csv(std::string_view text, const std::string& file_name);

}  // namespace ppctl
