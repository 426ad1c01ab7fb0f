#pragma once

#include <fmt/format.h>
#include <rapidcheck.h>

#include <string>

#include "schedule/generator.hpp"
#include "schedule/pass.hpp"

namespace ppctl::testing {

/// A spec that its generator accepts, with p <= 16, v <= 4, m <= 64.
inline ScheduleSpec any_spec() {
  const auto all = generators();
  const auto below = [](int begin, int end) {
    return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(begin, end));
  };
  ScheduleSpec spec;
  do {
    const GeneratorInfo& generator = all[static_cast<std::size_t>(below(0, static_cast<int>(all.size())))];
    spec = {};
    spec.name = std::string(generator.name);
    spec.pp = below(1, 17);
    spec.num_microbatches = below(1, 65);
    if (!generator.chunks_fixed) spec.chunks = below(1, 5);
  } while (refuse_schedule(spec).has_value());
  return spec;
}

/// The six optional passes by the bits of a number below 64, with any details.
inline PassOptions any_options(int passes) {
  const auto below = [](int begin, int end) {
    return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(begin, end));
  };
  PassOptions options;
  options.split_backward = passes & 1;
  options.overlap_b_f = passes & 2;
  options.overlap_p2p = passes & 4;
  options.duplex = passes & 8;
  options.fsdp = passes & 16;
  options.swap = passes & 32;
  options.reshard_after_forward = below(0, 2) == 1;
  options.reduce_every_microbatch = below(0, 2) == 1;
  options.unshard_lookahead = below(1, 5);
  options.swap_distance = below(3, 8);
  return options;
}

inline std::string describe(const ScheduleSpec& spec, const PassOptions& options) {
  return fmt::format("{} p={} v={} m={} split={} overlap_b_f={} overlap_p2p={} duplex={} fsdp={}/{}/{}/{} swap={}/{}",
                     spec.name, spec.pp, spec.chunks, spec.num_microbatches, options.split_backward,
                     options.overlap_b_f, options.overlap_p2p, options.duplex, options.fsdp,
                     options.reshard_after_forward, options.reduce_every_microbatch, options.unshard_lookahead,
                     options.swap, options.swap_distance);
}

}  // namespace ppctl::testing
