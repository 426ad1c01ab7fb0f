#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "model/hf_folder.hpp"
#include "storage/mapped_file.hpp"

namespace ppctl {
namespace {

/// A case of tests/data/parity: a checkpoint, tokens, and what transformers makes of them.
class ParityCase {
 public:
  explicit ParityCase(const std::string& name)
      : folder_(std::string(PPCTL_SOURCE_DIR) + "/tests/data/parity/" + name), tokens_(folder_ + "/tokens.bin") {
    std::ifstream file(folder_ + "/reference.json");
    reference_ = nlohmann::json::parse(file);
  }

  std::string checkpoint() const { return folder_ + "/checkpoint"; }
  const nlohmann::json& recipe() const { return reference_["recipe"]["data"]; }
  const nlohmann::json& step(int index) const { return reference_["results"]["steps"][index]; }
  int num_microbatches() const { return recipe()["num_microbatches"]; }

  /// A microbatch of step 0, with input_ids and labels.
  Microbatch microbatch(int index) const {
    const std::int64_t sequence = recipe()["seq_len"];
    const std::int64_t samples = recipe()["micro_batch_size"];
    Microbatch result;
    result.index = index;
    result.global_index = index;
    result.first_sample = index * samples;
    result.loss_scale = 1.0 / static_cast<double>(num_microbatches() * samples * sequence);
    const std::int64_t first = result.first_sample * sequence;
    result.kwargs["input_ids"] = tokens(first, samples * sequence).view({samples, sequence});
    result.kwargs["labels"] = tokens(first + 1, samples * sequence).view({samples, sequence});
    return result;
  }

 private:
  at::Tensor tokens(std::int64_t first, std::int64_t count) const {
    at::Tensor result = at::empty({count}, at::kLong);
    const auto* source = reinterpret_cast<const std::uint16_t*>(tokens_.bytes().data());
    for (std::int64_t i = 0; i < count; ++i) result.mutable_data_ptr<std::int64_t>()[i] = source[first + i];
    return result;
  }

  std::string folder_;
  MappedFile tokens_;
  nlohmann::json reference_;
};

/// Stages of a model one after the other, as a pipeline runs them.
struct Pipeline {
  std::vector<std::shared_ptr<StageModule>> stages;
  WeightGradQueue queue;

  Pipeline(const ModelSpec& spec, const HfWeights& weights, int num_stages) {
    for (int i = 0; i < num_stages; ++i) {
      const StageRange range{spec.num_layers * i / num_stages, spec.num_layers * (i + 1) / num_stages, i == 0,
                             i == num_stages - 1};
      stages.push_back(build_stage(spec, at::kFloat, range, 1));
      weights.load(*stages.back());
    }
  }

  LossReport run(const Microbatch& microbatch) {
    std::vector<SavedActivations> saved(stages.size());
    LossReport loss;
    TensorList values;
    for (std::size_t i = 0; i < stages.size(); ++i) values = stages[i]->forward(microbatch, values, saved[i], &loss);
    queue.begin_microbatch(microbatch.index, false);
    for (std::size_t i = stages.size(); i-- > 0;) {
      values = stages[i]->backward(microbatch, values, saved[i], queue);
      EXPECT_TRUE(saved[i].tensors.empty());
    }
    queue.end_microbatch();
    return loss;
  }

  /// L2 norm over all gradients; the two uses of a tied weight are summed first.
  double gradient_norm() {
    std::map<std::string, at::Tensor> gradients;
    for (const auto& stage : stages) {
      for (ParameterGroup* group : stage->parameter_groups()) {
        for (std::size_t i = 0; i < group->parameters().size(); ++i) {
          const Parameter& parameter = group->parameters()[i];
          at::Tensor& sum = gradients[parameter.tied_to.empty() ? parameter.name : parameter.tied_to];
          const at::Tensor gradient = group->grad(static_cast<int>(i)).to(at::kDouble);
          sum = sum.defined() ? sum + gradient : gradient;
        }
      }
    }
    double squares = 0.0;
    for (const auto& [name, gradient] : gradients) squares += gradient.square().sum().item<double>();
    return std::sqrt(squares);
  }
};

class Parity : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(Parity, MatchesLossesAndGradientNormOfTransformersAtStepZero) {
  const auto [name, num_stages] = GetParam();
  const ParityCase parity(name);
  const ModelSpec spec = read_hf_config(parity.checkpoint());
  const HfWeights weights(parity.checkpoint(), spec);
  Pipeline pipeline(spec, weights, num_stages);
  for (int i = 0; i < parity.num_microbatches(); ++i) {
    const LossReport loss = pipeline.run(parity.microbatch(i));
    EXPECT_EQ(loss.num_labels, 64);
    const double expected = parity.step(0)["microbatch_losses"][i];
    EXPECT_NEAR(loss.mean(), expected, 1e-6 * expected);
  }
  const double expected = parity.step(0)["grad_norm"];
  EXPECT_NEAR(pipeline.gradient_norm(), expected, 2e-6 * expected);
}

INSTANTIATE_TEST_SUITE_P(Families, Parity,
                         testing::Combine(testing::Values("llama-tiny", "llama-tied", "qwen3-tiny", "gpt2-tiny"),
                                          testing::Values(1, 2)));

}  // namespace
}  // namespace ppctl
