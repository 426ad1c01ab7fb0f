#pragma once

#include <cstddef>

namespace ppctl {

/// Memory of the blocks that an EdgeReceiver takes for messages of one tensor.
struct EdgeBufferBytes {
  std::size_t first = 0;   ///< of the receive that is posted for the first message of a tag
  std::size_t steady = 0;  ///< of every later one, and of the first message's payload
};

/// For a tensor of `tensor_bytes`.
EdgeBufferBytes edge_buffer_bytes(std::size_t tensor_bytes);

}  // namespace ppctl
