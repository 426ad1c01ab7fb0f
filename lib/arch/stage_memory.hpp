#pragma once

#include <cstdint>
#include <vector>

#include "arch/model_spec.hpp"
#include "arch/parameter.hpp"
#include "arch/sketch.hpp"
#include "arch/stage_range.hpp"

namespace ppctl {

/// What one step of a stage does to the memory of tensors, in bytes.
struct StepMemory {
  std::int64_t peak = 0;    ///< the most that was live during it, above what was live before
  std::int64_t change = 0;  ///< live after it, less live before; its outputs are live after it
};

/// When the memory of what a stage received is let go of.
enum class HeldUntil { kForward, kBackward, kWeight };

/// What one microbatch costs a stage. Its input, and the gradient of its output, are live when a step that takes them
/// begins; they are counted as tensors where they come from a stage of the same rank, else they lie in the receive
/// buffers of an edge, which are counted elsewhere.
struct StageMemory {
  StepMemory forward;
  StepMemory backward;
  StepMemory backward_input;
  StepMemory backward_weight;
  std::int64_t output_bytes = 0;                           ///< of what goes to the next stage; 0 at the last one
  HeldUntil input_held = HeldUntil::kBackward;             ///< received inputs
  HeldUntil gradient_held = HeldUntil::kBackward;          ///< received gradients, where the backward is whole
  HeldUntil divided_gradient_held = HeldUntil::kBackward;  ///< where it is divided into input and weight
  std::vector<std::int64_t> saved;  ///< bytes of each tensor of SavedActivations, in order, aliases included
  std::int64_t saved_bytes = 0;     ///< of their memory, each once, without the stage's input and token ids
  std::int64_t swapped_bytes = 0;   ///< of saved_bytes, what a swap moves
  std::int64_t queued_bytes = 0;    ///< kept from BACKWARD_INPUT to BACKWARD_WEIGHT, without received gradients
};

/// Whether what comes from other stages comes from other ranks.
struct StageEnds {
  bool input_received = true;
  bool gradient_received = true;
  /// Of a stage with the patch embedding: its images are a tensor of this rank, let go of once they are embedded. Else
  /// they are the batch's.
  bool images_given = false;
};

/// Of the hidden state in front of a layer (behind the last one: spec.num_layers).
std::int64_t hidden_bytes(const ModelSpec& spec, std::int64_t layer, const SketchShape& shape);

/// Of the images of a microbatch, in float32.
std::int64_t pixel_bytes(const ModelSpec& spec, const SketchShape& shape);

StageMemory stage_memory(const ModelSpec& spec, const StageRange& range, const SketchShape& shape,
                         const StageEnds& ends = {});

/// What a boundary carries beside activations, or beside their gradient: the router sums of the auxiliary loss.
std::int64_t boundary_aux_bytes(const ModelSpec& spec, bool gradient);

/// The groups of parameters of a stage, in forward order.
std::vector<GroupLayout> stage_groups(const ModelSpec& spec, const StageRange& range, std::int64_t element_bytes);

/// Bytes of the tables of cos and sin that the layers of a stage share.
std::int64_t rotary_table_bytes(const ModelSpec& spec, const StageRange& range, std::int64_t sequence);

}  // namespace ppctl
