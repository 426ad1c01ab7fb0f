#include "arch/stage_memory.hpp"

#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "arch/declare.hpp"
#include "arch/family.hpp"
#include "arch/sketch_layers.hpp"

namespace ppctl {
namespace {

constexpr std::int64_t kSumBytes = 8;  // router sums are float64

/// What goes from a stage to the next, or back: activations, and with an auxiliary loss what belongs to it.
struct SketchBoundary {
  SketchTensor hidden;
  SketchTensor aux;

  std::int64_t bytes() const { return hidden.bytes() + aux.bytes(); }
};

/// A stage as blueprint, and its forward and backward in the order of DecoderStage.
class SketchStage {
 public:
  SketchStage(const ModelSpec& spec, const StageRange& range)
      : sums_bytes_(boundary_aux_bytes(spec, /*gradient=*/false)),
        sums_grad_bytes_(boundary_aux_bytes(spec, /*gradient=*/true)) {
    if (range.has_embedding) embedding_ = embedding_config(spec);
    for (std::int64_t i = range.first_layer; i < range.last_layer; ++i) {
      layers_.push_back({layer_config(spec, range, i), range.activations_of(i).swapped});
    }
    if (range.has_head) head_ = head_config(spec);
  }

  SketchBoundary forward(SketchBoundary input, const SketchTensor& ids, Sketch& sketch) const {
    SketchTensor sums;
    if (sums_bytes_ > 0) sums = {sketch.account, sums_bytes_};
    input.aux = {};
    SketchTensor x = embedding_ ? sketch_forward(*embedding_, ids, sketch) : std::move(input.hidden);
    for (const SketchLayer& layer : layers_) {
      const std::size_t begin = sketch.saved.size();
      x = sketch_forward(layer.config, x, sketch);
      if (layer.swapped) sketch.swapped.emplace_back(begin, sketch.saved.size());
    }
    if (!head_) return {x, sums};
    sketch_forward(*head_, x, sketch);
    if (sums_bytes_ > 0) sketch.save({sketch.account, sums_grad_bytes_});
    return {};
  }

  SketchBoundary backward(SketchBoundary output_grad, Sketch& sketch) const {
    SketchTensor sums_grad;
    if (sums_bytes_ > 0) sums_grad = head_ ? sketch.pop() : sketch.copy_of(output_grad.aux);
    output_grad.aux = {};
    SketchTensor dx = std::move(output_grad.hidden);
    if (head_) dx = sketch_backward(*head_, sketch);
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
      dx = sketch_backward(layer->config, dx, sketch);
    }
    if (!embedding_) return {dx, sums_grad};
    sketch_backward(*embedding_, dx, sketch);
    return {};
  }

 private:
  struct SketchLayer {
    DecoderLayerConfig config;
    bool swapped;
  };

  std::int64_t sums_bytes_;
  std::int64_t sums_grad_bytes_;
  std::optional<TokenEmbeddingConfig> embedding_;
  std::vector<SketchLayer> layers_;
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
          std::int64_t aux_bytes, std::int64_t aux_grad_bytes, const StageEnds& ends)
      : stage_(stage),
        range_(range),
        hidden_bytes_(hidden_bytes),
        aux_bytes_(aux_bytes),
        aux_grad_bytes_(aux_grad_bytes),
        ends_(ends),
        sketch_{shape, tensors_, {}, {}},
        ids_(batch_, shape.tokens() * kIdBytes) {}
  Passage(const Passage&) = delete;
  Passage& operator=(const Passage&) = delete;

  void forward(StageMemory& memory) {
    SketchBoundary input;
    if (!range_.has_embedding) input = boundary(ends_.input_received ? inputs_ : tensors_, aux_bytes_);
    const std::weak_ptr<const void> received = input.hidden.identity();
    SketchBoundary output;
    memory.forward = measure(tensors_, [&] { output = stage_.forward(std::move(input), ids_, sketch_); });
    memory.input_held = inputs_.live() > 0 ? HeldUntil::kBackward : HeldUntil::kForward;
    memory.output_bytes = output.bytes();
    memory.saved.clear();
    for (const SketchTensor& tensor : sketch_.saved) memory.saved.push_back(tensor.bytes());
    memory.saved_bytes = tensors_.live() - output.bytes();
    memory.swapped_bytes = swapped_bytes(received.lock().get());
  }

  /// Whole, or the input's part of it.
  StepMemory backward(bool divided) {
    SketchBoundary gradient;
    if (!range_.has_head) gradient = boundary(ends_.gradient_received ? gradients_ : tensors_, aux_grad_bytes_);
    sketch_.defer = divided;
    SketchBoundary input_grad;
    return measure(tensors_, [&] { input_grad = stage_.backward(std::move(gradient), sketch_); });
  }
  HeldUntil gradient_held() const { return gradients_.live() > 0 ? HeldUntil::kWeight : HeldUntil::kBackward; }
  std::int64_t queued_bytes() const { return tensors_.live(); }

  StepMemory backward_weight() {
    return measure(tensors_, [&] { sketch_.drain(); });
  }

 private:
  static constexpr std::int64_t kIdBytes = 8;

  SketchBoundary boundary(MemoryAccount& account, std::int64_t aux_bytes) const {
    SketchBoundary tensors{{account, hidden_bytes_}, {}};
    if (aux_bytes > 0) tensors.aux = {account, aux_bytes};
    return tensors;
  }

  /// Of the memory in the swapped ranges, each once, but for the stage's input.
  std::int64_t swapped_bytes(const void* boundary) const {
    std::set<const void*> seen = {boundary};
    std::int64_t bytes = 0;
    for (const auto& [begin, end] : sketch_.swapped) {
      for (std::size_t i = begin; i < end; ++i) {
        const SketchTensor& tensor = sketch_.saved[i];
        if (seen.insert(tensor.identity().lock().get()).second) bytes += tensor.bytes();
      }
    }
    return bytes;
  }

  // Accounts first: they outlive the tensors below.
  MemoryAccount tensors_, inputs_, gradients_, batch_;
  const SketchStage& stage_;
  const StageRange& range_;
  std::int64_t hidden_bytes_;
  std::int64_t aux_bytes_;
  std::int64_t aux_grad_bytes_;
  StageEnds ends_;
  Sketch sketch_;
  SketchTensor ids_;
};

}  // namespace

std::int64_t boundary_aux_bytes(const ModelSpec& spec, bool gradient) {
  if (!spec.has_aux_loss()) return 0;
  return (gradient ? 1 : 2) * spec.num_experts * kSumBytes;
}

StageMemory stage_memory(const ModelSpec& spec, const StageRange& range, const SketchShape& shape,
                         const StageEnds& ends) {
  const SketchStage stage(spec, range);
  const std::int64_t hidden_bytes = shape.tokens() * spec.hidden_size * shape.element_bytes;
  const std::int64_t aux_bytes = boundary_aux_bytes(spec, /*gradient=*/false);
  const std::int64_t aux_grad_bytes = boundary_aux_bytes(spec, /*gradient=*/true);
  StageMemory memory;
  {
    Passage whole(stage, range, shape, hidden_bytes, aux_bytes, aux_grad_bytes, ends);
    whole.forward(memory);
    memory.backward = whole.backward(/*divided=*/false);
    memory.gradient_held = whole.gradient_held();
  }
  Passage divided(stage, range, shape, hidden_bytes, aux_bytes, aux_grad_bytes, ends);
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
    for (GroupLayout& group : layouts_of(layer_config(spec, range, i), element_bytes)) {
      groups.push_back(std::move(group));
    }
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
