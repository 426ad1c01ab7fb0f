#include "unit/runtime/toy_pipeline.hpp"

#include <gtest/gtest.h>

#include <mutex>

#include "base/error.hpp"
#include "comm/inproc.hpp"
#include "runtime/autograd_module.hpp"
#include "runtime/overlapped_pairs.hpp"
#include "runtime/stage_replicas.hpp"
#include "runtime/swap_wrapper.hpp"
#include "schedule/generator.hpp"
#include "schedule/verify.hpp"

namespace ppctl::toy {
namespace {

/// Numbers that depend on their place and seed alone.
at::Tensor numbers(std::vector<std::int64_t> shape, int seed, at::ScalarType dtype) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return at::sin(at::arange(count, at::kDouble) * 0.7 + seed * 1.3).view(shape).mul(0.6).to(dtype);
}

struct LayerWeights {
  Layer kind;
  at::Tensor weight;
  at::Tensor bias;
};

TensorList run_layer(const LayerWeights& layer, TensorList x, const Microbatch& microbatch) {
  switch (layer.kind) {
    case Layer::kDense:
    case Layer::kFrozen:
      x[0] = at::tanh(at::addmm(layer.bias, x[0], layer.weight));
      break;
    case Layer::kTwice:
      x[0] = at::tanh(at::tanh(x[0].mm(layer.weight)).mm(layer.weight));
      break;
    case Layer::kNoParameters:
      x[0] = x[0] * 0.5;
      break;
    case Layer::kSkip: {
      at::Tensor skip = x.size() > 1 ? x[1] + x[0] : x[0] * 1.0;
      x = {at::tanh(at::addmm(layer.bias, x[0], layer.weight)), skip};
      break;
    }
    case Layer::kForgetful: {
      const bool forget = microbatch.index % 2 == 1;
      at::Tensor skip = x.size() > 1 && !forget ? x[1] + x[0] : x[0] * 1.0;
      x = {at::tanh(at::addmm(layer.bias, x[0], layer.weight)), skip};
      break;
    }
  }
  return x;
}

LossValue loss_of(const TensorList& outputs, const Microbatch& microbatch) {
  at::Tensor sum = (outputs[0] - microbatch.kwargs.at("labels")).square().sum();
  // An even microbatch also looks at the second tensor.
  if (outputs.size() > 1 && microbatch.index % 2 == 0) sum = sum + outputs[1].sum();
  return {sum, outputs[0].size(0), {}};
}

std::shared_ptr<StageModule> make_module(const Job& job, int begin, int end, bool last) {
  std::vector<LayerWeights> layers;
  std::vector<NamedTensor> parameters;
  for (int i = begin; i < end; ++i) {
    LayerWeights layer{job.layers[static_cast<std::size_t>(i)], {}, {}};
    if (layer.kind != Layer::kNoParameters) {
      layer.weight = numbers({job.width, job.width}, i, job.dtype).requires_grad_(layer.kind != Layer::kFrozen);
      layer.bias = numbers({job.width}, 100 + i, job.dtype).requires_grad_(true);
      parameters.push_back({fmt::format("layers.{}.weight", i), layer.weight});
      if (layer.kind != Layer::kTwice) parameters.push_back({fmt::format("layers.{}.bias", i), layer.bias});
    }
    layers.push_back(layer);
  }
  const auto forward = [layers, swaps = job.swaps](const TensorList& inputs, const Microbatch& microbatch) {
    TensorList x = inputs;
    for (const LayerWeights& layer : layers) {
      auto swapped = swap_wrapper([&](TensorList in) { return run_layer(layer, std::move(in), microbatch); });
      x = swaps ? swapped(std::move(x)) : run_layer(layer, std::move(x), microbatch);
    }
    return x;
  };
  return std::make_shared<AutogradModule>(AutogradModule::Forward(forward), parameters,
                                          last ? AutogradModule::Loss(loss_of) : AutogradModule::Loss());
}

std::vector<Microbatch> make_microbatches(const Job& job, int step, int begin, int end) {
  std::int64_t total = 0;
  const auto rows_of = [&](int i) { return job.ragged ? i + 1 + step : 2; };
  for (int i = 0; i < job.num_microbatches; ++i) total += rows_of(i);
  std::vector<Microbatch> microbatches;
  for (int i = begin; i < end; ++i) {
    Microbatch microbatch;
    microbatch.step = step;
    microbatch.index = i;
    microbatch.loss_scale = 1.0 / static_cast<double>(total);
    microbatch.args = {numbers({rows_of(i), job.width}, 1000 + 50 * step + i, job.dtype)};
    microbatch.kwargs["labels"] = numbers({rows_of(i), job.width}, 5000 + 50 * step + i, job.dtype);
    microbatches.push_back(microbatch);
  }
  return microbatches;
}

/// Runs one rank and writes what it knows into the shared result.
class RankJob {
 public:
  RankJob(const Job& job, const Schedule& schedule, Communicator& communicator)
      : job_(job), schedule_(schedule), communicator_(communicator), rank_(communicator.transport().rank()) {
    const int num_stages = schedule.num_stages();
    const int num_layers = static_cast<int>(job.layers.size());
    for (const StageId stage : schedule.placement.stages_of(rank_)) {
      const int begin = stage.value * num_layers / num_stages;
      const int end = (stage.value + 1) * num_layers / num_stages;
      const auto module = make_module(job, begin, end, stage.value == num_stages - 1);
      stages_.push_back(std::make_shared<PipelineStage>(module, stage.value, num_stages));
      StageShards shards{stage, {}};
      for (ParameterGroup* group : module->parameter_groups()) {
        shards_.push_back(std::make_unique<GroupShard>(*group));
        shards.groups.push_back(shards_.back().get());
      }
      parameters_.push_back(std::move(shards));
    }
  }

