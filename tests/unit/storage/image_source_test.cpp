#include "storage/image_source.hpp"

#include <gtest/gtest.h>
#include <png.h>

#include "base/error.hpp"
#include "support/temporary_folder.hpp"

namespace ppctl {
namespace {

using test::TemporaryFolder;
using test::text_of;

/// A PNG file of `size` x `size` pixels; `bytes` are [row, column, channel].
void write_png(const std::string& path, std::uint32_t size, std::uint32_t format, const std::vector<png_byte>& bytes) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = image.height = size;
  image.format = format;
  ASSERT_NE(png_image_write_to_file(&image, path.c_str(), 0, bytes.data(), 0, nullptr), 0) << image.message;
}

std::vector<float> image_of(const ImageSource& source, std::int64_t index, const ImageShape& shape) {
  std::vector<float> pixels(static_cast<std::size_t>(shape.numel()));
  source.read(index, pixels);
  return pixels;
}

constexpr PixelScale kPlain{.mean = {0, 0, 0}, .deviation = {1, 1, 1}};

TEST(PixelFile, ReadsImagesByNumber) {
  const TemporaryFolder folder;
  const std::vector<float> numbers = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::string path = folder.write("p", std::string(reinterpret_cast<const char*>(numbers.data()), 32));
  const ImageShape shape{.channels = 1, .size = 2};
  const auto source = open_pixel_file(path, shape);
  EXPECT_EQ(source->num_images(), 2);
  EXPECT_EQ(image_of(*source, 1, shape), (std::vector<float>{5, 6, 7, 8}));
  EXPECT_THROW(image_of(*source, 2, shape), Bug);
}

TEST(PixelFile, RefusesASizeThatIsNoWholeNumberOfImages) {
  const TemporaryFolder folder;
  const std::string path = folder.write("p", "12345");
  EXPECT_EQ(text_of<Error>([&] { open_pixel_file(path, {.channels = 3, .size = 2}); }),
            path + ": has 5 bytes, which is no whole number of images of 3 x 2 x 2 float32 numbers");
}

TEST(PngFolder, ReadsFilesInTheOrderOfTheirNamesChannelByChannel) {
  const TemporaryFolder folder;
  write_png(folder / "b.png", 1, PNG_FORMAT_RGB, {255, 51, 0});
  write_png(folder / "a.png", 1, PNG_FORMAT_GRAY, {102});
  folder.write("notes.txt", "no image");
  const ImageShape shape{.channels = 3, .size = 1};
  const auto source = open_png_folder(folder.path(), shape, kPlain);
  EXPECT_EQ(source->num_images(), 2);
  EXPECT_EQ(image_of(*source, 0, shape), (std::vector<float>{102 / 255.0F, 102 / 255.0F, 102 / 255.0F}));
  EXPECT_EQ(image_of(*source, 1, shape), (std::vector<float>{1, 51 / 255.0F, 0}));
}

TEST(PngFolder, PutsChannelsBeforeRowsAndNormalises) {
  const TemporaryFolder folder;
  write_png(folder / "a.png", 2, PNG_FORMAT_RGB, {255, 0, 0, 255, 0, 0, 0, 255, 0, 0, 255, 0});
  const ImageShape shape{.channels = 3, .size = 2};
  const auto source = open_png_folder(folder.path(), shape, {.mean = {1, 0, 0.5}, .deviation = {1, 0.5, 1}});
  EXPECT_EQ(image_of(*source, 0, shape), (std::vector<float>{0, 0, -1, -1, 0, 0, 2, 2, -0.5, -0.5, -0.5, -0.5}));
}

TEST(PngFolder, NamesAFileThatCannotBeDecoded) {
  const TemporaryFolder folder;
  const ImageShape shape{.channels = 3, .size = 8};
  const std::string whole = folder / "a.png";
  std::vector<png_byte> noise(3 * 64);
  for (std::size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<png_byte>(i * i * 31);
  write_png(whole, 8, PNG_FORMAT_RGB, noise);
  const std::string text = folder.write("b.png", "this is no image");
  std::ifstream in(whole, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const std::string cut = folder.write("c.png", bytes.substr(0, bytes.size() / 2));

  const auto source = open_png_folder(folder.path(), shape);
  EXPECT_NO_THROW(image_of(*source, 0, shape));
  for (const auto& [index, path] : {std::pair{1, text}, std::pair{2, cut}}) {
    const std::string error = text_of<Error>([&, index = index] { image_of(*source, index, shape); });
    EXPECT_TRUE(error.starts_with(path + ": cannot be read as PNG: ")) << error;
  }
}

TEST(PngFolder, RefusesAnImageOfAnotherSize) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.png";
  write_png(path, 2, PNG_FORMAT_GRAY, {1, 2, 3, 4});
  const ImageShape shape{.channels = 1, .size = 4};
  EXPECT_EQ(text_of<Error>([&] { image_of(*open_png_folder(folder.path(), shape), 0, shape); }),
            path + ": has 2 x 2 pixels; the model wants 4 x 4");
}

TEST(PngFolder, SaysThatThereAreNoImages) {
  const TemporaryFolder folder;
  EXPECT_EQ(text_of<Error>([&] { open_png_folder(folder.path(), {.channels = 3, .size = 1}); }),
            folder.path() + ": there are no .png files");
  EXPECT_EQ(text_of<Error>([] { open_png_folder("/nowhere/images", {.channels = 3, .size = 1}); }),
            "/nowhere/images: cannot be opened: No such file or directory");
}

}  // namespace
}  // namespace ppctl
