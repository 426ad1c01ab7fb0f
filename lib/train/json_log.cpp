#include "train/json_log.hpp"

#include <nlohmann/json.hpp>

namespace ppctl {
namespace {

using Json = nlohmann::ordered_json;

void append_line(std::string& text, const Json& record) {
  text += record.dump();
  text += '\n';
}

}  // namespace

JsonLog::JsonLog(const std::string& path, bool append) : file_(path, append) {}

void JsonLog::on_microbatch(const MicrobatchRecord& record) {
  Json line{{"step", record.step},
            {"microbatch", record.microbatch},
            {"loss", record.loss},
            {"num_labels", record.num_labels},
            {"forward_ms", record.forward_ms},
            {"backward_ms", record.backward_ms},
            {"wait_ms", record.wait_ms}};
  if (record.aux_loss != 0.0) line["aux_loss"] = record.aux_loss;
  append_line(pending_, line);
}

void JsonLog::on_step(const StepRecord& record) {
  Json line{{"step", record.step},
            {"loss", record.loss},
            {"grad_norm", record.grad_norm},
            {"lr", record.lr},
            {"num_labels", record.num_labels},
            {"aux_loss", record.aux_loss},
            {"epoch", record.epoch},
            {"tokens", record.tokens},
            {"tokens_per_s", record.tokens_per_s},
            {"step_ms", record.step_ms},
            {"bubble", record.bubble},
            {"memory_mib", record.memory_mib},
            {"total_memory_mib", record.total_memory_mib}};
  if (record.tensor_peak_mib > 0.0) {
    line["tensor_mib"] = record.tensor_mib;
    line["tensor_peak_mib"] = record.tensor_peak_mib;
    line["planned_peak_mib"] = record.planned_peak_mib;
  }
  if (record.save_stall_ms > 0.0) line["save_stall_ms"] = record.save_stall_ms;
  append_line(pending_, line);
  file_.write(pending_);
  pending_.clear();
}

void JsonLog::on_eval(const EvalRecord& record) {
  std::string line;
  append_line(line, Json{{"step", record.step},
                         {"eval_loss", record.loss},
                         {"num_labels", record.num_labels},
                         {"eval_ms", record.eval_ms}});
  file_.write(line);
}

}  // namespace ppctl