  void run(Result& result, std::mutex& mutex) {
    std::vector<int> world(static_cast<std::size_t>(schedule_.pp()));
    for (int i = 0; i < schedule_.pp(); ++i) world[static_cast<std::size_t>(i)] = i;
    StageReplicas replicas(communicator_, schedule_.placement, rank_, world, parameters_);
    ExecutorOptions options;
    options.timeout_s = job_.timeout_s;
    options.validates = job_.validation != Validation::kNone;
    Executor executor(schedule_, {&communicator_.transport(), rank_, world}, stages_, options);
    OverlappedPairs pairs(communicator_.transport(), job_.timeout_s);
    if (job_.two_threads) executor.register_custom_function(MetaStepType::OVERLAP_B_F, pairs.function());
    if (job_.customise) job_.customise(executor);
    for (int step = 0; step < job_.steps; ++step) {
      for_each_group([](ParameterGroup& group) { group.zero_grad(); });
      run_step(executor, step, result, mutex);
      replicas.sum_grads(Deadline::after_seconds(job_.timeout_s));
      if (step == job_.steps - 1) collect(result.grads, mutex, &ParameterGroup::grad);
      for_each_group([](ParameterGroup& group) { group.flat_data().sub_(group.flat_grad(), 0.1); });
    }
    collect(result.weights, mutex, &ParameterGroup::data);
  }

 private:
  template <class Visit>
  void for_each_group(Visit visit) {
    for (const auto& shard : shards_) visit(shard->group());
  }

