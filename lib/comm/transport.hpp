#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"

namespace ppctl {

/// Where bytes live. The CPU transports accept kCpu alone.
enum class DeviceKind : std::uint8_t { kCpu, kCuda };

struct ConstBytes {
  const std::byte* data = nullptr;
  std::size_t size = 0;
  DeviceKind device = DeviceKind::kCpu;
};
struct MutableBytes {
  std::byte* data = nullptr;
  std::size_t size = 0;
  DeviceKind device = DeviceKind::kCpu;
};

/// Element types that reductions know.
enum class ElementType : std::uint8_t { kFloat32, kFloat64, kBFloat16, kInt64, kUint8 };
std::size_t size_of(ElementType type);

/// A transfer that was started. Wait for it, or destroy it after it is done; destroying one in flight is a Bug, except
/// while an exception unwinds or after Transport::abort.
class Request {
 public:
  virtual ~Request() = default;
  /// Whether it is complete. Never blocks; makes progress.
  virtual bool test() = 0;
  /// Blocks until complete. Throws Error that names rank, peer and tag, and what `context` says, when the deadline
  /// passes or the peer died.
  virtual void wait(Deadline deadline, std::string_view context) = 0;
};
using RequestPtr = std::unique_ptr<Request>;

/// One side of a duplex batch.
struct P2POp {
  enum class Kind : std::uint8_t { kSend, kRecv } kind = Kind::kSend;
  int peer = -1;  ///< world rank
  std::int64_t tag = 0;
  std::vector<ConstBytes> send;     ///< gathered, in order, into one message
  std::vector<MutableBytes> recv;   ///< scattered, in order, from one message; the total size may exceed the message's
  std::size_t* received = nullptr;  ///< where the message's size is written on completion of a receive; may be null
};

/// Tags from 0 to this one are the caller's. Edges and collectives keep the bits above for themselves.
inline constexpr std::int64_t kMaxTag = (std::int64_t{1} << 61) - 1;

/// Point-to-point messages between the ranks of a job. A message is matched by (sender, tag); messages with the same
/// pair arrive in order. A send is buffered or asynchronous, never waits for its receive to be posted. Methods may be
/// called by several threads of a rank unless the implementation's header says otherwise. Memory of an operation must
/// stay valid until its request is complete.
///
/// A rank that waits leaves the core to others.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;  ///< world rank
  virtual int size() const = 0;  ///< ranks of the job

  /// Starts a send or a receive.
  virtual RequestPtr start(P2POp op) = 0;
  /// Starts all of them as one grouped operation; the request is complete when all are.
  virtual RequestPtr start_batch(std::vector<P2POp> ops) = 0;

  /// Says what this rank is doing, for the messages of others should it die ("step 12, 3F4"). Cheap; called for each
  /// step of a schedule.
  virtual void set_status(std::string_view status) = 0;
  /// Makes every present and future wait of every rank fail with `reason`. Used by a rank that fails, so that its peers
  /// end at once.
  virtual void abort(std::string_view reason) = 0;
  /// Why the job has failed, if it has: a rank that died (with the step that each rank was in) or called abort. Never
  /// blocks; looks at the other ranks now. A process that gets SIGTERM asks this first: launchers send it to the
  /// survivors of a rank that died.
  virtual std::optional<std::string> failure() { return std::nullopt; }
};

/// The first half of an exchange; see Group::send_pieces().
struct SentPieces {
  std::int64_t tag = 0;  ///< of its messages
  RequestPtr request;    ///< of the sends
};

/// Collectives over an ordered set of ranks. Every call is COLLECTIVE over the group and synchronous unless it returns
/// a request. Reductions sum in the group's rank order, whatever the number of ranks or the algorithm, so that results
/// are reproducible to the bit; bfloat16 is summed in float32.
class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;  ///< in the group
  virtual int size() const = 0;
  virtual const std::vector<int>& world_ranks() const = 0;

  virtual void barrier(Deadline deadline) = 0;
  /// `data` of group rank `root` to all.
  virtual void broadcast(MutableBytes data, int root, Deadline deadline) = 0;
  /// `output` is size() times as long as `input`; rank i's input lands at i · input.size.
  virtual RequestPtr all_gather(ConstBytes input, MutableBytes output) = 0;
  /// The sum over ranks of `input`, of which rank i gets the i-th of size() equal parts.
  virtual RequestPtr reduce_scatter(ConstBytes input, MutableBytes output, ElementType type) = 0;
  /// In place.
  virtual RequestPtr all_reduce(MutableBytes data, ElementType type) = 0;
  /// Part i of `input` (send_sizes[i] bytes) goes to rank i; parts arrive in rank order (recv_sizes[i] bytes each).
  virtual RequestPtr all_to_all(ConstBytes input, std::span<const std::size_t> send_sizes, MutableBytes output,
                                std::span<const std::size_t> recv_sizes) = 0;
  /// An all-to-all of memory that lies scattered: to each other rank i goes what `send[i]` lists, joined to one
  /// message, and the message of rank i is cut into the pieces of `receive[i]`. Nothing travels where there are no
  /// bytes; both ends must agree on their number. The entries of this rank itself are not looked at.
  virtual RequestPtr exchange_pieces(std::span<const std::vector<ConstBytes>> send,
                                     std::span<const std::vector<MutableBytes>> receive) = 0;
  /// exchange_pieces() in two parts, for ranks that learn later what they will receive: the first starts to send, the
  /// second, called once with what the first gave, starts to receive. The first part of all exchanges is started in the
  /// same order by all ranks; the second in any order.
  virtual SentPieces send_pieces(std::span<const std::vector<ConstBytes>> send) = 0;
  virtual RequestPtr receive_pieces(const SentPieces& sent, std::span<const std::vector<MutableBytes>> receive) = 0;
  /// Gathers byte strings of different lengths on all ranks.
  virtual std::vector<std::string> all_gather_strings(const std::string& mine, Deadline deadline) = 0;
};

/// What a rank has of a job: its transport and a way to make groups.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual Transport& transport() = 0;
  /// COLLECTIVE over `world_ranks` (each member calls with the same list and the same `name`); this rank must be in it.
  /// Groups with different names are independent, so two threads may use one each.
  virtual std::unique_ptr<Group> group(std::span<const int> world_ranks, const std::string& name) = 0;
};

}  // namespace ppctl
