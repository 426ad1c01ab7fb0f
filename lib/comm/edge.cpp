// A message of an edge:
//
//   Header | TensorRecord × count | zeros up to a multiple of 64 | tensor 0 | zeros up to a multiple of 64 | tensor 1 |
//   ...
//
// When header and payload together are longer than what was agreed, the payload (from tensor 0 on) is a message of its
// own, whose tag has kPayloadBit set.
#include "comm/edge.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.hpp"
#include "comm/edge_buffers.hpp"

namespace ppctl {
namespace {

constexpr std::int64_t kPayloadBit = std::int64_t{1} << 61;
constexpr std::uint32_t kMagic = 0x65676465;
constexpr std::size_t kAlignment = 64;
constexpr std::array<std::byte, kAlignment> kZeros{};

struct Header {
  std::uint32_t magic = kMagic;
  std::uint32_t count = 0;
  std::uint64_t payload_bytes = 0;
};

struct TensorRecord {
  std::uint8_t type = 0;
  std::uint8_t num_dims = 0;
  std::uint8_t defined = 0;
  std::uint8_t unused[5] = {};
  std::uint64_t size = 0;
  std::int64_t dims[kMaxEdgeDims] = {};
};

constexpr std::size_t round_up(std::size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

constexpr std::size_t header_bytes(std::size_t count) {
  return round_up(sizeof(Header) + count * sizeof(TensorRecord));
}

/// What both ends take as agreed before the first message: any header, and the bytes that are expected.
constexpr std::size_t first_agreement(std::size_t expected_bytes) {
  return header_bytes(kMaxEdgeTensors) + round_up(expected_bytes);
}

TensorRecord record_of(const EdgeTensor& tensor) {
  if (tensor.dims.size() > kMaxEdgeDims) {
    throw_error("a tensor between stages has {} dims; at most {} can be sent", tensor.dims.size(), kMaxEdgeDims);
  }
  TensorRecord record;
  record.type = static_cast<std::uint8_t>(tensor.type);
  record.num_dims = static_cast<std::uint8_t>(tensor.dims.size());
  record.defined = tensor.defined ? 1 : 0;
  std::size_t size = size_of(tensor.type);
  for (std::size_t i = 0; i < tensor.dims.size(); ++i) {
    record.dims[i] = tensor.dims[i];
    size *= static_cast<std::size_t>(tensor.dims[i]);
  }
  if (tensor.defined) {
    PPCTL_CHECK_EQ(size, tensor.bytes.size);
    record.size = size;
  }
  return record;
}

void write_header(std::span<const EdgeTensor> tensors, std::size_t payload_bytes, std::vector<std::byte>& bytes) {
  bytes.assign(header_bytes(tensors.size()), std::byte{0});
  const Header header{.count = static_cast<std::uint32_t>(tensors.size()), .payload_bytes = payload_bytes};
  std::memcpy(bytes.data(), &header, sizeof header);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorRecord record = record_of(tensors[i]);
    std::memcpy(bytes.data() + sizeof header + i * sizeof record, &record, sizeof record);
  }
}

/// The tensors that a header describes, with the first at `offset`.
std::vector<ReceivedTensor> read_records(const std::byte* bytes, std::uint32_t count, std::size_t offset) {
  std::vector<ReceivedTensor> tensors(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    TensorRecord record;
    std::memcpy(&record, bytes + sizeof(Header) + i * sizeof record, sizeof record);
    tensors[i].type = static_cast<ElementType>(record.type);
    tensors[i].dims.assign(record.dims, record.dims + std::min<std::size_t>(record.num_dims, kMaxEdgeDims));
    tensors[i].offset = offset;
    tensors[i].size = record.size;
    tensors[i].defined = record.defined != 0;
    offset += round_up(record.size);
  }
  return tensors;
}

void check_tag(std::int64_t tag) { PPCTL_CHECK(tag >= 0 && tag <= kMaxTag, "tag {} of an edge", tag); }

}  // namespace

EdgeBufferBytes edge_buffer_bytes(std::size_t tensor_bytes, std::size_t second_bytes) {
  const std::size_t message = header_bytes(second_bytes == 0 ? 1 : 2) + round_up(tensor_bytes) + round_up(second_bytes);
  const std::size_t first = first_agreement(0);
  // What fits into the first agreement needs no other.
  return {BufferPool::size_class(first), BufferPool::size_class(std::max(first, message)), message <= first};
}

EdgeSender::EdgeSender(Transport& transport, int peer, std::size_t expected_bytes)
    : transport_(transport), peer_(peer), first_agreed_(first_agreement(expected_bytes)) {}

RequestPtr EdgeSender::start(std::int64_t tag, std::span<const EdgeTensor> tensors) {
  std::vector<P2POp> batch;
  prepare(tag, tensors, batch);
  return batch.size() == 1 ? transport_.start(std::move(batch[0])) : transport_.start_batch(std::move(batch));
}

void EdgeSender::prepare(std::int64_t tag, std::span<const EdgeTensor> tensors, std::vector<P2POp>& batch) {
  check_tag(tag);
  if (tensors.size() > kMaxEdgeTensors) {
    throw_error("{} tensors between two stages; at most {} can be sent", tensors.size(), kMaxEdgeTensors);
  }
  Line* line = nullptr;
  {
    const std::lock_guard lock(mutex_);
    line = &lines_.try_emplace(tag, Line{first_agreed_, {}}).first->second;  // elements of the map keep their address
  }
  P2POp payload{.kind = P2POp::Kind::kSend, .peer = peer_, .tag = tag | kPayloadBit};
  std::size_t payload_bytes = 0;
  for (const EdgeTensor& tensor : tensors) {
    if (!tensor.defined || tensor.bytes.size == 0) continue;
    const std::size_t padded = round_up(tensor.bytes.size);
    payload.send.push_back(tensor.bytes);
    if (padded != tensor.bytes.size) payload.send.push_back({kZeros.data(), padded - tensor.bytes.size});
    payload_bytes += padded;
  }
  write_header(tensors, payload_bytes, line->header);

  P2POp header{.kind = P2POp::Kind::kSend, .peer = peer_, .tag = tag};
  header.send.push_back({line->header.data(), line->header.size()});
  const std::size_t total = line->header.size() + payload_bytes;
  const bool fits = total <= line->agreed;
  line->agreed = std::max(line->agreed, total);
  if (fits) header.send.insert(header.send.end(), payload.send.begin(), payload.send.end());
  batch.push_back(std::move(header));
  if (!fits) batch.push_back(std::move(payload));
}

EdgeReceiver::EdgeReceiver(Transport& transport, int peer, std::size_t expected_bytes)
    : transport_(transport), peer_(peer), first_agreed_(first_agreement(expected_bytes)) {}

EdgeReceiver::Line& EdgeReceiver::line(std::int64_t tag) {
  const std::lock_guard lock(mutex_);
  Line& line = lines_[tag];
  if (line.agreed == 0) line.agreed = first_agreed_;
  return line;
}

void EdgeReceiver::prepare(std::int64_t tag, std::vector<P2POp>& batch) {
  check_tag(tag);
  Line& receive = line(tag);
  PPCTL_CHECK(!receive.buffer, "a second receive on tag {} of an edge", tag);
  receive.buffer = pool_.take(receive.agreed);
  batch.push_back({.kind = P2POp::Kind::kRecv,
                   .peer = peer_,
                   .tag = tag,
                   .recv = {{receive.buffer.get(), receive.agreed}},
                   .received = &receive.received});
}

void EdgeReceiver::post(std::int64_t tag) {
  std::vector<P2POp> batch;
  prepare(tag, batch);
  line(tag).request = transport_.start(std::move(batch[0]));
}

EdgeMessage EdgeReceiver::wait(std::int64_t tag, Deadline deadline, std::string_view context) {
  Line& receive = line(tag);
  if (!receive.buffer) post(tag);
  if (receive.request) {
    receive.request->wait(deadline, context);
    receive.request.reset();
  }
  EdgeMessage message{.buffer = std::move(receive.buffer), .tensors = {}};
  Header header;
  PPCTL_CHECK(receive.received >= sizeof header, "an edge got a message of {} bytes", receive.received);
  std::memcpy(&header, message.buffer.get(), sizeof header);
  PPCTL_CHECK(header.magic == kMagic && header.count <= kMaxEdgeTensors, "tag {} carried what no edge sent", tag);

  const std::size_t head = header_bytes(header.count);
  const std::size_t total = head + header.payload_bytes;
  if (total <= receive.agreed) {
    PPCTL_CHECK_EQ(receive.received, total);
    message.tensors = read_records(message.buffer.get(), header.count, head);
    return message;
  }
  receive.agreed = total;
  message.tensors = read_records(message.buffer.get(), header.count, 0);
  message.buffer = pool_.take(total);  // as large as the receives that follow, which then find it in the pool
  transport_
      .start({.kind = P2POp::Kind::kRecv,
              .peer = peer_,
              .tag = tag | kPayloadBit,
              .recv = {{message.buffer.get(), header.payload_bytes}}})
      ->wait(deadline, context);
  return message;
}

}  // namespace ppctl
