#include <gtest/gtest.h>
#include <malloc.h>

#include "runtime/executor.hpp"
#include "unit/runtime/toy_pipeline.hpp"

namespace ppctl {
namespace {

/// Bytes of the heap that are in use.
std::size_t heap_in_use() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST(Executor, KeepsNothingFromStepToStep) {
  toy::Job job;
  job.schedule = "zb_h1";
  job.pp = 2;
  job.layers.assign(2, toy::Layer::kForgetful);
  job.passes.overlap_p2p = true;
  job.steps = 1000;
  std::size_t early = 0;
  std::size_t late = 0;
  int step = 0;
  job.after_step = [&](Executor& executor, const StepResult&) {
    if (executor.rank().value != 0) return;
    if (step == 50) early = heap_in_use();
    if (step == 999) late = heap_in_use();
    ++step;
  };
  toy::train(job);
  // A tensor a step would be 50 KiB or more.
  EXPECT_LT(late, early + 32 * 1024) << "from " << early << " bytes";
}

}  // namespace
}  // namespace ppctl
