#include "comm/group.hpp"

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/error.hpp"
#include "comm/buffer_pool.hpp"
#include "comm/reduce.hpp"

namespace ppctl {
namespace {

/// Tags of collectives: bit 62, then 36 bits of a hash of the group's name and ranks, then a count of the group's
/// collectives, of which messages that are under way at one time cannot wrap around.
constexpr int kCounterBits = 26;
constexpr std::int64_t kCollectiveTag = std::int64_t{1} << 62;

/// An all-reduce of at most so many bytes sends everything to everyone: one exchange instead of two.
constexpr std::size_t kDirectAllReduceBytes = 16 << 10;

std::int64_t tag_space(std::span<const int> world_ranks, const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a: the same on every rank and build
  const auto mix = [&hash](std::uint64_t value) { hash = (hash ^ value) * 0x100000001b3ULL; };
  for (const char c : name) mix(static_cast<unsigned char>(c));
  for (const int rank : world_ranks) mix(static_cast<std::uint64_t>(rank) + 256);
  return kCollectiveTag | static_cast<std::int64_t>((hash >> 28) << kCounterBits);
}

/// A collective that is under way: exchanges, each followed by what is done with its messages and may start the next
/// one.
class CollectiveRequest : public Request {
 public:
  using Continue = std::function<RequestPtr()>;  ///< returns the next exchange, or null

  CollectiveRequest(std::string what, RequestPtr first, std::vector<Continue> then)
      : what_(std::move(what)), exchange_(std::move(first)), then_(std::move(then)) {}

  bool test() override {
    while (exchange_ && exchange_->test()) advance();
    return exchange_ == nullptr;
  }

  void wait(Deadline deadline, std::string_view context) override {
    while (exchange_ && exchange_->test()) advance();
    while (exchange_) {
      exchange_->wait(deadline, context.empty() ? what_ : fmt::format("{}, {}", context, what_));
      advance();
    }
  }

 private:
  void advance() {
    exchange_ = next_ < then_.size() ? then_[next_]() : nullptr;
    ++next_;
  }

  std::string what_;
  RequestPtr exchange_;
  std::vector<Continue> then_;
  std::size_t next_ = 0;
};

class TransportGroup : public Group {
 public:
  TransportGroup(Transport& transport, std::span<const int> world_ranks, const std::string& name)
      : transport_(transport),
        name_(name),
        world_ranks_(world_ranks.begin(), world_ranks.end()),
        tag_space_(tag_space(world_ranks, name)) {
    const auto mine = std::find(world_ranks_.begin(), world_ranks_.end(), transport.rank());
    PPCTL_CHECK(mine != world_ranks_.end(), "rank {} makes group '{}', in which it is not", transport.rank(), name);
    rank_ = static_cast<int>(mine - world_ranks_.begin());
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(world_ranks_.size()); }
  const std::vector<int>& world_ranks() const override { return world_ranks_; }

  void barrier(Deadline deadline) override;
  void broadcast(MutableBytes data, int root, Deadline deadline) override;
  RequestPtr all_gather(ConstBytes input, MutableBytes output) override;
  RequestPtr reduce_scatter(ConstBytes input, MutableBytes output, ElementType type) override;
  RequestPtr all_reduce(MutableBytes data, ElementType type) override;
  RequestPtr all_to_all(ConstBytes input, std::span<const std::size_t> send_sizes, MutableBytes output,
                        std::span<const std::size_t> recv_sizes) override;
  RequestPtr exchange_pieces(std::span<const std::vector<ConstBytes>> send,
                             std::span<const std::vector<MutableBytes>> receive) override;
  SentPieces send_pieces(std::span<const std::vector<ConstBytes>> send) override;
  RequestPtr receive_pieces(const SentPieces& sent, std::span<const std::vector<MutableBytes>> receive) override;
  std::vector<std::string> all_gather_strings(const std::string& mine, Deadline deadline) override;

 private:
  using PartsToSend = std::vector<ConstBytes>;
  using PartsToReceive = std::vector<MutableBytes>;

