#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "runtime/autograd_module.hpp"

namespace ppctl {
namespace {

TEST(AutogradModule, RunsATorchModule) {
  torch::nn::Linear linear(3, 2);
  AutogradModule module(
      AutogradModule::PlainForward([linear](TensorList x) mutable { return TensorList{linear->forward(x[0])}; }),
      parameters_of(*linear));
  ASSERT_EQ(module.parameter_groups().size(), 1u);
  const ParameterGroup& group = *module.parameter_groups()[0];
  ASSERT_EQ(group.parameters().size(), 2u);
  EXPECT_EQ(group.parameters()[0].name, "weight");
  EXPECT_EQ(group.parameters()[1].name, "bias");

  SavedActivations saved;
  WeightGradQueue queue;
  const at::Tensor x = at::ones({4, 3});
  module.forward(Microbatch(), {x}, saved, nullptr);
  queue.begin_microbatch(0, true);
  const TensorList grads = module.backward(Microbatch(), {at::ones({4, 2})}, saved, queue);
  queue.end_microbatch();
  queue.drain(0);
  EXPECT_TRUE(at::allclose(grads[0], at::ones({4, 2}).mm(linear->weight.detach())));
  EXPECT_TRUE(at::equal(group.grad(0), at::full({2, 3}, 4.0F)));
  EXPECT_TRUE(at::equal(group.grad(1), at::full({2}, 4.0F)));
}

}  // namespace
}  // namespace ppctl