  void run_step(Executor& executor, int step, Result& result, std::mutex& mutex) {
    const int m = schedule_.num_microbatches;
    std::vector<at::Tensor> first_half;
    for (int begin = 0; begin < job_.num_microbatches; begin += m) {
      if (begin > 0) {
        for_each_group([&](ParameterGroup& group) {
          first_half.push_back(group.flat_grad().clone());
          group.zero_grad();
        });
      }
      const StepResult& got = run_batch(executor, make_microbatches(job_, step, begin, begin + m));
      if (job_.after_step) job_.after_step(executor, got);
      const std::lock_guard lock(mutex);
      for (const MicrobatchLoss& loss : got.losses) {
        const auto i = static_cast<std::size_t>(begin + loss.microbatch);
        result.losses[static_cast<std::size_t>(step)][i] = loss.report.loss_sum;
        result.loss_ranks[i] = rank_.value;
      }
    }
    std::size_t next = 0;
    for_each_group([&](ParameterGroup& group) {
      if (!first_half.empty()) group.flat_grad().add_(first_half[next++]);
    });
  }

  const StepResult& run_batch(Executor& executor, std::vector<Microbatch> microbatches) {
    if (job_.validation == Validation::kNone) return executor.run(std::move(microbatches));
    const bool right = job_.validation == Validation::kConfirms;
    std::vector<at::Tensor> final_data;
    for_each_group([&](ParameterGroup& group) {
      final_data.push_back(group.flat_data().clone());
      if (!right) group.flat_data().fill_(3.0);
    });
    return executor.run(std::move(microbatches), [&] {
      std::size_t next = 0;
      for_each_group([&](ParameterGroup& group) { group.flat_data().copy_(final_data[next++]); });
      return right;
    });
  }

  void collect(std::map<std::string, at::Tensor>& out, std::mutex& mutex,
               at::Tensor (ParameterGroup::*what)(int) const) {
    const std::lock_guard lock(mutex);
    for_each_group([&](ParameterGroup& group) {
      for (std::size_t i = 0; i < group.parameters().size(); ++i) {
        at::Tensor value = (group.*what)(static_cast<int>(i)).clone();
        const auto [known, is_new] = out.try_emplace(group.parameters()[i].name, value);
        if (!is_new) {
          EXPECT_TRUE(at::equal(known->second, value)) << known->first << " differs between its copies";
        }
      }
    });
  }

  const Job& job_;
  const Schedule& schedule_;
  Communicator& communicator_;
  PipelineRank rank_;
  std::vector<std::shared_ptr<PipelineStage>> stages_;
  std::vector<std::unique_ptr<GroupShard>> shards_;
  std::vector<StageShards> parameters_;
};

}  // namespace

Result train(const Job& job) {
  ScheduleSpec spec;
  spec.name = job.schedule;
  spec.pp = job.pp;
  spec.chunks = job.chunks;
  spec.num_microbatches = job.two_halves ? job.num_microbatches / 2 : job.num_microbatches;
  Schedule schedule = generate_schedule(spec);
  lower_schedule(schedule, job.passes);
  verify_schedule_or_throw(schedule);

  Result result;
  result.losses.assign(static_cast<std::size_t>(job.steps),
                       std::vector<double>(static_cast<std::size_t>(job.num_microbatches), -1.0));
  result.loss_ranks.assign(static_cast<std::size_t>(job.num_microbatches), -1);
  std::mutex mutex;
  run_inproc(job.pp, [&](Communicator& communicator) {
    try {
      RankJob(job, schedule, communicator).run(result, mutex);
    } catch (const std::exception& error) {
      if (job.on_failure) job.on_failure(communicator.transport().rank(), error.what());
      throw;
    }
  });
  return result;
}

Result train_alone(Job job) {
  job.schedule = "gpipe";
  job.pp = 1;
  job.chunks = 1;
  job.passes = PassOptions();
  job.customise = nullptr;
  job.after_step = nullptr;
  return train(job);
}

void expect_same_bits(const Result& got, const Result& wanted) {
  EXPECT_EQ(got.losses, wanted.losses);
  const auto compare = [](const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (const auto& [name, value] : b) {
      ASSERT_TRUE(a.contains(name)) << name;
      EXPECT_TRUE(at::equal(a.at(name), value)) << name << " differs";
    }
  };
  compare(got.grads, wanted.grads);
  compare(got.weights, wanted.weights);
}

}  // namespace ppctl::toy
