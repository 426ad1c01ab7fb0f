// The file tier. What is written is packed through a buffer of at most 8 MiB that is aligned to pages, so that direct
// I/O can take it, and small tensors travel together.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>

#include "base/error.hpp"
#include "storage/slot_space.hpp"
#include "storage/swap_store.hpp"

namespace ppctl {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kBucket = std::size_t{8} << 20;

std::size_t rounded_to_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

/// Grows to what its largest use needs, a bucket at most.
class Staging {
 public:
  std::span<std::byte> of_size(std::size_t bytes) {
    const std::size_t wanted = std::min(kBucket, rounded_to_pages(bytes));
    if (wanted > size_) {
      memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, wanted)));
      size_ = memory_ ? wanted : 0;
      if (!memory_) throw_error("swap: no memory for a buffer of {} bytes", wanted);
    }
    return {memory_.get(), wanted};
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t size_ = 0;
};

/// Calls each(piece of a part, its place in the bucket) for the parts one behind the other, and flush(bytes, offset)
/// whenever the bucket is full and at the end.
template <class Part, class Each, class Flush>
void by_buckets(std::span<const Part> parts, std::size_t bucket, Each each, Flush flush) {
  std::size_t fill = 0;
  std::size_t offset = 0;
  for (Part part : parts) {
    while (!part.empty()) {
      const std::size_t count = std::min(part.size(), bucket - fill);
      each(part.first(count), fill);
      part = part.subspan(count);
      fill += count;
      if (fill < bucket) continue;
      flush(fill, offset);
      offset += fill;
      fill = 0;
    }
  }
  if (fill > 0) flush(fill, offset);
}

template <class Part>
std::size_t sum_of(std::span<const Part> parts) {
  std::size_t sum = 0;
  for (const Part& part : parts) sum += part.size();
  return sum;
}

class FileStore : public SwapStore {
 public:
  explicit FileStore(const SwapFileOptions& options)
      : options_(options), space_(static_cast<std::int64_t>(options.limit_bytes), kPage) {
    std::error_code error;
    std::filesystem::create_directories(options.folder, error);
    if (error) throw_error("swap.folder {}: cannot be made: {}", options.folder, error.message());
    open();
  }
  FileStore(const FileStore&) = delete;
  FileStore& operator=(const FileStore&) = delete;
  ~FileStore() override { ::close(fd_); }

  Slot take(std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    const std::int64_t before = space_.extent();
    const auto slot = space_.take(static_cast<std::int64_t>(bytes));
    if (!slot) {
      throw_error("swap.folder {}: {} more bytes do not fit beside {}, of which 'swap.limit_gib' allows {}",
                  options_.folder, bytes, space_.taken(), options_.limit_bytes);
    }
    // Room on the disk is asked for ahead, so that a full disk is known before the data is on its way.
    if (space_.extent() > before && ::fallocate(fd_, 0, before, space_.extent() - before) != 0 && errno != EOPNOTSUPP) {
      fail(fmt::format("cannot grow to {} bytes", space_.extent()), errno);
    }
    most_ = std::max(most_, static_cast<std::size_t>(space_.taken()));
    return *slot;
  }

  void give(Slot slot) override {
    const std::lock_guard lock(mutex_);
    space_.give(slot);
  }

  void write(Slot slot, std::span<const std::span<const std::byte>> parts) override {
    const auto bucket = write_staging_.of_size(sum_of(parts));
    by_buckets(
        parts, bucket.size(),
        [&](std::span<const std::byte> piece, std::size_t at) {
          std::memcpy(bucket.data() + at, piece.data(), piece.size());
        },
        [&](std::size_t bytes, std::size_t offset) {
          write_all(bucket.first(rounded_to_pages(bytes)), slot + static_cast<std::int64_t>(offset));
        });
  }

  void read(Slot slot, std::span<const std::span<std::byte>> parts) override {
    const std::size_t sum = sum_of(parts);
    const auto bucket = read_staging_.of_size(sum);
    std::size_t ready = 0;  // bytes of the slot that are or were in the bucket
    by_buckets(
        parts, bucket.size(),
        [&](std::span<std::byte> piece, std::size_t at) {
          if (at == 0) {
            const std::size_t bytes = std::min(bucket.size(), rounded_to_pages(sum - ready));
            read_all(bucket.first(bytes), slot + static_cast<std::int64_t>(ready));
            ready += bucket.size();
          }
          std::memcpy(piece.data(), bucket.data() + at, piece.size());
        },
        [](std::size_t, std::size_t) {});
  }

  std::size_t most_bytes() const override { return most_; }

 private:
  [[noreturn]] void fail(const std::string& what, int cause) const {
    throw_error("swap.folder {}: {}: {}", options_.folder, what, std::strerror(cause));
  }

  void open() {
    const int direct = options_.direct ? O_DIRECT : 0;
    fd_ = ::open(options_.folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | direct, 0600);
    // Some file systems have no files without a name, and some no direct I/O.
    if (fd_ < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
      std::string path = options_.folder + "/ppctl-swap-XXXXXX";
      fd_ = ::mkostemp(path.data(), O_CLOEXEC | direct);
      if (fd_ >= 0) ::unlink(path.c_str());
    }
    if (fd_ < 0) fail(options_.direct ? "cannot hold a file for direct I/O" : "cannot hold a file", errno);
  }

  void write_all(std::span<const std::byte> bytes, std::int64_t offset) const {
    const std::size_t total = bytes.size();
    while (!bytes.empty()) {
      const ssize_t done = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) fail(fmt::format("cannot write {} bytes", total), done < 0 ? errno : ENOSPC);
      bytes = bytes.subspan(static_cast<std::size_t>(done));
      offset += done;
    }
  }

  void read_all(std::span<std::byte> bytes, std::int64_t offset) const {
    const std::size_t total = bytes.size();
    while (!bytes.empty()) {
      const ssize_t done = ::pread(fd_, bytes.data(), bytes.size(), offset);
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) fail(fmt::format("cannot read {} bytes", total), done < 0 ? errno : EIO);
      bytes = bytes.subspan(static_cast<std::size_t>(done));
      offset += done;
    }
  }

  SwapFileOptions options_;
  int fd_ = -1;
  std::mutex mutex_;
  SlotSpace space_;
  std::size_t most_ = 0;
  Staging write_staging_;
  Staging read_staging_;
};

}  // namespace

std::unique_ptr<SwapStore> make_file_store(const SwapFileOptions& options) {
  return std::make_unique<FileStore>(options);
}

}  // namespace ppctl
