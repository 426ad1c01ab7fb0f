#pragma once

#include <string>
#include <vector>

#include "schedule/generator.hpp"
#include "topology/placement.hpp"

namespace ppctl {

/// What one stage costs, in milliseconds and bytes for one microbatch where nothing else is said. Stages may differ
/// (numbers of layers, embedding, head).
struct StageCosts {
  double forward_ms = 1.0;
  double dx_ms = 1.0;  ///< BACKWARD_INPUT; a whole BACKWARD costs dx_ms + dw_ms
  double dw_ms = 1.0;  ///< BACKWARD_WEIGHT
  double forward_exchange_ms =
      0;  ///< the part of forward_ms that is all-to-all, hidden beside the other half of an overlapped pair
  double backward_exchange_ms = 0;  ///< the same of dx_ms + dw_ms
  double exchanges = 0;             ///< all-to-alls in a forward, and as many in a backward; 0: not known
  double all_gather_ms = 0;         ///< UNSHARD, once a step
  double reduce_scatter_ms = 0;     ///< REDUCE_GRAD, once a step
  double activation_bytes =
      0;  ///< kept from the forward to the end of the backward (to BACKWARD_WEIGHT where that is apart)
  double unswapped_bytes = 0;  ///< of activation_bytes, what an offload leaves in memory
  double output_bytes = 0;     ///< the tensor that goes to the next stage; its gradient, which comes back, is as large
  double state_bytes = 0;      ///< parameters, gradients and optimizer state of the stage on one rank, all the time
};

/// A link between two ranks. A message arrives latency + bytes / bandwidth after it started; messages of one ordered
/// pair of ranks share the bandwidth one after the other, while latencies overlap.
struct LinkCosts {
  double latency_ms = 0;
  double bandwidth_gbps = 0;  ///< 10^9 bits a second; 0: unlimited
};

/// A link that differs from CostModel::link.
struct LinkOverride {
  PipelineRank from;
  PipelineRank to;
  LinkCosts costs;
};

/// What the simulator knows about a machine and a model. A plain value.
struct CostModel {
  std::vector<StageCosts> stages;  ///< one a stage of the placement
  double p2p_ms = 0;               ///< added to each dependency that crosses ranks, as the papers count it
  LinkCosts link;                  ///< on top of p2p_ms
  std::vector<LinkOverride> link_overrides;
  double overlap_factor =
      1.0;  ///< an OVERLAP_B_F costs this share of its B and F one after the other (less hidden exchange)
  /// How the halves of a pair without exchanges share their rank. false, as papers count: at once, so that both end
  /// when the pair does; true, as Executor runs them: first the backward, then the forward.
  bool pairs_in_turns = false;
  double offload_gbps = 0;        ///< 10^9 bits a second to and from host memory, each way; 0: unlimited
  double load_data_ms = 0;        ///< LOAD_DATA of one microbatch
  double encoder_forward_ms = 0;  ///< PREPROCESS_FORWARD of one microbatch
  double encoder_dx_ms = 0;       ///< PREPROCESS_BACKWARD_INPUT of one microbatch, a forward that it repeats included
  double encoder_dw_ms = 0;       ///< PREPROCESS_BACKWARD_WEIGHT; PREPROCESS_BACKWARD takes the sum of both
  bool rendezvous =
      false;  ///< true: a transfer starts when it is sent and its receive is posted; false: when it is sent
};

/// A model whose stages all cost the same.
CostModel uniform_costs(int num_stages, const StageCosts& stage, double p2p_ms = 0);

/// The model for another cut of the same work: `costs` has one set of costs a stage; the result has num_stages stages
/// whose times and bytes, except output_bytes, are scaled so that the sum over stages stays. Stage s of the result
/// takes the shape of the stage that covers its place. REQUIRES: costs.stages is not empty, num_stages >= 1.
CostModel resplit_costs(const CostModel& costs, int num_stages);

/// The forward of a microbatch through all stages, and the encoder where MPipe has it outside of them.
double whole_forward_ms(const CostModel& costs);
/// Multiplies the times of stages and encoder.
void scale_times(CostModel& costs, double factor);

/// What generators that search by cost see.
std::vector<ChunkCosts> chunk_costs(const CostModel& costs);
/// The mean over stages.
ChunkCosts mean_chunk_costs(const CostModel& costs);

/// Throws Error with one line if a cost is negative or not finite, or the number of stages is not that of the
/// placement.
void check_costs(const CostModel& costs, const Placement& placement);

}  // namespace ppctl
