#include "train/post_validation.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "base/error.hpp"

namespace ppctl {
namespace {

// Edges and groups have tags of their own; nobody else sends plain messages while a job trains.
constexpr std::int64_t kPartialTag = 0x70617274;
constexpr std::int64_t kWholeTag = 0x77686f6c;

}  // namespace

PostValidation::PostValidation(const OptimizerConfig& config, GradNorm norm, AdamW& optimizer, PipelineRanks ranks)
    : config_(config),
      norm_(std::move(norm)),
      optimizer_(optimizer),
      ranks_(std::move(ranks)),
      partial_(norm_.num_slots() * ranks_.world_ranks.size()),
      whole_(is_last() ? 0 : partial_.size()) {}

RequestPtr PostValidation::send_to(int pipeline_rank, std::int64_t tag) {
  const auto bytes = std::as_bytes(std::span(partial_));
  return ranks_.transport->start({.kind = P2POp::Kind::kSend,
                                  .peer = ranks_.world_ranks[static_cast<std::size_t>(pipeline_rank)],
                                  .tag = tag,
                                  .send = {{bytes.data(), bytes.size()}}});
}

RequestPtr PostValidation::receive_from(int pipeline_rank, std::int64_t tag, std::vector<double>& state) {
  const auto bytes = std::as_writable_bytes(std::span(state));
  return ranks_.transport->start({.kind = P2POp::Kind::kRecv,
                                  .peer = ranks_.world_ranks[static_cast<std::size_t>(pipeline_rank)],
                                  .tag = tag,
                                  .recv = {{bytes.data(), bytes.size()}}});
}

void PostValidation::step(double lr, Deadline deadline) {
  PPCTL_CHECK(!pending_, "an optimizer step after one that was not validated");
  pending_ = true;
  lr_ = lr;
  receive_partial(deadline);
  const auto mine = static_cast<std::size_t>(ranks_.rank.value) * norm_.num_slots();
  norm_.local(std::span(partial_).subspan(mine, norm_.num_slots()));
  pass_on();

  const StepScale scale = step_scale(norm_.combine(partial_, norm_.num_slots()), config_);
  if (is_last()) {
    take(scale);
    taken_ = Taken::kFinal;
  } else if (scale.plain()) {
    keep_copy();
    take(scale);
    taken_ = Taken::kPlain;
  } else {
    taken_ = Taken::kNone;
  }
}

void PostValidation::receive_partial(Deadline deadline) {
  std::ranges::fill(partial_, 0.0);
  if (ranks_.rank.value == 0) return;
  receive_from(ranks_.rank.value - 1, kPartialTag, partial_)->wait(deadline, "norms of the ranks before");
}

void PostValidation::pass_on() {
  if (!is_last()) {
    sends_.push_back(send_to(ranks_.rank.value + 1, kPartialTag));
    whole_arrives_ = receive_from(static_cast<int>(ranks_.world_ranks.size()) - 1, kWholeTag, whole_);
    return;
  }
  for (int rank = 0; rank < ranks_.rank.value; ++rank) {
    sends_.push_back(send_to(rank, kWholeTag));
  }
}

NormOutcome PostValidation::validate(Deadline deadline) {
  PPCTL_CHECK(pending_, "a validation without a step");
  if (whole_arrives_) whole_arrives_->wait(deadline, "norms of all ranks");
  for (const RequestPtr& send : sends_) send->wait(deadline, "norms to the other ranks");
  whole_arrives_.reset();
  sends_.clear();
  pending_ = false;

  NormOutcome outcome;
  outcome.norm = norm_.combine(is_last() ? partial_ : whole_, norm_.num_slots());
  outcome.scale = step_scale(outcome.norm, config_);
  if (taken_ == Taken::kPlain && !outcome.scale.plain()) {
    go_back();
    taken_ = Taken::kNone;
  }
  if (taken_ == Taken::kNone) take(outcome.scale);
  return outcome;
}

void PostValidation::take(StepScale scale) {
  if (scale.skipped) return;
  norm_.scale(scale.factor);
  optimizer_.step(lr_);
}

void PostValidation::keep_copy() {
  if (config_.clip_norm <= 0.0 && !config_.skip_nonfinite) return;
  const std::vector<at::Tensor> buffers = optimizer_.buffers();
  if (copies_.empty()) {
    for (const at::Tensor& buffer : buffers) copies_.push_back(at::empty_like(buffer));
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) copies_[i].copy_(buffers[i]);
}

void PostValidation::go_back() {
  const std::vector<at::Tensor> buffers = optimizer_.buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i].copy_(copies_[i]);
  optimizer_.publish();
  optimizer_.set_num_steps(optimizer_.num_steps() - 1);
}

}  // namespace ppctl
