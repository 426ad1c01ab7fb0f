#include "runtime/stage_edges.hpp"

#include <ATen/ops/from_blob.h>

#include <array>
#include <mutex>
#include <span>
#include <utility>

#include "base/error.hpp"
#include "runtime/tensor_bytes.hpp"

namespace ppctl {

/// The request of a batch, known to its receives before it is started. Two of them may be waited for by two threads.
class BatchRequest final : public Request {
 public:
  void set(RequestPtr started) { started_ = std::move(started); }

  bool test() override {
    // Where another thread waits for it, it is not complete yet, or that thread will say so.
    const std::unique_lock lock(mutex_, std::try_to_lock);
    return lock.owns_lock() && started_->test();
  }
  void wait(Deadline deadline, std::string_view context) override {
    const std::lock_guard lock(mutex_);
    started_->wait(deadline, context);
  }

 private:
  std::mutex mutex_;  ///< held while a thread waits: its deadline bounds the other's wait for the lock
  RequestPtr started_;
};

namespace {

/// Space for the views of one message without an allocation.
struct EdgeTensors {
  std::array<EdgeTensor, kMaxEdgeTensors> tensors;
  std::size_t count = 0;
  std::span<const EdgeTensor> span() const { return {tensors.data(), count}; }
};

/// Makes `tensors` contiguous and describes them.
void describe(TensorList& tensors, EdgeTensors& out) {
  if (tensors.size() > kMaxEdgeTensors) {
    throw_error("a stage has {} outputs; at most {} tensors can travel to the next", tensors.size(), kMaxEdgeTensors);
  }
  out.count = tensors.size();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EdgeTensor& view = out.tensors[i];
    if (!tensors[i].defined()) {
      view.defined = false;
      continue;
    }
    tensors[i] = tensors[i].contiguous();
    view.type = element_type(tensors[i].scalar_type());
    view.dims = {tensors[i].sizes().data(), tensors[i].sizes().size()};
    view.bytes = const_bytes(tensors[i]);
  }
}

TensorList to_tensors(const EdgeMessage& message) {
  TensorList tensors(message.tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const ReceivedTensor& received = message.tensors[i];
    if (!received.defined) continue;
    tensors[i] = at::from_blob(
        message.data(i), received.dims, [buffer = message.buffer](void*) {},
        at::TensorOptions(scalar_type(received.type)));
  }
  return tensors;
}

}  // namespace

TensorList PendingTensors::wait(Deadline deadline, std::string_view context) {
  if (batch_) batch_->wait(deadline, context);
  TensorList tensors = to_tensors(receiver_->wait(tag_, deadline, context));
  *this = PendingTensors();
  return tensors;
}

StageEdges::StageEdges(Transport& transport, std::vector<int> world_ranks, int num_stages, int num_microbatches,
                       int tag_space)
    : transport_(transport),
      world_ranks_(std::move(world_ranks)),
      num_stages_(num_stages),
      num_microbatches_(num_microbatches),
      tag_space_(tag_space),
      senders_(world_ranks_.size()),
      receivers_(world_ranks_.size()) {}

std::int64_t StageEdges::tag_of(const Transfer& transfer) const {
  // One for each message of a step, the same in every step. 2^40 of them to a space hold every schedule that
  // MetaStep can say.
  constexpr int kSpaceBits = 41;
  const std::int64_t direction = transfer.gradient ? 1 : 0;
  return (tag_space_ << kSpaceBits) + (direction * num_stages_ + transfer.receiving_stage) * num_microbatches_ +
         transfer.microbatch;
}

EdgeSender& StageEdges::sender(int peer) {
  auto& edge = senders_[static_cast<std::size_t>(peer)];
  if (!edge) edge = std::make_unique<EdgeSender>(transport_, world_ranks_[static_cast<std::size_t>(peer)]);
  return *edge;
}

EdgeReceiver& StageEdges::receiver(int peer) {
  auto& edge = receivers_[static_cast<std::size_t>(peer)];
  if (!edge) edge = std::make_unique<EdgeReceiver>(transport_, world_ranks_[static_cast<std::size_t>(peer)]);
  return *edge;
}

void StageEdges::send(const Transfer& transfer, TensorList tensors) {
  EdgeTensors views;
  describe(tensors, views);
  if (in_batch_) {
    sender(transfer.peer).prepare(tag_of(transfer), views.span(), batch_);
    batch_tensors_.insert(batch_tensors_.end(), tensors.begin(), tensors.end());
  } else {
    keep({sender(transfer.peer).start(tag_of(transfer), views.span()), std::move(tensors)});
  }
}

PendingTensors StageEdges::post(const Transfer& transfer) {
  EdgeReceiver& edge = receiver(transfer.peer);
  const std::int64_t tag = tag_of(transfer);
  if (in_batch_) {
    edge.prepare(tag, batch_);
  } else {
    edge.post(tag);
  }
  return PendingTensors(edge, tag, transfer.peer, batch_request_);
}

void StageEdges::begin_batch() {
  PPCTL_CHECK(!in_batch_, "a batch inside a batch");
  in_batch_ = true;
  batch_request_ = std::make_shared<BatchRequest>();
}

void StageEdges::start_batch() {
  PPCTL_CHECK(in_batch_, "no batch was begun");
  in_batch_ = false;
  batch_request_->set(transport_.start_batch(std::exchange(batch_, {})));
  keep({std::exchange(batch_request_, nullptr), std::exchange(batch_tensors_, {})});
}

void StageEdges::keep(InFlight send) {
  while (!in_flight_.empty() && in_flight_.front().request->test()) in_flight_.pop_front();
  if (!send.request->test()) in_flight_.push_back(std::move(send));
}

std::size_t StageEdges::receive_buffer_bytes() const {
  std::size_t bytes = 0;
  for (const auto& receiver : receivers_) bytes += receiver ? receiver->allocated_bytes() : 0;
  return bytes;
}

void StageEdges::finish_sends(Deadline deadline, std::string_view context) {
  for (InFlight& send : in_flight_) send.request->wait(deadline, context);
  in_flight_.clear();
}

}  // namespace ppctl
