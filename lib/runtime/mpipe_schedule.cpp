#include "runtime/mpipe_schedule.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "runtime/tensor_bytes.hpp"

namespace ppctl {
namespace {

/// Encoders use the tag spaces from here on: apart from those of executors.
constexpr int kFirstTagSpace = 1 << 10;

/// Gives an encoder its inputs as a first stage gets them: nobody waits for the gradients of data.
class LoadedModule final : public StageModule {
 public:
  explicit LoadedModule(std::shared_ptr<StageModule> module) : module_(std::move(module)) {}

  TensorList forward(const Microbatch& microbatch, TensorList inputs, SavedActivations& saved,
                     LossReport* /*loss*/) override {
    Microbatch loaded = microbatch;
    loaded.args = std::move(inputs);
    return module_->forward(loaded, {}, saved, nullptr);
  }
  TensorList backward(const Microbatch& microbatch, TensorList output_grads, SavedActivations& saved,
                      WeightGradQueue& queue) override {
    return module_->backward(microbatch, std::move(output_grads), saved, queue);
  }
  std::vector<ParameterGroup*> parameter_groups() override { return module_->parameter_groups(); }
  void set_expert_exchange(ExpertExchange* exchange) override { module_->set_expert_exchange(exchange); }

 private:
  std::shared_ptr<StageModule> module_;
};

bool trains(StageModule* module) {
  if (module == nullptr) return false;
  const std::vector<ParameterGroup*> groups = module->parameter_groups();
  return std::ranges::any_of(groups, [](const ParameterGroup* group) { return group->trainable(); });
}

PipelineOptions with_transpose(PipelineOptions options, const TransposeOptions& transpose, StageModule* module,
                               int num_transpose_layers) {
  if (num_transpose_layers < 0) throw_error("num_transpose_layers is {}, not 0 or more", num_transpose_layers);
  if (num_transpose_layers > 0 && module == nullptr) {
    throw_error("num_transpose_layers is {}, but there is no preprocess module", num_transpose_layers);
  }
  if (num_transpose_layers == 0 && module != nullptr) {
    throw_error("num_transpose_layers is 0, so the preprocess module would not run: leave it to the first stage");
  }
  MpipeOptions& mpipe = options.passes.mpipe;
  mpipe.enabled = true;
  mpipe.encodes = module != nullptr;
  mpipe.trains = trains(module);
  mpipe.just_in_time = transpose.just_in_time;
  mpipe.consumer = transpose.consumer;
  return options;
}

}  // namespace

ScheduleMPipeTranspose::ScheduleMPipeTranspose(std::vector<StagePtr> stages, int micro_batch_num,
                                               std::shared_ptr<StageModule> preprocess_module, int num_transpose_layers,
                                               Communicator& communicator, TransposeOptions transpose,
                                               PipelineOptions options)
    : PipelineSchedule(transpose.body, std::move(stages), micro_batch_num, communicator,
                       with_transpose(options, transpose, preprocess_module.get(), num_transpose_layers)) {
  const double timeout_s = options.executor.timeout_s;
  ranks_ = communicator.group(this->options().world_ranks, "preprocess module");
  TransposedEncoderOptions encoder;
  encoder.consumer = StageId(transpose.consumer);
  encoder.trains = trains(preprocess_module.get());
  encoder.recomputes = transpose.recomputes;
  encoder.accumulates = true;
  encoder.timeout_s = timeout_s;
  encoder.tag_space = kFirstTagSpace + options.executor.tag_space;
  if (!transpose.load) transpose.load = [](const Microbatch& microbatch) { return microbatch.args; };
  std::shared_ptr<StageModule> module;
  if (preprocess_module != nullptr) {
    for (ParameterGroup* group : preprocess_module->parameter_groups()) {
      at::Tensor data = group->flat_data();
      ranks_->broadcast(mutable_bytes(data), 0, Deadline::after_seconds(timeout_s));
    }
    module = std::make_shared<LoadedModule>(std::move(preprocess_module));
  }
  encoder_ = std::make_unique<TransposedEncoder>(
      schedule(), PipelineRanks{&communicator.transport(), executor().rank(), this->options().world_ranks},
      std::move(module), std::move(transpose.load), *ranks_, encoder);
  set_hooks({});
}

void ScheduleMPipeTranspose::set_hooks(StepHooks hooks) {
  hooks.preprocess = encoder_.get();
  executor().set_hooks(hooks);
}

}  // namespace ppctl
