#include <png.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/error.hpp"
#include "storage/image_source.hpp"

namespace ppctl {
namespace {

namespace fs = std::filesystem;

/// libpng's reader, freed at the end.
class PngReader {
 public:
  explicit PngReader(const std::string& path) : path_(path) {
    image_.version = PNG_IMAGE_VERSION;
    if (png_image_begin_read_from_file(&image_, path.c_str()) == 0) fail();
  }
  ~PngReader() { png_image_free(&image_); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  std::int64_t width() const { return image_.width; }
  std::int64_t height() const { return image_.height; }

  /// [row, column, channel].
  std::vector<png_byte> pixels(std::int64_t channels) {
    image_.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
    std::vector<png_byte> bytes(PNG_IMAGE_SIZE(image_));
    const png_color black{};  // below what is transparent
    if (png_image_finish_read(&image_, &black, bytes.data(), 0, nullptr) == 0) fail();
    return bytes;
  }

 private:
  [[noreturn]] void fail() { throw_error("{}: cannot be read as PNG: {}", path_, image_.message); }

  std::string path_;
  png_image image_{};
};

class PngFolder final : public ImageSource {
 public:
  PngFolder(const std::string& path, const ImageShape& shape, const PixelScale& scale)
      : path_(path), shape_(shape), scale_(scale) {
    if (shape.channels != 1 && shape.channels != 3) {
      throw_error("{}: PNG files give 1 or 3 channels; the model wants {}", path, shape.channels);
    }
    std::error_code failed;
    for (fs::directory_iterator entry(path, failed), end; !failed && entry != end; entry.increment(failed)) {
      if (entry->path().extension() == ".png") files_.push_back(entry->path().string());
    }
    if (failed) throw_error("{}: cannot be opened: {}", path, failed.message());
    if (files_.empty()) throw_error("{}: there are no .png files", path);
    std::ranges::sort(files_);
  }

  std::int64_t num_images() const override { return static_cast<std::int64_t>(files_.size()); }

  void read(std::int64_t index, std::span<float> out) const override {
    PPCTL_CHECK(index >= 0 && index < num_images() && static_cast<std::int64_t>(out.size()) == shape_.numel(),
                "image {} of {}", index, num_images());
    const std::string& file = files_[static_cast<std::size_t>(index)];
    PngReader reader(file);
    if (reader.width() != shape_.size || reader.height() != shape_.size) {
      throw_error("{}: has {} x {} pixels; the model wants {} x {}", file, reader.width(), reader.height(), shape_.size,
                  shape_.size);
    }
    const std::vector<png_byte> bytes = reader.pixels(shape_.channels);
    const std::int64_t area = shape_.size * shape_.size;
    for (std::int64_t channel = 0; channel < shape_.channels; ++channel) {
      const float mean = scale_.mean[static_cast<std::size_t>(channel)];
      const float deviation = scale_.deviation[static_cast<std::size_t>(channel)];
      for (std::int64_t i = 0; i < area; ++i) {
        const float value = static_cast<float>(bytes[static_cast<std::size_t>(i * shape_.channels + channel)]) / 255.0F;
        out[static_cast<std::size_t>(channel * area + i)] = (value - mean) / deviation;
      }
    }
  }

  std::string describe() const override { return fmt::format("{} PNG files of {}", num_images(), path_); }

 private:
  std::string path_;
  ImageShape shape_;
  PixelScale scale_;
  std::vector<std::string> files_;
};

}  // namespace

std::unique_ptr<ImageSource> open_png_folder(const std::string& path, const ImageShape& shape,
                                             const PixelScale& scale) {
  return std::make_unique<PngFolder>(path, shape, scale);
}

}  // namespace ppctl
