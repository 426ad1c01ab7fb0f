#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "unit/schedule/schedule_cases.hpp"

namespace ppctl {
namespace {

std::string golden_folder() { return PPCTL_SOURCE_DIR "/tests/golden/"; }

std::string contents(const std::string& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Small cases that a person can check; see tests/golden/README.md.
std::vector<ScheduleSpec> golden_specs() {
  return {
      {.name = "gpipe", .pp = 4, .num_microbatches = 4},
      {.name = "1f1b", .pp = 4, .num_microbatches = 6},
      {.name = "interleaved_1f1b", .pp = 2, .chunks = 2, .num_microbatches = 4},
      {.name = "interleaved_1f1b", .pp = 4, .chunks = 2, .num_microbatches = 6, .less_memory = true},
      {.name = "looped_bfs", .pp = 2, .chunks = 2, .num_microbatches = 3},
      {.name = "zb_h1", .pp = 4, .num_microbatches = 6},
      {.name = "zb_h2", .pp = 3, .num_microbatches = 6},
      {.name = "interleaved_zb", .pp = 2, .chunks = 2, .num_microbatches = 4},
      {.name = "zb_v", .pp = 3, .chunks = 2, .num_microbatches = 6},
      {.name = "v_half", .pp = 4, .chunks = 2, .num_microbatches = 4},
      {.name = "v_min", .pp = 3, .chunks = 2, .num_microbatches = 4},
      {.name = "dualpipe", .pp = 4, .chunks = 2, .num_microbatches = 8},
      {.name = "dualpipe_v", .pp = 2, .chunks = 2, .num_microbatches = 6},
      {.name = "auto", .pp = 4, .chunks = 1, .num_microbatches = 8},
  };
}

TEST(Golden, SchedulesAreAsTheFilesSay) {
  for (const ScheduleSpec& spec : golden_specs()) {
    const Schedule schedule = generate_schedule(spec);
    const std::string path =
        fmt::format("{}schedules/{}_p{}_v{}_m{}{}.csv", golden_folder(), spec.name, spec.pp,
                    schedule.placement.chunks(), spec.num_microbatches, spec.less_memory ? "_less_memory" : "");
    if (std::getenv("PPCTL_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << csv_of(schedule);
    EXPECT_EQ(csv_of(schedule), contents(path)) << path;
  }
}

void expect_same_as_pytorch(const ScheduleSpec& spec) {
  const std::string path = golden_folder() + "pytorch/" + spec.name + "_compute_only.csv";
  const Schedule theirs = read_csv(contents(path), path);
  const Schedule ours = generate_schedule(spec);
  EXPECT_EQ(csv_of(ours), csv_of(theirs));
  EXPECT_EQ(ours.placement, theirs.placement);
}

TEST(Golden, InterleavedIsAsInPyTorch) {
  expect_same_as_pytorch({.name = "interleaved_1f1b", .pp = 4, .num_microbatches = 8});
}
TEST(Golden, InterleavedZeroBubbleIsAsInPyTorch) {
  expect_same_as_pytorch({.name = "interleaved_zb", .pp = 4, .num_microbatches = 8});
}
TEST(Golden, ZeroBubbleVIsAsInPyTorch) { expect_same_as_pytorch({.name = "zb_v", .pp = 4, .num_microbatches = 8}); }
TEST(Golden, DualPipeVIsAsInPyTorch) {
  expect_same_as_pytorch({.name = "dualpipe_v", .pp = 4, .num_microbatches = 10});
}

TEST(Golden, PyTorchsCommunicationFormIsRead) {
  const std::string path = golden_folder() + "pytorch/zb_v_compute_comms.csv";
  const Schedule schedule = read_csv(contents(path), path);
  EXPECT_EQ(schedule.placement, Placement(PlacementKind::kV, 4, 2));
  EXPECT_EQ(schedule.ranks[0].steps[0], MetaStep(MetaStepType::UNSHARD, StageId(0)));
  EXPECT_EQ(schedule.ranks[0].steps[3],
            MetaStep(MetaStepType::SEND_FORWARD, StageId(0), MicrobatchId(0), PipelineRank(1)));
}

}  // namespace
}  // namespace ppctl
