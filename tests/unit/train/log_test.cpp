#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.hpp"
#include "support/temporary_folder.hpp"
#include "train/json_log.hpp"
#include "train/step_report.hpp"

namespace ppctl {
namespace {

using test::read_file;
using test::TemporaryFolder;
using test::text_of;

std::vector<nlohmann::json> lines_of(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(read_file(path));
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

StepRecord step_record(std::int64_t step, double loss) {
  StepRecord record;
  record.step = step;
  record.loss = loss;
  return record;
}

TEST(JsonLog, WritesNumbersThatReadBackToTheSameBits) {
  const TemporaryFolder folder;
  JsonLog log(folder / "log", false);
  StepRecord record = step_record(3, 1.0 / 3.0);
  record.grad_norm = 0.1 + 0.2;
  record.lr = 2e-4;
  MicrobatchRecord microbatch;
  microbatch.step = 3;
  microbatch.microbatch = 7;
  microbatch.loss = 5.9846123456789012;
  log.on_microbatch(microbatch);
  log.on_step(record);
  const auto lines = lines_of(folder / "log");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].at("microbatch"), 7);
  EXPECT_EQ(lines[0].at("loss").get<double>(), 5.9846123456789012);
  EXPECT_FALSE(lines[1].contains("microbatch"));
  EXPECT_EQ(lines[1].at("step"), 3);
  EXPECT_EQ(lines[1].at("loss").get<double>(), 1.0 / 3.0);
  EXPECT_EQ(lines[1].at("grad_norm").get<double>(), 0.1 + 0.2);
  EXPECT_EQ(lines[1].at("lr").get<double>(), 2e-4);
}

TEST(JsonLog, GoesOnBehindWhatAResumedRunWrote) {
  const TemporaryFolder folder;
  JsonLog(folder / "log", false).on_step(step_record(0, 1.0));
  JsonLog(folder / "log", true).on_step(step_record(1, 1.0));
  EXPECT_EQ(lines_of(folder / "log").size(), 2u);
  JsonLog(folder / "log", false).on_step(step_record(0, 1.0));
  EXPECT_EQ(lines_of(folder / "log").size(), 1u);
}

TEST(JsonLog, KeepsEvaluationsApartFromSteps) {
  const TemporaryFolder folder;
  EvalRecord record;
  record.step = 5;
  record.loss = 2.5;
  JsonLog(folder / "log", false).on_eval(record);
  const auto line = lines_of(folder / "log").at(0);
  EXPECT_EQ(line.at("eval_loss"), 2.5);
  EXPECT_FALSE(line.contains("loss"));
}

TEST(JsonLog, NamesItsFileOnAFullDisk) {
  JsonLog log("/dev/full", false);
  EXPECT_EQ(text_of<Error>([&] { log.on_step(step_record(0, 1.0)); }),
            "/dev/full: cannot be written: No space left on device");
}

MicrobatchPart part_with_loss(double sum, std::int64_t labels) {
  MicrobatchPart part;
  part.has_loss = true;
  part.loss.loss_sum = sum;
  part.loss.num_labels = labels;
  return part;
}

TEST(StepReport, WeightsMicrobatchesByTheirLabelsAndNumbersThemOverReplicas) {
  const Mesh mesh(2, 2, 1);
  const BatchShape shape{2, 1, 1, 1};
  std::vector<StepPart> parts(4);
  for (StepPart& part : parts) part.microbatches.resize(1);
  // World ranks 2 and 3 hold the last stage of replicas 0 and 1.
  parts[2].microbatches[0] = part_with_loss(8.0, 4);
  parts[3].microbatches[0] = part_with_loss(1.0, 1);
  parts[1].microbatches[0].times.forward = 2'000'000;
  parts[3].microbatches[0].times.forward = 3'000'000;
  const StepReport report = combine_parts(parts, mesh, shape);
  EXPECT_EQ(report.microbatches[0].loss, 2.0);
  EXPECT_EQ(report.microbatches[1].loss, 1.0);
  EXPECT_EQ(report.microbatches[1].forward_ms, 5.0);
  EXPECT_EQ(report.num_labels, 5);
  EXPECT_EQ(report.loss, 9.0 / 5.0);
}

TEST(StepReport, NumbersAccumulatedBatchesBehindEachOther) {
  const BatchShape shape{2, 2, 1, 2};
  std::vector<StepPart> parts(2);
  for (std::size_t replica = 0; replica < 2; ++replica) {
    for (int i = 0; i < 4; ++i)
      parts[replica].microbatches.push_back(part_with_loss(static_cast<double>(10 * replica + i), 1));
  }
  const StepReport report = combine_parts(parts, Mesh(1, 2, 1), shape);
  std::vector<double> losses;
  for (const MicrobatchRecord& record : report.microbatches) losses.push_back(record.loss);
  EXPECT_EQ(losses, (std::vector<double>{0, 1, 10, 11, 2, 3, 12, 13}));
}

TEST(StepReport, TakesAMicrobatchWithoutLabelsAndRefusesOneWithoutLoss) {
  const BatchShape shape{1, 2, 1, 1};
  std::vector<StepPart> parts(1);
  parts[0].microbatches = {part_with_loss(0.0, 0), part_with_loss(3.0, 2)};
  EXPECT_EQ(combine_parts(parts, Mesh(1, 1, 1), shape).loss, 1.5);
  parts[0].microbatches[1].has_loss = false;
  EXPECT_THROW(combine_parts(parts, Mesh(1, 1, 1), shape), Bug);
}

TEST(StepReport, StopsWhereAnyRankWasAskedTo) {
  std::vector<StepPart> parts(3);
  for (StepPart& part : parts) part.microbatches.resize(1);
  parts[2].microbatches[0] = part_with_loss(1.0, 1);
  parts[1].stop_requested = true;
  parts[1].busy_ms = 3.0;
  parts[2].busy_ms = 3.0;
  parts[0].span_ms = 4.0;
  const StepReport report = combine_parts(parts, Mesh(3, 1, 1), {1, 1, 1, 1});
  EXPECT_TRUE(report.stop_requested);
  EXPECT_DOUBLE_EQ(report.bubble, 0.5);
}

}  // namespace
}  // namespace ppctl
