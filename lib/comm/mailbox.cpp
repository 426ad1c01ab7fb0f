#include "comm/mailbox.hpp"

#include <utility>

namespace ppctl {

void Mailbox::post(PostedReceive& receive) {
  const auto [line, added] = lines_.try_emplace({receive.sender, receive.tag});
  auto& messages = line->second.messages;
  if (messages.empty()) {
    line->second.receives.push_back(&receive);
    return;
  }
  receive.arrived = std::move(messages.front());
  messages.pop_front();
  if (messages.empty()) lines_.erase(line);
}

void Mailbox::deliver(int sender, std::int64_t tag, Payload payload) {
  const auto [line, added] = lines_.try_emplace({sender, tag});
  auto& receives = line->second.receives;
  if (receives.empty()) {
    line->second.messages.push_back(std::move(payload));
    return;
  }
  receives.front()->arrived = std::move(payload);
  receives.pop_front();
  if (receives.empty()) lines_.erase(line);
}

void Mailbox::withdraw(PostedReceive& receive) {
  receive.arrived.reset();
  const auto line = lines_.find({receive.sender, receive.tag});
  if (line == lines_.end()) return;
  line->second.receives.remove(&receive);
  if (line->second.receives.empty() && line->second.messages.empty()) lines_.erase(line);
}

}  // namespace ppctl
