#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ppctl {

/// " (did you mean 'zb_h1'?)" where one of `names` is close to `word`, else "": the end of an error about an unknown
/// name. Close: at most a third of the letters, and at least one, would have to be added, dropped, changed or swapped
/// with a neighbour.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> names);

}  // namespace ppctl
