#include "train/state_tensors.hpp"

namespace ppctl {
namespace {

StateTensor rows_of(std::string name, const AdamW::State& state, const at::Tensor& rows) {
  return {std::move(name), state.parameter->shape, state.rows.begin, state.rows.end, rows};
}

}  // namespace

std::string exp_avg_name(const std::string& parameter) { return "optimizer.exp_avg." + parameter; }
std::string exp_avg_sq_name(const std::string& parameter) { return "optimizer.exp_avg_sq." + parameter; }

std::vector<StateTensor> state_tensors(AdamW& optimizer) {
  std::vector<StateTensor> tensors;
  for (const AdamW::State& state : optimizer.states()) {
    const Parameter& parameter = *state.parameter;
    const std::string& name = parameter.tied_to.empty() ? parameter.name : parameter.tied_to;
    tensors.push_back(rows_of(name, state, state.data));
    if (!state.exp_avg.defined()) continue;
    tensors.push_back(rows_of(exp_avg_name(name), state, state.exp_avg));
    tensors.push_back(rows_of(exp_avg_sq_name(name), state, state.exp_avg_sq));
  }
  return tensors;
}

}  // namespace ppctl
