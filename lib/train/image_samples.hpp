#pragma once

#include <memory>
#include <vector>

#include "arch/model_spec.hpp"
#include "storage/image_source.hpp"
#include "train/samples.hpp"

namespace ppctl {

/// Which images each sample has: from a text file with a line a sample, or by rule (image j of sample i is number i +
/// j, modulo their number).
class ImageIndex {
 public:
  explicit ImageIndex(std::int64_t num_images) : num_images_(num_images) {}
  /// Reads a file of image numbers, separated by blanks. Throws Error that names file and line.
  ImageIndex(const std::string& path, std::int64_t num_images);

  /// The numbers of a sample's `count` images. Throws Error where the file lists another number of them.
  std::vector<std::int64_t> images_of(std::int64_t sample, std::int64_t count) const;

 private:
  std::int64_t num_images_;
  std::string path_;
  std::vector<std::vector<std::int64_t>> lines_;
};

/// Samples of tokens some of which stand for images. A sample has as many images as its image tokens make; what an
/// image token follows has no label, since there is nothing to predict.
class ImageSamples final : public SampleSource {
 public:
  /// `first_sample`: the number, in the whole data, of the first of `text`.
  ImageSamples(std::shared_ptr<const SampleSource> text, std::int64_t first_sample,
               std::shared_ptr<const ImageSource> images, std::shared_ptr<const ImageIndex> index,
               const VisionSpec& vision);

  std::int64_t num_samples() const override { return text_->num_samples(); }
  std::int64_t sequence_length() const override { return text_->sequence_length(); }
  void read(std::int64_t index, std::span<std::int64_t> input_ids, std::span<std::int64_t> labels) const override;
  std::int64_t num_labels(std::int64_t index) const override;
  ImageSize image_size() const override;
  std::int64_t num_images(std::int64_t index) const override;
  void read_images(std::int64_t index, std::span<float> pixels) const override;

 private:
  /// Tokens of a sample, then its labels before any is left out.
  std::vector<std::int64_t> tokens_of(std::int64_t index) const;
  std::int64_t images_among(std::span<const std::int64_t> input_ids, std::int64_t index) const;

  std::shared_ptr<const SampleSource> text_;
  std::int64_t first_sample_;
  std::shared_ptr<const ImageSource> images_;
  std::shared_ptr<const ImageIndex> index_;
  std::int64_t image_token_;
  std::int64_t features_per_image_;
  ImageShape shape_;
};

/// Puts the job's images into the dataset. Throws Error where model and data do not go together.
void add_images(const JobConfig& job, const ModelSpec& spec, Dataset& dataset);

}  // namespace ppctl
