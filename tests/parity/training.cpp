#include "parity/training.hpp"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "comm/inproc.hpp"
#include "job_schedule.hpp"
#include "train/trainer.hpp"

namespace ppctl::parity {
namespace {

class Recorder final : public TrainObserver {
 public:
  explicit Recorder(TrainingRun& run) : run_(run) {}
  void on_microbatch(const MicrobatchRecord& record) override { run_.microbatches.push_back(record); }
  void on_step(const StepRecord& record) override { run_.steps.push_back(record); }
  void on_message(const std::string& text) override { run_.messages.push_back(text); }

 private:
  TrainingRun& run_;
};

}  // namespace

TrainingRun train(const std::string& name, const std::vector<std::string>& sets,
                  std::shared_ptr<const SampleSource> samples) {
  at::set_num_threads(1);
  const JobConfig job =
      load_config(std::string(PPCTL_SOURCE_DIR) + "/configs/parity/" + name + ".yaml", sets, schedule_rules()).job;
  TrainingRun run;
  run_inproc(job.world_size(), [&](Communicator& communicator) {
    TrainOptions options;
    options.samples = samples;
    options.make_observers = [&](bool) {
      std::vector<std::unique_ptr<TrainObserver>> observers;
      observers.push_back(std::make_unique<Recorder>(run));
      return observers;
    };
    Trainer(job, schedule_of_job(job), communicator, std::move(options)).run();
  });
  std::stable_sort(run.microbatches.begin(), run.microbatches.end(), [](const auto& a, const auto& b) {
    return std::pair(a.step, a.microbatch) < std::pair(b.step, b.microbatch);
  });
  return run;
}

std::string bits(const TrainingRun& run) {
  std::string text;
  for (const auto& m : run.microbatches)
    text += fmt::format("{} {} {:a} {}\n", m.step, m.microbatch, m.loss, m.num_labels);
  for (const auto& s : run.steps) text += fmt::format("{} {:a} {:a} {}\n", s.step, s.loss, s.grad_norm, s.num_labels);
  return text;
}

void expect_reference(const TrainingRun& run, const std::string& name, double tolerance) {
  std::ifstream file(std::string(PPCTL_SOURCE_DIR) + "/tests/data/parity/" + name + "/reference.json");
  const auto steps = nlohmann::json::parse(file).at("results").at("steps");
  const auto near = [&](double value, double reference) {
    return std::abs(value - reference) <= tolerance * reference;
  };
  ASSERT_EQ(run.steps.size(), steps.size());
  std::size_t next = 0;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    EXPECT_TRUE(near(run.steps[s].loss, steps[s].at("loss"))) << name << ", step " << s << ": " << run.steps[s].loss;
    EXPECT_TRUE(near(run.steps[s].grad_norm, steps[s].at("grad_norm"))) << name << ", step " << s;
    EXPECT_DOUBLE_EQ(run.steps[s].lr, steps[s].at("lr"));
    for (const auto& loss : steps[s].at("microbatch_losses")) {
      ASSERT_LT(next, run.microbatches.size());
      EXPECT_TRUE(near(run.microbatches[next].loss, loss)) << name << ", step " << s << ", microbatch " << next % 8;
      ++next;
    }
  }
  EXPECT_EQ(next, run.microbatches.size());
}

}  // namespace ppctl::parity
