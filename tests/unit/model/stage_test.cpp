#include <gtest/gtest.h>

#include <functional>

#include <cmath>

#include "arch/declare.hpp"
#include "base/error.hpp"
#include "model/family.hpp"
#include "support/recompute_modes.hpp"

namespace ppctl {
namespace {

using Keys = std::map<std::string, std::string>;

ModelSpec gpt2_with_dropout() {
  return parse_model_keys("gpt2", {{"vocab_size", "19"},
                                   {"n_embd", "24"},
                                   {"n_layer", "2"},
                                   {"n_head", "4"},
                                   {"n_positions", "32"},
                                   {"resid_pdrop", "0.1"},
                                   {"embd_pdrop", "0.1"},
                                   {"attn_pdrop", "0.1"}});
}

ModelSpec llama(const Keys& more = {}) {
  Keys keys = {{"vocab_size", "19"},       {"hidden_size", "24"},        {"intermediate_size", "20"},
               {"num_hidden_layers", "4"}, {"num_attention_heads", "4"}, {"num_key_value_heads", "2"}};
  for (const auto& [key, value] : more) keys[key] = value;
  return parse_model_keys("llama", keys);
}

Microbatch microbatch_of(const at::Tensor& tokens, std::int64_t first_sample, std::int64_t count) {
  Microbatch result;
  result.first_sample = first_sample;
  result.kwargs["input_ids"] =
      tokens.narrow(0, first_sample, count).narrow(1, 0, tokens.size(1) - 1).clone(at::MemoryFormat::Contiguous);
  result.kwargs["labels"] =
      tokens.narrow(0, first_sample, count).narrow(1, 1, tokens.size(1) - 1).clone(at::MemoryFormat::Contiguous);
  return result;
}

std::shared_ptr<StageModule> whole(const ModelSpec& spec, at::ScalarType dtype = at::kFloat) {
  auto stage = build_stage(spec, dtype, StageRange::whole(spec), 7);
  initialize(*stage, 3);
  return stage;
}

LossReport train(const std::vector<std::shared_ptr<StageModule>>& stages, const Microbatch& microbatch) {
  std::vector<SavedActivations> saved(stages.size());
  WeightGradQueue queue;
  LossReport loss;
  TensorList values;
  for (std::size_t i = 0; i < stages.size(); ++i) values = stages[i]->forward(microbatch, values, saved[i], &loss);
  queue.begin_microbatch(microbatch.index, false);
  for (std::size_t i = stages.size(); i-- > 0;) values = stages[i]->backward(microbatch, values, saved[i], queue);
  queue.end_microbatch();
  for (const SavedActivations& left : saved) EXPECT_TRUE(left.tensors.empty());
  return loss;
}

TEST(DecoderStage, GivesTheSameBitsHoweverTheLayersAreSplit) {
  for (at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const ModelSpec& spec : {llama(), gpt2_with_dropout()}) {
      const Microbatch microbatch = microbatch_of(at::randint(19, {2, 18}, at::kLong), 0, 2);
      const auto reference = whole(spec, dtype);
      const LossReport expected = train({reference}, microbatch);
      std::vector<std::shared_ptr<StageModule>> stages;
      for (const StageRange& range : {StageRange{0, 1, true, false}, StageRange{1, spec.num_layers, false, false},
                                      StageRange{spec.num_layers, spec.num_layers, false, true}}) {
        stages.push_back(build_stage(spec, dtype, range, 7));
        initialize(*stages.back(), 3);
      }
      EXPECT_EQ(train(stages, microbatch).loss_sum, expected.loss_sum);
      std::size_t group = 0;
      for (const auto& stage : stages) {
        for (ParameterGroup* part : stage->parameter_groups()) {
          EXPECT_TRUE(at::equal(part->flat_grad(), reference->parameter_groups()[group++]->flat_grad()))
              << part->name();
        }
      }
    }
  }
}

TEST(DecoderStage, GivesTheSameBitsWhateverItRecomputes) {
  for (at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const ModelSpec& spec : {llama(), gpt2_with_dropout()}) {
      const Microbatch microbatch = microbatch_of(at::randint(19, {2, 18}, at::kLong), 0, 2);
      const auto reference = whole(spec, dtype);
      const LossReport expected = train({reference}, microbatch);
      for (const auto& mode : test::recompute_modes()) {
        const auto stage = build_stage(spec, dtype, mode.on(StageRange::whole(spec)), 7);
        initialize(*stage, 3);
        EXPECT_EQ(train({stage}, microbatch).loss_sum, expected.loss_sum) << mode.name;
        for (std::size_t i = 0; i < stage->parameter_groups().size(); ++i) {
          EXPECT_TRUE(
              at::equal(stage->parameter_groups()[i]->flat_grad(), reference->parameter_groups()[i]->flat_grad()))
              << mode.name << ", " << stage->parameter_groups()[i]->name();
        }
      }
    }
  }
}

