#include "train/optimizer.hpp"

#include "base/error.hpp"

namespace ppctl {
namespace {

constexpr std::size_t kDecayed = 0;
constexpr std::size_t kNotDecayed = 1;

std::size_t bucket_of(const Parameter& parameter, bool decay_all) {
  return decay_all || parameter.matrix ? kDecayed : kNotDecayed;
}

}  // namespace

AdamW::AdamW(const OptimizerConfig& config, std::vector<ParameterGroup*> groups) : config_(config), buckets_(2) {
  if (config.name != "adamw") throw_error("optimizer.name is '{}'; it must be adamw", config.name);
  buckets_[kDecayed].weight_decay = config.weight_decay;
  for (ParameterGroup* group : groups) {
    moments_.push_back({group, at::zeros_like(group->flat_data()), at::zeros_like(group->flat_data())});
    add_to_buckets(moments_.back());
  }
}

void AdamW::add_to_buckets(const Moments& moments) {
  const auto& parameters = moments.group->parameters();
  const bool decay_all = config_.decay == "all";
  for (std::size_t first = 0; first < parameters.size();) {
    const std::size_t bucket = bucket_of(parameters[first], decay_all);
    std::size_t end = first + 1;
    while (end < parameters.size() && parameters[end].trainable == parameters[first].trainable &&
           bucket_of(parameters[end], decay_all) == bucket) {
      ++end;
    }
    if (parameters[first].trainable) {
      const std::int64_t start = parameters[first].offset;
      const std::int64_t length = parameters[end - 1].offset + parameters[end - 1].numel - start;
      buckets_[bucket].data.push_back(moments.group->flat_data().narrow(0, start, length));
      buckets_[bucket].grad.push_back(moments.group->flat_grad().narrow(0, start, length));
      buckets_[bucket].exp_avg.push_back(moments.exp_avg.narrow(0, start, length));
      buckets_[bucket].exp_avg_sq.push_back(moments.exp_avg_sq.narrow(0, start, length));
    }
    first = end;
  }
}

void AdamW::step(double lr) {
  ++num_steps_;
  for (Bucket& bucket : buckets_) {
    if (bucket.data.empty()) continue;
    const std::vector<at::Tensor> counts(bucket.data.size(),
                                         at::scalar_tensor(static_cast<double>(num_steps_), at::kFloat));
    at::_fused_adamw_(bucket.data, bucket.grad, bucket.exp_avg, bucket.exp_avg_sq, /*max_exp_avg_sqs=*/{}, counts, lr,
                      config_.beta1, config_.beta2, bucket.weight_decay, config_.eps, /*amsgrad=*/false,
                      /*maximize=*/false, /*grad_scale=*/{}, /*found_inf=*/{});
  }
}

std::vector<AdamW::State> AdamW::states() {
  std::vector<State> states;
  for (const Moments& moments : moments_) {
    const auto& parameters = moments.group->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const Parameter& parameter = parameters[i];
      State state{&parameter, moments.group->data(static_cast<int>(i)), {}, {}};
      if (parameter.trainable) {
        const auto view = [&](const at::Tensor& flat) {
          return flat.narrow(0, parameter.offset, parameter.numel).view(parameter.shape);
        };
        state.exp_avg = view(moments.exp_avg);
        state.exp_avg_sq = view(moments.exp_avg_sq);
      }
      states.push_back(std::move(state));
    }
  }
  return states;
}

}  // namespace ppctl
