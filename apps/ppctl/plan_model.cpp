#include "plan_model.hpp"

#include "arch/job_model.hpp"
#include "base/error.hpp"
#include "simulate/model_plan.hpp"

namespace ppctl {

PlanModel::PlanModel(const PlanOptions& options, const JobConfig& job) : job_(job) {
  if (job.model.from.empty() && job.model.family.empty()) return;
  if (!options.layers.empty()) {
    reason_ = "--layers plans for another number of layers than the job's model has";
    return;
  }
  try {
    read_model(job);
  } catch (const Error& error) {
    reason_ = error.what();
    return;
  }
  spec_ = model_of_job(job);
}

MemoryModel PlanModel::memory_model(const Placement& placement) const {
  return ppctl::memory_model(job_, *spec_, layers_per_stage(job_, *spec_, placement));
}

MemoryModel PlanModel::memory_model(const Schedule& schedule) const {
  try {
    return ppctl::memory_model(job_, *spec_, model_plan(job_, *spec_, schedule));
  } catch (const Error&) {
    JobConfig unlimited = job_;
    unlimited.memory_gib = 0;
    return ppctl::memory_model(unlimited, *spec_, model_plan(unlimited, *spec_, schedule));
  }
}

ModelWork PlanModel::work(const MemoryModel& model) const { return model_work(job_, *spec_, model.activations); }

std::vector<RankMemory> PlanModel::memory(const Schedule& schedule) const {
  if (!known()) return {};
  return plan_memory(schedule, memory_model(schedule));
}

}  // namespace ppctl
