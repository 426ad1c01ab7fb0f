#include "runtime/autograd_module.hpp"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/error.hpp"

namespace ppctl {
namespace {

at::Tensor leaf(std::vector<std::int64_t> shape, double seed) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return at::sin(at::arange(count, at::kDouble) + seed).view(shape).requires_grad_(true);
}

/// Gradients of inputs and weights, by either way of running the backward.
struct Grads {
  TensorList inputs;
  TensorList weights;
};

using Function = std::function<TensorList(TensorList)>;

Grads run(const Function& function, const std::vector<NamedTensor>& parameters, const TensorList& inputs,
          const TensorList& output_grads, bool split) {
  AutogradModule module(AutogradModule::PlainForward(function), parameters);
  const Microbatch microbatch;
  SavedActivations saved;
  WeightGradQueue queue;
  module.forward(microbatch, inputs, saved, nullptr);
  queue.begin_microbatch(0, split);
  Grads grads;
  grads.inputs = module.backward(microbatch, output_grads, saved, queue);
  queue.end_microbatch();
  const auto groups = module.parameter_groups();
  if (split) {
    for (const ParameterGroup* group : groups) EXPECT_EQ(group->flat_grad().abs().sum().item<double>(), 0.0);
    queue.drain(0);
  }
  for (const ParameterGroup* group : groups) {
    for (std::size_t i = 0; i < group->parameters().size(); ++i) {
      grads.weights.push_back(group->grad(static_cast<int>(i)).clone());
    }
  }
  return grads;
}

void expect_equal(const TensorList& a, const TensorList& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].defined(), b[i].defined()) << i;
    if (a[i].defined()) {
      EXPECT_TRUE(at::equal(a[i], b[i])) << i;
    }
  }
}

/// The two halves must give, bit by bit, what the undivided backward gives.
Grads expect_split_is_exact(const Function& function, const std::vector<NamedTensor>& parameters,
                            const TensorList& inputs, const TensorList& output_grads) {
  const Grads whole = run(function, parameters, inputs, output_grads, false);
  const Grads halves = run(function, parameters, inputs, output_grads, true);
  expect_equal(halves.inputs, whole.inputs);
  expect_equal(halves.weights, whole.weights);
  return whole;
}

TEST(AutogradModule, SplitsTheBackwardOfAChainOfLayers) {
  const at::Tensor w1 = leaf({4, 4}, 1), b1 = leaf({4}, 2), w2 = leaf({4, 4}, 3);
  const Function function = [=](TensorList x) {
    return TensorList{at::tanh(at::tanh(at::addmm(b1, x[0], w1)).mm(w2))};
  };
  const Grads grads =
      expect_split_is_exact(function, {{"w1", w1}, {"b1", b1}, {"w2", w2}}, {leaf({3, 4}, 5)}, {leaf({3, 4}, 6)});
  for (const at::Tensor& grad : grads.weights) EXPECT_GT(grad.abs().sum().item<double>(), 0.0);
}

TEST(AutogradModule, SplitsTheBackwardOfAWeightThatIsUsedThreeTimes) {
  const at::Tensor w = leaf({4, 4}, 1);
  const Function function = [=](TensorList x) {
    return TensorList{at::tanh(at::tanh(at::tanh(x[0].mm(w)).mm(w.t())).mm(w))};
  };
  expect_split_is_exact(function, {{"w", w}}, {leaf({3, 4}, 5)}, {leaf({3, 4}, 6)});
}

TEST(AutogradModule, SplitsTheBackwardOfAWeightThatIsTransformedBeforeUse) {
  const at::Tensor w = leaf({4, 4}, 1), scale = leaf({4}, 2);
  const Function function = [=](TensorList x) {
    const at::Tensor scaled = at::tanh(w * scale);
    return TensorList{at::tanh(x[0].mm(scaled)).mm(scaled)};
  };
  expect_split_is_exact(function, {{"w", w}, {"scale", scale}}, {leaf({3, 4}, 5)}, {leaf({3, 4}, 6)});
}

