#include "train/replicas.hpp"

namespace ppctl {
namespace {

ElementType element_type(at::ScalarType type) {
  return type == at::kBFloat16 ? ElementType::kBFloat16 : ElementType::kFloat32;
}

}  // namespace

GradReplicas::GradReplicas(std::unique_ptr<Group> group, std::vector<ParameterGroup*> parameters)
    : group_(std::move(group)), parameters_(std::move(parameters)) {}

void GradReplicas::sum_grads(Deadline deadline) {
  if (!group_ || group_->size() == 1) return;
  std::vector<RequestPtr> requests;
  for (ParameterGroup* parameters : parameters_) {
    const at::Tensor grad = parameters->flat_grad();
    requests.push_back(group_->all_reduce({static_cast<std::byte*>(grad.mutable_data_ptr()), grad.nbytes()},
                                          element_type(grad.scalar_type())));
  }
  for (const RequestPtr& request : requests) request->wait(deadline, "sum of gradients over replicas");
}

}  // namespace ppctl
