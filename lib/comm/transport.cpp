#include "comm/transport.hpp"

#include "base/error.hpp"

namespace ppctl {

std::size_t size_of(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return 4;
    case ElementType::kFloat64:
    case ElementType::kInt64:
      return 8;
    case ElementType::kBFloat16:
      return 2;
    case ElementType::kUint8:
      return 1;
  }
  PPCTL_CHECK(false, "element type {}", static_cast<int>(type));
  return 0;
}

}  // namespace ppctl
