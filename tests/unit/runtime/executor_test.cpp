#include "runtime/executor.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "unit/runtime/toy_pipeline.hpp"

namespace ppctl {
namespace {

using toy::expect_same_bits;
using toy::Job;
using toy::Layer;
using toy::train;
using toy::train_alone;

TEST(Executor, TrainsFourRanksUnder1F1BWithTheLossesOfOneRank) {
  Job job;
  job.pp = 4;
  expect_same_bits(train(job), train_alone(job));
}

}  // namespace
}  // namespace ppctl
