#pragma once

#include <cstddef>

namespace ppctl {

/// Memory of the blocks that an EdgeReceiver takes for messages of one tensor, or of two.
struct EdgeBufferBytes {
  std::size_t first = 0;    ///< of the receive that is posted for the first message of a tag
  std::size_t steady = 0;   ///< of every later one, and of the first message's payload
  bool fits_first = false;  ///< the first message is no longer than that receive: it has no payload apart
};

/// For a tensor of `tensor_bytes`, and a second one of `second_bytes` unless that is 0.
EdgeBufferBytes edge_buffer_bytes(std::size_t tensor_bytes, std::size_t second_bytes = 0);

}  // namespace ppctl
