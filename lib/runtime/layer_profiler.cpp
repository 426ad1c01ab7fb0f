#include "runtime/layer_profiler.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "arch/cost.hpp"
#include "arch/family.hpp"
#include "base/clock.hpp"
#include "model/family.hpp"
#include "runtime/tensor_meter.hpp"

namespace ppctl {
namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <class Action>
double milliseconds_of(Action&& action) {
  const Nanoseconds start = monotonic_now();
  action();
  return static_cast<double>(monotonic_now() - start) * 1e-6;
}

/// One part as a stage, fed with random numbers.
class ProfiledPart {
 public:
  ProfiledPart(const ModelSpec& spec, const ProfileShape& shape, const StageRange& range)
      : range_(range), stage_(build_stage(spec, shape.dtype, range, /*dropout_seed=*/1)) {
    initialize(*stage_, /*seed=*/1);
    const auto ids = [&] { return at::randint(spec.vocab_size, {shape.samples, shape.sequence}, at::kLong); };
    const auto hidden = [&] { return at::randn({shape.samples, shape.sequence, spec.hidden_size}).to(shape.dtype); };
    if (range.has_embedding) microbatch_.args = {ids()};
    if (range.has_head) microbatch_.kwargs["labels"] = ids();
    if (!range.has_embedding) input_ = hidden();
    if (!range.has_head) gradient_ = hidden();
    microbatch_.loss_scale = 1.0 / static_cast<double>(shape.samples * shape.sequence);
  }

  /// One pass; adds its times.
  void run() {
    SavedActivations saved;
    WeightGradQueue queue;
    TensorList out;
    const TensorMeter meter;
    forward_.push_back(milliseconds_of([&] {
      out = stage_->forward(microbatch_, input_.defined() ? TensorList{input_} : TensorList{}, saved, nullptr);
    }));
    out.clear();
    saved_bytes_ = meter.live_bytes();
    queue.begin_microbatch(0, /*defer=*/true);
    dx_.push_back(milliseconds_of([&] {
      out = stage_->backward(microbatch_, gradient_.defined() ? TensorList{gradient_} : TensorList{}, saved, queue);
    }));
    queue.end_microbatch();
    dw_.push_back(milliseconds_of([&] { queue.drain(0); }));
  }

  PartTimes times(int repeats) {
    run();  // tables and pages of a first pass are nothing that a step pays
    forward_.clear();
    dx_.clear();
    dw_.clear();
    for (int i = 0; i < std::max(repeats, 1); ++i) run();
    return {median(forward_), median(dx_), median(dw_), saved_bytes_};
  }

 private:
  StageRange range_;
  std::shared_ptr<StageModule> stage_;
  Microbatch microbatch_;
  at::Tensor input_, gradient_;
  std::vector<double> forward_, dx_, dw_;
  std::int64_t saved_bytes_ = 0;
};

}  // namespace

LayerProfile measure_layers(const ModelSpec& spec, const ProfileShape& shape) {
  LayerProfile profile;
  profile.family = spec.family;
  profile.dtype = shape.dtype == at::kBFloat16 ? "bfloat16" : "float32";
  profile.samples = shape.samples;
  profile.sequence = shape.sequence;
  const auto measure = [&](const StageRange& range) { return ProfiledPart(spec, shape, range).times(shape.repeats); };
  profile.embedding = measure({0, 0, true, false});
  std::map<std::tuple<std::int64_t, double, double>, PartTimes> known;
  for (std::int64_t layer = 0; layer < spec.num_layers; ++layer) {
    const PartCost cost = cost_of(layer_config(spec, layer), shape.sequence);
    const auto key = std::make_tuple(cost.parameters, cost.forward_flops, cost.dx_flops);
    if (!known.contains(key)) known[key] = measure({layer, layer + 1, false, false});
    profile.layers.push_back(known[key]);
  }
  profile.head = measure({spec.num_layers, spec.num_layers, false, true});
  return profile;
}

}  // namespace ppctl
