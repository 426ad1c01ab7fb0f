#include "train/optimizer.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "model/flat_storage.hpp"

namespace ppctl {
namespace {

Parameter parameter(const std::string& name, std::vector<std::int64_t> shape, bool trainable = true) {
  Parameter made;
  made.name = name;
  made.matrix = shape.size() >= 2;
  made.shape = std::move(shape);
  made.trainable = trainable;
  return made;
}

/// A matrix, a vector, a frozen matrix, a vector.
ParameterGroup make_group() {
  ParameterGroup group("layer", at::kFloat);
  group.add(parameter("w", {3, 5}));
  group.add(parameter("b", {5}));
  group.add(parameter("frozen", {2, 2}, false));
  group.add(parameter("norm", {7}));
  group.allocate();
  for (int i = 0; i < 4; ++i) {
    const std::int64_t count = group.data(i).numel();
    group.data(i).copy_(at::linspace(-1.0 + i, 1.0 + i, count).view(group.data(i).sizes()));
    group.grad(i).copy_(at::linspace(-0.5, 0.7 + i, count).view(group.data(i).sizes()));
  }
  return group;
}

/// The definition, in double.
std::vector<double> expected(const at::Tensor& start, const at::Tensor& grad, const OptimizerConfig& config,
                             double decay, double lr, int steps) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < start.numel(); ++i) {
    double p = start.view(-1)[i].item<double>();
    const double g = grad.view(-1)[i].item<double>();
    double m = 0.0;
    double v = 0.0;
    for (int t = 1; t <= steps; ++t) {
      p *= 1.0 - lr * decay;
      m = config.beta1 * m + (1.0 - config.beta1) * g;
      v = config.beta2 * v + (1.0 - config.beta2) * g * g;
      const double m_hat = m / (1.0 - std::pow(config.beta1, t));
      p -= lr * m_hat / (std::sqrt(v) / std::sqrt(1.0 - std::pow(config.beta2, t)) + config.eps);
    }
    values.push_back(p);
  }
  return values;
}

void expect_update(const std::string& decay_mode) {
  ParameterGroup group = make_group();
  const ParameterGroup before = make_group();
  OptimizerConfig config;
  config.decay = decay_mode;
  config.weight_decay = 0.3;
  GroupShard shard(group);
  AdamW optimizer(config, {&shard});
  for (int step = 0; step < 3; ++step) optimizer.step(0.01);
  EXPECT_EQ(optimizer.num_steps(), 3);
  for (const int i : {0, 1, 3}) {
    const bool decayed = decay_mode == "all" || group.parameters()[static_cast<std::size_t>(i)].matrix;
    const auto wanted = expected(before.data(i), before.grad(i), config, decayed ? 0.3 : 0.0, 0.01, 3);
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      EXPECT_NEAR(group.data(i).reshape(-1)[static_cast<std::int64_t>(k)].item<double>(), wanted[k], 2e-6)
          << decay_mode << " " << i;
    }
  }
  EXPECT_TRUE(at::equal(group.data(2), before.data(2))) << "a frozen parameter has moved";
}

TEST(AdamW, FollowsItsDefinitionWithDecayOfEverything) { expect_update("all"); }
TEST(AdamW, FollowsItsDefinitionWithDecayOfMatricesAlone) { expect_update("matrices"); }

TEST(AdamW, ShowsTheStateOfTrainableParametersAsViews) {
  ParameterGroup group = make_group();
  GroupShard shard(group);
  AdamW optimizer({}, {&shard});
  const auto states = optimizer.states();
  ASSERT_EQ(states.size(), 4u);
  EXPECT_FALSE(states[2].exp_avg.defined());
  EXPECT_EQ(states[0].exp_avg.sizes().vec(), (std::vector<std::int64_t>{3, 5}));
  optimizer.step(0.01);
  EXPECT_TRUE(at::allclose(states[0].exp_avg, 0.1 * group.grad(0)));
  EXPECT_TRUE(at::allclose(states[3].exp_avg_sq, 0.05 * group.grad(3) * group.grad(3)));
}

TEST(AdamW, GoesOnFromStateThatWasSaved) {
  ParameterGroup whole = make_group();
  GroupShard whole_shard(whole);
  AdamW uninterrupted({}, {&whole_shard});
  for (int step = 0; step < 4; ++step) uninterrupted.step(0.01);

  ParameterGroup first = make_group();
  GroupShard first_shard(first);
  AdamW before({}, {&first_shard});
  for (int step = 0; step < 2; ++step) before.step(0.01);
  ParameterGroup second = make_group();
  GroupShard second_shard(second);
  AdamW after({}, {&second_shard});
  auto from = before.states();
  auto to = after.states();
  for (std::size_t i = 0; i < from.size(); ++i) {
    to[i].data.copy_(from[i].data);
    if (!from[i].exp_avg.defined()) continue;
    to[i].exp_avg.copy_(from[i].exp_avg);
    to[i].exp_avg_sq.copy_(from[i].exp_avg_sq);
  }
  after.set_num_steps(before.num_steps());
  for (int step = 0; step < 2; ++step) after.step(0.01);
  EXPECT_TRUE(at::equal(second.flat_data(), whole.flat_data()));
}

TEST(AdamW, UpdatesTheShardsOfAGroupAsItUpdatesTheWhole) {
  ParameterGroup whole = make_group();
  GroupShard all(whole);
  AdamW alone({}, {&all});
  alone.step(0.01);
  for (const int index : {0, 1, 2}) {
    ParameterGroup group = make_group();
    const ParameterGroup start = make_group();
    GroupShard shard(group, index, 3);
    restore_storage(shard.flat_grad());
    for (const int i : {0, 1, 2, 3}) {
      shard.grad(i).copy_(start.grad(i).narrow(0, shard.rows(i).begin, shard.rows(i).size()));
    }
    AdamW optimizer({}, {&shard});
    optimizer.step(0.01);
    for (const int i : {0, 1, 2, 3}) {
      const at::Tensor rows = whole.data(i).narrow(0, shard.rows(i).begin, shard.rows(i).size());
      EXPECT_TRUE(at::allclose(shard.master(i), rows, 1e-6, 1e-7)) << "shard " << index << ", parameter " << i;
    }
  }
}

TEST(AdamW, KeepsDigitsThatBFloat16WeightsCannotHold) {
  ParameterGroup group("layer", at::kBFloat16);
  group.add(parameter("w", {4, 4}));
  group.allocate();
  group.data(0).fill_(1.0);
  GroupShard shard(group);
  OptimizerConfig config;
  config.weight_decay = 0.0;
  AdamW optimizer(config, {&shard});
  EXPECT_EQ(optimizer.states()[0].data.scalar_type(), at::kFloat);
  EXPECT_EQ(optimizer.states()[0].exp_avg.scalar_type(), at::kFloat);
  // Ten steps of 1e-4 each: a hundredth of the distance to the next bfloat16 below 1, so that only a master adds them
  // up.
  group.grad(0).fill_(1.0);
  for (int step = 0; step < 10; ++step) optimizer.step(1e-4);
  EXPECT_TRUE(at::allclose(shard.master(0), at::full({4, 4}, 0.999F), 1e-5));
  EXPECT_TRUE(at::equal(group.data(0), at::ones({4, 4}, at::kBFloat16)));
  for (int step = 0; step < 40; ++step) optimizer.step(1e-4);
  EXPECT_TRUE(at::equal(group.data(0), shard.master(0).to(at::kBFloat16)));
  EXPECT_LT(group.data(0)[0][0].item<float>(), 1.0F);
}

}  // namespace
}  // namespace ppctl
