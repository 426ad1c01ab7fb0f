#pragma once

#include "model/aten.hpp"

#include "base/error.hpp"
#include "comm/transport.hpp"

namespace ppctl {

/// A contiguous CPU tensor's memory, for a transport. The tensor must outlive the operation.
inline ConstBytes const_bytes(const at::Tensor& tensor) {
  PPCTL_CHECK(tensor.is_contiguous(), "a tensor that is not contiguous cannot be sent");
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}
inline MutableBytes mutable_bytes(const at::Tensor& tensor) {
  PPCTL_CHECK(tensor.is_contiguous(), "a tensor that is not contiguous cannot be received into");
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

/// The transports' name of a type. Throws Error that names types without one.
ElementType element_type(at::ScalarType type);
at::ScalarType scalar_type(ElementType type);

}  // namespace ppctl
