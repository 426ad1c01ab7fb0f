#include <unistd.h>

#include <ATen/Parallel.h>

#include <csignal>

#include "base/error.hpp"
#include "base/log.hpp"
#include "bench_engine.hpp"
#include "bench_overlap.hpp"
#include "comm/affinity.hpp"
#include "config/load.hpp"
#include "engine.hpp"
#include "errors.hpp"
#include "job_schedule.hpp"
#include "launcher.hpp"
#include "mpipe_choice.hpp"
#include "simulate/memory_report.hpp"
#include "train/agreement.hpp"
#include "train/json_log.hpp"
#include "train/trainer.hpp"
#include "train_engine_connect.hpp"
#include "train_engine_console.hpp"
#include "train_engine_export.hpp"

namespace ppctl {
namespace {

/// A signal handler can reach nothing but a global.
volatile std::sig_atomic_t stop_signals = 0;

/// The first signal ends the run after the current step; a second one ends the process at once. SIGUSR1 is what mpirun
/// hands on: its own answer to SIGINT and SIGTERM leaves a second until SIGKILL.
extern "C" void on_stop_signal(int signal) {
  stop_signals = stop_signals + 1;
  if (stop_signals > 1) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

void install_signal_handlers() {
  struct sigaction action{};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaction(signal, &action, nullptr);
  // A reader of the log that went away is a failed write, not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
}

std::vector<std::unique_ptr<TrainObserver>> make_observers(const JobConfig& job, bool resumed) {
  std::vector<std::unique_ptr<TrainObserver>> observers;
  observers.push_back(make_console(job, ::isatty(STDERR_FILENO) != 0));
  if (!job.log.json.empty()) observers.push_back(std::make_unique<JsonLog>(job.log.json, resumed));
  return observers;
}

/// What is the same on every rank, and so is what is wrong with it.
template <class Make>
auto agreed(const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    throw AgreedError(error.what());
  }
}

/// The job, with its way to run the encoder chosen where it leaves that open.
JobConfig chosen_job(const JobConfig& asked) {
  const MpipeChoice choice = choose_mpipe(asked);
  if (!choice.was_asked()) return asked;
  if (!choice.fits) {
    throw_error("mpipe: auto finds no way to run the job in memory_gib {}; the leanest needs {} a rank",
                asked.memory_gib, bytes_text(static_cast<double>(choice.ways.front().peak_bytes)));
  }
  log_info("{}", mpipe_choice_line(choice));
  return choice.job;
}

int train_rank(const JobConfig& asked, Communicator& communicator) {
  const JobConfig job = agreed([&] { return chosen_job(asked); });
  Transport& transport = communicator.transport();
  TrainOptions options;
  // Launchers send SIGTERM to the survivors of a rank that died: that is no wish of the user's.
  options.stop_requested = [&] { return stop_signals > 0 && !transport.failure(); };
  options.make_observers = [&](bool resumed) { return make_observers(job, resumed); };
  Schedule schedule = agreed([&] { return schedule_of_job(job, stage_costs_of_job(job)); });
  Trainer trainer(job, std::move(schedule), communicator, std::move(options));
  const TrainResult result = trainer.run();
  if (transport.rank() == 0) print_result(job, result);
  return kExitOk;
}

int train(const EngineRequest& request) {
  const JobConfig job = load_config(request.config_file, request.sets, schedule_rules(), JobUse::kTrain).job;
  const Launch launch = detect_launch();
  configure_log(launch.num_ranks > 1 ? fmt::format("rank {}", launch.rank) : "",
                launch.rank == 0 ? LogLevel::kInfo : LogLevel::kWarn);
  at::set_num_threads(job.threads);
  if (job.threads > 1) widen_affinity();
  install_signal_handlers();
  int status = kExitFailed;
  with_communicator(job, [&](Communicator& communicator) {
    status = run_rank(communicator, [&] { return train_rank(job, communicator); });
  });
  return status;
}

}  // namespace
}  // namespace ppctl

int ppctl_engine_main(const ppctl::EngineRequest* request) {
  using namespace ppctl;
  return report_errors(kExitFailed, /*silent=*/false, [&] {
    if (request->command == "train") return train(*request);
    if (request->command == "bench bubbles") return bench_bubbles(*request);
    if (request->command == "bench overlap") return bench_overlap(*request);
    if (request->command == "bench profile") return bench_profile(*request);
    if (request->command == "export") return export_weights(*request);
    throw_error("the engine has no command {}", request->command);
  });
}
