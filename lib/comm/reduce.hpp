#pragma once

#include <cstddef>
#include <span>

#include "comm/transport.hpp"

namespace ppctl {

/// output[i] = sources[0][i] + sources[1][i] + ..., added from left to right; bfloat16 in float32, rounded once to
/// nearest even at the end. `output` may be one of the sources. REQUIRES: at least one source; `bytes` a multiple of
/// the element size.
void sum_in_order(ElementType type, std::span<const std::byte* const> sources, std::byte* output, std::size_t bytes);

}  // namespace ppctl
