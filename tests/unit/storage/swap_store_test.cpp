#include "storage/swap_store.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <random>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "storage/slot_space.hpp"
#include "support/temporary_folder.hpp"

namespace ppctl {
namespace {

using Bytes = std::vector<std::byte>;

Bytes some_bytes(std::size_t count, unsigned seed) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>((i * 2654435761U + seed) >> 13);
  return bytes;
}

std::string text_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Writes parts of these sizes, and expects to read the same.
void expect_returns(SwapStore& store, const std::vector<std::size_t>& sizes, unsigned seed) {
  std::vector<Bytes> written;
  std::vector<Bytes> read;
  std::vector<std::span<const std::byte>> from;
  std::vector<std::span<std::byte>> to;
  std::size_t total = 0;
  for (const std::size_t size : sizes) {
    written.push_back(some_bytes(size, seed++));
    read.emplace_back(size);
    total += size;
  }
  for (const Bytes& part : written) from.emplace_back(part);
  for (Bytes& part : read) to.emplace_back(part);
  const SwapStore::Slot slot = store.take(total);
  const SwapStore::Slot other = store.take(100);
  store.write(slot, from);
  store.read(slot, to);
  EXPECT_EQ(read, written);
  store.give(slot);
  store.give(other);
}

TEST(SwapStore, GivesBackWhatItTook) {
  const test::TemporaryFolder folder;
  const auto memory = make_memory_store(0);
  const auto file = make_file_store({folder.path() + "/made/on/demand"});
  for (SwapStore* store : {memory.get(), file.get()}) {
    expect_returns(*store, {1}, 1);
    expect_returns(*store, {4096, 17, 0, 100'000}, 2);
    expect_returns(*store, {(std::size_t{8} << 20) + 4097, 5, std::size_t{9} << 20}, 3);
    EXPECT_GE(store->most_bytes(), (std::size_t{17} << 20));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path() + "/made/on/demand")) << "the file has no name";
}

TEST(SwapStore, SaysThatTheLimitIsReached) {
  const test::TemporaryFolder folder;
  const auto memory = make_memory_store(10'000);
  const auto file = make_file_store({folder.path(), 10'000});
  for (SwapStore* store : {memory.get(), file.get()}) {
    const SwapStore::Slot slot = store->take(6'000);
    EXPECT_NE(text_of([&] { store->take(6'000); }).find("'swap.limit_gib' allows 10000"), std::string::npos);
    store->give(slot);
    store->give(store->take(6'000));
  }
}

TEST(SwapStore, NamesAFolderThatCannotHoldAFile) {
  const test::TemporaryFolder folder;
  const std::string file = folder.write("file", "");
  EXPECT_EQ(text_of([&] { make_file_store({file + "/below"}); }),
            "swap.folder " + file + "/below: cannot be made: Not a directory");
}

TEST(SwapStore, TakesAsLongAsTheTierThatItEmulates) {
  const auto store = make_slowed_store(make_memory_store(0), 0.8);  // 100 bytes a microsecond
  const Bytes bytes = some_bytes(1'000'000, 1);
  const SwapStore::Slot slot = store->take(bytes.size());
  const Nanoseconds start = monotonic_now();
  store->write(slot, std::vector<std::span<const std::byte>>{bytes});
  EXPECT_GE(monotonic_now() - start, 10'000'000);
}

TEST(SlotSpace, NeverGivesABytesTwiceAndGrowsOnlyWhereNoGapIsLargeEnough) {
  std::mt19937 random(7);
  SlotSpace space(0, 16);
  std::map<std::int64_t, std::int64_t> held;  // end by offset
  std::int64_t bytes = 0;
  for (int i = 0; i < 2000; ++i) {
    if (!held.empty() && random() % 2 == 0) {
      auto slot = held.begin();
      std::advance(slot, random() % held.size());
      space.give(slot->first);
      bytes -= slot->second - slot->first;
      held.erase(slot);
    } else {
      const std::int64_t size = 1 + static_cast<std::int64_t>(random() % 300);
      const std::int64_t rounded = (size + 15) / 16 * 16;
      const std::int64_t offset = space.take(size).value();
      const auto [slot, is_new] = held.emplace(offset, offset + rounded);
      ASSERT_TRUE(is_new);
      if (slot != held.begin()) {
        ASSERT_LE(std::prev(slot)->second, offset);
      }
      if (std::next(slot) != held.end()) {
        ASSERT_LE(offset + rounded, std::next(slot)->first);
      }
      bytes += rounded;
    }
    ASSERT_EQ(space.taken(), bytes);
  }
  for (const auto& [offset, end] : held) space.give(offset);
  const std::int64_t extent = space.extent();
  EXPECT_EQ(space.take(extent), 0) << "the gaps have become one";
  EXPECT_EQ(space.extent(), extent);
}

}  // namespace
}  // namespace ppctl
