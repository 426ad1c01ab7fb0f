#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace ppctl {

/// What every image of a job is: the model's vision_config says it.
struct ImageShape {
  std::int64_t channels = 3;
  std::int64_t size = 0;  ///< pixels a side

  std::int64_t numel() const { return channels * size * size; }
};

/// How bytes become numbers: (value / 255 − mean) / deviation, by channel. The defaults are CLIP's.
struct PixelScale {
  std::array<float, 3> mean = {0.48145466F, 0.4578275F, 0.40821073F};
  std::array<float, 3> deviation = {0.26862954F, 0.26130258F, 0.27577711F};
};

/// Images of one shape, by number. Immutable; may be read by several threads at once.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  virtual std::int64_t num_images() const = 0;
  /// Writes [channel, row, column]. Throws Error that names the file where it cannot be decoded or has another shape.
  /// REQUIRES: 0 <= index < num_images(), out.size() is the shape's numel().
  virtual void read(std::int64_t index, std::span<float> out) const = 0;
  /// What the images come from, for messages.
  virtual std::string describe() const = 0;
};

/// A flat file of little-endian float32 [image, channel, row, column], used as they are. Maps it. Throws Error where
/// its size is no whole number of images.
std::unique_ptr<ImageSource> open_pixel_file(const std::string& path, const ImageShape& shape);

/// The PNG files of a folder, in the order of their names; each is decoded when it is read. Throws Error where there
/// are none.
std::unique_ptr<ImageSource> open_png_folder(const std::string& path, const ImageShape& shape,
                                             const PixelScale& scale = {});

}  // namespace ppctl
