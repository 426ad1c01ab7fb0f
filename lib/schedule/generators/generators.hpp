#pragma once

#include <optional>
#include <string>

#include "schedule/generator.hpp"

/// The generate functions (one a file of this folder) and the refusals that generator.cpp's table names.
namespace ppctl::generate {

Schedule gpipe(const ScheduleSpec& spec);
Schedule one_f_one_b(const ScheduleSpec& spec);

}  // namespace ppctl::generate