TEST(DecoderStage, DropsTheSameElementsWhateverTheMicrobatchSize) {
  const at::Tensor tokens = at::randint(19, {4, 18}, at::kLong);
  const ModelSpec spec = gpt2_with_dropout();
  const auto joint = whole(spec, at::kDouble);
  const auto apart = whole(spec, at::kDouble);
  const double expected = train({joint}, microbatch_of(tokens, 0, 4)).loss_sum;
  double sum = 0.0;
  for (std::int64_t sample = 0; sample < 4; ++sample) sum += train({apart}, microbatch_of(tokens, sample, 1)).loss_sum;
  EXPECT_NEAR(sum, expected, 1e-12 * expected);
  for (std::size_t i = 0; i < joint->parameter_groups().size(); ++i) {
    EXPECT_TRUE(at::allclose(joint->parameter_groups()[i]->flat_grad(), apart->parameter_groups()[i]->flat_grad(), 1e-9,
                             1e-12));
  }
}

TEST(DecoderStage, DropsOtherElementsInAnotherStepAndNoneInEvaluation) {
  const auto stage = whole(gpt2_with_dropout());
  Microbatch microbatch = microbatch_of(at::randint(19, {2, 18}, at::kLong), 0, 2);
  const double first = train({stage}, microbatch).loss_sum;
  EXPECT_EQ(train({stage}, microbatch).loss_sum, first);
  microbatch.step = 1;
  EXPECT_NE(train({stage}, microbatch).loss_sum, first);
  microbatch.training = false;
  SavedActivations saved;
  LossReport loss;
  stage->forward(microbatch, {}, saved, &loss);
  EXPECT_TRUE(saved.tensors.empty());
  EXPECT_NE(loss.loss_sum, first);
}

TEST(DecoderStage, GivesLogitsWhereThereAreNoLabels) {
  const auto stage = whole(llama());
  Microbatch microbatch = microbatch_of(at::randint(19, {2, 18}, at::kLong), 0, 2);
  const at::Tensor labels = microbatch.kwargs["labels"];
  microbatch.training = false;
  SavedActivations saved;
  LossReport loss;
  stage->forward(microbatch, {}, saved, &loss);
  microbatch.kwargs.erase("labels");
  const TensorList logits = stage->forward(microbatch, {}, saved, nullptr);
  ASSERT_EQ(logits.size(), 1U);
  ASSERT_EQ(logits[0].sizes(), at::IntArrayRef({2, 17, 19}));
  const at::Tensor expected = at::cross_entropy_loss(logits[0].view({-1, 19}), labels.view(-1), {}, at::Reduction::Sum);
  EXPECT_NEAR(loss.loss_sum, expected.item<double>(), 1e-4);
}

TEST(DecoderStage, TakesPositionsFromTheMicrobatch) {
  const auto stage = whole(llama());
  // Initial weights are so small that attention is nearly uniform whatever the positions are.
  for (ParameterGroup* group : stage->parameter_groups()) {
    for (std::size_t i = 0; i < group->parameters().size(); ++i) {
      if (group->parameters()[i].matrix) group->data(static_cast<int>(i)).mul_(20);
    }
  }
  Microbatch microbatch = microbatch_of(at::randint(19, {2, 18}, at::kLong), 0, 2);
  const double expected = train({stage}, microbatch).loss_sum;
  microbatch.kwargs["position_ids"] = at::arange(17).expand({2, 17}).contiguous();
  EXPECT_EQ(train({stage}, microbatch).loss_sum, expected);
  // Rotary embedding sees differences of positions only.
  microbatch.kwargs["position_ids"].add_(5);
  EXPECT_NEAR(train({stage}, microbatch).loss_sum, expected, 1e-4 * expected);
  microbatch.kwargs["position_ids"].mul_(2);
  EXPECT_GT(std::abs(train({stage}, microbatch).loss_sum - expected), 1e-3 * expected);
}

