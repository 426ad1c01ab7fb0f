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

AdamW::AdamW(const OptimizerConfig& config, std::vector<GroupShard*> shards) : config_(config), buckets_(2) {
  if (config.name != "adamw") throw_error("optimizer.name is '{}'; it must be adamw", config.name);
  buckets_[kDecayed].weight_decay = config.weight_decay;
  for (GroupShard* shard : shards) {
    Moments moments{shard, {}, {}};
    if (shard->trainable()) {
      moments.exp_avg = at::zeros_like(shard->flat_master());
      moments.exp_avg_sq = at::zeros_like(shard->flat_master());
      add_to_buckets(moments);
    }
    moments_.push_back(std::move(moments));
  }
}

void AdamW::add_to_buckets(const Moments& moments) {
  const auto& parameters = moments.shard->parameters();
  const auto& pieces = moments.shard->layout().pieces(moments.shard->index());
  const bool decay_all = config_.decay == "all";
  for (std::size_t first = 0; first < parameters.size();) {
    const std::size_t bucket = bucket_of(parameters[first], decay_all);
    std::size_t end = first + 1;
    while (end < parameters.size() && parameters[end].trainable == parameters[first].trainable &&
           bucket_of(parameters[end], decay_all) == bucket) {
      ++end;
    }
    const std::int64_t start = pieces[first].shard_offset;
    const std::int64_t length = pieces[end - 1].shard_offset + pieces[end - 1].numel - start;
    if (parameters[first].trainable && length > 0) {
      buckets_[bucket].data.push_back(moments.shard->flat_master().narrow(0, start, length));
      buckets_[bucket].grad.push_back(moments.shard->flat_grad().narrow(0, start, length));
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
  publish();
}

void AdamW::publish() const {
  for (const Moments& moments : moments_) moments.shard->publish();
}

std::vector<at::Tensor> AdamW::buffers() const {
  std::vector<at::Tensor> all;
  for (const Bucket& bucket : buckets_) {
    for (const auto* tensors : {&bucket.data, &bucket.exp_avg, &bucket.exp_avg_sq}) {
      all.insert(all.end(), tensors->begin(), tensors->end());
    }
  }
  return all;
}

std::vector<AdamW::State> AdamW::states() {
  std::vector<State> states;
  for (const Moments& moments : moments_) {
    const GroupShard& shard = *moments.shard;
    for (int i = 0; i < static_cast<int>(shard.parameters().size()); ++i) {
      const Parameter& parameter = shard.parameters()[static_cast<std::size_t>(i)];
      State state{&parameter, shard.rows(i), shard.master(i), {}, {}};
      if (parameter.trainable) {
        state.exp_avg = shard.view(moments.exp_avg, i);
        state.exp_avg_sq = shard.view(moments.exp_avg_sq, i);
      }
      states.push_back(std::move(state));
    }
  }
  return states;
}

}  // namespace ppctl
