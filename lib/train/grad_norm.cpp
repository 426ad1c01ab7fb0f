#include "train/grad_norm.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "base/error.hpp"

namespace ppctl {
namespace {

constexpr std::size_t kLanes = 16;

/// Parameters that count: trainable, and the first use of a tied weight.
bool counts(const Parameter& parameter) { return parameter.trainable && parameter.tied_to.empty(); }

std::string join_names(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, "\n")); }

std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> names;
  std::istringstream stream(text);
  for (std::string name; std::getline(stream, name);) names.push_back(name);
  return names;
}

}  // namespace

// Lanes add elements kLanes apart, so a wider vector unit changes no bit: multiplication and addition stay apart, since
// neither variant has fused ones.
__attribute__((target_clones("avx2", "default"))) double sum_of_squares(std::span<const float> values) {
  double lanes[kLanes] = {};
  const std::size_t whole = values.size() / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      lanes[lane] += value * value;
    }
  }
  for (std::size_t i = whole; i < values.size(); ++i) {
    const double value = values[i];
    lanes[i - whole] += value * value;
  }
  double sum = 0.0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

GradNorm::GradNorm(std::vector<GroupShard*> shards, Group& world, Deadline deadline) : shards_(std::move(shards)) {
  std::vector<std::string> mine;
  for (const GroupShard* shard : shards_) {
    const auto& pieces = shard->layout().pieces(shard->index());
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const Parameter& parameter = shard->parameters()[i];
      if (!counts(parameter)) continue;
      mine.push_back(fmt::format("{}\t{:08}", parameter.name, shard->index()));
      grads_.push_back(shard->flat_grad().narrow(0, pieces[i].shard_offset, pieces[i].numel));
    }
  }
  std::map<std::string, Source> by_name;
  const std::vector<std::string> all = world.all_gather_strings(join_names(mine), deadline);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::vector<std::string> names = split_names(all[rank]);
    num_slots_ = std::max(num_slots_, names.size());
    for (std::size_t slot = 0; slot < names.size(); ++slot) by_name.emplace(names[slot], Source{rank, slot});
  }
  for (const auto& [name, source] : by_name) order_.push_back(source);
}

void GradNorm::local(std::span<double> slots) const {
  for (std::size_t i = 0; i < grads_.size(); ++i) {
    const at::Tensor grad = grads_[i].to(at::kFloat);
    slots[i] = sum_of_squares({grad.const_data_ptr<float>(), static_cast<std::size_t>(grad.numel())});
  }
}

double GradNorm::combine(std::span<const double> slots, std::size_t stride) const {
  double sum = 0.0;
  for (const Source& source : order_) sum += slots[source.rank * stride + source.slot];
  return std::sqrt(sum);
}

void GradNorm::scale(double factor) const {
  if (factor == 1.0) return;
  for (const GroupShard* shard : shards_) {
    if (shard->trainable()) shard->flat_grad().mul_(factor);
  }
}

}  // namespace ppctl
