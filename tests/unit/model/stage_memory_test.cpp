#include "arch/stage_memory.hpp"

#include <gtest/gtest.h>

#include <set>

#include "arch/declare.hpp"
#include "model/family.hpp"
#include "support/recompute_modes.hpp"

namespace ppctl {
namespace {

using Keys = std::map<std::string, std::string>;

const Keys kLlama = {{"vocab_size", "40"},         {"hidden_size", "24"},
                     {"intermediate_size", "20"},  {"num_hidden_layers", "4"},
                     {"num_attention_heads", "4"}, {"num_key_value_heads", "2"},
                     {"initializer_range", "0.1"}, {"head_dim", "10"}};
const Keys kGpt2 = {{"vocab_size", "40"}, {"n_embd", "24"},      {"n_layer", "4"},
                    {"n_head", "4"},      {"n_positions", "40"}, {"initializer_range", "0.1"}};
const Keys kNoDropout = {{"resid_pdrop", "0"}, {"embd_pdrop", "0"}, {"attn_pdrop", "0"}};

Keys with(Keys keys, const Keys& more) {
  for (const auto& [key, value] : more) keys[key] = value;
  return keys;
}

struct Case {
  const char* name;
  const char* family;
  Keys keys;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> result = {
      {"Llama", "llama", kLlama},
      {"LlamaTiedWithBiasesAndDropout", "llama",
       with(kLlama, {{"tie_word_embeddings", "true"},
                     {"attention_bias", "true"},
                     {"mlp_bias", "true"},
                     {"attention_dropout", "0.1"}})},
      {"Qwen3", "qwen3", kLlama},
      {"Qwen3Tied", "qwen3", with(kLlama, {{"tie_word_embeddings", "true"}})},
      {"Mixtral", "mixtral", with(kLlama, {{"num_local_experts", "6"}, {"num_experts_per_tok", "2"}})},
      {"MixtralWithAuxiliaryLoss", "mixtral",
       with(kLlama, {{"num_local_experts", "6"}, {"num_experts_per_tok", "2"}, {"output_router_logits", "true"}})},
      {"Qwen3MoeWithDenseLayers", "qwen3_moe",
       with(kLlama, {{"num_experts", "6"},
                     {"num_experts_per_tok", "3"},
                     {"moe_intermediate_size", "12"},
                     {"decoder_sparse_step", "2"}})},
      {"Gpt2WithDropout", "gpt2", kGpt2},
      {"Gpt2WithoutDropoutUntied", "gpt2", with(with(kGpt2, kNoDropout), {{"tie_word_embeddings", "false"}})},
  };
  return result;
}

const std::vector<std::pair<std::string, StageRange>>& ranges() {
  static const std::vector<std::pair<std::string, StageRange>> result = {
      {"first", {0, 2, true, false}}, {"middle", {1, 3, false, false}},         {"last", {2, 4, false, true}},
      {"whole", {0, 4, true, true}},  {"embedding alone", {0, 0, true, false}}, {"head alone", {4, 4, false, true}},
  };
  return result;
}

constexpr std::int64_t kSequence = 12;

/// A microbatch's way through a stage of lib/model, its tensors held here.
class Passage {
 public:
  Passage(const ModelSpec& spec, const StageRange& range, at::ScalarType dtype, std::int64_t samples)
      : range_(range), stage_(build_stage(spec, dtype, range, 3)) {
    initialize(*stage_, 5);
    microbatch_.loss_scale = 0.1;
    const auto ids = [&] { return at::randint(spec.vocab_size, {samples, kSequence}, at::kLong); };
    if (range.has_embedding) microbatch_.args = {ids()};
    if (range.has_head) microbatch_.kwargs["labels"] = ids();
    const auto hidden = [&] { return at::randn({samples, kSequence, spec.hidden_size}).to(dtype); };
    if (!range.has_embedding) input_ = hidden();
    if (!range.has_head) gradient_ = hidden();
    if (spec.has_aux_loss()) sums_ = at::zeros({2, spec.num_experts}, at::kDouble);
  }

