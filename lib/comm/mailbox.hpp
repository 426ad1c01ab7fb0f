#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>

namespace ppctl {

/// The bytes of a message that has arrived, wherever they lie; destroying it gives their memory back.
struct Payload {
  std::shared_ptr<const std::byte> data;
  std::size_t size = 0;
};

/// A receive that was posted; stays at one address until it is taken or withdrawn.
struct PostedReceive {
  int sender = -1;
  std::int64_t tag = 0;
  std::optional<Payload> arrived;  ///< set when the message has come
};

/// Matches the messages that a rank gets with its receives by (sender, tag), each such line in order. Not synchronised.
class Mailbox {
 public:
  /// Queues the receive, or gives it the message that waits for it.
  void post(PostedReceive& receive);
  /// Gives the message to the oldest receive that waits for it, or queues it.
  void deliver(int sender, std::int64_t tag, Payload payload);
  /// Forgets a receive. A message that it already has is lost.
  void withdraw(PostedReceive& receive);

 private:
  struct Key {
    int sender;
    std::int64_t tag;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      return (static_cast<std::size_t>(key.tag) * 0x9e3779b97f4a7c15ULL) ^ (static_cast<std::size_t>(key.sender) << 7);
    }
  };
  /// Of the two lists one is always empty.
  struct Line {
    std::list<Payload> messages;
    std::list<PostedReceive*> receives;
  };

  std::unordered_map<Key, Line, Hash> lines_;  ///< only lines that are not empty
};

}  // namespace ppctl
