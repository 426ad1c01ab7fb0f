// The parts of the transports that no other test sees by itself.
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "comm/affinity.hpp"
#include "comm/buffer_pool.hpp"
#include "comm/doorbell.hpp"
#include "comm/mailbox.hpp"
#include "comm/rank_panel.hpp"

namespace ppctl {
namespace {

TEST(Doorbell, WakesASleeperThatSawTheOldCount) {
  Doorbell doorbell;
  std::atomic<bool> rung{false};
  const std::uint32_t seen = doorbell.count();
  std::thread sleeper([&] {
    while (doorbell.count() == seen) doorbell.wait(seen, monotonic_now() + 20'000'000'000);
    EXPECT_TRUE(rung);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  rung = true;
  doorbell.ring();
  sleeper.join();
}

TEST(Doorbell, DoesNotSleepWhenItWasRungBefore) {
  Doorbell doorbell;
  const std::uint32_t seen = doorbell.count();
  doorbell.ring();
  const Nanoseconds begin = monotonic_now();
  doorbell.wait(seen, begin + 20'000'000'000);
  EXPECT_LT(monotonic_now() - begin, 5'000'000'000);
}

TEST(Doorbell, SleepsNoLongerThanToldTo) {
  Doorbell doorbell;
  const Nanoseconds begin = monotonic_now();
  const std::uint32_t seen = doorbell.count();
  while (monotonic_now() < begin + 30'000'000) doorbell.wait(seen, begin + 30'000'000);
  EXPECT_LT(monotonic_now() - begin, 5'000'000'000);
  EXPECT_EQ(doorbell.count(), seen);
}

TEST(TextCell, HoldsTheLastTextAndCutsWhatDoesNotFit) {
  TextCell<2> cell;
  EXPECT_EQ(cell.read(), "");
  cell.write("step 12, 3F4");
  EXPECT_EQ(cell.read(), "step 12, 3F4");
  cell.write("a text of many letters");
  EXPECT_EQ(cell.read(), "a text of many l");
  cell.write("");
  EXPECT_EQ(cell.read(), "");
}

TEST(TextCell, ShowsWholeTextsToReadersWhileItIsWritten) {
  TextCell<8> cell;
  cell.write(std::string(40, 'a'));
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    while (!stop) {
      cell.write(std::string(40, 'a'));
      cell.write(std::string(40, 'b'));
      std::this_thread::yield();
    }
  });
  for (int i = 0; i < 2000; ++i) {
    const std::string text = cell.read();
    EXPECT_EQ(std::set<char>(text.begin(), text.end()).size(), 1u) << text;
  }
  stop = true;
  writer.join();
}

TEST(RankPanel, KeepsTheFirstFailure) {
  RankPanel panel;
  EXPECT_EQ(panel.failed, 0);
  panel.fail("rank 2 failed: the data ended");
  panel.fail("rank 1 failed: its peer failed");
  EXPECT_EQ(panel.failed, 1);
  EXPECT_EQ(panel.failure.read(), "rank 2 failed: the data ended");
}

TEST(BufferPool, GivesAlignedBlocksAndUsesThemAgain) {
  BufferPool pool;
  std::shared_ptr<std::byte> first = pool.take(100'000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first.get()) % 64, 0u);
  const std::byte* memory = first.get();
  const std::size_t allocated = pool.allocated_bytes();
  first.reset();
  EXPECT_EQ(pool.take(99'000).get(), memory);
  EXPECT_EQ(pool.allocated_bytes(), allocated);
}

TEST(BufferPool, WastesLittleOfABlock) {
  for (std::size_t size = 1; size < 2'000'000; size += 1 + size / 7) {
    const std::size_t block = BufferPool::size_class(size);
    EXPECT_GE(block, size);
    EXPECT_LE(block, std::max<std::size_t>(256, size * 5 / 4 + 64)) << size;
    EXPECT_EQ(block % 64, 0u);
    EXPECT_EQ(BufferPool::size_class(block), block);
  }
}

TEST(BufferPool, MayGoBeforeItsBlocks) {
  std::shared_ptr<std::byte> block;
  {
    BufferPool pool;
    block = pool.take(1000);
  }
  block.get()[999] = std::byte{1};
  EXPECT_EQ(block.get()[999], std::byte{1});
}

TEST(Mailbox, ForgetsAWithdrawnReceive) {
  Mailbox mailbox;
  PostedReceive withdrawn{.sender = 1, .tag = 2}, kept{.sender = 1, .tag = 2};
  mailbox.post(withdrawn);
  mailbox.post(kept);
  mailbox.withdraw(withdrawn);
  mailbox.deliver(1, 2, Payload{.data = nullptr, .size = 7});
  EXPECT_FALSE(withdrawn.arrived);
  ASSERT_TRUE(kept.arrived);
  EXPECT_EQ(kept.arrived->size, 7u);
}

TEST(Mailbox, TellsSendersWithTheSameTagApart) {
  Mailbox mailbox;
  mailbox.deliver(3, 5, Payload{.data = nullptr, .size = 30});
  mailbox.deliver(4, 5, Payload{.data = nullptr, .size = 40});
  PostedReceive of_4{.sender = 4, .tag = 5};
  mailbox.post(of_4);
  ASSERT_TRUE(of_4.arrived);
  EXPECT_EQ(of_4.arrived->size, 40u);
}

TEST(Affinity, WidensToAtLeastOneCore) { EXPECT_GE(widen_affinity(), 1); }

}  // namespace
}  // namespace ppctl