TEST(AutogradModule, SplitsTheBackwardOfAnOutputThatDependsOnWeightsAlone) {
  const at::Tensor w = leaf({4, 4}, 1);
  const Function function = [=](TensorList x) { return TensorList{x[0].mm(w), w.square()}; };
  expect_split_is_exact(function, {{"w", w}}, {leaf({3, 4}, 5)}, {leaf({3, 4}, 6), leaf({4, 4}, 7)});
}

TEST(AutogradModule, LeavesAFrozenWeightAlone) {
  const at::Tensor w = leaf({4, 4}, 1), frozen = leaf({4, 4}, 2).detach();
  const Function function = [=](TensorList x) { return TensorList{x[0].mm(frozen).mm(w)}; };
  const Grads grads =
      expect_split_is_exact(function, {{"w", w}, {"frozen", frozen}}, {leaf({3, 4}, 5)}, {leaf({3, 4}, 6)});
  EXPECT_EQ(grads.weights[1].abs().sum().item<double>(), 0.0);
  EXPECT_TRUE(grads.inputs[0].defined());
}

TEST(AutogradModule, GivesNoGradientForAnInputThatIsNotUsedOrHasNoFloats) {
  const at::Tensor w = leaf({4, 4}, 1);
  const Function function = [=](TensorList x) { return TensorList{x[0].mm(w)}; };
  const Grads grads =
      expect_split_is_exact(function, {{"w", w}}, {leaf({3, 4}, 5), leaf({2}, 1), at::arange(3)}, {leaf({3, 4}, 6)});
  EXPECT_TRUE(grads.inputs[0].defined());
  EXPECT_FALSE(grads.inputs[1].defined());
  EXPECT_FALSE(grads.inputs[2].defined());
}

TEST(AutogradModule, TakesAnUndefinedOutputGradient) {
  const at::Tensor w = leaf({4, 4}, 1), v = leaf({4, 4}, 2);
  const Function function = [=](TensorList x) { return TensorList{x[0].mm(w), x[0].mm(v)}; };
  const Grads grads =
      expect_split_is_exact(function, {{"w", w}, {"v", v}}, {leaf({3, 4}, 5)}, {leaf({3, 4}, 6), at::Tensor()});
  EXPECT_EQ(grads.weights[1].abs().sum().item<double>(), 0.0);
  const Grads none = expect_split_is_exact(function, {{"w", w}, {"v", v}}, {leaf({3, 4}, 5)}, {{}, {}});
  EXPECT_FALSE(none.inputs[0].defined());
}

TEST(AutogradModule, SplitsTheBackwardOfAModuleWithoutParameters) {
  const Function function = [](TensorList x) { return TensorList{at::tanh(x[0])}; };
  const Grads grads = expect_split_is_exact(function, {}, {leaf({3, 4}, 5)}, {leaf({3, 4}, 6)});
  EXPECT_TRUE(grads.inputs[0].defined());
}

/// Counts how often each of its gradients is computed.
struct CountingMatmul : torch::autograd::Function<CountingMatmul> {
  static inline int dx = 0;
  static inline int dw = 0;

  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& w) {
    context->save_for_backward({x, w});
    return x.mm(w);
  }
  static TensorList backward(torch::autograd::AutogradContext* context, TensorList grads) {
    const TensorList saved = context->get_saved_variables();
    TensorList result(2);
    if (context->needs_input_grad(0)) {
      ++dx;
      result[0] = grads[0].mm(saved[1].t());
    }
    if (context->needs_input_grad(1)) {
      ++dw;
      result[1] = saved[0].t().mm(grads[0]);
    }
    return result;
  }
};

TEST(AutogradModule, ComputesEachGradientOnceInTwoHalves) {
  const at::Tensor w1 = leaf({4, 4}, 1), w2 = leaf({4, 4}, 2);
  const Function function = [=](TensorList x) {
    return TensorList{CountingMatmul::apply(at::tanh(CountingMatmul::apply(x[0], w1)), w2)};
  };
  CountingMatmul::dx = CountingMatmul::dw = 0;
  run(function, {{"w1", w1}, {"w2", w2}}, {leaf({3, 4}, 5)}, {leaf({3, 4}, 6)}, true);
  EXPECT_EQ(CountingMatmul::dx, 2);
  EXPECT_EQ(CountingMatmul::dw, 2);
}

