#pragma once

#include <string>

#include "storage/atomic_file.hpp"
#include "train/records.hpp"

namespace ppctl {

/// JSON lines, one object a record; floating-point numbers with as many digits as read back to the same value. A record
/// with "microbatch" is a microbatch's, one with "eval_loss" an evaluation's, the others are steps. A step's lines are
/// written together, once it is complete. A failed write is an Error that names the file.
class JsonLog final : public TrainObserver {
 public:
  /// `append`: behind what a run that is resumed has written.
  JsonLog(const std::string& path, bool append);

  void on_microbatch(const MicrobatchRecord& record) override;
  void on_step(const StepRecord& record) override;
  void on_eval(const EvalRecord& record) override;

 private:
  OutputFile file_;
  std::string pending_;
};

}  // namespace ppctl
