#pragma once

#include "model/aten.hpp"

namespace ppctl::kernels {

/// Rows of `table` [rows, dim] by int64 `ids` [...] -> [..., dim]. Throws Error where an id is outside of the table.
at::Tensor gather_rows(const at::Tensor& table, const at::Tensor& ids);

/// Adds to each row of `table_grad` the sum of the rows of `dy` that came from it: first the sum in token order, in
/// float32, then one addition.
void scatter_add_rows(const at::Tensor& table_grad, const at::Tensor& ids, const at::Tensor& dy);

/// Adds the sum over all rows of `dy` [..., n] to `bias_grad` [n], which is in the accumulator dtype.
void add_row_sum(const at::Tensor& bias_grad, const at::Tensor& dy);

}  // namespace ppctl::kernels
