#include "train/state_tensors.hpp"

namespace ppctl {
namespace {

StateTensor whole(std::string name, const at::Tensor& tensor) {
  return {std::move(name), tensor.sizes().vec(), 0, tensor.size(0), tensor};
}

}  // namespace

std::string exp_avg_name(const std::string& parameter) { return "optimizer.exp_avg." + parameter; }
std::string exp_avg_sq_name(const std::string& parameter) { return "optimizer.exp_avg_sq." + parameter; }

std::vector<StateTensor> state_tensors(AdamW& optimizer) {
  std::vector<StateTensor> tensors;
  for (const AdamW::State& state : optimizer.states()) {
    const Parameter& parameter = *state.parameter;
    const std::string& name = parameter.tied_to.empty() ? parameter.name : parameter.tied_to;
    tensors.push_back(whole(name, state.data));
    if (!state.exp_avg.defined()) continue;
    tensors.push_back(whole(exp_avg_name(name), state.exp_avg));
    tensors.push_back(whole(exp_avg_sq_name(name), state.exp_avg_sq));
  }
  return tensors;
}

}  // namespace ppctl
