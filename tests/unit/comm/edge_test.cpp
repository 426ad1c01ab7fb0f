#include "comm/edge.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "base/error.hpp"
#include "comm/edge_buffers.hpp"
#include "comm/inproc.hpp"
#include "unit/comm/bytes.hpp"

namespace ppctl {
namespace {

Deadline soon() { return Deadline::after_seconds(20); }

/// A tensor with its memory.
struct Tensor {
  ElementType type = ElementType::kFloat32;
  std::vector<std::int64_t> dims;
  std::vector<std::byte> bytes;

  Tensor(ElementType t, std::vector<std::int64_t> d, int seed) : type(t), dims(std::move(d)) {
    std::size_t size = size_of(type);
    for (const std::int64_t dim : dims) size *= static_cast<std::size_t>(dim);
    std::mt19937 random(seed);
    for (std::size_t i = 0; i < size; ++i) bytes.push_back(static_cast<std::byte>(random()));
  }
  EdgeTensor view() const { return {type, dims, bytes_of(bytes)}; }
};

void expect_equal(const EdgeMessage& message, std::size_t index, const Tensor& tensor) {
  ASSERT_LT(index, message.tensors.size());
  const ReceivedTensor& got = message.tensors[index];
  EXPECT_TRUE(got.defined);
  EXPECT_EQ(got.type, tensor.type);
  EXPECT_EQ(got.dims, tensor.dims);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(message.data(index)) % 64, 0u);
  EXPECT_EQ(std::vector<std::byte>(message.data(index), message.data(index) + got.size), tensor.bytes);
}

/// Rank 0 sends what `tensors_of` gives for each round and tag; rank 1 posts all tags ahead and compares.
void run_rounds(int rounds, int tags, const std::function<std::vector<Tensor>(int, int)>& tensors_of) {
  run_inproc(2, [&](Communicator& comm) {
    EdgeSender sender(comm.transport(), 1);
    EdgeReceiver receiver(comm.transport(), 0);
    for (int round = 0; round < rounds; ++round) {
      if (comm.transport().rank() == 1) {
        for (int tag = 0; tag < tags; ++tag) receiver.post(tag);
      }
      for (int tag = 0; tag < tags; ++tag) {
        const std::vector<Tensor> tensors = tensors_of(round, tag);
        if (comm.transport().rank() == 0) {
          std::vector<EdgeTensor> views;
          for (const Tensor& tensor : tensors) views.push_back(tensor.view());
          sender.start(tag, views)->wait(soon(), "send");
        } else {
          const EdgeMessage message = receiver.wait(tag, soon(), "receive");
          ASSERT_EQ(message.tensors.size(), tensors.size());
          for (std::size_t i = 0; i < tensors.size(); ++i) expect_equal(message, i, tensors[i]);
        }
      }
    }
  });
}

TEST(Edge, CarriesSeveralTensorsOfAllTypes) {
  run_rounds(3, 4, [](int round, int tag) {
    const int seed = round * 10 + tag;
    return std::vector<Tensor>{{ElementType::kFloat32, {2, 3, 50}, seed},
                               {ElementType::kBFloat16, {7, 11}, seed + 1},
                               {ElementType::kInt64, {}, seed + 2},
                               {ElementType::kUint8, {3}, seed + 3},
                               {ElementType::kFloat64, {0, 4}, seed + 4}};
  });
}

TEST(Edge, AgreesOnShapesAgainWheneverTheyChange) {
  run_rounds(12, 3, [](int round, int tag) {
    std::mt19937 random(round * 3 + tag);
    std::vector<Tensor> tensors;
    for (unsigned i = random() % 4; i > 0; --i) {
      tensors.emplace_back(
          ElementType::kFloat32,
          std::vector<std::int64_t>{static_cast<int>(1 + random() % 40), static_cast<int>(random() % 90)}, round);
    }
    return tensors;
  });
}

TEST(Edge, CarriesAMegabyteAndMore) {
  run_rounds(3, 2, [](int round, int) {
    return std::vector<Tensor>{{ElementType::kFloat32, {512, 1024}, round}, {ElementType::kBFloat16, {1}, round}};
  });
}

TEST(Edge, CarriesAnUndefinedTensorAsAFlag) {
  run_inproc(2, [](Communicator& comm) {
    const Tensor tensor(ElementType::kFloat32, {3, 4}, 1);
    const std::vector<std::int64_t> dims{1000, 1000};
    if (comm.transport().rank() == 0) {
      const std::vector<EdgeTensor> views{{ElementType::kBFloat16, dims, {}, false}, tensor.view()};
      EdgeSender(comm.transport(), 1).start(0, views)->wait(soon(), "send");
    } else {
      const EdgeMessage message = EdgeReceiver(comm.transport(), 0).wait(0, soon(), "receive");
      ASSERT_EQ(message.tensors.size(), 2u);
      EXPECT_FALSE(message.tensors[0].defined);
      EXPECT_EQ(message.tensors[0].type, ElementType::kBFloat16);
      EXPECT_EQ(message.tensors[0].dims, dims);
      EXPECT_EQ(message.tensors[0].size, 0u);
      expect_equal(message, 1, tensor);
    }
  });
}

TEST(Edge, TravelsInADuplexBatch) {
  run_inproc(2, [](Communicator& comm) {
    const int rank = comm.transport().rank();
    EdgeSender sender(comm.transport(), 1 - rank);
    EdgeReceiver receiver(comm.transport(), 1 - rank);
    for (int round = 0; round < 4; ++round) {
      const Tensor mine(ElementType::kFloat32, {100, 10 + round / 2}, rank);
      const std::vector<EdgeTensor> views{mine.view()};
      std::vector<P2POp> batch;
      sender.prepare(rank, views, batch);
      receiver.prepare(1 - rank, batch);
      comm.transport().start_batch(std::move(batch))->wait(soon(), "duplex");
      expect_equal(receiver.wait(1 - rank, soon(), "duplex"), 0, Tensor(mine.type, mine.dims, 1 - rank));
    }
  });
}

TEST(Edge, AllocatesNothingOnceBuffersHaveBeenUsed) {
  run_inproc(2, [](Communicator& comm) {
    EdgeSender sender(comm.transport(), 1);
    EdgeReceiver receiver(comm.transport(), 0);
    const Tensor tensor(ElementType::kFloat32, {300, 100}, 1);
    const std::vector<EdgeTensor> views{tensor.view()};
    std::size_t allocated = 0;
    for (int round = 0; round < 10; ++round) {
      for (int tag = 0; tag < 4; ++tag) {
        if (comm.transport().rank() == 0) {
          sender.start(tag, views)->wait(soon(), "send");
        } else {
          receiver.wait(tag, soon(), "receive");
        }
      }
      if (round == 1) allocated = receiver.allocated_bytes();
    }
    EXPECT_EQ(receiver.allocated_bytes(), allocated);
  });
}

/// What one tag takes for tensors of so many float32 elements, in three rounds.
std::size_t allocated_for(std::int64_t elements) {
  std::size_t allocated = 0;
  run_inproc(2, [&](Communicator& comm) {
    EdgeSender sender(comm.transport(), 1);
    EdgeReceiver receiver(comm.transport(), 0);
    const Tensor tensor(ElementType::kFloat32, {elements}, 1);
    for (int round = 0; round < 3; ++round) {
      if (comm.transport().rank() == 0) {
        const EdgeTensor view = tensor.view();
        sender.start(0, std::span(&view, 1))->wait(soon(), "send");
      } else {
        receiver.wait(0, soon(), "receive");
        allocated = receiver.allocated_bytes();
      }
    }
  });
  return allocated;
}

TEST(Edge, TakesTheBuffersThatArePlannedForMessagesOfAnySize) {
  for (const std::int64_t elements : {1, 100, 300, 1000, 5000}) {
    const EdgeBufferBytes block = edge_buffer_bytes(static_cast<std::size_t>(elements) * 4);
    const bool in_two = block.first != block.steady;  // then the first message has a header of its own
    EXPECT_EQ(allocated_for(elements), block.steady + (in_two ? block.first : 0)) << elements;
  }
}

TEST(Edge, LeavesReceivedBytesToTheirOwnerAfterTheEdgeIsGone) {
  run_inproc(1, [](Communicator& comm) {
    const Tensor tensor(ElementType::kFloat32, {30, 100}, 1);
    const std::vector<EdgeTensor> views{tensor.view()};
    EdgeMessage message;
    {
      EdgeReceiver receiver(comm.transport(), 0);
      EdgeSender(comm.transport(), 0).start(0, views)->wait(soon(), "send");
      message = receiver.wait(0, soon(), "receive");
    }
    expect_equal(message, 0, tensor);
  });
}

TEST(Edge, RefusesTooManyTensorsOrDims) {
  run_inproc(1, [](Communicator& comm) {
    EdgeSender sender(comm.transport(), 0);
    const std::vector<std::int64_t> dims(9, 1);
    const float value = 1;
    const EdgeTensor deep{ElementType::kFloat32, dims, {reinterpret_cast<const std::byte*>(&value), 4}};
    try {
      sender.start(0, {&deep, 1});
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "a tensor between stages has 9 dims; at most 8 can be sent");
    }
    const std::vector<EdgeTensor> many(33);
    EXPECT_THROW(sender.start(0, many), Error);
  });
}

TEST(Edge, RefusesASecondReceiveOnATag) {
  run_inproc(1, [](Communicator& comm) {
    const std::vector<EdgeTensor> nothing;
    EdgeReceiver receiver(comm.transport(), 0);
    receiver.post(4);
    EXPECT_THROW(receiver.post(4), Bug);
    EdgeSender(comm.transport(), 0).start(4, nothing)->wait(soon(), "send");
    EXPECT_TRUE(receiver.wait(4, soon(), "receive").tensors.empty());
  });
}

}  // namespace
}  // namespace ppctl
