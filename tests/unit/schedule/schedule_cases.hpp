#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "schedule/generator.hpp"
#include "schedule/text.hpp"

namespace ppctl {

inline std::string csv_of(const Schedule& schedule) {
  std::ostringstream out;
  write_csv(out, schedule);
  return out.str();
}

/// Any spec that its schedule accepts: p <= 16, v <= 4, m <= 64.
inline rc::Gen<ScheduleSpec> accepted_specs() {
  const auto any_spec = rc::gen::exec([] {
    const auto all = generators();
    const GeneratorInfo& info = all[*rc::gen::inRange<std::size_t>(0, all.size())];
    ScheduleSpec spec;
    spec.name = std::string(info.name);
    spec.pp = *rc::gen::inRange(1, 17);
    spec.chunks = info.chunks_fixed ? info.default_chunks : *rc::gen::inRange(1, 5);
    spec.num_microbatches = *rc::gen::inRange(1, 65);
    if (spec.name == "dualpipe") {
      spec.pp = 2 * ((spec.pp + 1) / 2);
      spec.num_microbatches = 2 * std::max(spec.pp, spec.num_microbatches / 2);
    }
    if (spec.name == "dualpipe_v") spec.num_microbatches = std::max(2 * spec.pp, spec.num_microbatches);
    if (spec.name == "interleaved_1f1b") {
      spec.less_memory = *rc::gen::arbitrary<bool>();
      spec.group = *rc::gen::inRange(0, spec.num_microbatches + 1);
      if (info.refuse(spec)) spec.group = 0;
    }
    if (spec.name == "auto") spec.memory_limit = *rc::gen::inRange(0, 2 * spec.pp + 2);
    return spec;
  });
  return rc::gen::noShrink(any_spec);
}

inline std::string describe(const ScheduleSpec& spec) {
  return fmt::format("{} p={} v={} m={} group={} less_memory={} limit={}", spec.name, spec.pp, spec.chunks,
                     spec.num_microbatches, spec.group, spec.less_memory, spec.memory_limit);
}

}  // namespace ppctl
