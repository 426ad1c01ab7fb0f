#pragma once

#include <memory>
#include <vector>

#include "model/layers/aux_loss.hpp"
#include "model/layers/decoder_layer.hpp"
#include "model/layers/language_head.hpp"
#include "model/layers/layer.hpp"
#include "model/layers/patch_embedding.hpp"
#include "model/layers/token_embedding.hpp"
#include "model/stage_module.hpp"

namespace ppctl {

/// What a stage is made of. An absent embedding or head is null.
struct DecoderParts {
  std::unique_ptr<TokenEmbedding> embedding;
  std::unique_ptr<PatchEmbedding> patches;  ///< instead of the embedding, in front of a vision tower
  std::vector<std::unique_ptr<Layer>> layers;
  std::unique_ptr<LanguageHead> head;
  std::unique_ptr<ParameterGroup> unused;  ///< parameters that are only kept
  bool needs_input_grad = true;            ///< whether the stage before waits for the gradient of its output
  AuxLossConfig aux_loss;                  ///< of the whole model
};

/// Consecutive layers of a decoder, with the embedding before them and the head behind where the stage has these. The
/// first stage reads "input_ids" from kwargs, or args[0]; that of a vision tower reads "pixel_values" from kwargs, or
/// its inputs where somebody else loaded them. The last reads "labels" from kwargs, already shifted (int64
/// [batch, sequence], -100 does not count), and gives logits where there are none. With an auxiliary loss the router
/// sums (see AuxLoss) are a second tensor between stages, and the gradient of their second row is one of the backward.
class DecoderStage : public StageModule {
 public:
  /// Allocates the groups and binds the layers. `seed` is that of dropout.
  DecoderStage(DecoderParts parts, std::uint64_t seed);

  TensorList forward(const Microbatch& microbatch, TensorList inputs, SavedActivations& saved,
                     LossReport* loss) override;
  TensorList backward(const Microbatch& microbatch, TensorList output_grads, SavedActivations& saved,
                      WeightGradQueue& queue) override;
  std::vector<ParameterGroup*> parameter_groups() override;
  void set_expert_exchange(ExpertExchange* exchange) override { exchange_ = exchange; }

 private:
  bool has_source() const { return parts_.embedding != nullptr || parts_.patches != nullptr; }
  bool source_trainable() const;
  at::Tensor run_source(const Microbatch& microbatch, const TensorList& inputs, const ForwardContext& context) const;
  /// The lowest unit whose backward is needed: -1 the embedding, then the layers, then the head. A stage that gets its
  /// input from another one gives its gradient back, unless nothing before it is trained.
  int lowest_needed() const;
  ExpertAccess experts_of(int layer) const { return {exchange_, layer == last_with_experts_}; }
  bool makes_aux_loss(const Microbatch& microbatch) const;

  DecoderParts parts_;
  AuxLoss aux_loss_;
  std::uint64_t seed_;
  ExpertExchange* exchange_ = nullptr;
  int last_with_experts_ = -1;
};

}  // namespace ppctl
