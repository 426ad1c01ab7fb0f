#include "arch/stage_memory.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "arch/declare.hpp"
#include "arch/family.hpp"
#include "arch/sketch_layers.hpp"
#include "arch/vision.hpp"

namespace ppctl {
namespace {

constexpr std::int64_t kSumBytes = 8;  // router sums are float64

/// What goes from a stage to the next, or back: activations, and with an auxiliary loss what belongs to it.
struct SketchBoundary {
  SketchTensor hidden;
  SketchTensor aux;

  std::int64_t bytes() const { return hidden.bytes() + aux.bytes(); }
};
/// The shape of the images of a microbatch of text.
SketchShape image_shape(const ModelSpec& spec, const SketchShape& text) {
  SketchShape shape = text;
  shape.samples = std::llround(spec.vision->images_per_sample * static_cast<double>(text.samples));
  shape.sequence = spec.vision->image_tokens();
  return shape;
}

/// A stage as blueprint, and its forward and backward in the order of DecoderStage.
class SketchStage {
 public:
  SketchStage(const ModelSpec& spec, const StageRange& range, const SketchShape& shape)
      : sums_bytes_(boundary_aux_bytes(spec, /*gradient=*/false)),
        sums_grad_bytes_(boundary_aux_bytes(spec, /*gradient=*/true)),
        first_layer_(range.first_layer),
        num_vision_layers_(spec.num_vision_layers()),
        text_shape_(shape) {
    if (spec.vision) image_shape_ = image_shape(spec, shape);
    if (range.has_embedding && spec.vision) patches_ = patch_embedding_config(spec);
    if (range.has_embedding && !spec.vision) embedding_ = embedding_config(spec);
    if (merges_images(spec, range)) merge_ = image_merge_config(spec);
    for (std::int64_t i = range.first_layer; i < range.last_layer; ++i) {
      layers_.push_back({layer_config(spec, range, i), range.activations_of(i).swapped});
    }
    if (range.has_head) head_ = head_config(spec);
    // What is before the merge is trained as a whole or not at all.
    const bool trains_encoder = !spec.vision || spec.vision->training == VisionSpec::Training::kAll;
    first_kept_ = trains_encoder ? range.first_layer : std::max(range.first_layer, num_vision_layers_);
    keeps_source_ = trains_encoder;
  }

  SketchBoundary forward(SketchBoundary input, const SketchTensor& ids, Sketch& sketch) const {
    SketchTensor sums;
    if (sums_bytes_ > 0) sums = {sketch.account, sums_bytes_};
    input.aux = {};
    SketchTensor x = std::move(input.hidden);
    if (patches_) {
      const Sketch::Pause pause(sketch, !keeps_source_);
      sketch.shape = image_shape_;
      x = sketch_forward(*patches_, sketch);
    }
    if (embedding_) x = sketch_forward(*embedding_, ids, sketch);
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Sketch::Pause pause(sketch, index_of(i) < first_kept_);
      sketch.shape = shape_of(i);
      if (merge_ && index_of(i) == num_vision_layers_) {
        x = sketch_forward(*merge_, x, ids, image_shape_.samples, sketch);
      }
      const std::size_t begin = sketch.saved.size();
      x = sketch_forward(layers_[i].config, x, sketch);
      if (layers_[i].swapped) sketch.swapped.emplace_back(begin, sketch.saved.size());
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
    sketch.shape = text_shape_;
    if (head_) dx = sketch_backward(*head_, sketch);
    for (std::size_t i = layers_.size(); i-- > 0 && index_of(i) >= first_kept_;) {
      sketch.shape = shape_of(i);
      dx = sketch_backward(layers_[i].config, dx, sketch);
      if (merge_ && index_of(i) == num_vision_layers_) dx = sketch_backward(*merge_, image_shape_.samples, sketch);
    }
    if (patches_ && keeps_source_) {
      sketch.shape = image_shape_;
      sketch_backward(*patches_, sketch);
    }
    if (embedding_) sketch_backward(*embedding_, dx, sketch);
    if (embedding_ || patches_) return {};
    return {dx, sums_grad};
  }

 private:
  struct SketchLayer {
    DecoderLayerConfig config;
    bool swapped;
  };

  std::int64_t index_of(std::size_t layer) const { return first_layer_ + static_cast<std::int64_t>(layer); }
  const SketchShape& shape_of(std::size_t layer) const {
    return index_of(layer) < num_vision_layers_ ? image_shape_ : text_shape_;
  }

