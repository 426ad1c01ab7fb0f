#pragma once

#include "model/aten.hpp"

#include "arch/activation.hpp"

namespace ppctl::kernels {

using ppctl::Activation;

/// f(x), elementwise.
at::Tensor activate(const at::Tensor& x, Activation activation);
/// dy * f'(x). `y` (of dy's shape) gets f(x) again, for the weight gradient of what follows: so it need not be kept.
at::Tensor activate_backward(const at::Tensor& dy, const at::Tensor& x, Activation activation, const at::Tensor& y);

/// f(gate) * up, where a row of `gate_up` is the gate followed by the up projection: [..., 2 n] -> [..., n].
at::Tensor gate(const at::Tensor& gate_up, Activation activation);
/// The gradient of gate_up from that of the result. `y` as above.
at::Tensor gate_backward(const at::Tensor& dy, const at::Tensor& gate_up, Activation activation, const at::Tensor& y);

}  // namespace ppctl::kernels
