#include "runtime/tied_weights.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "base/error.hpp"
#include "runtime/tensor_bytes.hpp"

namespace ppctl {
namespace {

/// Where a parameter is in the model, in the order of the forward.
struct Place {
  int stage = 0;
  int group = 0;
  int index = 0;
  friend auto operator<=>(const Place&, const Place&) = default;
};

struct Use {
  std::set<int> ranks;  ///< pipeline ranks that hold it
  std::int64_t numel = 0;
  int dtype = 0;
  bool original = false;  ///< the parameter that the others name
};

/// All uses by the name of the parameter, in the same order on every rank.
using Uses = std::map<std::string, std::map<Place, Use>>;

template <class Visit>
void for_each_parameter(std::span<const StageShards> stages, Visit visit) {
  for (const StageShards& stage : stages) {
    for (std::size_t g = 0; g < stage.groups.size(); ++g) {
      const auto& parameters = stage.groups[g]->parameters();
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        visit(Place{stage.stage.value, static_cast<int>(g), static_cast<int>(i)}, *stage.groups[g], parameters[i]);
      }
    }
  }
}

/// The names that any rank's parameters are tied to.
std::set<std::string> exchange_tied_names(Group& pipeline, std::span<const StageShards> stages, Deadline deadline) {
  std::string mine;
  for_each_parameter(stages, [&](Place, const GroupShard&, const Parameter& parameter) {
    if (!parameter.tied_to.empty()) mine += parameter.tied_to + "\n";
  });
  std::set<std::string> names;
  for (const std::string& text : pipeline.all_gather_strings(mine, deadline)) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) names.insert(line);
  }
  return names;
}

/// One line a use: place, size, dtype, whether it is the original, name.
Uses exchange_uses(Group& pipeline, std::span<const StageShards> stages, const std::set<std::string>& names,
                   Deadline deadline) {
  std::string mine;
  for_each_parameter(stages, [&](Place place, const GroupShard& shard, const Parameter& parameter) {
    const bool original = parameter.tied_to.empty();
    const std::string& key = original ? parameter.name : parameter.tied_to;
    if (!names.contains(key)) return;
    mine += fmt::format("{} {} {} {} {} {} {}\n", place.stage, place.group, place.index, parameter.numel,
                        static_cast<int>(shard.group().dtype()), original ? 1 : 0, key);
  });
  Uses uses;
  const std::vector<std::string> reports = pipeline.all_gather_strings(mine, deadline);
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    std::istringstream lines(reports[rank]);
    Place place;
    Use use;
    std::string key;
    while (lines >> place.stage >> place.group >> place.index >> use.numel >> use.dtype >> use.original) {
      std::getline(lines >> std::ws, key);
      Use& known = uses[key].try_emplace(place, use).first->second;
      known.ranks.insert(static_cast<int>(rank));
    }
  }
  return uses;
}

void check(const std::string& key, const std::map<Place, Use>& uses) {
  const Use& first = uses.begin()->second;
  const bool has_original = std::any_of(uses.begin(), uses.end(), [](const auto& use) { return use.second.original; });
  if (!has_original) throw_error("a parameter is tied to {}, which no stage has", key);
  for (const auto& [place, use] : uses) {
    if (use.numel == first.numel && use.dtype == first.dtype) continue;
    throw_error("the uses of {} differ: stage {} has {} elements of type {}, stage {} has {} of type {}", key,
                uses.begin()->first.stage, first.numel, c10::toString(static_cast<at::ScalarType>(first.dtype)),
                place.stage, use.numel, c10::toString(static_cast<at::ScalarType>(use.dtype)));
  }
}

}  // namespace

TiedWeights::~TiedWeights() = default;

TiedWeights::TiedWeights(Communicator& communicator, Group& pipeline, std::span<const StageShards> stages,
                         const std::string& name) {
  constexpr double kStartSeconds = 300;  // other ranks may still be building their stages
  const Deadline deadline = Deadline::after_seconds(kStartSeconds);
  const std::set<std::string> names = exchange_tied_names(pipeline, stages, deadline);
  if (names.empty()) return;
  const Uses all = exchange_uses(pipeline, stages, names, deadline);
  for (const std::string& key : names) {
    if (!all.contains(key)) throw_error("a parameter is tied to {}, which no stage has", key);
  }

  for (const auto& [key, uses] : all) {
    check(key, uses);
    std::map<int, int> members_of;             // by pipeline rank
    std::vector<std::pair<int, int>> sources;  // (pipeline rank, slot)
    Tie tie;
    for (const auto& [place, use] : uses) {
      sources.emplace_back(*use.ranks.begin(), members_of[*use.ranks.begin()]);
      for (const int rank : use.ranks) tie.slots = std::max(tie.slots, ++members_of[rank]);
      if (!use.ranks.contains(pipeline.rank())) continue;
      for_each_parameter(stages, [&](Place here, const GroupShard& shard, const Parameter&) {
        if (here != place) return;
        tie.members.push_back(
            {static_cast<int>(sources.size()) - 1, shard.master(place.index), shard.grad(place.index)});
      });
    }
    if (tie.members.empty()) continue;
    std::vector<int> world_ranks;
    std::map<int, int> group_rank;
    for (const auto& [rank, count] : members_of) {
      group_rank[rank] = static_cast<int>(world_ranks.size());
      world_ranks.push_back(pipeline.world_ranks()[static_cast<std::size_t>(rank)]);
    }
    for (const auto& [rank, slot] : sources) tie.sources.emplace_back(group_rank[rank], slot);
    if (world_ranks.size() > 1) tie.group = communicator.group(world_ranks, name + "/" + key);
    ties_.push_back(std::move(tie));
  }
}

TensorList TiedWeights::gather(Tie& tie, at::Tensor Member::* what, Deadline deadline) {
  TensorList by_use;
  if (!tie.group) {
    for (const Member& member : tie.members) by_use.push_back((member.*what).clone());
    return by_use;
  }
  const at::Tensor& first = tie.members[0].*what;
  at::Tensor mine = at::zeros({tie.slots, first.numel()}, first.options());
  for (std::size_t slot = 0; slot < tie.members.size(); ++slot) {
    mine[static_cast<std::int64_t>(slot)].copy_((tie.members[slot].*what).reshape({-1}));
  }
  at::Tensor all = at::empty({tie.group->size(), tie.slots, first.numel()}, first.options());
  tie.group->all_gather(const_bytes(mine), mutable_bytes(all))->wait(deadline, "tied weights");
  for (const auto& [rank, slot] : tie.sources) by_use.push_back(all[rank][slot].view(first.sizes()));
  return by_use;
}

void TiedWeights::equalise_values(Deadline deadline) {
  const at::NoGradGuard no_grad;
  for (Tie& tie : ties_) {
    const TensorList values = gather(tie, &Member::data, deadline);
    for (Member& member : tie.members) member.data.copy_(values[0].view(member.data.sizes()));
  }
}

void TiedWeights::sum_grads(Deadline deadline) {
  const at::NoGradGuard no_grad;
  for (Tie& tie : ties_) {
    const TensorList grads = gather(tie, &Member::grad, deadline);
    at::Tensor sum = grads[0];
    for (std::size_t use = 1; use < grads.size(); ++use) sum.add_(grads[use].view(sum.sizes()));
    for (Member& member : tie.members) member.grad.copy_(sum.view(member.grad.sizes()));
  }
}

}  // namespace ppctl
