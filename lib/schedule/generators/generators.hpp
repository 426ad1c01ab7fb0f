#pragma once

#include <optional>
#include <string>

#include "schedule/generator.hpp"

/// The generate functions (one a file of this folder) and the refusals that generator.cpp's table names.
namespace ppctl::generate {

Schedule gpipe(const ScheduleSpec& spec);
Schedule one_f_one_b(const ScheduleSpec& spec);
Schedule interleaved_1f1b(const ScheduleSpec& spec);
Schedule looped_bfs(const ScheduleSpec& spec);
Schedule zb_h1(const ScheduleSpec& spec);
Schedule zb_h2(const ScheduleSpec& spec);
Schedule interleaved_zb(const ScheduleSpec& spec);
Schedule zb_v(const ScheduleSpec& spec);
Schedule v_half(const ScheduleSpec& spec);
Schedule v_min(const ScheduleSpec& spec);
Schedule dualpipe(const ScheduleSpec& spec);
Schedule dualpipe_v(const ScheduleSpec& spec);
Schedule search(const ScheduleSpec& spec);

std::optional<std::string> refuse_interleaved_1f1b(const ScheduleSpec& spec);
std::optional<std::string> refuse_dualpipe(const ScheduleSpec& spec);
std::optional<std::string> refuse_dualpipe_v(const ScheduleSpec& spec);
std::optional<std::string> refuse_auto(const ScheduleSpec& spec);

}  // namespace ppctl::generate
