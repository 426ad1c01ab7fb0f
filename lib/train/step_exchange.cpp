#include "train/step_exchange.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace ppctl {

StepExchange::StepExchange(Group& world, std::size_t num_norms, std::size_t num_microbatches)
    : world_(world),
      num_norms_(num_norms),
      num_microbatches_(num_microbatches),
      stride_(kHeader + num_norms + kPerMicrobatch * num_microbatches),
      sent_(stride_),
      received_(stride_ * static_cast<std::size_t>(world.size())),
      parts_(static_cast<std::size_t>(world.size())) {}

const std::vector<StepPart>& StepExchange::gather(const StepPart& mine, Deadline deadline) {
  start(mine);
  return finish(deadline);
}

void StepExchange::start(const StepPart& mine) {
  PPCTL_CHECK(!started_, "an exchange was started already");
  pack(mine);
  const auto input = std::as_bytes(std::span(sent_));
  const auto output = std::as_writable_bytes(std::span(received_));
  started_ = world_.all_gather({input.data(), input.size()}, {output.data(), output.size()});
}

const std::vector<StepPart>& StepExchange::finish(Deadline deadline) {
  PPCTL_CHECK(started_ != nullptr, "no exchange was started");
  started_->wait(deadline, "end of the step");
  started_.reset();
  for (std::size_t rank = 0; rank < parts_.size(); ++rank) {
    unpack(std::span<const double>(received_).subspan(rank * stride_, stride_), parts_[rank]);
  }
  return parts_;
}

// Numbers travel as doubles: counts of tokens and nanoseconds stay exact below 2^53.
void StepExchange::pack(const StepPart& part) {
  PPCTL_CHECK_EQ(part.squared_norms.size(), num_norms_);
  PPCTL_CHECK_EQ(part.microbatches.size(), num_microbatches_);
  auto out = sent_.begin();
  for (const double value :
       {part.stop_requested ? 1.0 : 0.0, part.save_ready ? 1.0 : 0.0, part.memory_mib, part.memory.between_steps,
        part.memory.peak, part.memory.buffers, part.busy_ms, part.span_ms}) {
    *out++ = value;
  }
  out = std::ranges::copy(part.squared_norms, out).out;
  for (const MicrobatchPart& microbatch : part.microbatches) {
    *out++ = microbatch.has_loss ? 1.0 : 0.0;
    *out++ = microbatch.loss.loss_sum;
    *out++ = static_cast<double>(microbatch.loss.num_labels);
    *out++ = microbatch.loss.aux_loss;
    *out++ = static_cast<double>(microbatch.times.forward);
    *out++ = static_cast<double>(microbatch.times.backward);
    *out++ = static_cast<double>(microbatch.times.wait);
  }
}

void StepExchange::unpack(std::span<const double> from, StepPart& part) const {
  auto in = from.begin();
  part.stop_requested = *in++ != 0.0;
  part.save_ready = *in++ != 0.0;
  part.memory_mib = *in++;
  part.memory = {*in++, *in++, *in++};
  part.busy_ms = *in++;
  part.span_ms = *in++;
  part.squared_norms.assign(in, in + static_cast<std::ptrdiff_t>(num_norms_));
  in += static_cast<std::ptrdiff_t>(num_norms_);
  part.microbatches.resize(num_microbatches_);
  for (MicrobatchPart& microbatch : part.microbatches) {
    microbatch.has_loss = *in++ != 0.0;
    microbatch.loss.loss_sum = *in++;
    microbatch.loss.num_labels = static_cast<std::int64_t>(*in++);
    microbatch.loss.aux_loss = *in++;
    microbatch.times.forward = static_cast<Nanoseconds>(*in++);
    microbatch.times.backward = static_cast<Nanoseconds>(*in++);
    microbatch.times.wait = static_cast<Nanoseconds>(*in++);
  }
}

}  // namespace ppctl
