#pragma once

#include "model/aten.hpp"

namespace ppctl::kernels {

/// What the backward of a norm needs beside its input: for each row 1 / rms, or the mean and 1 / standard deviation
/// ([rows] and [rows, 2], in the accumulator dtype).
using RowStatistics = at::Tensor;

/// y = x / sqrt(mean(x^2) + eps) * weight over the last dim. The quotient is computed in float32 and cast back before
/// the product, as Llama does. Where `residual` is defined, x + residual is what is normalised, and `sum` gets it.
struct NormOutput {
  at::Tensor y;
  at::Tensor sum;  ///< x + residual, rounded to x's dtype; x itself without a residual
  RowStatistics statistics;
};
NormOutput rms_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps);

/// y = (x - mean) / sqrt(variance + eps) * weight + bias over the last dim, computed in float32.
NormOutput layer_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, const at::Tensor& bias,
                      double eps);

/// The gradient with respect to the input, plus `residual_grad` where that is defined. `weight_grad` and `bias_grad`
/// (where defined; in the accumulator dtype) are added to: first the sum over rows, then one addition.
at::Tensor rms_norm_backward(const at::Tensor& dy, const at::Tensor& residual_grad, const at::Tensor& x,
                             const RowStatistics& statistics, const at::Tensor& weight, const at::Tensor& weight_grad);
at::Tensor layer_norm_backward(const at::Tensor& dy, const at::Tensor& residual_grad, const at::Tensor& x,
                               const RowStatistics& statistics, const at::Tensor& weight, const at::Tensor& weight_grad,
                               const at::Tensor& bias_grad);

}  // namespace ppctl::kernels