  StageModule& stage() { return *stage_; }
  void forward() {
    TensorList inputs;
    if (input_.defined()) inputs.push_back(input_);
    if (input_.defined() && sums_.defined()) inputs.push_back(sums_);
    stage_->forward(microbatch_, inputs, saved_, nullptr);
  }
  void backward_input() {
    queue_.begin_microbatch(0, /*defer=*/true);
    stage_->backward(microbatch_, gradient_.defined() ? TensorList{gradient_} : TensorList{}, saved_, queue_);
    queue_.end_microbatch();
  }
  void backward_weight() { queue_.drain(0); }

  std::vector<std::int64_t> saved() const {
    std::vector<std::int64_t> bytes;
    for (const at::Tensor& tensor : saved_.tensors) bytes.push_back(static_cast<std::int64_t>(tensor.nbytes()));
    return bytes;
  }
  /// Bytes of the memory of what is saved, each once, but for what came from outside.
  std::int64_t saved_memory() const {
    std::set<const void*> seen = {storage(input_)};
    for (const at::Tensor& given : microbatch_.args) seen.insert(storage(given));
    std::int64_t bytes = 0;
    for (const at::Tensor& tensor : saved_.tensors) {
      if (seen.insert(storage(tensor)).second) bytes += static_cast<std::int64_t>(tensor.storage().nbytes());
    }
    return bytes;
  }

 private:
  static const void* storage(const at::Tensor& tensor) {
    return tensor.defined() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
  }

  StageRange range_;
  std::shared_ptr<StageModule> stage_;
  Microbatch microbatch_;
  at::Tensor input_, gradient_, sums_;
  SavedActivations saved_;
  WeightGradQueue queue_;
};

class StageMemoryOf : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    at::manual_seed(1);
    spec_ = parse_model_keys(GetParam().family, GetParam().keys);
  }
  ModelSpec spec_;
};

std::string case_name(const testing::TestParamInfo<Case>& info) { return info.param.name; }

TEST_P(StageMemoryOf, DeclaresTheParametersThatTheModulesHave) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    for (const auto& [name, range] : ranges()) {
      const auto stage = build_stage(spec_, dtype, range, 3);
      const auto groups = stage_groups(spec_, range, static_cast<std::int64_t>(c10::elementSize(dtype)));
      const auto built = stage->parameter_groups();
      ASSERT_EQ(groups.size(), built.size()) << name;
      for (std::size_t g = 0; g < groups.size(); ++g) {
        EXPECT_EQ(groups[g].numel(), built[g]->numel()) << built[g]->name();
        ASSERT_EQ(groups[g].parameters().size(), built[g]->parameters().size()) << built[g]->name();
        for (std::size_t i = 0; i < groups[g].parameters().size(); ++i) {
          const Parameter& planned = groups[g].parameters()[i];
          const Parameter& real = built[g]->parameters()[i];
          EXPECT_EQ(planned.name, real.name);
          EXPECT_EQ(planned.shape, real.shape) << real.name;
          EXPECT_EQ(planned.offset, real.offset) << real.name;
          EXPECT_EQ(planned.tied_to, real.tied_to) << real.name;
        }
      }
    }
  }
}

TEST_P(StageMemoryOf, KnowsEveryTensorThatAForwardSaves) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const auto& [name, range] : ranges()) {
      for (const std::int64_t samples : {1, 2}) {
        Passage passage(spec_, range, dtype, samples);
        passage.forward();
        const SketchShape shape{samples, kSequence, static_cast<std::int64_t>(c10::elementSize(dtype))};
        const StageMemory memory = stage_memory(spec_, range, shape);
        EXPECT_EQ(memory.saved, passage.saved()) << name << ", " << c10::toString(dtype);
        EXPECT_EQ(memory.saved_bytes, passage.saved_memory()) << name << ", " << c10::toString(dtype);
      }
    }
  }
}

TEST_P(StageMemoryOf, KnowsWhatIsSavedWhereLayersRecompute) {
  const SketchShape shape{2, kSequence, 4};
  for (const auto& mode : test::recompute_modes()) {
    for (const auto& [name, range] : ranges()) {
      const StageRange recomputing = mode.on(range);
      Passage passage(spec_, recomputing, at::kFloat, 2);
      passage.forward();
      const StageMemory memory = stage_memory(spec_, recomputing, shape);
      EXPECT_EQ(memory.saved, passage.saved()) << name << ", " << mode.name;
      EXPECT_EQ(memory.saved_bytes, passage.saved_memory()) << name << ", " << mode.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, StageMemoryOf, testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace ppctl
