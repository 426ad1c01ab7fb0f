#include "train/batches.hpp"

#include <numeric>

#include "train/permutation.hpp"

namespace ppctl {
namespace {

std::span<std::int64_t> row(at::Tensor& tensor, std::int64_t index) {
  const auto length = tensor.size(1);
  return {tensor.data_ptr<std::int64_t>() + index * length, static_cast<std::size_t>(length)};
}

}  // namespace

BatchShape BatchShape::of(const JobConfig& job) {
  return {job.dp(), job.num_microbatches(), job.microbatch_size(), job.accumulate};
}

SampleOrder::SampleOrder(std::int64_t num_samples, bool shuffled, std::uint64_t seed)
    : num_samples_(num_samples), shuffled_(shuffled), seed_(seed) {}

std::int64_t SampleOrder::index_of(std::int64_t number) const {
  const std::int64_t position = number % num_samples_;
  if (!shuffled_) return position;
  return Permutation(num_samples_, mix_bits(seed_, static_cast<std::uint64_t>(epoch_of(number))))(position);
}

BatchLoader::BatchLoader(std::shared_ptr<const SampleSource> source, SampleOrder order, BatchShape shape, int replica,
                         BatchNeeds needs)
    : source_(std::move(source)), order_(order), shape_(shape), replica_(replica), needs_(needs) {}

void BatchLoader::begin_at(std::int64_t step, std::int64_t sample) {
  first_sample_ = sample - step * shape_.samples_per_step();
}

std::int64_t BatchLoader::first_sample_of(std::int64_t step) const {
  return first_sample_ + step * shape_.samples_per_step();
}

std::int64_t BatchLoader::num_labels(std::int64_t step) const {
  const std::int64_t first = first_sample_of(step);
  std::int64_t total = 0;
  for (std::int64_t n = first; n < first + shape_.samples_per_step(); ++n)
    total += source_->num_labels(order_.index_of(n));
  return total;
}

std::vector<Microbatch> BatchLoader::load(std::int64_t step, int batch, bool training, double loss_scale) const {
  const std::int64_t first = first_sample_of(step) + batch * shape_.samples_per_batch();
  std::vector<Microbatch> microbatches(static_cast<std::size_t>(shape_.num_microbatches));
  for (int index = 0; index < shape_.num_microbatches; ++index) {
    Microbatch& microbatch = microbatches[static_cast<std::size_t>(index)];
    const std::int64_t in_batch = static_cast<std::int64_t>(replica_) * shape_.num_microbatches + index;
    microbatch.step = step;
    microbatch.index = index;
    microbatch.global_index = static_cast<std::int64_t>(batch) * shape_.replicas * shape_.num_microbatches + in_batch;
    microbatch.first_sample = first + in_batch * shape_.microbatch_size;
    microbatch.training = training;
    microbatch.loss_scale = loss_scale;
    microbatch.aux_scale = 1.0 / static_cast<double>(shape_.microbatches_per_step());
    fill(microbatch);
  }
  return microbatches;
}

at::Tensor BatchLoader::load_pixels(std::int64_t first, std::int64_t size) const {
  std::vector<std::int64_t> counts;
  for (std::int64_t n = first; n < first + size; ++n) counts.push_back(source_->num_images(order_.index_of(n)));
  const ImageSize image = source_->image_size();
  const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  at::Tensor pixels = at::empty({total, image.channels, image.size, image.size});
  auto* next = pixels.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t numel = counts[static_cast<std::size_t>(i)] * image.numel();
    source_->read_images(order_.index_of(first + i), {next, static_cast<std::size_t>(numel)});
    next += numel;
  }
  return pixels;
}

void BatchLoader::fill(Microbatch& microbatch) const {
  if (needs_.pixels) microbatch.kwargs["pixel_values"] = load_pixels(microbatch.first_sample, shape_.microbatch_size);
  if (!needs_.input_ids && !needs_.labels) return;
  const auto options = at::TensorOptions().dtype(at::kLong);
  at::Tensor input_ids = at::empty({shape_.microbatch_size, source_->sequence_length()}, options);
  at::Tensor labels = at::empty_like(input_ids);
  for (std::int64_t sample = 0; sample < shape_.microbatch_size; ++sample) {
    source_->read(order_.index_of(microbatch.first_sample + sample), row(input_ids, sample), row(labels, sample));
  }
  if (needs_.input_ids) microbatch.args = {input_ids};
  if (needs_.labels) microbatch.kwargs["labels"] = labels;
}

}  // namespace ppctl
