#include <cstring>

#include "base/error.hpp"
#include "storage/image_source.hpp"
#include "storage/mapped_file.hpp"

namespace ppctl {
namespace {

class PixelFile final : public ImageSource {
 public:
  PixelFile(const std::string& path, const ImageShape& shape)
      : file_(path), image_bytes_(static_cast<std::size_t>(shape.numel()) * sizeof(float)) {
    if (file_.bytes().empty()) throw_error("{}: is empty: it has no images", path);
    if (file_.bytes().size() % image_bytes_ != 0) {
      throw_error("{}: has {} bytes, which is no whole number of images of {} x {} x {} float32 numbers", path,
                  file_.bytes().size(), shape.channels, shape.size, shape.size);
    }
  }

  std::int64_t num_images() const override { return static_cast<std::int64_t>(file_.bytes().size() / image_bytes_); }

  void read(std::int64_t index, std::span<float> out) const override {
    PPCTL_CHECK(index >= 0 && index < num_images() && out.size_bytes() == image_bytes_, "image {} of {}", index,
                num_images());
    std::memcpy(out.data(), file_.bytes().data() + static_cast<std::size_t>(index) * image_bytes_, image_bytes_);
  }

  std::string describe() const override { return fmt::format("{} images of {}", num_images(), file_.path()); }

 private:
  MappedFile file_;
  std::size_t image_bytes_;
};

}  // namespace

std::unique_ptr<ImageSource> open_pixel_file(const std::string& path, const ImageShape& shape) {
  return std::make_unique<PixelFile>(path, shape);
}

}  // namespace ppctl
