#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "comm/buffer_pool.hpp"
#include "comm/transport.hpp"

namespace ppctl {

/// A pipeline edge carries lists of tensors from one rank to another. The receiver need not know their number, types or
/// shapes.
///
/// On each tag sender and receiver remember the longest message so far. A message that is no longer is one message,
/// received into one buffer that was posted ahead; a longer one (the first on a tag, or after shapes have grown) is a
/// header, which says so, and a payload on a second tag. So shapes are agreed once, and again when they change, without
/// a round trip. Hence tags are to be used again (one for each microbatch and direction, the same in every step), with
/// at most one receive posted on each at a time.
///
/// Both classes may be used by several threads at once, on different tags.
inline constexpr std::size_t kMaxEdgeTensors = 32;
inline constexpr std::size_t kMaxEdgeDims = 8;

/// A tensor to send: contiguous, row-major. One that is not `defined` (a gradient that is not there) travels as a flag,
/// without bytes.
struct EdgeTensor {
  ElementType type = ElementType::kFloat32;
  std::span<const std::int64_t> dims;
  ConstBytes bytes;  ///< as many as type and dims say
  bool defined = true;
};

/// A tensor that was received, at `offset` (a multiple of 64) of its message's buffer.
struct ReceivedTensor {
  ElementType type = ElementType::kFloat32;
  std::vector<std::int64_t> dims;
  std::size_t offset = 0;
  std::size_t size = 0;  ///< in bytes
  bool defined = true;
};

struct EdgeMessage {
  std::shared_ptr<std::byte> buffer;  ///< goes back to the receiver's pool when its last user lets go
  std::vector<ReceivedTensor> tensors;

  std::byte* data(std::size_t tensor) const { return buffer.get() + tensors[tensor].offset; }
};

/// The sending end. The transport must outlive it.
class EdgeSender {
 public:
  /// `expected_bytes` of tensors fit into the first message of a tag; the same at both ends.
  EdgeSender(Transport& transport, int peer, std::size_t expected_bytes = 0);
  /// Starts to send. The tensors' bytes must stay valid until the request is complete, and so must the last send on the
  /// tag have become. Throws Error when there are too many tensors or dims.
  RequestPtr start(std::int64_t tag, std::span<const EdgeTensor> tensors);
  /// As start, but appends the operations to a batch that the caller starts.
  void prepare(std::int64_t tag, std::span<const EdgeTensor> tensors, std::vector<P2POp>& batch);

 private:
  struct Line {
    std::size_t agreed = 0;
    std::vector<std::byte> header;
  };

  Transport& transport_;
  int peer_;
  std::size_t first_agreed_;
  std::mutex mutex_;
  std::unordered_map<std::int64_t, Line> lines_;
};

/// The receiving end. The transport must outlive it.
class EdgeReceiver {
 public:
  EdgeReceiver(Transport& transport, int peer, std::size_t expected_bytes = 0);
  /// Posts a receive ahead of its wait. REQUIRES: none is posted on the tag.
  void post(std::int64_t tag);
  /// As post, but appends the operation to a batch, which the caller starts, and has waited for before it calls wait.
  void prepare(std::int64_t tag, std::vector<P2POp>& batch);
  /// The message of the receive that is posted on the tag; posts it if none is. Blocks; throws as Request::wait.
  EdgeMessage wait(std::int64_t tag, Deadline deadline, std::string_view context);
  /// Bytes of all buffers of the pool, in use or not.
  std::size_t allocated_bytes() const { return pool_.allocated_bytes(); }

 private:
  struct Line {
    std::size_t agreed = 0;
    std::shared_ptr<std::byte> buffer;  ///< of the receive that is posted
    std::size_t received = 0;
    RequestPtr request;  ///< null for a receive of a batch
  };

  Line& line(std::int64_t tag);

  Transport& transport_;
  int peer_;
  std::size_t first_agreed_;
  BufferPool pool_;
  std::mutex mutex_;
  std::unordered_map<std::int64_t, Line> lines_;
};

}  // namespace ppctl
