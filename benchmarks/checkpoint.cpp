// What an asynchronous save costs a step: the time for which training waits, beside the time of copying the same state
// in memory.
//
//     bench_checkpoint [MEGABYTES [SECONDS [FOLDER]]]      # 500 MB of state, 2 seconds from a save to the next update
//
// One rank with one parameter; between a save and the next update the thread that trains computes, as a forward and a
// backward would. Prints, for each of five saves, in milliseconds: the copy of the state into memory that was touched
// before and into fresh memory, the whole write (until the disk has it and it has its name), and the stall. Medians.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "arch/family.hpp"
#include "base/clock.hpp"
#include "comm/inproc.hpp"
#include "shard/group_shard.hpp"
#include "train/checkpoint.hpp"

namespace ppctl {
namespace {

constexpr int kSaves = 5;

Deadline soon() { return Deadline::after_seconds(600); }
double milliseconds(Nanoseconds span) { return static_cast<double>(span) / 1e6; }

template <class Work>
double time_of(Work work) {
  const Nanoseconds start = monotonic_now();
  work();
  return milliseconds(monotonic_now() - start);
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

/// Values and two moments of one parameter: a third of the bytes each.
std::unique_ptr<ParameterGroup> group_of(std::int64_t bytes) {
  constexpr std::int64_t kColumns = 1024;
  auto group = std::make_unique<ParameterGroup>("group", at::kFloat);
  group->add({.name = "weight", .shape = {bytes / 12 / kColumns, kColumns}});
  group->allocate();
  return group;
}

/// What a step does while the copy runs.
void compute_for(double seconds) {
  const at::Tensor a = at::ones({512, 512});
  const Deadline end = Deadline::after_seconds(seconds);
  while (!end.passed()) at::mm(a, a);
}

double copy_time(const std::vector<StateTensor>& tensors, std::byte* into) {
  return time_of([&] {
    for (const StateTensor& tensor : tensors) {
      std::memcpy(into, tensor.local.const_data_ptr(), tensor.local.nbytes());
      into += tensor.local.nbytes();
    }
  });
}

void measure(std::int64_t bytes, double seconds, const std::string& folder, Communicator& communicator) {
  JobConfig job;
  job.checkpoint.folder = folder;
  job.checkpoint.keep = 1;
  job.batch = {.global_size = 1, .microbatch_size = 1};
  const ModelSpec model = parse_model_keys("llama", {{"vocab_size", "16"},
                                                     {"hidden_size", "8"},
                                                     {"intermediate_size", "8"},
                                                     {"num_hidden_layers", "1"},
                                                     {"num_attention_heads", "1"}});
  const auto group = group_of(bytes);
  GroupShard shard(*group);
  AdamW optimizer(job.optimizer, {&shard});
  const std::vector<StateTensor> tensors = state_tensors(optimizer);
  std::size_t total = 0;
  for (const StateTensor& tensor : tensors) total += tensor.local.nbytes();
  const std::vector<int> ranks{0};
  const auto world = communicator.group(ranks, "world");
  CheckpointStore store(job, model, at::kFloat, optimizer, *world, soon());

  std::vector<double> warm, cold, stall, whole;
  std::vector<std::byte> touched(total);
  for (int i = 0; i < kSaves; ++i) {
    warm.push_back(copy_time(tensors, touched.data()));
    cold.push_back(time_of([&] { copy_time(tensors, std::make_unique_for_overwrite<std::byte[]>(total).get()); }));
    const Nanoseconds start = monotonic_now();
    store.save({.step = i}, soon());
    compute_for(seconds);
    store.before_update(soon());
    optimizer.step(1e-3);
    stall.push_back(store.take_stall_ms());
    store.finish(soon());
    whole.push_back(milliseconds(monotonic_now() - start));
    store.take_stall_ms();
  }
  std::printf(
      "%s",
      fmt::format("{:.0f} MB of state, {} saves\n  copy, touched memory {:8.1f} ms\n  copy, fresh memory   "
                  "{:8.1f} ms\n  whole save           {:8.1f} ms\n  stall                {:8.1f} ms\n",
                  static_cast<double>(total) / 1e6, kSaves, median(warm), median(cold), median(whole), median(stall))
          .c_str());
}

}  // namespace
}  // namespace ppctl

int main(int argc, char** argv) {
  const std::int64_t megabytes = argc > 1 ? std::atoll(argv[1]) : 500;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 2.0;
  const std::string folder = argc > 3 ? argv[3] : std::filesystem::temp_directory_path() / "ppctl-bench-checkpoint";
  at::set_num_threads(1);
  ppctl::run_inproc(1, [&](ppctl::Communicator& communicator) {
    ppctl::measure(megabytes * 1'000'000, seconds, folder, communicator);
  });
  std::filesystem::remove_all(folder);
}
