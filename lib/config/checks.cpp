// How the values of a job fit together. Every rule names the keys and the numbers, and is reported at a key that the
// user wrote.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <numeric>
#include <utility>

#include "config/sections.hpp"
#include "topology/mesh.hpp"

namespace ppctl {
namespace {

class JobChecker {
 public:
  JobChecker(const JobConfig& config, const ScheduleRules& schedules, JobUse use, ReadContext& context)
      : config_(config), schedules_(schedules), use_(use), context_(context) {}

  void check() {
    check_end();
    check_batch();
    check_experts();
    check_schedule();
    check_layers();
    check_lr_schedule();
    check_post_validation();
    check_link();
    check_files();
    if (use_ == JobUse::kTrain) check_evaluation();
  }

 private:
  /// Whether none of these keys has a faulty value: only then is their combination worth a word.
  bool sound(std::initializer_list<const char*> keys) const {
    return std::none_of(keys.begin(), keys.end(), [&](const char* key) { return context_.faulty.contains(key); });
  }

  void check_end() {
    if (!sound({"steps", "stop_tokens"}) || config_.steps > 0 || config_.stop_tokens > 0) return;
    context_.complain("steps", "the job has no end: give 'steps' or 'stop_tokens'");
  }

  void check_batch() {
    if (!sound({"batch", "batch.global_size", "batch.microbatch_size", "batch.microbatches", "parallel.dp_replicate",
                "parallel.dp_shard"})) {
      return;
    }
    const BatchConfig& batch = config_.batch;
    const std::int64_t dp = std::int64_t{config_.parallel.dp_replicate} * config_.parallel.dp_shard;
    const auto refuse = [&](const char* key, std::string rule) {
      context_.complain(key, std::move(rule));
      context_.faulty.insert("batch.microbatches");
    };
    if (batch.microbatch_size == 0 && batch.microbatches == 0) {
      refuse("batch.microbatch_size", "'batch' needs 'microbatch_size' (samples) or 'microbatches' (a replica)");
    } else if (batch.global_size % dp != 0) {
      refuse("batch.global_size",
             fmt::format("'batch.global_size' ({}) is not divisible by the {} replicas "
                         "(dp_replicate {} x dp_shard {})",
                         batch.global_size, dp, config_.parallel.dp_replicate, config_.parallel.dp_shard));
    } else if (batch.microbatch_size > 0 && batch.microbatches > 0) {
      check_both(batch, dp, refuse);
    } else if (batch.microbatch_size > 0 && batch.global_size / dp % batch.microbatch_size != 0) {
      refuse("batch.microbatch_size",
             fmt::format("'batch.microbatch_size' ({}) does not divide the {} samples of a replica{}",
                         batch.microbatch_size, batch.global_size / dp, per_replica(batch, dp)));
    } else if (batch.microbatches > 0 && batch.global_size / dp % batch.microbatches != 0) {
      refuse("batch.microbatches",
             fmt::format("'batch.microbatches' ({}) does not divide the {} samples of a replica{}", batch.microbatches,
                         batch.global_size / dp, per_replica(batch, dp)));
    } else if (batch.microbatch_size > 0 && batch.global_size / dp / batch.microbatch_size > kMostMicrobatches) {
      refuse("batch.microbatch_size",
             fmt::format("'batch.microbatch_size' ({}) makes {} microbatches a replica; at most {} can be",
                         batch.microbatch_size, batch.global_size / dp / batch.microbatch_size, kMostMicrobatches));
    }
  }

  static std::string per_replica(const BatchConfig& batch, std::int64_t dp) {
    return dp == 1 ? "" : fmt::format(" (global_size {} / {} replicas)", batch.global_size, dp);
  }

  template <class Refuse>
  void check_both(const BatchConfig& batch, std::int64_t dp, const Refuse& refuse) {
    const std::int64_t samples = batch.global_size / dp;
    if (samples % batch.microbatches == 0 && samples / batch.microbatches == batch.microbatch_size) return;
    refuse(
        "batch.microbatches",
        fmt::format(
            "'batch.microbatches' ({}) x 'batch.microbatch_size' ({}) x {} replicas is not 'batch.global_size' ({}); "
            "give one of the two",
            batch.microbatches, batch.microbatch_size, dp, batch.global_size));
  }

  void check_experts() {
    if (!sound({"parallel.ep", "parallel.dp_replicate", "parallel.dp_shard"})) return;
    const ParallelConfig& parallel = config_.parallel;
    const std::int64_t dp = std::int64_t{parallel.dp_replicate} * parallel.dp_shard;
    if (dp % parallel.ep != 0) {
      context_.complain("parallel.ep",
                        fmt::format("'parallel.ep' ({}) does not divide the {} replicas (dp_replicate {} x dp_shard "
                                    "{}) over which experts are spread",
                                    parallel.ep, dp, parallel.dp_replicate, parallel.dp_shard));
    } else if (!Mesh::experts_fit(parallel.dp_replicate, parallel.dp_shard, parallel.ep)) {
      context_.complain("parallel.ep", fmt::format("'parallel.ep' ({}) must divide 'parallel.dp_shard' ({}) or be a "
                                                   "multiple of it",
                                                   parallel.ep, parallel.dp_shard));
    }
    // Of a model from a folder only the folder knows the number.
    for (const char* key : {"num_local_experts", "num_experts"}) {
      const auto found = config_.model.hf.find(key);
      if (found == config_.model.hf.end() || context_.faulty.contains(std::string("model.") + key)) continue;
      const long long experts = std::atoll(found->second.c_str());
      if (experts % parallel.ep != 0) {
        context_.complain("parallel.ep",
                          fmt::format("'parallel.ep' ({}) does not divide 'model.{}' ({})", parallel.ep, key, experts));
      }
    }
  }

