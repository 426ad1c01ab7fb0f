#include "train_engine_console.hpp"

#include <cstdio>

#include "base/log.hpp"

namespace ppctl {
namespace {

constexpr int kBarWidth = 20;
/// Weight of the newest step in the mean step time that the time left is made of.
constexpr double kSmoothing = 0.1;

std::string duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
}

class Console final : public TrainObserver {
 public:
  Console(const JobConfig& job, bool terminal) : every_(std::max(1, job.log.every)), terminal_(terminal) {
    const std::int64_t tokens = job.batch.global_size * job.accumulate * job.data.sequence_length;
    total_steps_ = job.steps;
    if (job.stop_tokens > 0 && tokens > 0) {
      const std::int64_t by_tokens = (job.stop_tokens + tokens - 1) / tokens;
      total_steps_ = job.steps > 0 ? std::min(job.steps, by_tokens) : by_tokens;
    }
  }
  ~Console() override { clear_line(); }

  void on_step(const StepRecord& record) override {
    mean_ms_ = mean_ms_ == 0.0 ? record.step_ms : (1.0 - kSmoothing) * mean_ms_ + kSmoothing * record.step_ms;
    const std::int64_t done = record.step + 1;
    const std::string text =
        fmt::format("step {}/{}  loss {:.4f}  grad norm {:.3f}  lr {:.2e}  {:.0f} tokens/s  bubble {:.0f} %", done,
                    total_steps_, record.loss, record.grad_norm, record.lr, record.tokens_per_s, 100.0 * record.bubble);
    if (terminal_) {
      show_line(fmt::format("{} {}  {} left", bar(done), text, time_left(done)));
    } else if (done % every_ == 0 || done == total_steps_ || record.step == 0) {
      log_info("{}  {:.1f} ms  {:.0f} MiB", text, record.step_ms, record.memory_mib);
    }
  }

  void on_eval(const EvalRecord& record) override {
    on_message(fmt::format("held-out loss {:.4f} after {} steps, over {} tokens", record.loss, record.step,
                           record.num_labels));
  }

  void on_message(const std::string& text) override {
    clear_line();
    log_info("{}", text);
  }

 private:
  std::string bar(std::int64_t done) const {
    const std::int64_t reached = total_steps_ > 0 ? kBarWidth * done / total_steps_ : 0;
    const int filled = static_cast<int>(std::clamp<std::int64_t>(reached, 0, kBarWidth));
    return fmt::format("[{:#<{}}{:.<{}}]", "", filled, "", kBarWidth - filled);
  }
  std::string time_left(std::int64_t done) const {
    return duration(mean_ms_ / 1e3 * static_cast<double>(total_steps_ - done));
  }

  void show_line(const std::string& text) {
    std::fprintf(stderr, "\r\x1b[K%s", text.c_str());
    std::fflush(stderr);
    line_shown_ = true;
  }
  void clear_line() {
    if (line_shown_) std::fputs("\n", stderr);
    line_shown_ = false;
  }

  int every_;
  bool terminal_;
  std::int64_t total_steps_ = 0;
  double mean_ms_ = 0.0;
  bool line_shown_ = false;
};

}  // namespace

std::unique_ptr<TrainObserver> make_console(const JobConfig& job, bool terminal) {
  return std::make_unique<Console>(job, terminal);
}

void print_result(const JobConfig& job, const TrainResult& result) {
  if (result.stopped) {
    log_info("stopped after {} steps, as asked; {}", result.state.step,
             job.checkpoint.folder.empty() ? "nothing was saved: the job has no checkpoint.folder"
                                           : "run the same command to go on");
    return;
  }
  if (result.unigram_entropy > 0.0) {
    log_info(
        "final loss {:.4f}; the unigram entropy of the text, which a model reaches that knows byte frequencies alone, "
        "is {:.4f}",
        result.last_loss, result.unigram_entropy);
  } else {
    log_info("final loss {:.4f}", result.last_loss);
  }
  if (result.sample.empty()) return;
  std::printf("%s\n", result.sample.c_str());
  std::fflush(stdout);
}

}  // namespace ppctl
