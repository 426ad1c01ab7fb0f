#include <gtest/gtest.h>

#include "model/family.hpp"
#include "reference_model.hpp"

namespace ppctl {
namespace {

using Keys = std::map<std::string, std::string>;
using Training = VisionSpec::Training;

constexpr std::uint64_t kSeed = 7;
constexpr std::int64_t kImageToken = 18;
constexpr std::int64_t kSequence = 23;

const Keys kLlava = {
    {"text_config", R"({"model_type": "llama", "vocab_size": 19, "hidden_size": 24, "intermediate_size": 20,
                        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6,
                        "initializer_range": 0.3})"},
    {"vision_config", R"({"model_type": "clip_vision_model", "hidden_size": 20, "intermediate_size": 12,
                          "num_hidden_layers": 3, "num_attention_heads": 4, "num_channels": 2, "image_size": 9,
                          "patch_size": 3, "hidden_act": "quick_gelu", "initializer_range": 0.3})"},
    {"image_token_index", std::to_string(kImageToken)},
    {"vision_feature_layer", "-2"}};

Keys with(Keys keys, const Keys& more) {
  for (const auto& [key, value] : more) keys[key] = value;
  return keys;
}

struct Case {
  const char* name;
  Keys keys = kLlava;
  Training training = Training::kAll;
  std::vector<int> images = {2, 0, 1};  ///< of each sample
};

const std::vector<Case>& cases() {
  static const std::vector<Case> result = {
      {"Trainable"},
      {"WithTheClassToken", with(kLlava, {{"vision_feature_select_strategy", R"("full")"}}), Training::kAll, {2, 0, 1}},
      {"WithAllLayers", with(kLlava, {{"vision_feature_layer", "-1"}}), Training::kAll, {1, 1}},
      {"WithTheEmbeddingAlone", with(kLlava, {{"vision_feature_layer", "0"}}), Training::kAll, {1, 2}},
      {"WithoutProjectorBias", with(kLlava, {{"multimodal_projector_bias", "false"}}), Training::kAll, {0, 1}},
      {"WithQuickGeluInTheProjector", with(kLlava, {{"projector_hidden_act", R"("quick_gelu")"}}), Training::kAll, {1}},
      {"WithoutImages", kLlava, Training::kAll, {0, 0}},
      {"FrozenTower", kLlava, Training::kEncoderFrozen, {2, 0, 1}},
      {"ProjectorOnly", kLlava, Training::kProjectorOnly, {2, 0, 1}},
  };
  return result;
}

Microbatch random_microbatch(const ModelSpec& spec, const std::vector<int>& images) {
  const auto samples = static_cast<std::int64_t>(images.size());
  const std::int64_t features = spec.vision->features_per_image();
  at::Tensor ids = at::randint(kImageToken, {samples, kSequence}, at::kLong);
  std::int64_t num_images = 0;
  for (std::int64_t i = 0; i < samples; ++i) {
    // Behind one token of text, so that images of a sample follow each other.
    const std::int64_t here = images[static_cast<std::size_t>(i)];
    ids[i].narrow(0, 1, here * features).fill_(kImageToken);
    num_images += here;
  }
  Microbatch microbatch;
  microbatch.loss_scale = 0.125;
  microbatch.kwargs["input_ids"] = ids;
  microbatch.kwargs["labels"] = ids.masked_fill(ids.eq(kImageToken), -100);
  if (num_images > 0) {
    const VisionSpec& vision = *spec.vision;
    const std::vector<std::int64_t> shape = {num_images, vision.channels, vision.image_size, vision.image_size};
    microbatch.kwargs["pixel_values"] = at::randn(shape, at::kDouble);
  }
  return microbatch;
}

/// Random values everywhere, so that norm weights of one and biases of zero hide nothing.
void randomize(StageModule& stage) {
  initialize(stage, 5);
  for (ParameterGroup* group : stage.parameter_groups()) {
    for (std::size_t i = 0; i < group->parameters().size(); ++i) {
      const Parameter& parameter = group->parameters()[i];
      if (!parameter.matrix) group->data(static_cast<int>(i)).add_(at::randn(parameter.shape) * 0.2);
    }
  }
}

double forward_and_backward(StageModule& stage, const Microbatch& microbatch, bool split) {
  SavedActivations saved;
  WeightGradQueue queue;
  LossReport loss;
  stage.forward(microbatch, {}, saved, &loss);
  queue.begin_microbatch(microbatch.index, split);
  stage.backward(microbatch, {}, saved, queue);
  queue.end_microbatch();
  EXPECT_TRUE(saved.tensors.empty());
  if (split) queue.drain(microbatch.index);
  EXPECT_TRUE(queue.empty());
  return loss.loss_sum;
}

class VisionGradients : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    at::manual_seed(1);
    spec_ = parse_model_keys("llava", GetParam().keys);
    spec_.vision->training = GetParam().training;
    stage_ = build_stage(spec_, at::kDouble, StageRange::whole(spec_), kSeed);
    randomize(*stage_);
  }
  ModelSpec spec_;
  std::shared_ptr<StageModule> stage_;
};

TEST_P(VisionGradients, EqualThoseOfTorchOperatorsUnderAutogradInDouble) {
  const Microbatch microbatch = random_microbatch(spec_, GetParam().images);
  std::map<std::string, at::Tensor> leaves = testing_support::leaf_parameters(*stage_);
  const at::Tensor objective = testing_support::reference_objective(spec_, leaves, microbatch, kSeed);
  objective.backward();
  for (const bool split : {false, true}) {
    SCOPED_TRACE(split ? "in halves" : "whole");
    for (ParameterGroup* group : stage_->parameter_groups()) group->zero_grad();
    const double loss = forward_and_backward(*stage_, microbatch, split) * microbatch.loss_scale;
    EXPECT_NEAR(loss, objective.item<double>(), 1e-12 * objective.item<double>());
    int num_trained = 0;
    for (ParameterGroup* group : stage_->parameter_groups()) {
      for (std::size_t i = 0; i < group->parameters().size(); ++i) {
        const Parameter& parameter = group->parameters()[i];
        const at::Tensor grad = group->grad(static_cast<int>(i));
        const at::Tensor expected = leaves.at(parameter.name).grad();
        const bool is_used = parameter.trainable && expected.defined();
        num_trained += is_used ? 1 : 0;
        const at::Tensor wanted = is_used ? expected : at::zeros_like(grad);
        const double difference = (grad - wanted).abs().max().item<double>();
        EXPECT_LE(difference, 1e-11 * (1.0 + wanted.abs().max().item<double>())) << parameter.name;
      }
    }
    EXPECT_GT(num_trained, 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, VisionGradients, testing::ValuesIn(cases()),
                         [](const auto& test_case) { return std::string(test_case.param.name); });

}  // namespace
}  // namespace ppctl
