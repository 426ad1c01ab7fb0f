#include "arch/parameter.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "base/error.hpp"

namespace ppctl {
namespace {

constexpr std::int64_t kAlignmentBytes = 64;

std::int64_t rounded_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

int GroupLayout::add(Parameter parameter, bool merge_with_previous) {
  parameter.numel =
      std::accumulate(parameter.shape.begin(), parameter.shape.end(), std::int64_t{1}, std::multiplies<>());
  parameter.matrix = parameter.shape.size() >= 2;
  if (merge_with_previous) {
    PPCTL_CHECK(!parameters_.empty(), "'{}' has no parameter before it to merge with", parameter.name);
    const Parameter& previous = parameters_.back();
    PPCTL_CHECK(previous.shape.size() == parameter.shape.size() &&
                    std::equal(previous.shape.begin() + 1, previous.shape.end(), parameter.shape.begin() + 1),
                "'{}' and '{}' differ in more than dim 0", previous.name, parameter.name);
    parameter.offset = previous.offset + previous.numel;
  } else {
    parameter.offset = numel_;
  }
  numel_ = rounded_up(parameter.offset + parameter.numel, kAlignmentBytes / element_bytes_);
  parameters_.push_back(std::move(parameter));
  return static_cast<int>(parameters_.size()) - 1;
}

int GroupLayout::add_merged(std::vector<Parameter> parameters) {
  const int first = static_cast<int>(parameters_.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) add(std::move(parameters[i]), i > 0);
  return first;
}

}  // namespace ppctl
