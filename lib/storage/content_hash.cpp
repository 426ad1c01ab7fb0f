#include "storage/content_hash.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include "base/error.hpp"

namespace ppctl {

struct ContentHash::State {
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> xxh{XXH3_createState()};
};

ContentHash::ContentHash() : state_(std::make_unique<State>()) {
  PPCTL_CHECK(state_->xxh != nullptr, "no memory for a hash");
  XXH3_128bits_reset(state_->xxh.get());
}

ContentHash::ContentHash(ContentHash&&) noexcept = default;
ContentHash::~ContentHash() = default;

void ContentHash::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->xxh.get(), bytes.data(), bytes.size());
}

std::string ContentHash::text() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh.get());
  return fmt::format("xxh128:{:016x}{:016x}", hash.high64, hash.low64);
}

std::string content_hash(std::span<const std::byte> bytes) {
  ContentHash hash;
  hash.add(bytes);
  return hash.text();
}

}  // namespace ppctl