/// Freezes the parameters of which `is_frozen` says so, and compares with a stage of which none is.
void expect_frozen(const ModelSpec& spec, const std::function<bool(const std::string&)>& is_frozen) {
  const Microbatch microbatch = microbatch_of(at::randint(19, {2, 18}, at::kLong), 0, 2);
  const auto free = whole(spec);
  const auto frozen = whole(spec);
  train({free}, microbatch);
  for (ParameterGroup* group : frozen->parameter_groups()) {
    for (Parameter& parameter : group->parameters()) parameter.trainable = !is_frozen(parameter.name);
  }
  SavedActivations saved;
  LossReport loss;
  frozen->forward(microbatch, {}, saved, &loss);
  WeightGradQueue queue;
  queue.begin_microbatch(0, true);
  frozen->backward(microbatch, {}, saved, queue);
  queue.end_microbatch();
  queue.drain(0);
  EXPECT_TRUE(saved.tensors.empty());
  for (std::size_t g = 0; g < free->parameter_groups().size(); ++g) {
    ParameterGroup& group = *frozen->parameter_groups()[g];
    for (std::size_t i = 0; i < group.parameters().size(); ++i) {
      const at::Tensor expected = free->parameter_groups()[g]->grad(static_cast<int>(i));
      const at::Tensor actual = group.grad(static_cast<int>(i));
      if (is_frozen(group.parameters()[i].name)) {
        EXPECT_EQ(actual.abs().max().item<float>(), 0.0F) << group.parameters()[i].name;
      } else {
        EXPECT_TRUE(at::allclose(actual, expected, 1e-4, 1e-6)) << group.parameters()[i].name;
      }
    }
  }
}

TEST(DecoderStage, LeavesGradientsOfFrozenParametersAtZeroAndTheOthersAsTheyAre) {
  expect_frozen(llama({{"attention_bias", "true"}}), [](const std::string& name) {
    return name.find("embed_tokens") != std::string::npos || name.find("layers.0.") != std::string::npos ||
           name.find("k_proj") != std::string::npos || name.find("norm") != std::string::npos;
  });
}

TEST(DecoderStage, LeavesGradientsOfFrozenExpertsAtZeroAndTheOthersAsTheyAre) {
  const ModelSpec spec = parse_model_keys("mixtral", {{"vocab_size", "19"},
                                                      {"hidden_size", "24"},
                                                      {"intermediate_size", "20"},
                                                      {"num_hidden_layers", "2"},
                                                      {"num_attention_heads", "4"},
                                                      {"num_local_experts", "4"},
                                                      {"num_experts_per_tok", "2"}});
  expect_frozen(spec, [](const std::string& name) {
    return name.find("experts.1.w3") != std::string::npos || name.find("experts.2.") != std::string::npos ||
           name.find("layers.1.block_sparse_moe.gate") != std::string::npos;
  });
}

TEST(DecoderStage, WithoutTrainableParametersRunsForwardAndBackward) {
  const ModelSpec spec = llama();
  const auto stage = build_stage(spec, at::kFloat, {0, 2, true, false}, 7);
  initialize(*stage, 3);
  for (ParameterGroup* group : stage->parameter_groups()) {
    for (Parameter& parameter : group->parameters()) parameter.trainable = false;
  }
  const Microbatch microbatch = microbatch_of(at::randint(19, {2, 18}, at::kLong), 0, 2);
  SavedActivations saved;
  const TensorList out = stage->forward(microbatch, {}, saved, nullptr);
  EXPECT_TRUE(saved.tensors.empty());
  WeightGradQueue queue;
  queue.begin_microbatch(0, false);
  EXPECT_TRUE(stage->backward(microbatch, {at::ones_like(out[0])}, saved, queue).empty());
  queue.end_microbatch();
}

