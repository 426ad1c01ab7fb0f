#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "comm/transport.hpp"

namespace ppctl {

template <class Container>
ConstBytes bytes_of(const Container& values) {
  return {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(*values.data())};
}

template <class Container>
MutableBytes room_of(Container& values) {
  return {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(*values.data())};
}

/// A send of one value, which must live until the operation is started.
template <class T>
  requires std::is_arithmetic_v<T>
P2POp send_to(int peer, std::int64_t tag, const T& value) {
  return {.kind = P2POp::Kind::kSend,
          .peer = peer,
          .tag = tag,
          .send = {{reinterpret_cast<const std::byte*>(&value), sizeof value}}};
}

template <class T>
  requires std::is_arithmetic_v<T>
P2POp receive_from(int peer, std::int64_t tag, T& value) {
  return {.kind = P2POp::Kind::kRecv,
          .peer = peer,
          .tag = tag,
          .recv = {{reinterpret_cast<std::byte*>(&value), sizeof value}}};
}

}  // namespace ppctl
