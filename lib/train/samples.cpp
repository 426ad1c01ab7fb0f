#include "train/samples.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/error.hpp"

namespace ppctl {
namespace {

constexpr std::int64_t kBlock = 1 << 16;

double unigram_entropy(const TokenSamples& samples) {
  std::array<std::int64_t, 256> counts{};
  const std::int64_t total = samples.num_tokens();
  std::vector<std::int64_t> block;
  for (std::int64_t done = 0; done < total; done += static_cast<std::int64_t>(block.size())) {
    block.resize(static_cast<std::size_t>(std::min(kBlock, total - done)));
    samples.tokens().read(samples.first_token() + done, block);
    for (const std::int64_t byte : block) ++counts[static_cast<std::size_t>(byte)];
  }
  double entropy = 0.0;
  for (const std::int64_t count : counts) {
    const double p = static_cast<double>(count) / static_cast<double>(total);
    if (count > 0) entropy -= p * std::log(p);
  }
  return entropy;
}

std::unique_ptr<TokenSource> open_tokens(const DataConfig& config) {
  if (config.kind == "text") return open_text(config.path);
  if (config.path.size() != 1) throw_error("data.path names {} files; kind: tokens takes one", config.path.size());
  if (config.token_dtype == "uint16") return open_token_file(config.path.front(), TokenType::kUint16);
  if (config.token_dtype == "uint32") return open_token_file(config.path.front(), TokenType::kUint32);
  throw_error("data.token_dtype is '{}'; it must be uint16 or uint32", config.token_dtype);
}

}  // namespace

TokenSamples::TokenSamples(std::shared_ptr<const TokenSource> tokens, std::int64_t sequence_length, std::int64_t stride,
                           std::int64_t first_sample, std::int64_t num_samples, std::int64_t vocab_size)
    : tokens_(std::move(tokens)),
      sequence_length_(sequence_length),
      stride_(stride),
      first_sample_(first_sample),
      num_samples_(num_samples),
      vocab_size_(vocab_size) {}

void TokenSamples::read(std::int64_t index, std::span<std::int64_t> input_ids, std::span<std::int64_t> labels) const {
  PPCTL_CHECK(index >= 0 && index < num_samples_, "sample {} of {}", index, num_samples_);
  const std::int64_t first = (first_sample_ + index) * stride_;
  tokens_->read(first, input_ids);
  std::copy(input_ids.begin() + 1, input_ids.end(), labels.begin());
  tokens_->read(first + sequence_length_, labels.last(1));
  const auto check = [&](std::int64_t token, std::int64_t position) {
    if (token >= vocab_size_) {
      throw_error("{}: token id {} is outside the model's vocabulary of {}", tokens_->locate(position), token,
                  vocab_size_);
    }
  };
  check(input_ids.front(), first);
  for (std::size_t i = 0; i < labels.size(); ++i) check(labels[i], first + 1 + static_cast<std::int64_t>(i));
}

Dataset open_dataset(const DataConfig& config, std::int64_t vocab_size, bool with_entropy) {
  if (config.kind != "text" && config.kind != "tokens") {
    throw_error("data.kind is '{}'; it must be text or tokens", config.kind);
  }
  std::shared_ptr<const TokenSource> tokens = open_tokens(config);
  const std::int64_t length = config.sequence_length;
  const std::int64_t stride = config.stride > 0 ? config.stride : length;
  const std::int64_t total = tokens->num_tokens() > length ? (tokens->num_tokens() - 1 - length) / stride + 1 : 0;
  if (total < 1) {
    throw_error("{}: holds {} tokens; one sample of data.sequence_length {} takes {}, with the last label",
                tokens->describe(), tokens->num_tokens(), length, length + 1);
  }
  const auto held_out = static_cast<std::int64_t>(std::floor(static_cast<double>(total) * config.eval_fraction));
  // Samples that overlap belong to one part: the last label of training is at most the first token held out.
  const std::int64_t room = (total - held_out) * stride - length;
  const std::int64_t left = held_out == 0 ? total : room < 0 ? 0 : std::min(total - held_out, room / stride + 1);
  if (config.eval_fraction > 0 && (held_out == 0 || left == 0)) {
    throw_error(
        "{}: data.eval_fraction {} of its {} samples of {} tokens holds out {} and leaves {}; both must be at least 1",
        tokens->describe(), config.eval_fraction, total, length, held_out, left);
  }
  Dataset dataset;
  const auto training = std::make_shared<TokenSamples>(tokens, length, stride, 0, left, vocab_size);
  dataset.training = training;
  dataset.first_held_out = total - held_out;
  if (held_out > 0) {
    dataset.evaluation = std::make_shared<TokenSamples>(tokens, length, stride, total - held_out, held_out, vocab_size);
  }
  dataset.description = fmt::format("{}: {} samples of {} tokens", tokens->describe(), total, length);
  if (held_out > 0) dataset.description += fmt::format(", {} of them held out", held_out);
  if (with_entropy && config.kind == "text") dataset.unigram_entropy = unigram_entropy(*training);
  return dataset;
}

}  // namespace ppctl
