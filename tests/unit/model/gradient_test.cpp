#include <gtest/gtest.h>

#include "model/family.hpp"
#include "reference_model.hpp"

namespace ppctl {
namespace {

using Keys = std::map<std::string, std::string>;

constexpr std::uint64_t kSeed = 7;

Keys with(Keys keys, const Keys& more) {
  for (const auto& [key, value] : more) keys[key] = value;
  return keys;
}

const Keys kLlama = {{"vocab_size", "19"},         {"hidden_size", "24"},
                     {"intermediate_size", "20"},  {"num_hidden_layers", "2"},
                     {"num_attention_heads", "4"}, {"num_key_value_heads", "2"},
                     {"initializer_range", "0.3"}, {"head_dim", "6"}};
const Keys kGpt2 = {{"vocab_size", "19"}, {"n_embd", "24"},      {"n_layer", "2"},
                    {"n_head", "4"},      {"n_positions", "40"}, {"resid_pdrop", "0"},
                    {"embd_pdrop", "0"},  {"attn_pdrop", "0"},   {"initializer_range", "0.3"}};

const Keys kMixtral = with(kLlama, {{"num_local_experts", "6"}, {"num_experts_per_tok", "2"}});
const Keys kAuxLoss = {{"router_aux_loss_coef", "0.3"}, {"output_router_logits", "true"}};
const Keys kQwen3Moe = with(kLlama, {{"num_experts", "5"},
                                     {"num_experts_per_tok", "3"},
                                     {"moe_intermediate_size", "12"},
                                     {"router_aux_loss_coef", "0.2"},
                                     {"norm_topk_prob", "true"}});

struct Case {
  const char* name;
  const char* family;
  Keys keys;
  std::int64_t sequence = 21;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> result = {
      {"Llama", "llama", kLlama},
      {"LlamaWithBiases", "llama", with(kLlama, {{"attention_bias", "true"}, {"mlp_bias", "true"}})},
      {"LlamaWithTiedHead", "llama", with(kLlama, {{"tie_word_embeddings", "true"}})},
      {"LlamaWithOneHeadSize", "llama", with(kLlama, {{"head_dim", "16"}, {"num_key_value_heads", "4"}})},
      {"LlamaWithAttentionDropout", "llama", with(kLlama, {{"attention_dropout", "0.25"}})},
      {"LlamaWithGelu", "llama", with(kLlama, {{"hidden_act", "gelu"}})},
      {"LlamaWithQuickGelu", "llama", with(kLlama, {{"hidden_act", "quick_gelu"}})},
      {"LlamaWithRelu", "llama", with(kLlama, {{"hidden_act", "relu"}})},
      {"LlamaOverSeveralBlocksOfRows", "llama", kLlama, 75},
      {"LlamaWithOneToken", "llama", kLlama, 1},
      {"LlamaWithYarn", "llama",
       with(kLlama, {{"rope_scaling", R"({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16})"}})},
      {"Qwen3", "qwen3", with(kLlama, {{"head_dim", "10"}})},
      {"Mixtral", "mixtral", kMixtral},
      {"MixtralWithAuxiliaryLoss", "mixtral", with(kMixtral, kAuxLoss)},
      {"MixtralWithOneToken", "mixtral", kMixtral, 1},
      {"MixtralWithOneExpertAToken", "mixtral", with(kMixtral, {{"num_experts_per_tok", "1"}})},
      {"Qwen3Moe", "qwen3_moe", kQwen3Moe},
      {"Qwen3MoeWithoutRenormalisation", "qwen3_moe",
       with(kQwen3Moe, {{"norm_topk_prob", "false"}, {"output_router_logits", "true"}})},
      {"Qwen3MoeWithDenseLayers", "qwen3_moe",
       with(kQwen3Moe, {{"num_hidden_layers", "4"},
                        {"decoder_sparse_step", "2"},
                        {"mlp_only_layers", "[3]"},
                        {"output_router_logits", "true"}})},
      {"Gpt2", "gpt2", kGpt2},
      {"Gpt2WithDropout", "gpt2", with(kGpt2, {{"resid_pdrop", "0.1"}, {"embd_pdrop", "0.2"}, {"attn_pdrop", "0.3"}})},
      {"Gpt2WithLayerScaleAndUntiedHead", "gpt2",
       with(kGpt2, {{"scale_attn_by_inverse_layer_idx", "true"}, {"tie_word_embeddings", "false"}, {"n_inner", "12"}})},
  };
  return result;
}

Microbatch random_microbatch(const ModelSpec& spec, std::int64_t sequence) {
  Microbatch microbatch;
  microbatch.step = 3;
  microbatch.index = 1;
  microbatch.first_sample = 10;
  microbatch.loss_scale = 0.125;
  microbatch.aux_scale = 0.25;
  microbatch.kwargs["input_ids"] = at::randint(spec.vocab_size, {2, sequence}, at::kLong);
  at::Tensor labels = at::randint(spec.vocab_size, {2, sequence}, at::kLong);
  labels[0][0] = -100;
  microbatch.kwargs["labels"] = labels;
  return microbatch;
}

/// Random values everywhere, so that norm weights of one and biases of zero hide nothing.
void randomize(StageModule& stage) {
  initialize(stage, 5);
  for (ParameterGroup* group : stage.parameter_groups()) {
    for (std::size_t i = 0; i < group->parameters().size(); ++i) {
      if (!group->parameters()[i].matrix)
        group->data(static_cast<int>(i)).add_(at::randn(group->parameters()[i].shape) * 0.2);
    }
  }
}

LossReport forward_and_backward(StageModule& stage, const Microbatch& microbatch, bool split) {
  SavedActivations saved;
  WeightGradQueue queue;
  LossReport loss;
  EXPECT_TRUE(stage.forward(microbatch, {}, saved, &loss).empty());
  queue.begin_microbatch(microbatch.index, split);
  stage.backward(microbatch, {}, saved, queue);
  queue.end_microbatch();
  EXPECT_TRUE(saved.tensors.empty());
  if (split) queue.drain(microbatch.index);
  EXPECT_TRUE(queue.empty());
  return loss;
}

std::string case_name(const testing::TestParamInfo<Case>& info) { return info.param.name; }

class Gradients : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    at::manual_seed(1);
    spec_ = parse_model_keys(GetParam().family, GetParam().keys);
  }
  std::shared_ptr<StageModule> build(at::ScalarType dtype) const {
    return build_stage(spec_, dtype, StageRange::whole(spec_), kSeed);
  }
  ModelSpec spec_;
};

