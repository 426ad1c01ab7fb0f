// How long a schedule takes to be generated, lowered, verified and simulated, on one core, and the memory that takes.
//
//   bench_schedule_scale [SCHEDULE P V M [PASS...]]     e.g.  bench_schedule_scale interleaved_1f1b 64 4 512
//   overlap_p2p duplex
//
// Times are CPU times of this process, which has one thread, so that other work on the machine does not count.
// Prints milliseconds and nanoseconds a compute step; without arguments, a table of growing sizes up to p = 1,024, v =
// 4, m = 4,096.

#include <fmt/format.h>
#include <time.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "schedule/generator.hpp"
#include "schedule/pass.hpp"
#include "schedule/verify.hpp"
#include "simulate/simulate.hpp"

namespace {

using namespace ppctl;

struct Case {
  ScheduleSpec spec;
  PassOptions options;
};

double cpu_milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

template <class Function>
double time_of(Function function) {
  const double start = cpu_milliseconds();
  function();
  return cpu_milliseconds() - start;
}

std::size_t num_steps(const Schedule& schedule) {
  std::size_t count = 0;
  for (const RankSteps& rank : schedule.ranks) count += rank.steps.size();
  return count;
}

/// Of this program alone: the peak that getrusage gives begins with that of the process that started it.
double peak_gib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib / (1024.0 * 1024.0);
  }
  return 0;
}

void measure(const Case& one) {
  Schedule schedule;
  const double generate_ms = time_of([&] { schedule = generate_schedule(one.spec); });
  const std::size_t compute_steps = num_steps(schedule);
  const double lower_ms = time_of([&] { lower_schedule(schedule, one.options); });
  const double verify_ms = time_of([&] { verify_schedule_or_throw(schedule, {.fsdp = one.options.fsdp}); });
  Simulation simulation;
  const double simulate_ms = time_of([&] {
    simulation = simulate(schedule, uniform_costs(schedule.num_stages(), {.forward_ms = 1, .dx_ms = 1, .dw_ms = 1}));
  });
  const double total_ms = generate_ms + lower_ms + verify_ms + simulate_ms;
  fmt::print(
      "{:<16} {:>5} {:>2} {:>5} {:>10} {:>10} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>7.1f} {:>6.2f} "
      "{:>8.4f}\n",
      one.spec.name, one.spec.pp, schedule.placement.chunks(), one.spec.num_microbatches, compute_steps,
      num_steps(schedule), generate_ms, lower_ms, verify_ms, simulate_ms, total_ms,
      1e6 * total_ms / static_cast<double>(compute_steps), peak_gib(), simulation.bubble_wall());
}

void set_pass(PassOptions& options, std::string_view name) {
  if (name == "split_backward")
    options.split_backward = true;
  else if (name == "overlap_b_f")
    options.overlap_b_f = true;
  else if (name == "overlap_p2p")
    options.overlap_p2p = true;
  else if (name == "duplex")
    options.duplex = true;
  else if (name == "fsdp")
    options.fsdp = true;
  else if (name == "swap")
    options.swap = true;
  else
    throw_error("there is no pass {}", name);
}

Case case_of(const std::vector<std::string>& arguments) {
  if (arguments.size() < 4) throw Error("usage: bench_schedule_scale [SCHEDULE P V M [PASS...]]");
  Case one;
  one.spec.name = arguments[0];
  one.spec.pp = std::atoi(arguments[1].c_str());
  one.spec.chunks = std::atoi(arguments[2].c_str());
  one.spec.num_microbatches = std::atoi(arguments[3].c_str());
  for (std::size_t i = 4; i < arguments.size(); ++i) set_pass(one.options, arguments[i]);
  return one;
}

std::vector<Case> growing_cases() {
  std::vector<Case> cases;
  for (const auto& [pp, num_microbatches] : {std::pair(16, 128), {64, 512}, {256, 1024}, {1024, 1024}, {1024, 4096}}) {
    Case one;
    one.spec.name = "interleaved_1f1b";
    one.spec.pp = pp;
    one.spec.chunks = 4;
    one.spec.num_microbatches = num_microbatches;
    cases.push_back(one);
  }
  return cases;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    fmt::print("{:<16} {:>5} {:>2} {:>5} {:>10} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7} {:>6} {:>8}\n", "schedule",
               "p", "v", "m", "compute", "steps", "gen ms", "lower ms", "verify ms", "sim ms", "total ms", "ns/comp",
               "GiB", "bubble");
    for (const Case& one : arguments.empty() ? growing_cases() : std::vector{case_of(arguments)}) measure(one);
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