  std::int64_t next_tag() { return tag_space_ | (count_++ & ((std::int64_t{1} << kCounterBits) - 1)); }
  std::string what(std::string_view collective) const { return fmt::format("{} in group '{}'", collective, name_); }
  /// Starts sending part i to rank i and receiving part i from rank i; the part of this rank is copied at once. Parts
  /// are sent to the ranks after this one first, so that not all send to rank 0 at the same time.
  RequestPtr exchange(const PartsToSend& send, const PartsToReceive& receive, std::int64_t tag);
  RequestPtr direct_all_reduce(MutableBytes data, ElementType type);
  RequestPtr request_of(std::string_view collective, std::vector<P2POp> ops);
  /// For each other rank that pieces go to, or come from; nearest ranks first.
  void add_sends(std::span<const std::vector<ConstBytes>> send, std::int64_t tag, std::vector<P2POp>& ops) const;
  void add_receives(std::span<const std::vector<MutableBytes>> receive, std::int64_t tag,
                    std::vector<P2POp>& ops) const;

  Transport& transport_;
  std::string name_;
  std::vector<int> world_ranks_;
  int rank_ = -1;
  std::int64_t tag_space_;
  std::int64_t count_ = 0;
  BufferPool buffers_;
};

/// `bytes` cut into consecutive parts of the given sizes.
template <class Bytes>
std::vector<Bytes> cut(Bytes bytes, std::span<const std::size_t> sizes) {
  std::vector<Bytes> parts;
  std::size_t at = 0;
  for (const std::size_t size : sizes) {
    parts.push_back({bytes.data == nullptr ? nullptr : bytes.data + at, size, bytes.device});
    at += size;
  }
  PPCTL_CHECK_EQ(at, bytes.size);
  return parts;
}

template <class Bytes>
bool any_bytes(const std::vector<Bytes>& pieces) {
  return std::any_of(pieces.begin(), pieces.end(), [](const Bytes& piece) { return piece.size != 0; });
}

/// The elements of `bytes` shared out as evenly as can be, the first parts longer by one element.
std::vector<std::size_t> even_sizes(std::size_t bytes, std::size_t element, int parts) {
  const std::size_t count = bytes / element;
  const auto num = static_cast<std::size_t>(parts);
  std::vector<std::size_t> sizes(num);
  for (std::size_t i = 0; i < num; ++i) sizes[i] = (count / num + (i < count % num ? 1 : 0)) * element;
  return sizes;
}

RequestPtr TransportGroup::exchange(const PartsToSend& send, const PartsToReceive& receive, std::int64_t tag) {
  PPCTL_CHECK_EQ(send[rank_].size, receive[rank_].size);
  if (send[rank_].size != 0 && receive[rank_].data != send[rank_].data) {
    std::memmove(receive[rank_].data, send[rank_].data, send[rank_].size);
  }
  std::vector<P2POp> ops;
  ops.reserve(2 * world_ranks_.size());
  for (int step = 1; step < size(); ++step) {
    const int from = (rank_ - step + size()) % size();
    ops.push_back({.kind = P2POp::Kind::kRecv, .peer = world_ranks_[from], .tag = tag, .recv = {receive[from]}});
  }
  for (int step = 1; step < size(); ++step) {
    const int to = (rank_ + step) % size();
    ops.push_back({.kind = P2POp::Kind::kSend, .peer = world_ranks_[to], .tag = tag, .send = {send[to]}});
  }
  return transport_.start_batch(std::move(ops));
}

void TransportGroup::barrier(Deadline deadline) {
  // Dissemination: after round k each rank has heard, directly or not, of the 2^(k+1) - 1 ranks before it.
  for (int distance = 1; distance < size(); distance *= 2) {
    const std::int64_t tag = next_tag();
    const int to = world_ranks_[(rank_ + distance) % size()];
    const int from = world_ranks_[(rank_ - distance + size()) % size()];
    transport_
        .start_batch({{.kind = P2POp::Kind::kSend, .peer = to, .tag = tag},
                      {.kind = P2POp::Kind::kRecv, .peer = from, .tag = tag}})
        ->wait(deadline, what("barrier"));
  }
}

void TransportGroup::broadcast(MutableBytes data, int root, Deadline deadline) {
  PPCTL_CHECK(root >= 0 && root < size(), "broadcast from rank {} of a group of {}", root, size());
  const std::int64_t tag = next_tag();
  std::vector<P2POp> ops;
  if (rank_ != root) {
    ops.push_back({.kind = P2POp::Kind::kRecv, .peer = world_ranks_[root], .tag = tag, .recv = {data}});
  }
  for (int step = 1; rank_ == root && step < size(); ++step) {
    const int to = world_ranks_[(rank_ + step) % size()];
    ops.push_back({.kind = P2POp::Kind::kSend, .peer = to, .tag = tag, .send = {{data.data, data.size, data.device}}});
  }
  transport_.start_batch(std::move(ops))->wait(deadline, what("broadcast"));
}

RequestPtr TransportGroup::all_gather(ConstBytes input, MutableBytes output) {
  const std::vector<std::size_t> sizes(world_ranks_.size(), input.size);
  const PartsToSend send(world_ranks_.size(), input);
  return std::make_unique<CollectiveRequest>(what("all_gather"), exchange(send, cut(output, sizes), next_tag()),
                                             std::vector<CollectiveRequest::Continue>());
}

RequestPtr TransportGroup::all_to_all(ConstBytes input, std::span<const std::size_t> send_sizes, MutableBytes output,
                                      std::span<const std::size_t> recv_sizes) {
  PPCTL_CHECK(send_sizes.size() == world_ranks_.size() && recv_sizes.size() == world_ranks_.size(),
              "all_to_all of {} parts to send and {} to receive in a group of {}", send_sizes.size(), recv_sizes.size(),
              size());
  return std::make_unique<CollectiveRequest>(what("all_to_all"),
                                             exchange(cut(input, send_sizes), cut(output, recv_sizes), next_tag()),
                                             std::vector<CollectiveRequest::Continue>());
}

RequestPtr TransportGroup::exchange_pieces(std::span<const std::vector<ConstBytes>> send,
                                           std::span<const std::vector<MutableBytes>> receive) {
  const std::int64_t tag = next_tag();
  std::vector<P2POp> ops;
  add_receives(receive, tag, ops);
  add_sends(send, tag, ops);
  return request_of("exchange_pieces", std::move(ops));
}

SentPieces TransportGroup::send_pieces(std::span<const std::vector<ConstBytes>> send) {
  const std::int64_t tag = next_tag();
  std::vector<P2POp> ops;
  add_sends(send, tag, ops);
  return {tag, request_of("send_pieces", std::move(ops))};
}

RequestPtr TransportGroup::receive_pieces(const SentPieces& sent, std::span<const std::vector<MutableBytes>> receive) {
  std::vector<P2POp> ops;
  add_receives(receive, sent.tag, ops);
  return request_of("receive_pieces", std::move(ops));
}

RequestPtr TransportGroup::request_of(std::string_view collective, std::vector<P2POp> ops) {
  return std::make_unique<CollectiveRequest>(what(collective), transport_.start_batch(std::move(ops)),
                                             std::vector<CollectiveRequest::Continue>());
}

void TransportGroup::add_sends(std::span<const std::vector<ConstBytes>> send, std::int64_t tag,
                               std::vector<P2POp>& ops) const {
  PPCTL_CHECK(send.size() == world_ranks_.size(), "{} lists to send in a group of {}", send.size(), size());
  for (int step = 1; step < size(); ++step) {
    const int to = (rank_ + step) % size();
    if (!any_bytes(send[to])) continue;
    ops.push_back({.kind = P2POp::Kind::kSend, .peer = world_ranks_[to], .tag = tag, .send = send[to]});
  }
}

void TransportGroup::add_receives(std::span<const std::vector<MutableBytes>> receive, std::int64_t tag,
                                  std::vector<P2POp>& ops) const {
  PPCTL_CHECK(receive.size() == world_ranks_.size(), "{} lists to receive in a group of {}", receive.size(), size());
  for (int step = 1; step < size(); ++step) {
    const int from = (rank_ - step + size()) % size();
    if (!any_bytes(receive[from])) continue;
    ops.push_back({.kind = P2POp::Kind::kRecv, .peer = world_ranks_[from], .tag = tag, .recv = receive[from]});
  }
}

RequestPtr TransportGroup::reduce_scatter(ConstBytes input, MutableBytes output, ElementType type) {
  PPCTL_CHECK_EQ(input.size, output.size * world_ranks_.size());
  const std::vector<std::size_t> sizes(world_ranks_.size(), output.size);
  const std::shared_ptr<std::byte> parts = buffers_.take(input.size);
  RequestPtr first = exchange(cut(input, sizes), cut(MutableBytes{parts.get(), input.size}, sizes), next_tag());
  auto sum = [parts, output, type, ranks = world_ranks_.size()]() -> RequestPtr {
    std::vector<const std::byte*> sources;
    for (std::size_t i = 0; i < ranks; ++i) sources.push_back(parts.get() + i * output.size);
    sum_in_order(type, sources, output.data, output.size);
    return nullptr;
  };
  return std::make_unique<CollectiveRequest>(what("reduce_scatter"), std::move(first),
                                             std::vector<CollectiveRequest::Continue>{std::move(sum)});
}

RequestPtr TransportGroup::direct_all_reduce(MutableBytes data, ElementType type) {
  const std::vector<std::size_t> sizes(world_ranks_.size(), data.size);
  const std::size_t total = data.size * world_ranks_.size();
  const std::shared_ptr<std::byte> all = buffers_.take(total);
  const PartsToSend send(world_ranks_.size(), ConstBytes{data.data, data.size, data.device});
  RequestPtr first = exchange(send, cut(MutableBytes{all.get(), total}, sizes), next_tag());
  auto sum = [all, data, type, ranks = world_ranks_.size()]() -> RequestPtr {
    std::vector<const std::byte*> sources;
    for (std::size_t i = 0; i < ranks; ++i) sources.push_back(all.get() + i * data.size);
    sum_in_order(type, sources, data.data, data.size);
    return nullptr;
  };
  return std::make_unique<CollectiveRequest>(what("all_reduce"), std::move(first),
                                             std::vector<CollectiveRequest::Continue>{std::move(sum)});
}

RequestPtr TransportGroup::all_reduce(MutableBytes data, ElementType type) {
  if (data.size <= kDirectAllReduceBytes) return direct_all_reduce(data, type);
  // Each rank sums one part of the elements, then all gather the parts.
  const std::vector<std::size_t> sizes = even_sizes(data.size, size_of(type), size());
  const std::vector<std::size_t> mine(world_ranks_.size(), sizes[rank_]);
  const std::size_t total = sizes[rank_] * world_ranks_.size();
  const std::shared_ptr<std::byte> parts = buffers_.take(total);
  const std::int64_t sum_tag = next_tag();
  const std::int64_t gather_tag = next_tag();
  RequestPtr first = exchange(cut(ConstBytes{data.data, data.size, data.device}, sizes),
                              cut(MutableBytes{parts.get(), total}, mine), sum_tag);
  auto sum_and_gather = [this, parts, data, type, sizes, gather_tag]() -> RequestPtr {
    const PartsToReceive places = cut(data, sizes);
    const MutableBytes own = places[rank_];
    std::vector<const std::byte*> sources;
    for (int i = 0; i < size(); ++i) sources.push_back(parts.get() + i * own.size);
    sum_in_order(type, sources, own.data, own.size);
    return exchange(PartsToSend(world_ranks_.size(), ConstBytes{own.data, own.size, own.device}), places, gather_tag);
  };
  // Nothing is left to do after the gather.
  return std::make_unique<CollectiveRequest>(what("all_reduce"), std::move(first),
                                             std::vector<CollectiveRequest::Continue>{std::move(sum_and_gather)});
}

std::vector<std::string> TransportGroup::all_gather_strings(const std::string& mine, Deadline deadline) {
  const std::uint64_t my_size = mine.size();
  std::vector<std::uint64_t> sizes(world_ranks_.size());
  all_gather({reinterpret_cast<const std::byte*>(&my_size), sizeof my_size},
             {reinterpret_cast<std::byte*>(sizes.data()), sizes.size() * sizeof my_size})
      ->wait(deadline, "sizes of strings");
  std::vector<std::string> all(world_ranks_.size());
  PartsToReceive places;
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].resize(sizes[i]);
    places.push_back({reinterpret_cast<std::byte*>(all[i].data()), all[i].size()});
  }
  const PartsToSend send(world_ranks_.size(), {reinterpret_cast<const std::byte*>(mine.data()), mine.size()});
  exchange(send, places, next_tag())->wait(deadline, what("all_gather_strings"));
  return all;
}

}  // namespace

std::unique_ptr<Group> make_group(Transport& transport, std::span<const int> world_ranks, const std::string& name) {
  return std::make_unique<TransportGroup>(transport, world_ranks, name);
}

}  // namespace ppctl
