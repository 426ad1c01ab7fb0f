#include "model/layers/weight.hpp"

#include <utility>

namespace ppctl {

Weight::Weight(ParameterGroup& group, std::vector<Parameter> parameters)
    : group_(&group), count_(static_cast<int>(parameters.size())) {
  for (int i = 0; i < count_; ++i) {
    const int index = group.add(std::move(parameters[i]), i > 0);
    if (i == 0) first_ = index;
  }
}

void Weight::bind() {
  if (!declared()) return;
  data_ = group_->merged_data(first_, count_);
  grad_ = group_->merged_grad(first_, count_);
}

at::Tensor Weight::wanted_grad(WeightGradQueue& queue) const {
  if (!any_trainable()) return {};
  if (!queue.defers()) return grad_;
  at::Tensor later = at::zeros(grad_.sizes(), grad_.options());
  queue.add([grad = grad_, later] { grad.add_(later); });
  return later;
}

bool Weight::any_trainable() const {
  for (int i = 0; i < count_; ++i) {
    if (part(i).trainable) return true;
  }
  return false;
}

bool Weight::all_trainable() const {
  for (int i = 0; i < count_; ++i) {
    if (!part(i).trainable) return false;
  }
  return true;
}

}  // namespace ppctl
