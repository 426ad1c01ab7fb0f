#include "runtime/tensor_meter.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "arch/stage_memory.hpp"
#include "model/family.hpp"
#include "support/recompute_modes.hpp"

namespace ppctl {
namespace {

TEST(TensorMeter, CountsTheBytesOfTensorsThatLiveAndTheirPeak) {
  const at::Tensor before = at::empty({1000});
  const TensorMeter meter;
  EXPECT_EQ(meter.live_bytes(), 0);
  at::Tensor kept = at::empty({100});
  {
    const at::Tensor temporary = at::empty({300}, at::kDouble);
    const at::Tensor view = temporary.narrow(0, 10, 20);
  }
  EXPECT_EQ(meter.live_bytes(), 400);
  EXPECT_EQ(meter.peak_bytes(), 400 + 2400);
  kept = at::Tensor();
  EXPECT_EQ(meter.live_bytes(), 0);
}

TEST(TensorMeter, ForgetsThePeakOnRequest) {
  TensorMeter meter;
  const at::Tensor kept = at::empty({10});
  {
    const at::Tensor temporary = at::empty({100});
  }
  meter.reset_peak();
  EXPECT_EQ(meter.peak_bytes(), 40);
}

TEST(TensorMeter, HearsItsOwnThreadAloneAndMayBeNested) {
  const TensorMeter meter;
  std::thread([] {
    const TensorMeter other;
    const at::Tensor tensor = at::empty({8});
    EXPECT_EQ(other.live_bytes(), 32);
  }).join();
  EXPECT_EQ(meter.live_bytes(), 0);
  {
    const TensorMeter inner;
    const at::Tensor tensor = at::empty({8});
    EXPECT_EQ(inner.live_bytes(), 32);
  }
  const at::Tensor tensor = at::empty({8});
  EXPECT_EQ(meter.live_bytes(), 32);
}

using Keys = std::map<std::string, std::string>;

struct StageCase {
  const char* name;
  const char* family;
  Keys keys;
};

const Keys kLlama = {{"vocab_size", "200"},          {"hidden_size", "64"},        {"intermediate_size", "96"},
                     {"num_hidden_layers", "4"},     {"num_attention_heads", "4"}, {"num_key_value_heads", "2"},
                     {"tie_word_embeddings", "true"}};
const Keys kGpt2 = {{"vocab_size", "200"}, {"n_embd", "64"}, {"n_layer", "4"}, {"n_head", "4"}, {"n_positions", "40"}};

class StepsOfAStage : public testing::TestWithParam<StageCase> {};

/// The most that lives during a step above what lived before, and what is left of it.
template <class Step>
StepMemory measured(TensorMeter& meter, Step&& step) {
  const std::int64_t before = meter.live_bytes();
  meter.reset_peak();
  step();
  return {meter.peak_bytes() - before, meter.live_bytes() - before};
}

/// One microbatch through `range`, forward and backward, against the sketch of the same stage, whose inputs are tensors
/// here.
void expect_as_planned(const ModelSpec& spec, const StageRange& range, std::int64_t samples, bool divided) {
  constexpr std::int64_t kSequence = 24;
  const auto stage = build_stage(spec, at::kFloat, range, 3);
  initialize(*stage, 5);
  const SketchShape shape{samples, kSequence, 4};
  const StageMemory plan = stage_memory(spec, range, shape, {/*input_received=*/false, /*gradient_received=*/false});
  Microbatch microbatch;
  microbatch.loss_scale = 0.1;
  if (range.has_embedding) microbatch.args = {at::randint(spec.vocab_size, {samples, kSequence}, at::kLong)};
  if (range.has_head) microbatch.kwargs["labels"] = at::randint(spec.vocab_size, {samples, kSequence}, at::kLong);
  // The first pass makes the tables of the rotary embedding.
  for (const bool counts : {false, true}) {
    TensorMeter meter;
    SavedActivations saved;
    WeightGradQueue queue;
    const auto hidden = [&] { return TensorList{at::randn({samples, kSequence, spec.hidden_size})}; };
    TensorList inputs = range.has_embedding ? TensorList() : hidden();
    TensorList outputs;
    const StepMemory forward =
        measured(meter, [&] { outputs = stage->forward(microbatch, std::move(inputs), saved, nullptr); });
    outputs.clear();
    TensorList gradients = range.has_head ? TensorList() : hidden();
    queue.begin_microbatch(0, divided);
    const StepMemory backward =
        measured(meter, [&] { outputs = stage->backward(microbatch, std::move(gradients), saved, queue); });
    queue.end_microbatch();
    outputs.clear();
    const std::int64_t queued = meter.live_bytes();
    const StepMemory weight = measured(meter, [&] {
      if (divided) queue.drain(0);
    });
    if (!counts) continue;
    EXPECT_EQ(forward.peak, plan.forward.peak);
    EXPECT_EQ(forward.change, plan.forward.change);
    const StepMemory& planned = divided ? plan.backward_input : plan.backward;
    EXPECT_EQ(backward.peak, planned.peak);
    EXPECT_EQ(backward.change, planned.change);
    if (!divided) continue;
    EXPECT_EQ(queued, plan.queued_bytes);
    EXPECT_EQ(weight.peak, plan.backward_weight.peak);
    EXPECT_EQ(weight.change, plan.backward_weight.change);
  }
}

TEST_P(StepsOfAStage, TakeTheMemoryThatTheirSketchTakes) {
  at::manual_seed(1);
  const ModelSpec spec = parse_model_keys(GetParam().family, GetParam().keys);
  const std::vector<StageRange> ranges = {
      {0, 2, true, false}, {1, 3, false, false}, {3, 4, false, true}, {0, 4, true, true}};
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    for (const std::int64_t samples : {1, 3}) {
      for (const bool divided : {false, true}) {
        SCOPED_TRACE(fmt::format("range {}, {} samples, divided {}", i, samples, divided));
        expect_as_planned(spec, ranges[i], samples, divided);
      }
    }
  }
}

TEST_P(StepsOfAStage, TakeThatMemoryAlsoWhereLayersRecompute) {
  at::manual_seed(1);
  const ModelSpec spec = parse_model_keys(GetParam().family, GetParam().keys);
  for (const auto& mode : test::recompute_modes()) {
    for (const StageRange& range : {StageRange{0, 3, true, false}, StageRange{0, 4, true, true}}) {
      for (const bool divided : {false, true}) {
        SCOPED_TRACE(fmt::format("{}, {} layers, divided {}", mode.name, range.last_layer, divided));
        expect_as_planned(spec, mode.on(range), 2, divided);
      }
    }
  }
}

const std::vector<StageCase>& stage_cases() {
  static const std::vector<StageCase> cases = {
      {"Llama", "llama", kLlama}, {"Qwen3", "qwen3", kLlama}, {"Gpt2WithDropout", "gpt2", kGpt2}};
  return cases;
}

std::string case_name(const testing::TestParamInfo<StageCase>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Families, StepsOfAStage, testing::ValuesIn(stage_cases()), case_name);

}  // namespace
}  // namespace ppctl