  void check_schedule() {
    const PipelineConfig& pipeline = config_.pipeline;
    if (!sound({"pipeline.schedule", "pipeline.chunks"})) return;
    if (pipeline.schedule == "file" && pipeline.chunks > 0) {
      context_.complain("pipeline.chunks",
                        "'pipeline.chunks' has no place beside a schedule from a file, which says it itself");
      context_.faulty.insert("pipeline.chunks");
    }
    if (pipeline.schedule == "file" || !schedules_.refuse) return;
    if (!sound({"parallel.pp", "batch", "batch.global_size", "batch.microbatch_size", "batch.microbatches",
                "pipeline.group"}))
      return;
    const auto reason = schedules_.refuse(config_);
    if (!reason) return;
    context_.complain("pipeline.schedule", *reason);
    context_.faulty.insert("pipeline.schedule");
  }

  /// Stages of the model, where this layer can know it.
  std::optional<int> num_stages() const {
    if (!sound({"pipeline.schedule", "pipeline.chunks", "parallel.pp"}) || config_.pipeline.schedule == "file")
      return std::nullopt;
    if (schedules_.num_stages) return schedules_.num_stages(config_);
    return std::nullopt;
  }

  void check_layers() {
    const auto stages = num_stages();
    const PipelineConfig& pipeline = config_.pipeline;
    const auto layers = context_.num_layers;
    if (pipeline.layers != "list") {
      if (!stages || !layers || *stages <= *layers) return;
      const bool chunks = context_.given("pipeline.chunks") && pipeline.chunks > 1;
      context_.complain(chunks ? "pipeline.chunks" : "parallel.pp",
                        fmt::format("{} stages (pp {} x {} chunks) need at least as many layers; the model has {}",
                                    *stages, config_.parallel.pp, *stages / config_.parallel.pp, *layers));
      return;
    }
    if (!sound({"pipeline.layers"})) return;
    const std::int64_t sum =
        std::accumulate(pipeline.layer_counts.begin(), pipeline.layer_counts.end(), std::int64_t{0});
    if (stages && static_cast<std::size_t>(*stages) != pipeline.layer_counts.size()) {
      context_.complain(
          "pipeline.layers",
          fmt::format("'pipeline.layers' has {} numbers for {} stages (pp {} x {} chunks)",
                      pipeline.layer_counts.size(), *stages, config_.parallel.pp, *stages / config_.parallel.pp));
    } else if (layers && sum != *layers) {
      context_.complain("pipeline.layers",
                        fmt::format("'pipeline.layers' adds up to {} layers; the model has {}", sum, *layers));
    }
  }

  void check_lr_schedule() {
    if (!sound({"steps", "lr_schedule.kind", "lr_schedule.warmup_steps", "lr_schedule.total_steps",
                "lr_schedule.decay_steps"}))
      return;
    const LrScheduleConfig& lr = config_.lr_schedule;
    const std::int64_t total = lr.total_steps > 0 ? lr.total_steps : config_.steps;
    if (lr.kind == "constant") {
      refuse_unused("lr_schedule.total_steps");
      refuse_unused("lr_schedule.final_ratio");
    } else if (total == 0) {
      context_.complain(
          "lr_schedule.kind",
          fmt::format("'lr_schedule.kind' {} needs 'lr_schedule.total_steps' where the job has no 'steps'", lr.kind));
    } else if (is_cut_short()) {
      return;  // it ends within its warm-up, or before its decay
    } else if (lr.warmup_steps > total) {
      context_.complain("lr_schedule.warmup_steps",
                        fmt::format("'lr_schedule.warmup_steps' ({}) is more than the {} steps of the schedule",
                                    lr.warmup_steps, total));
    } else if (lr.kind == "wsd") {
      check_decay(lr, total);
    }
    if (lr.kind != "wsd") refuse_unused("lr_schedule.decay_steps");
  }

  void check_decay(const LrScheduleConfig& lr, std::int64_t total) {
    if (lr.decay_steps == 0) {
      context_.complain("lr_schedule.decay_steps",
                        "'lr_schedule.kind' wsd needs 'lr_schedule.decay_steps', the last steps in which it decays");
    } else if (std::int64_t{lr.warmup_steps} + lr.decay_steps > total) {
      context_.complain("lr_schedule.decay_steps",
                        fmt::format("'lr_schedule.warmup_steps' ({}) and 'lr_schedule.decay_steps' ({}) are more than "
                                    "the {} steps of the schedule",
                                    lr.warmup_steps, lr.decay_steps, total));
    }
  }

