#include "runtime/bench_report.hpp"

#include <cstring>

#include "base/error.hpp"

namespace ppctl {
namespace {

template <class T>
void append(std::string& bytes, const std::vector<T>& values) {
  const std::uint64_t count = values.size();
  bytes.append(reinterpret_cast<const char*>(&count), sizeof count);
  if (count != 0) bytes.append(reinterpret_cast<const char*>(values.data()), count * sizeof(T));
}

class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}

  void take(void* to, std::size_t size) {
    PPCTL_CHECK(at_ + size <= bytes_.size(), "a report of {} bytes", bytes_.size());
    if (size != 0) std::memcpy(to, bytes_.data() + at_, size);
    at_ += size;
  }
  template <class T>
  void take(std::vector<T>& values) {
    std::uint64_t count = 0;
    take(&count, sizeof count);
    values.resize(count);
    take(values.data(), count * sizeof(T));
  }

 private:
  const std::string& bytes_;
  std::size_t at_ = 0;
};

}  // namespace

std::string RankReport::pack() const {
  std::string bytes;
  append(bytes, std::vector<std::int64_t>{end, peak_chunks});
  append(bytes, spans);
  append(bytes, computed);
  return bytes;
}

RankReport RankReport::unpack(const std::string& bytes) {
  Reader reader(bytes);
  RankReport report;
  std::vector<std::int64_t> numbers;
  reader.take(numbers);
  PPCTL_CHECK_EQ(numbers.size(), 2u);
  report.end = numbers[0];
  report.peak_chunks = numbers[1];
  reader.take(report.spans);
  reader.take(report.computed);
  return report;
}

Nanoseconds agree_on_start(Group& group, Deadline deadline) {
  constexpr Nanoseconds kAhead = 5'000'000;
  group.barrier(deadline);
  Nanoseconds start = monotonic_now() + kAhead;
  group.broadcast({reinterpret_cast<std::byte*>(&start), sizeof start}, 0, deadline);
  return start;
}

}  // namespace ppctl