TEST(DecoderStage, NamesTokensAndLabelsThatAreOutsideOfTheVocabulary) {
  const auto stage = whole(llama());
  const auto message = [&](const char* key, std::int64_t value) {
    Microbatch microbatch = microbatch_of(at::zeros({1, 5}, at::kLong), 0, 1);
    microbatch.kwargs[key][0][2] = value;
    SavedActivations saved;
    LossReport loss;
    try {
      stage->forward(microbatch, {}, saved, &loss);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message("input_ids", 19), "id 19 of token 2 of a microbatch is outside of the table of 19 rows");
  EXPECT_EQ(message("labels", 300), "label 300 of token 2 of a microbatch is outside of the vocabulary of 19");
  EXPECT_EQ(message("labels", -1), "label -1 of token 2 of a microbatch is outside of the vocabulary of 19");
}

TEST(DecoderStage, RefusesSequencesLongerThanTheTableOfPositions) {
  const auto stage = whole(gpt2_with_dropout());
  SavedActivations saved;
  try {
    stage->forward(microbatch_of(at::zeros({1, 34}, at::kLong), 0, 1), {}, saved, nullptr);
    FAIL() << "33 tokens were accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "a sequence of 33 tokens is longer than the model's 32 positions");
  }
}

TEST(DecoderStage, CountsNoLossWhereNothingIsLabelled) {
  const auto stage = whole(llama());
  Microbatch microbatch = microbatch_of(at::zeros({1, 5}, at::kLong), 0, 1);
  microbatch.kwargs["labels"].fill_(-100);
  const LossReport loss = train({stage}, microbatch);
  EXPECT_EQ(loss.num_labels, 0);
  EXPECT_EQ(loss.mean(), 0.0);
  for (ParameterGroup* group : stage->parameter_groups()) EXPECT_EQ(group->flat_grad().abs().max().item<float>(), 0.0F);
}

TEST(Initialize, DependsOnSeedAndNameAlone) {
  const ModelSpec spec = llama({{"hidden_size", "64"}, {"tie_word_embeddings", "true"}});
  const auto all = whole(spec);
  const auto part = build_stage(spec, at::kFloat, {2, 3, false, true}, 99);
  initialize(*part, 3);
  EXPECT_TRUE(at::equal(part->parameter_groups()[0]->flat_data(), all->parameter_groups()[3]->flat_data()));
  ParameterGroup& head = *part->parameter_groups()[1];
  EXPECT_EQ(head.parameters()[1].name, "lm_head.weight");
  EXPECT_EQ(head.parameters()[1].tied_to, "model.embed_tokens.weight");
  EXPECT_TRUE(at::equal(head.data(1), all->parameter_groups()[0]->data(0)));
  initialize(*part, 4);
  EXPECT_FALSE(at::equal(part->parameter_groups()[0]->flat_data(), all->parameter_groups()[3]->flat_data()));
}

TEST(Initialize, DrawsNormalNumbersWithTheFamilysDeviation) {
  const ModelSpec spec =
      parse_model_keys("gpt2", {{"vocab_size", "500"}, {"n_embd", "64"}, {"n_layer", "8"}, {"n_head", "4"}});
  const auto stage = whole(spec);
  ParameterGroup& layer = *stage->parameter_groups()[1];
  for (std::size_t i = 0; i < layer.parameters().size(); ++i) {
    const Parameter& parameter = layer.parameters()[i];
    const at::Tensor data = layer.data(static_cast<int>(i));
    if (!parameter.matrix) {
      EXPECT_EQ(data.sum().item<double>(),
                parameter.name.ends_with("ln_1.weight") || parameter.name.ends_with("ln_2.weight") ? 64.0 : 0.0);
      continue;
    }
    const double expected = parameter.name.find("c_proj") != std::string::npos ? 0.02 / 4.0 : 0.02;
    EXPECT_NEAR(data.std().item<double>(), expected, 0.03 * expected) << parameter.name;
    EXPECT_NEAR(data.mean().item<double>(), 0.0, 0.05 * expected) << parameter.name;
  }
}

}  // namespace
}  // namespace ppctl
