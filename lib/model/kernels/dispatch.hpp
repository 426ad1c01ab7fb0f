#pragma once

#include "model/aten.hpp"

#include <utility>

#include "base/error.hpp"

namespace ppctl {

/// Calls `function.template operator()<T>()` with the element type of `dtype`: float, double or c10::BFloat16.
template <class Function>
void for_dtype(at::ScalarType dtype, Function&& function) {
  switch (dtype) {
    case at::kFloat:
      return function.template operator()<float>();
    case at::kDouble:
      return function.template operator()<double>();
    case at::kBFloat16:
      return function.template operator()<c10::BFloat16>();
    default:
      throw_bug(__FILE__, __LINE__, fmt::format("no kernel for dtype {}", c10::toString(dtype)));
  }
}

/// What a kernel of this dtype keeps statistics in.
inline at::ScalarType accumulator_dtype(at::ScalarType dtype) {
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

/// The tensor's elements. REQUIRES: contiguous.
template <class T>
T* elements(const at::Tensor& tensor) {
  PPCTL_CHECK(tensor.is_contiguous(), "a kernel needs contiguous tensors");
  return static_cast<T*>(tensor.data_ptr());
}

}  // namespace ppctl
