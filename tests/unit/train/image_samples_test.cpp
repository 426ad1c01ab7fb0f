#include "train/image_samples.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "support/temporary_folder.hpp"

namespace ppctl {
namespace {

using test::TemporaryFolder;
using test::text_of;

constexpr std::int64_t kImage = 9;  // the token that stands for a feature of an image

/// Images of one pixel that say their number; the third one cannot be decoded.
class NumberedImages final : public ImageSource {
 public:
  std::int64_t num_images() const override { return 4; }
  void read(std::int64_t index, std::span<float> out) const override {
    if (index == 3) throw_error("three.png: cannot be read as PNG");
    out[0] = static_cast<float>(index);
  }
  std::string describe() const override { return "4 images"; }
};

/// One pixel an image, two features: a patch would be one, and the class token is kept.
VisionSpec vision() {
  VisionSpec spec;
  spec.channels = spec.image_size = spec.patch_size = 1;
  spec.keeps_class_token = true;
  spec.image_token = kImage;
  return spec;
}

/// Samples of four tokens. The first has an image, the second none, the third two.
std::shared_ptr<const SampleSource> text(const TemporaryFolder& folder, std::string tokens = "") {
  if (tokens.empty()) tokens = {1, kImage, kImage, 2, 3, 4, 5, 6, kImage, kImage, kImage, kImage, 7};
  std::string bytes;
  for (const char token : tokens) bytes += {token, '\0'};
  DataConfig config;
  config.kind = "tokens";
  config.path = {folder.write("tokens", bytes)};
  config.sequence_length = 4;
  return open_dataset(config, 100, false).training;
}

ImageSamples samples(std::shared_ptr<const SampleSource> text, std::shared_ptr<const ImageIndex> index,
                     std::int64_t first_sample = 0) {
  return {std::move(text), first_sample, std::make_shared<NumberedImages>(), std::move(index), vision()};
}

std::vector<float> images_of(const SampleSource& source, std::int64_t index) {
  std::vector<float> pixels(static_cast<std::size_t>(source.num_images(index)));
  source.read_images(index, pixels);
  return pixels;
}

TEST(ImageSamples, HaveAsManyImagesAsTheirTokensMake) {
  const TemporaryFolder folder;
  const auto index = std::make_shared<ImageIndex>(folder.write("images", "2\n\n0 1\n"), 4);
  const ImageSamples source = samples(text(folder), index);
  EXPECT_EQ(images_of(source, 0), (std::vector<float>{2}));
  EXPECT_EQ(images_of(source, 1), (std::vector<float>{}));
  EXPECT_EQ(images_of(source, 2), (std::vector<float>{0, 1}));
}

TEST(ImageSamples, TakeConsecutiveImagesWhereNoFileListsThem) {
  const TemporaryFolder folder;
  const ImageSamples held_out = samples(text(folder), std::make_shared<ImageIndex>(3), 1);
  EXPECT_EQ(images_of(held_out, 0), (std::vector<float>{1}));
  EXPECT_EQ(images_of(held_out, 2), (std::vector<float>{0, 1}));
}

TEST(ImageSamples, HaveNoLabelWhereAnImageFollows) {
  const TemporaryFolder folder;
  const ImageSamples source = samples(text(folder), std::make_shared<ImageIndex>(4));
  std::vector<std::int64_t> ids(4);
  std::vector<std::int64_t> labels(4);
  source.read(0, ids, labels);
  EXPECT_EQ(ids, (std::vector<std::int64_t>{1, kImage, kImage, 2}));
  EXPECT_EQ(labels, (std::vector<std::int64_t>{kIgnoredLabel, kIgnoredLabel, 2, 3}));
  EXPECT_EQ(source.num_labels(0), 2);
  EXPECT_EQ(source.num_labels(2), 1);
}

TEST(ImageSamples, NameTheSampleWhoseImageCannotBeDecoded) {
  const TemporaryFolder folder;
  const ImageSamples source = samples(text(folder), std::make_shared<ImageIndex>(4));
  EXPECT_EQ(text_of<Error>([&] { images_of(source, 2); }), "sample 2: three.png: cannot be read as PNG");
}

TEST(ImageSamples, RefuseAPartOfAnImage) {
  const TemporaryFolder folder;
  const std::string tokens = {1, kImage, 2, 3, 4};
  const ImageSamples source = samples(text(folder, tokens), std::make_shared<ImageIndex>(4), 7);
  EXPECT_EQ(text_of<Error>([&] { images_of(source, 0); }),
            "sample 7 has 1 image tokens, which is no multiple of the 2 of an image");
}

TEST(ImageIndex, NamesTheLineThatDoesNotFitItsSample) {
  const TemporaryFolder folder;
  const std::string path = folder.write("images", "2 1\n");
  const ImageSamples source = samples(text(folder), std::make_shared<ImageIndex>(path, 4));
  EXPECT_EQ(text_of<Error>([&] { images_of(source, 0); }), path + ":1: lists 2 images, but sample 0 has 1");
  EXPECT_EQ(text_of<Error>([&] { images_of(source, 2); }), path + ":3: lists 0 images, but sample 2 has 2");
}

TEST(ImageIndex, NamesTheLineThatIsNoListOfImages) {
  const TemporaryFolder folder;
  for (const char* line : {"0 cat", "0 4", "-1"}) {
    const std::string path = folder.write("images", std::string("1\n") + line + "\n");
    EXPECT_EQ(text_of<Error>([&] { ImageIndex(path, 4); }),
              path + ":2: '" + line + "' is no list of image numbers from 0 to 3");
  }
}

}  // namespace
}  // namespace ppctl