TEST_P(Gradients, EqualThoseOfTorchOperatorsUnderAutogradInDouble) {
  const auto stage = build(at::kDouble);
  randomize(*stage);
  const Microbatch microbatch = random_microbatch(spec_, GetParam().sequence);
  std::map<std::string, at::Tensor> leaves = testing_support::leaf_parameters(*stage);
  const at::Tensor objective = testing_support::reference_objective(spec_, leaves, microbatch, kSeed);
  objective.backward();
  const LossReport loss = forward_and_backward(*stage, microbatch, false);
  EXPECT_EQ(loss.num_labels, 2 * GetParam().sequence - 1);
  EXPECT_EQ(loss.aux_loss != 0.0, spec_.has_aux_loss());
  EXPECT_NEAR(loss.loss_sum * microbatch.loss_scale + loss.aux_loss * microbatch.aux_scale, objective.item<double>(),
              1e-12 * objective.item<double>());
  for (ParameterGroup* group : stage->parameter_groups()) {
    for (std::size_t i = 0; i < group->parameters().size(); ++i) {
      const std::string& name = group->parameters()[i].name;
      const at::Tensor expected = leaves.at(name).grad();
      const double difference = (group->grad(static_cast<int>(i)) - expected).abs().max().item<double>();
      EXPECT_LE(difference, 1e-11 * (1.0 + expected.abs().max().item<double>())) << name;
    }
  }
}

TEST_P(Gradients, AreTheSameBitsWhetherWeightGradientsAreDeferredOrNot) {
  const auto joint = build(at::kFloat);
  const auto split = build(at::kFloat);
  randomize(*joint);
  const Microbatch microbatch = random_microbatch(spec_, GetParam().sequence);
  for (std::size_t i = 0; i < joint->parameter_groups().size(); ++i) {
    split->parameter_groups()[i]->flat_data().copy_(joint->parameter_groups()[i]->flat_data());
  }
  const LossReport joint_loss = forward_and_backward(*joint, microbatch, false);
  const LossReport split_loss = forward_and_backward(*split, microbatch, true);
  EXPECT_EQ(joint_loss.loss_sum, split_loss.loss_sum);
  for (std::size_t i = 0; i < joint->parameter_groups().size(); ++i) {
    EXPECT_TRUE(at::equal(joint->parameter_groups()[i]->flat_grad(), split->parameter_groups()[i]->flat_grad()));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Gradients, testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace ppctl