  /// Whether someone tries a job with fewer steps than its file has, by --set, too few for its warm-up and decay.
  bool is_cut_short() const {
    const LrScheduleConfig& lr = config_.lr_schedule;
    const bool by_set = lr.total_steps == 0 && overridden("lr_schedule.warmup_steps", "steps");
    const bool decays = lr.kind == "wsd" && lr.decay_steps > 0;
    return by_set && (lr.kind != "wsd" || decays) &&
           std::int64_t{lr.warmup_steps} + (decays ? lr.decay_steps : 0) > config_.steps;
  }

  /// Whether `key` is what the file says, or the default, and `by` was then changed by --set. Someone who tries another
  /// kind of schedule does not want to be told of the keys that fitted the file's.
  bool overridden(const std::string& key, const std::string& by) const {
    return context_.given(by) && context_.mark_of(by).source > context_.mark_of(key).source;
  }

  /// Reports a key that has no effect with this kind of schedule.
  void refuse_unused(const std::string& key) {
    if (!context_.given(key) || overridden(key, "lr_schedule.kind")) return;
    context_.complain(key, fmt::format("'{}' has no effect with 'lr_schedule.kind' {}", key, config_.lr_schedule.kind));
  }

  /// An optimizer step that is corrected afterwards needs the whole gradients and parameters of a stage on its rank,
  /// and forwards that leave nothing behind.
  void check_post_validation() {
    if (!config_.pipeline.post_validation || !sound({"pipeline.post_validation"})) return;
    const auto exclude = [&](bool asked, const char* with) {
      if (asked) {
        context_.complain("pipeline.post_validation",
                          fmt::format("'pipeline.post_validation' does not go together with {}", with));
      }
    };
    exclude(config_.parallel.dp_shard > 1, "'parallel.dp_shard' above 1");
    exclude(config_.parallel.ep > 1, "'parallel.ep' above 1");
    exclude(config_.mpipe.enabled, "'mpipe'");
    exclude(!config_.swap.layers.empty(), "'swap'");
    exclude(config_.device != "cpu", "'device' cuda");
  }

  void check_link() {
    const std::vector<LinkPairConfig>& pairs = config_.link.pairs;
    if (!sound({"parallel.pp", "parallel.dp_replicate", "parallel.dp_shard"})) return;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const std::string key = fmt::format("link.pairs[{}]", i);
      const int most = config_.world_size() - 1;
      if (context_.faulty.contains(key + ".from") || context_.faulty.contains(key + ".to")) continue;
      if (pairs[i].from > most || pairs[i].to > most) {
        context_.complain(key, fmt::format("'{}' is from rank {} to rank {}, but the job's ranks are 0 to {}", key,
                                           pairs[i].from, pairs[i].to, most));
      } else if (pairs[i].from == pairs[i].to) {
        context_.complain(key, fmt::format("'{}' is from rank {} to itself", key, pairs[i].from));
      }
      const auto same = [&](const LinkPairConfig& other) {
        return other.from == pairs[i].from && other.to == pairs[i].to;
      };
      const auto first = std::find_if(pairs.begin(), pairs.end(), same) - pairs.begin();
      if (std::cmp_less(first, i)) {
        context_.complain(key, fmt::format("'{}' is from rank {} to rank {}, as 'link.pairs[{}]' is already", key,
                                           pairs[i].from, pairs[i].to, first));
      }
    }
  }

  void check_files() {
    if (config_.checkpoint.folder.empty()) {
      for (const char* key : {"checkpoint.every", "checkpoint.export"}) {
        const bool asked = std::string_view(key) == "checkpoint.every" ? config_.checkpoint.every > 0
                                                                       : config_.checkpoint.export_when != "never";
        if (asked && sound({"checkpoint.folder"})) {
          context_.complain(key, fmt::format("'{}' needs 'checkpoint.folder', where checkpoints go", key));
        }
      }
    }
    if (context_.given("swap") && config_.swap.layers.empty() && sound({"swap", "swap.layers"})) {
      context_.complain("swap", "'swap' needs 'layers': all, auto or a list of layer numbers");
    }
    if (config_.swap.tier == "file" && config_.swap.folder.empty() && sound({"swap.folder"})) {
      context_.complain("swap.tier", "'swap.tier' file needs 'swap.folder', where activations go");
    }
  }

  void check_evaluation() {
    if (config_.eval.every == 0 || config_.data.eval_fraction > 0) return;
    if (!sound({"data", "eval.every", "data.eval_fraction"})) return;
    context_.complain("eval.every",
                      "'eval.every' needs 'data.eval_fraction', the share of the samples that is held out");
  }

  static constexpr std::int64_t kMostMicrobatches = 16'777'215;

  const JobConfig& config_;
  const ScheduleRules& schedules_;
  JobUse use_;
  ReadContext& context_;
};

}  // namespace

void check_job(const JobConfig& config, const ScheduleRules& schedules, JobUse use, ReadContext& context) {
  JobChecker(config, schedules, use, context).check();
}

}  // namespace ppctl
