#include "runtime/tensor_bytes.hpp"

namespace ppctl {

ElementType element_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return ElementType::kFloat32;
    case at::kDouble:
      return ElementType::kFloat64;
    case at::kBFloat16:
      return ElementType::kBFloat16;
    case at::kLong:
      return ElementType::kInt64;
    case at::kByte:
      return ElementType::kUint8;
    default:
      throw_error("a tensor of type {} cannot travel between ranks; float32, float64, bfloat16, int64 and uint8 can",
                  c10::toString(type));
  }
}

at::ScalarType scalar_type(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return at::kFloat;
    case ElementType::kFloat64:
      return at::kDouble;
    case ElementType::kBFloat16:
      return at::kBFloat16;
    case ElementType::kInt64:
      return at::kLong;
    case ElementType::kUint8:
      return at::kByte;
  }
  throw_bug(__FILE__, __LINE__, "an unknown element type");
}

}  // namespace ppctl