TEST(AutogradModule, FreesWhatOnlyTheInputGradientsNeededAfterTheFirstHalf) {
  const at::Tensor w = leaf({4, 4}, 1);
  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  WeakTensor middle(leaf({1}, 0).getIntrusivePtr());
  AutogradModule module(AutogradModule::PlainForward([&](TensorList x) {
                          const at::Tensor wide = x[0].mm(w).repeat({1, 100}) * 1.5;  // not needed by w's gradient
                          middle = WeakTensor(wide.getIntrusivePtr());
                          return TensorList{at::sin(wide).sum()};
                        }),
                        {{"w", w}});
  SavedActivations saved;
  WeightGradQueue queue;
  module.forward(Microbatch(), {leaf({3, 4}, 5)}, saved, nullptr);
  EXPECT_FALSE(middle.expired());
  queue.begin_microbatch(0, true);
  module.backward(Microbatch(), {at::ones({}, at::kDouble)}, saved, queue);
  queue.end_microbatch();
  EXPECT_TRUE(middle.expired());
  queue.drain(0);
}

TEST(AutogradModule, MovesParametersIntoFlatBuffersThatStayTheUsersTensors) {
  const at::Tensor w = leaf({4, 4}, 1);
  const at::Tensor before = w.detach().clone();
  AutogradModule module(AutogradModule::PlainForward([](TensorList x) { return x; }), {{"w", w}, {"again", w}});
  const auto groups = module.parameter_groups();
  ASSERT_EQ(groups.size(), 1u);
  ASSERT_EQ(groups[0]->parameters().size(), 1u);
  EXPECT_TRUE(at::equal(w.detach(), before));
  groups[0]->flat_data().zero_();
  EXPECT_EQ(w.detach().abs().sum().item<double>(), 0.0);
}

TEST(AutogradModule, KeepsParametersOfEachTypeInAGroupOfTheirOwn) {
  const at::Tensor w = leaf({4}, 1);
  const at::Tensor half = at::ones({3}, at::kBFloat16).requires_grad_(true);
  AutogradModule module(AutogradModule::PlainForward([](TensorList x) { return x; }), {{"w", w}, {"half", half}});
  EXPECT_EQ(module.parameter_groups().size(), 2u);
}

TEST(AutogradModule, ReportsTheLossAndScalesItsGradient) {
  const at::Tensor w = leaf({2, 2}, 1);
  AutogradModule module(AutogradModule::PlainForward([=](TensorList x) { return TensorList{x[0].mm(w)}; }), {{"w", w}},
                        [](const TensorList& outputs, const Microbatch&) {
                          return LossValue{outputs[0].sum(), 6, outputs[0].sum() * 0.25};
                        });
  Microbatch microbatch;
  microbatch.loss_scale = 0.5;
  LossReport report;
  SavedActivations saved;
  WeightGradQueue queue;
  EXPECT_TRUE(module.forward(microbatch, {at::ones({3, 2}, at::kDouble)}, saved, &report).empty());
  EXPECT_EQ(report.num_labels, 6);
  EXPECT_NEAR(report.aux_loss, report.loss_sum / 4, 1e-12);
  queue.begin_microbatch(0, false);
  module.backward(microbatch, {}, saved, queue);
  queue.end_microbatch();
  // d(objective)/dw = 0.5 · 3 + 0.25 · 3 for each entry.
  EXPECT_TRUE(at::allclose(module.parameter_groups()[0]->grad(0), at::full({2, 2}, 2.25, at::kDouble)));
}

TEST(AutogradModule, ReturnsItsOutputsWhereThereAreNoLabels) {
  AutogradModule module(AutogradModule::PlainForward([](TensorList x) { return x; }), {},
                        [](const TensorList&, const Microbatch&) { return LossValue(); });
  Microbatch microbatch;
  microbatch.training = false;
  LossReport report;
  SavedActivations saved;
  EXPECT_EQ(module.forward(microbatch, {at::ones({2})}, saved, &report).size(), 1u);
  microbatch.training = true;
  EXPECT_THROW(module.forward(microbatch, {at::ones({2})}, saved, &report), Error);
}

}  // namespace
}  // namespace ppctl
