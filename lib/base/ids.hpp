#pragma once

#include <fmt/format.h>

#include <compare>
#include <cstdint>
#include <functional>

namespace ppctl {

/// A number that cannot be mixed up with another kind of number. -1 means none.
template <class Tag>
struct Id {
  std::int32_t value = -1;

  constexpr Id() = default;
  constexpr explicit Id(std::int32_t v) : value(v) {}
  constexpr bool valid() const { return value >= 0; }
  friend constexpr auto operator<=>(Id, Id) = default;
};

/// A pipeline stage of the whole model, 0 .. num_stages - 1, in the order in which a forward passes through them.
using StageId = Id<struct StageTag>;
/// A rank on the pp axis, 0 .. pp - 1. (A rank of the whole job is an int named `world_rank`.)
using PipelineRank = Id<struct PipelineRankTag>;
/// A microbatch of one replica and step, 0 .. num_microbatches - 1.
using MicrobatchId = Id<struct MicrobatchTag>;

}  // namespace ppctl

template <class Tag>
struct fmt::formatter<ppctl::Id<Tag>> : fmt::formatter<std::int32_t> {
  template <class Context>
  auto format(ppctl::Id<Tag> id, Context& context) const {
    return fmt::formatter<std::int32_t>::format(id.value, context);
  }
};

template <class Tag>
struct std::hash<ppctl::Id<Tag>> {
  std::size_t operator()(ppctl::Id<Tag> id) const { return std::hash<std::int32_t>()(id.value); }
};
