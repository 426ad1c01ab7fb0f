#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "schedule/schedule.hpp"

namespace ppctl {

/// Costs of one chunk (one stage and microbatch), in any one unit; searches (auto) and orders that look at costs use
/// them.
struct ChunkCosts {
  double forward = 1.0;
  double dx = 1.0;   ///< BACKWARD_INPUT
  double dw = 1.0;   ///< BACKWARD_WEIGHT
  double p2p = 0.0;  ///< added to a dependency that crosses ranks
};

/// What a generator is asked for.
struct ScheduleSpec {
  std::string name;
  int pp = 1;
  int chunks = 0;            ///< stages a rank; 0: the schedule's own default (1, or 2 where it needs it)
  int num_microbatches = 1;  ///< of one replica
  int group = 0;             ///< interleaved: microbatches a group (Megatron's variable group); 0: the default rounds
  bool less_memory = false;  ///< interleaved: the shallower warm-up
  double memory_limit = 0;   ///< auto: peak activations a rank, in microbatches of a rank's whole model part; 0: 2p
  double kept_for_weight = 0.4;  ///< auto: share of an activation that counts against the limit between BACKWARD_INPUT
                                 ///< and BACKWARD_WEIGHT; 1: all of it, as the peaks of verifier and simulator count
  ChunkCosts costs;              ///< auto (mean over stages)
  std::vector<ChunkCosts> stage_costs;  ///< auto: one a stage; empty: `costs` for each
};

/// One schedule that ppctl can generate. A new one is one file with a generate function and one line in generator.cpp's
/// table.
struct GeneratorInfo {
  std::string_view name;     ///< as in the job's YAML
  std::string_view summary;  ///< one line for --help
  PlacementKind placement;
  int default_chunks;
  bool chunks_fixed;     ///< whether another number of chunks than the default is refused
  bool splits_backward;  ///< whether it gives BACKWARD_INPUT and BACKWARD_WEIGHT
  /// Nothing, or why this spec cannot be generated: one line that says what the value must be.
  std::optional<std::string> (*refuse)(const ScheduleSpec&);
  /// Compute steps only, in each rank's order. DualPipe's fused pairs come as OVERLAP_B_F composites (backward,
  /// forward); the overlap pass keeps them when overlap_b_f is wanted and puts their sub-steps one after the other when
  /// not. REQUIRES: refuse(spec) is empty, spec.chunks > 0.
  Schedule (*generate)(const ScheduleSpec&);
};

/// All generators, in the order of the documentation.
std::span<const GeneratorInfo> generators();
/// The generator of that name, or null.
const GeneratorInfo* find_generator(std::string_view name);
/// Nothing, or why generate_schedule would refuse this spec: one line. REQUIRES: spec.name is a generator's.
std::optional<std::string> refuse_schedule(ScheduleSpec spec);
/// Checks the spec (unknown name, chunks, what the schedule requires; throws Error with one line) and generates.
Schedule generate_schedule(ScheduleSpec spec);

}  // namespace ppctl