  std::int64_t sums_bytes_;
  std::int64_t sums_grad_bytes_;
  std::int64_t first_layer_;
  std::int64_t num_vision_layers_;
  SketchShape text_shape_;
  SketchShape image_shape_;
  std::optional<PatchEmbeddingConfig> patches_;
  std::optional<TokenEmbeddingConfig> embedding_;
  std::optional<ImageMergeConfig> merge_;
  std::vector<SketchLayer> layers_;
  std::optional<LanguageHeadConfig> head_;
  std::int64_t first_kept_ = 0;  ///< layer: below it nothing is kept, since no backward gets there
  bool keeps_source_ = true;
};

/// Runs a step and says what it did to `account`.
template <class Step>
StepMemory measure(MemoryAccount& account, Step&& step) {
  const std::int64_t before = account.live();
  account.reset_peak();
  step();
  return {account.peak() - before, account.live() - before};
}

/// What a stage takes and gives.
struct BoundaryBytes {
  std::int64_t input = 0;
  std::int64_t output = 0;
  std::int64_t aux = 0;       ///< beside the input
  std::int64_t aux_grad = 0;  ///< beside the output's gradient
};

/// One microbatch's way through a stage.
class Passage {
 public:
  Passage(const SketchStage& stage, const StageRange& range, const SketchShape& shape, const BoundaryBytes& boundary,
          const StageEnds& ends)
      : stage_(stage),
        range_(range),
        boundary_(boundary),
        ends_(ends),
        sketch_{shape, tensors_, {}, {}},
        ids_(batch_, shape.tokens() * kIdBytes) {}
  Passage(const Passage&) = delete;
  Passage& operator=(const Passage&) = delete;

  void forward(StageMemory& memory) {
    SketchBoundary input;
    if (ends_.images_given) {
      input.hidden = {tensors_, boundary_.input};
    } else if (!range_.has_embedding) {
      input = tensors_of(ends_.input_received ? inputs_ : tensors_, boundary_.input, boundary_.aux);
    }
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
    if (!range_.has_head)
      gradient = tensors_of(ends_.gradient_received ? gradients_ : tensors_, boundary_.output, boundary_.aux_grad);
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

  static SketchBoundary tensors_of(MemoryAccount& account, std::int64_t hidden_bytes, std::int64_t aux_bytes) {
    SketchBoundary tensors{{account, hidden_bytes}, {}};
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
  BoundaryBytes boundary_;
  StageEnds ends_;
  Sketch sketch_;
  SketchTensor ids_;
};

}  // namespace

std::int64_t boundary_aux_bytes(const ModelSpec& spec, bool gradient) {
  if (!spec.has_aux_loss()) return 0;
  return (gradient ? 1 : 2) * spec.num_experts * kSumBytes;
}

std::int64_t hidden_bytes(const ModelSpec& spec, std::int64_t layer, const SketchShape& shape) {
  const bool is_image = spec.vision && layer <= spec.num_vision_layers();
  if (!is_image) return shape.tokens() * spec.hidden_size * shape.element_bytes;
  return image_shape(spec, shape).tokens() * spec.vision->hidden_size * shape.element_bytes;
}

std::int64_t pixel_bytes(const ModelSpec& spec, const SketchShape& shape) {
  constexpr std::int64_t kFloat32 = 4;
  const VisionSpec& vision = spec.vision.value();
  return image_shape(spec, shape).samples * vision.channels * vision.image_size * vision.image_size * kFloat32;
}

StageMemory stage_memory(const ModelSpec& spec, const StageRange& range, const SketchShape& shape,
                         const StageEnds& ends) {
  const SketchStage stage(spec, range, shape);
  const BoundaryBytes boundary{
      ends.images_given ? pixel_bytes(spec, shape) : hidden_bytes(spec, range.first_layer, shape),
      hidden_bytes(spec, range.last_layer, shape), boundary_aux_bytes(spec, /*gradient=*/false),
      boundary_aux_bytes(spec, /*gradient=*/true)};
  StageMemory memory;
  {
    Passage whole(stage, range, shape, boundary, ends);
    whole.forward(memory);
    memory.backward = whole.backward(/*divided=*/false);
    memory.gradient_held = whole.gradient_held();
  }
  Passage divided(stage, range, shape, boundary, ends);
  divided.forward(memory);
  memory.backward_input = divided.backward(/*divided=*/true);
  memory.divided_gradient_held = divided.gradient_held();
  memory.queued_bytes = divided.queued_bytes();
  memory.backward_weight = divided.backward_weight();
  return memory;
}

std::vector<GroupLayout> stage_groups(const ModelSpec& spec, const StageRange& range, std::int64_t element_bytes) {
  std::vector<GroupLayout> groups;
  if (range.has_embedding && spec.vision) groups.push_back(layout_of(patch_embedding_config(spec), element_bytes));
  if (range.has_embedding && !spec.vision) groups.push_back(layout_of(embedding_config(spec), element_bytes));
  const bool merges = merges_images(spec, range);
  if (merges) groups.push_back(layout_of(unused_parts_config(spec), element_bytes));
  for (std::int64_t i = range.first_layer; i < range.last_layer; ++i) {
    if (merges && i == spec.num_vision_layers()) groups.push_back(layout_of(image_merge_config(spec), element_bytes));
    for (GroupLayout& group : layouts_of(layer_config(spec, range, i), element_bytes)) {
      groups.push_back(std::move(group));
    }
  }
  if (range.has_head) groups.push_back(layout_of(head_config(spec), element_bytes));
  for (GroupLayout& group : groups) {
    for (Parameter& parameter : group.parameters()) parameter.trainable &= is_trained(spec, parameter.name);
  }
  return groups;
}

std::int64_t rotary_table_bytes(const ModelSpec& spec, const StageRange& range, std::int64_t sequence) {
  constexpr std::int64_t kFloat32 = 4;
  const bool has_layers = std::max(range.first_layer, spec.num_vision_layers()) < range.last_layer;
  return has_layers && !spec.learned_positions ? 2 * sequence * (spec.head_dim / 2) * kFloat32 : 0;
}

}  // namespace ppctl
