#include <ATen/Parallel.h>

#include <cstdio>
#include <fstream>

#include "arch/job_model.hpp"
#include "arch/stage_memory.hpp"
#include "base/error.hpp"
#include "bench_engine.hpp"
#include "config/load.hpp"
#include "errors.hpp"
#include "job_schedule.hpp"
#include "runtime/layer_profiler.hpp"
#include "simulate/memory_report.hpp"
#include "train/rank_model.hpp"

namespace ppctl {
namespace {

std::string line(const char* name, const PartTimes& part) {
  return fmt::format("{:<10} {:>10.3f} {:>10.3f} {:>10.3f} {:>12}\n", name, part.forward_ms, part.dx_ms, part.dw_ms,
                     bytes_text(static_cast<double>(part.saved_bytes)));
}

}  // namespace

int bench_profile(const EngineRequest& request) {
  JobConfig job = load_config(request.config_file, request.sets, schedule_rules()).job;
  job.mpipe = {};  // it does not matter to what a layer takes where the layer runs
  at::set_num_threads(job.threads);
  ProfileShape shape;
  shape.dtype = compute_dtype(job);
  shape.samples = job.microbatch_size();
  shape.sequence = job.data.sequence_length;
  const LayerProfile profile = measure_layers(model_of_job(job), shape);
  const std::string& path = request.options.at("profile");
  std::ofstream out(path);
  out << profile_json(profile);
  out.close();
  if (!out) throw_error("cannot write {}", path);
  std::string text =
      fmt::format("{:<10} {:>10} {:>10} {:>10} {:>12}\n", "part", "forward ms", "dx ms", "dw ms", "kept");
  text += line("embedding", profile.embedding) + line("layer", profile.layers.at(0)) + line("head", profile.head);
  text += fmt::format("{} layers; for the job file: profile: {}\n", profile.layers.size(), path);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return kExitOk;
}

}  // namespace ppctl
