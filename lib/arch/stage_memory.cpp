#include "arch/stage_memory.hpp"

#include <optional>
#include <utility>

#include "arch/declare.hpp"
#include "arch/family.hpp"
#include "arch/sketch_layers.hpp"

namespace ppctl {
namespace {

/// A stage as blueprint, and its forward and backward in the order of DecoderStage.
class SketchStage {
 public:
  SketchStage(const ModelSpec& spec, const StageRange& range) {
    if (range.has_embedding) embedding_ = embedding_config(spec);
    for (std::int64_t i = range.first_layer; i < range.last_layer; ++i) layers_.push_back(layer_config(spec, range, i));
    if (range.has_head) head_ = head_config(spec);
  }

  SketchTensor forward(SketchTensor input, const SketchTensor& ids, Sketch& sketch) const {
    SketchTensor x = embedding_ ? sketch_forward(*embedding_, ids, sketch) : std::move(input);
    for (const DecoderLayerConfig& layer : layers_) x = sketch_forward(layer, x, sketch);
    if (!head_) return x;
    sketch_forward(*head_, x, sketch);
    return {};
  }

  SketchTensor backward(SketchTensor output_grad, Sketch& sketch) const {
    SketchTensor dx = std::move(output_grad);
    if (head_) dx = sketch_backward(*head_, sketch);
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) dx = sketch_backward(*layer, dx, sketch);
    if (!embedding_) return dx;
    sketch_backward(*embedding_, dx, sketch);
    return {};
  }

 private:
  std::optional<TokenEmbeddingConfig> embedding_;
  std::vector<DecoderLayerConfig> layers_;
  std::optional<LanguageHeadConfig> head_;
};

/// Runs a step and says what it did to `account`.
template <class Step>
StepMemory measure(MemoryAccount& account, Step&& step) {
  const std::int64_t before = account.live();
  account.reset_peak();
  step();
  return {account.peak() - before, account.live() - before};
}

/// One microbatch's way through a stage.
class Passage {
 public:
  Passage(const SketchStage& stage, const StageRange& range, const SketchShape& shape, std::int64_t hidden_bytes,
          const StageEnds& ends)
      : stage_(stage),
        range_(range),
        hidden_bytes_(hidden_bytes),
        ends_(ends),
        sketch_{shape, tensors_, {}, {}},
        ids_(batch_, shape.tokens() * kIdBytes) {}
  Passage(const Passage&) = delete;
  Passage& operator=(const Passage&) = delete;

  void forward(StageMemory& memory) {
    SketchTensor input;
    if (!range_.has_embedding) input = {ends_.input_received ? inputs_ : tensors_, hidden_bytes_};
    SketchTensor output;
    memory.forward = measure(tensors_, [&] { output = stage_.forward(std::move(input), ids_, sketch_); });
    memory.input_held = inputs_.live() > 0 ? HeldUntil::kBackward : HeldUntil::kForward;
    memory.output_bytes = output.bytes();
    memory.saved.clear();
    for (const SketchTensor& tensor : sketch_.saved) memory.saved.push_back(tensor.bytes());
    memory.saved_bytes = tensors_.live() - output.bytes();
  }

  /// Whole, or the input's part of it.
  StepMemory backward(bool divided) {
    SketchTensor gradient;
    if (!range_.has_head) gradient = {ends_.gradient_received ? gradients_ : tensors_, hidden_bytes_};
    sketch_.defer = divided;
    SketchTensor input_grad;
    return measure(tensors_, [&] { input_grad = stage_.backward(std::move(gradient), sketch_); });
  }
  HeldUntil gradient_held() const { return gradients_.live() > 0 ? HeldUntil::kWeight : HeldUntil::kBackward; }
  std::int64_t queued_bytes() const { return tensors_.live(); }

  StepMemory backward_weight() {
    return measure(tensors_, [&] { sketch_.drain(); });
  }

 private:
  static constexpr std::int64_t kIdBytes = 8;

  // Accounts first: they outlive the tensors below.
  MemoryAccount tensors_, inputs_, gradients_, batch_;
  const SketchStage& stage_;
  const StageRange& range_;
  std::int64_t hidden_bytes_;
  StageEnds ends_;
  Sketch sketch_;
  SketchTensor ids_;
};

}  // namespace

StageMemory stage_memory(const ModelSpec& spec, const StageRange& range, const SketchShape& shape,
                         const StageEnds& ends) {
  const SketchStage stage(spec, range);
  const std::int64_t hidden_bytes = shape.tokens() * spec.hidden_size * shape.element_bytes;
  StageMemory memory;
  {
    Passage whole(stage, range, shape, hidden_bytes, ends);
    whole.forward(memory);
    memory.backward = whole.backward(/*divided=*/false);
    memory.gradient_held = whole.gradient_held();
  }
  Passage divided(stage, range, shape, hidden_bytes, ends);
  divided.forward(memory);
  memory.backward_input = divided.backward(/*divided=*/true);
  memory.divided_gradient_held = divided.gradient_held();
  memory.queued_bytes = divided.queued_bytes();
  memory.backward_weight = divided.backward_weight();
  return memory;
}

std::vector<GroupLayout> stage_groups(const ModelSpec& spec, const StageRange& range, std::int64_t element_bytes) {
  std::vector<GroupLayout> groups;
  if (range.has_embedding) groups.push_back(layout_of(embedding_config(spec), element_bytes));
  for (std::int64_t i = range.first_layer; i < range.last_layer; ++i) {
    groups.push_back(layout_of(layer_config(spec, i), element_bytes));
  }
  if (range.has_head) groups.push_back(layout_of(head_config(spec), element_bytes));
  return groups;
}

std::int64_t rotary_table_bytes(const ModelSpec& spec, const StageRange& range, std::int64_t sequence) {
  constexpr std::int64_t kFloat32 = 4;
  const bool has_layers = range.first_layer < range.last_layer;
  return has_layers && !spec.learned_positions ? 2 * sequence * (spec.head_dim / 2) * kFloat32 : 0;
}

}  // namespace ppctl
