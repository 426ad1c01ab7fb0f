#include "model/parameters.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace ppctl {
namespace {

std::int64_t product(const std::vector<std::int64_t>& shape) {
  std::int64_t result = 1;
  for (std::int64_t size : shape) result *= size;
  return result;
}

/// `count` parameters from `first` on as one matrix, or as one vector where they are vectors.
std::vector<std::int64_t> merged_shape(const ParameterGroup& group, int first, int count) {
  const std::vector<Parameter>& parameters = group.parameters();
  std::vector<std::int64_t> shape = parameters.at(first).shape;
  std::int64_t end = parameters[first].offset + parameters[first].numel;
  for (int i = first + 1; i < first + count; ++i) {
    const Parameter& next = parameters.at(i);
    PPCTL_CHECK(next.offset == end, "'{}' does not lie directly behind '{}'", next.name, parameters[i - 1].name);
    shape[0] += next.shape[0];
    end = next.offset + next.numel;
  }
  return shape;
}

at::Tensor view_of(const at::Tensor& flat, std::int64_t offset, const std::vector<std::int64_t>& shape) {
  PPCTL_CHECK(flat.defined(), "the group is not allocated");
  return flat.narrow(0, offset, product(shape)).view(shape);
}

}  // namespace

int ParameterGroup::add(Parameter parameter, bool merge_with_previous) {
  PPCTL_CHECK(!flat_data_.defined(), "'{}' is added to the allocated group '{}'", parameter.name, name_);
  return layout_.add(std::move(parameter), merge_with_previous);
}

void ParameterGroup::allocate() {
  PPCTL_CHECK(!flat_data_.defined(), "the group '{}' is allocated twice", name_);
  flat_data_ = at::zeros({numel()}, at::TensorOptions().dtype(dtype_));
  flat_grad_ = at::zeros({numel()}, at::TensorOptions().dtype(master_dtype(dtype_)));
}

at::Tensor ParameterGroup::data(int index) const { return merged_data(index, 1); }

at::Tensor ParameterGroup::grad(int index) const { return merged_grad(index, 1); }

at::Tensor ParameterGroup::merged_data(int first, int count) const {
  return view_of(flat_data_, parameters().at(first).offset, merged_shape(*this, first, count));
}

at::Tensor ParameterGroup::merged_grad(int first, int count) const {
  return view_of(flat_grad_, parameters().at(first).offset, merged_shape(*this, first, count));
}

at::Tensor ParameterGroup::view(const at::Tensor& flat, int index) const {
  return view_of(flat, parameters().at(index).offset, parameters()[index].shape);
}

bool ParameterGroup::trainable() const {
  return std::any_of(parameters().begin(), parameters().end(), [](const Parameter& p) { return p.trainable; });
}

void ParameterGroup::zero_grad() { flat_grad_.zero_(); }

}  // namespace ppctl
