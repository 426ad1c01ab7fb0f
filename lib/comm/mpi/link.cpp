// On the wire a message is Header | bytes, in one MPI message if it is no longer than a piece; else the header alone,
// followed by the bytes in pieces. A message of a header alone whose size is not 0 announces pieces.
#include "comm/mpi/link.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"

namespace ppctl {
namespace {

constexpr int kMpiTag = 1;

}  // namespace

void check_mpi(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int size = 0;
  MPI_Error_string(code, text, &size);
  throw_error("{} failed: {}", what, std::string_view(text, static_cast<std::size_t>(size)));
}

MpiLink::MpiLink(MPI_Comm communicator, std::size_t piece_bytes)
    : communicator_(communicator), piece_bytes_(piece_bytes) {
  int size = 0;
  check_mpi(MPI_Comm_size(communicator, &size), "MPI_Comm_size");
  of_sender_.resize(static_cast<std::size_t>(size));
  assemblies_.resize(static_cast<std::size_t>(size));
}

std::shared_ptr<std::byte> MpiLink::pack(std::int64_t tag, std::span<const ConstBytes> bytes, std::size_t size) {
  std::shared_ptr<std::byte> packed = pool_.take(sizeof(Header) + size);
  const Header header{tag, size};
  std::memcpy(packed.get(), &header, sizeof header);
  std::byte* end = packed.get() + sizeof header;
  for (const ConstBytes& part : bytes) {
    if (part.size != 0) std::memcpy(end, part.data, part.size);
    end += part.size;
  }
  return packed;
}

void MpiLink::send_piece(int peer, const std::shared_ptr<std::byte>& packed, const std::byte* begin, std::size_t size) {
  Send& send = sends_.emplace_back();
  send.bytes = packed;
  check_mpi(MPI_Isend(begin, static_cast<int>(size), MPI_BYTE, peer, kMpiTag, communicator_, &send.request),
            "MPI_Isend");
}

void MpiLink::send(int peer, const std::shared_ptr<std::byte>& packed, std::size_t size) {
  if (size <= piece_bytes_) return send_piece(peer, packed, packed.get(), sizeof(Header) + size);
  send_piece(peer, packed, packed.get(), sizeof(Header));
  for (std::size_t at = 0; at < size; at += piece_bytes_) {
    send_piece(peer, packed, packed.get() + sizeof(Header) + at, std::min(piece_bytes_, size - at));
  }
}

void MpiLink::start_receive(int sender, MPI_Message message, std::size_t size) {
  Assembly& assembly = assemblies_[static_cast<std::size_t>(sender)];
  Receive receive;
  std::byte* place = nullptr;
  if (assembly.bytes) {
    receive.bytes = assembly.bytes;
    place = assembly.bytes.get() + sizeof(Header) + assembly.done;
    assembly.done += size;
    receive.last = assembly.done == assembly.size;
    if (receive.last) assembly = {};
  } else if (size == sizeof(Header)) {
    // A header alone is short and here already, so that this does not block.
    Header header;
    check_mpi(MPI_Mrecv(&header, sizeof header, MPI_BYTE, &message, MPI_STATUS_IGNORE), "MPI_Mrecv");
    receive.bytes = pool_.take(sizeof header + header.size);
    std::memcpy(receive.bytes.get(), &header, sizeof header);
    if (header.size != 0) {
      assembly = {std::move(receive.bytes), header.size, 0};
      return;
    }
  } else {
    receive.bytes = pool_.take(size);
    place = receive.bytes.get();
  }
  auto& line = of_sender_[static_cast<std::size_t>(sender)];
  if (line.empty()) receives_.push_back(sender);
  line.push_back(std::move(receive));
  if (place != nullptr) {
    check_mpi(MPI_Imrecv(place, static_cast<int>(size), MPI_BYTE, &message, &line.back().request), "MPI_Imrecv");
  }
}

bool MpiLink::finish_receives(int sender, const Deliver& deliver) {
  auto& line = of_sender_[static_cast<std::size_t>(sender)];
  bool moved = false;
  while (!line.empty()) {
    int done = 0;
    check_mpi(MPI_Test(&line.front().request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done == 0) break;
    moved = true;
    const Receive receive = std::move(line.front());
    line.pop_front();
    if (!receive.last) continue;
    Header header;
    std::memcpy(&header, receive.bytes.get(), sizeof header);
    // The payload shares the buffer's ownership and points behind the header.
    deliver(sender, header.tag, {{receive.bytes, receive.bytes.get() + sizeof header}, header.size});
  }
  return moved;
}

bool MpiLink::poll(const Deliver& deliver) {
  bool moved = false;
  for (;;) {
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    check_mpi(MPI_Improbe(MPI_ANY_SOURCE, kMpiTag, communicator_, &found, &message, &status), "MPI_Improbe");
    if (found == 0) break;
    int size = 0;
    check_mpi(MPI_Get_count(&status, MPI_BYTE, &size), "MPI_Get_count");
    start_receive(status.MPI_SOURCE, message, static_cast<std::size_t>(size));
    moved = true;
  }
  for (std::size_t i = 0; i < receives_.size();) {
    const int sender = receives_[i];
    moved |= finish_receives(sender, deliver);
    if (of_sender_[static_cast<std::size_t>(sender)].empty()) {
      receives_.erase(receives_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  for (auto send = sends_.begin(); send != sends_.end();) {
    int done = 0;
    check_mpi(MPI_Test(&send->request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    moved |= done != 0;
    send = done != 0 ? sends_.erase(send) : send + 1;
  }
  return moved;
}

}  // namespace ppctl
