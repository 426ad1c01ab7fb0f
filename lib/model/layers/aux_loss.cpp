#include "model/layers/aux_loss.hpp"

namespace ppctl {

at::Tensor AuxLoss::no_sums() const { return at::zeros({2, config_.num_experts}, at::kDouble); }

double AuxLoss::factor(std::int64_t num_tokens) const {
  const auto rows = static_cast<double>(config_.num_layers * num_tokens);
  return config_.coefficient * static_cast<double>(config_.num_experts) / (rows * rows);
}

double AuxLoss::value(const at::Tensor& sums, std::int64_t num_tokens) const {
  const auto* counts = sums.const_data_ptr<double>();
  const double* probabilities = counts + config_.num_experts;
  double sum = 0.0;
  for (std::int64_t e = 0; e < config_.num_experts; ++e) sum += counts[e] * probabilities[e];
  return factor(num_tokens) * sum;
}

at::Tensor AuxLoss::gradient(const at::Tensor& sums, std::int64_t num_tokens, double scale) const {
  return sums[0] * (scale * factor(num_tokens));
}

}  // namespace ppctl
