#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "config/job_config.hpp"
#include "storage/token_source.hpp"

namespace ppctl {

/// A label that does not count.
inline constexpr std::int64_t kIgnoredLabel = -100;

/// Of every image of a job.
struct ImageSize {
  std::int64_t channels = 0;
  std::int64_t size = 0;  ///< pixels a side

  std::int64_t numel() const { return channels * size * size; }
};

/// Samples of one length by index. Immutable; every rank has its own and reads only what it needs.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  virtual std::int64_t num_samples() const = 0;
  virtual std::int64_t sequence_length() const = 0;
  /// Writes sequence_length() token ids and labels (kIgnoredLabel: none) of sample `index`. Throws Error on a token
  /// outside the vocabulary.
  virtual void read(std::int64_t index, std::span<std::int64_t> input_ids, std::span<std::int64_t> labels) const = 0;
  /// Labels of a sample that count. Every rank asks it of every sample of a step, so it must be cheap beside the
  /// sample's computation.
  virtual std::int64_t num_labels(std::int64_t index) const = 0;

  // Of multimodal data; without a word about it there are no images.
  virtual ImageSize image_size() const { return {}; }
  virtual std::int64_t num_images(std::int64_t /*index*/) const { return 0; }
  /// Writes [image, channel, row, column] of all images of sample `index`. Throws Error that names sample and file.
  virtual void read_images(std::int64_t /*index*/, std::span<float> /*pixels*/) const {}
};

/// Samples of S tokens, whose starts are `stride` apart in a row of tokens (S where they follow each other): sample i
/// has the tokens from stride·i on, and as labels the tokens that follow each of them.
class TokenSamples final : public SampleSource {
 public:
  /// Samples first_sample .. first_sample + num_samples - 1 of `tokens`.
  TokenSamples(std::shared_ptr<const TokenSource> tokens, std::int64_t sequence_length, std::int64_t stride,
               std::int64_t first_sample, std::int64_t num_samples, std::int64_t vocab_size);

  std::int64_t num_samples() const override { return num_samples_; }
  std::int64_t sequence_length() const override { return sequence_length_; }
  void read(std::int64_t index, std::span<std::int64_t> input_ids, std::span<std::int64_t> labels) const override;
  std::int64_t num_labels(std::int64_t) const override { return sequence_length_; }

  const TokenSource& tokens() const { return *tokens_; }
  std::int64_t first_token() const { return first_sample_ * stride_; }
  /// From the first sample's first token to the last one's last.
  std::int64_t num_tokens() const { return (num_samples_ - 1) * stride_ + sequence_length_; }

 private:
  std::shared_ptr<const TokenSource> tokens_;
  std::int64_t sequence_length_;
  std::int64_t stride_;
  std::int64_t first_sample_;
  std::int64_t num_samples_;
  std::int64_t vocab_size_;
};

/// A job's data: what it trains on, and what is held out.
struct Dataset {
  std::shared_ptr<const SampleSource> training;
  std::shared_ptr<const SampleSource> evaluation;  ///< null without data.eval_fraction
  std::int64_t first_held_out = 0;                 ///< number, in the whole data, of its first sample
  std::string description;                         ///< "tokens.bin: 336 samples of 32 tokens, 33 of them held out"
  /// −Σ p ln p over the frequencies p of the training text's bytes, in nats: the loss of a model that knows nothing but
  /// them. Text only.
  double unigram_entropy = 0.0;
};

/// Opens the job's data. Throws Error, with the numbers, where it is too small. The entropy is computed only if
/// `with_entropy`.
Dataset open_dataset(const DataConfig& config, std::int64_t vocab_size, bool with_entropy);

}  // namespace ppctl
