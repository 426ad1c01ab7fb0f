#include "train/image_samples.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.hpp"

namespace ppctl {

ImageIndex::ImageIndex(const std::string& path, std::int64_t num_images) : num_images_(num_images), path_(path) {
  errno = 0;
  std::ifstream file(path);
  if (!file) throw_error("{}: cannot be opened: {}", path, std::strerror(errno));
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    auto& numbers = lines_.emplace_back();
    for (std::int64_t number = 0; words >> number;) numbers.push_back(number);
    const bool known = std::ranges::all_of(numbers, [&](std::int64_t n) { return n >= 0 && n < num_images; });
    if (!words.eof() || !known) {
      throw_error("{}:{}: '{}' is no list of image numbers from 0 to {}", path, lines_.size(), line, num_images - 1);
    }
  }
}

std::vector<std::int64_t> ImageIndex::images_of(std::int64_t sample, std::int64_t count) const {
  if (path_.empty()) {
    std::vector<std::int64_t> numbers;
    for (std::int64_t j = 0; j < count; ++j) numbers.push_back((sample + j) % num_images_);
    return numbers;
  }
  const auto line = static_cast<std::size_t>(sample);
  const std::int64_t listed = line < lines_.size() ? static_cast<std::int64_t>(lines_[line].size()) : 0;
  if (listed != count)
    throw_error("{}:{}: lists {} images, but sample {} has {}", path_, line + 1, listed, line, count);
  return count == 0 ? std::vector<std::int64_t>() : lines_[line];
}

ImageSamples::ImageSamples(std::shared_ptr<const SampleSource> text, std::int64_t first_sample,
                           std::shared_ptr<const ImageSource> images, std::shared_ptr<const ImageIndex> index,
                           const VisionSpec& vision)
    : text_(std::move(text)),
      first_sample_(first_sample),
      images_(std::move(images)),
      index_(std::move(index)),
      image_token_(vision.image_token),
      features_per_image_(vision.features_per_image()),
      shape_{vision.channels, vision.image_size} {}

void ImageSamples::read(std::int64_t index, std::span<std::int64_t> input_ids, std::span<std::int64_t> labels) const {
  text_->read(index, input_ids, labels);
  std::ranges::replace(labels, image_token_, kIgnoredLabel);
}

std::vector<std::int64_t> ImageSamples::tokens_of(std::int64_t index) const {
  const auto length = static_cast<std::size_t>(sequence_length());
  std::vector<std::int64_t> both(2 * length);
  text_->read(index, std::span(both).first(length), std::span(both).last(length));
  return both;
}

std::int64_t ImageSamples::num_labels(std::int64_t index) const {
  const std::vector<std::int64_t> both = tokens_of(index);
  const auto labels = std::span(both).last(static_cast<std::size_t>(sequence_length()));
  return std::ranges::count_if(labels,
                               [&](std::int64_t label) { return label != image_token_ && label != kIgnoredLabel; });
}

ImageSize ImageSamples::image_size() const { return {shape_.channels, shape_.size}; }

std::int64_t ImageSamples::images_among(std::span<const std::int64_t> input_ids, std::int64_t index) const {
  const std::int64_t tokens = std::ranges::count(input_ids, image_token_);
  if (tokens % features_per_image_ != 0) {
    throw_error("sample {} has {} image tokens, which is no multiple of the {} of an image", first_sample_ + index,
                tokens, features_per_image_);
  }
  return tokens / features_per_image_;
}

std::int64_t ImageSamples::num_images(std::int64_t index) const {
  const std::vector<std::int64_t> both = tokens_of(index);
  return images_among(std::span(both).first(static_cast<std::size_t>(sequence_length())), index);
}

void ImageSamples::read_images(std::int64_t index, std::span<float> pixels) const {
  const auto one = static_cast<std::size_t>(shape_.numel());
  const auto count = static_cast<std::int64_t>(pixels.size() / one);
  std::size_t done = 0;
  for (const std::int64_t image : index_->images_of(first_sample_ + index, count)) {
    try {
      images_->read(image, pixels.subspan(done, one));
    } catch (const Error& error) {
      throw_error("sample {}: {}", first_sample_ + index, error.what());
    }
    done += one;
  }
}

void add_images(const JobConfig& job, const ModelSpec& spec, Dataset& dataset) {
  const DataConfig& config = job.data;
  if (config.pixels.empty()) {
    if (spec.vision) {
      throw job.fault("data.pixels", fmt::format("'data.pixels' is missing: {} is a model with images", spec.family));
    }
    return;
  }
  if (!spec.vision) {
    throw job.fault("data.pixels", fmt::format("'data.pixels' names images, but {} is a model without", spec.family));
  }
  const VisionSpec& vision = *spec.vision;
  const ImageShape shape{vision.channels, vision.image_size};
  const std::shared_ptr<const ImageSource> images = std::filesystem::is_directory(config.pixels)
                                                        ? open_png_folder(config.pixels, shape)
                                                        : open_pixel_file(config.pixels, shape);
  const auto index = config.images.empty() ? std::make_shared<const ImageIndex>(images->num_images())
                                           : std::make_shared<const ImageIndex>(config.images, images->num_images());
  dataset.training = std::make_shared<ImageSamples>(dataset.training, 0, images, index, vision);
  if (dataset.evaluation) {
    dataset.evaluation =
        std::make_shared<ImageSamples>(dataset.evaluation, dataset.first_held_out, images, index, vision);
  }
  dataset.description += ", " + images->describe();
}

}  // namespace ppctl
