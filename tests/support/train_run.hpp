#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/inproc.hpp"
#include "job_schedule.hpp"
#include "train/trainer.hpp"

namespace ppctl::test {

/// What rank 0 of a run was told.
struct RunLog {
  std::vector<StepRecord> steps;
  std::vector<MicrobatchRecord> microbatches;
  std::vector<EvalRecord> evals;
  std::vector<std::string> messages;
  TrainResult result;

  /// Losses and gradient norms as they are, to compare bit by bit.
  std::vector<double> numbers() const {
    std::vector<double> all;
    for (const MicrobatchRecord& record : microbatches) all.push_back(record.loss);
    for (const StepRecord& record : steps) all.insert(all.end(), {record.loss, record.grad_norm});
    return all;
  }
};

class RunLogObserver final : public TrainObserver {
 public:
  explicit RunLogObserver(RunLog& log) : log_(log) {}
  void on_microbatch(const MicrobatchRecord& record) override { log_.microbatches.push_back(record); }
  void on_step(const StepRecord& record) override { log_.steps.push_back(record); }
  void on_eval(const EvalRecord& record) override { log_.evals.push_back(record); }
  void on_message(const std::string& text) override { log_.messages.push_back(text); }

 private:
  RunLog& log_;
};

/// Trains a job with its ranks as threads of this process, on a lowered schedule of the caller's. Throws what the first
/// rank that failed threw.
inline RunLog run_job_on(const JobConfig& job, const Schedule& schedule, const TrainOptions& common = {}) {
  RunLog log;
  run_inproc(job.world_size(), [&](Communicator& communicator) {
    TrainOptions options = common;
    options.make_observers = [&](bool) {
      std::vector<std::unique_ptr<TrainObserver>> observers;
      observers.push_back(std::make_unique<RunLogObserver>(log));
      return observers;
    };
    Trainer trainer(job, schedule, communicator, options);
    const TrainResult result = trainer.run();
    if (communicator.transport().rank() == 0) log.result = result;
  });
  return log;
}

inline RunLog run_job(const JobConfig& job, const TrainOptions& common = {}) {
  return run_job_on(job, schedule_of_job(job), common);
}

}  // namespace ppctl::test
