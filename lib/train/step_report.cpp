#include "train/step_report.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/error.hpp"

namespace ppctl {
namespace {

constexpr double kNanosecondsPerMillisecond = 1e6;
constexpr double kMib = 1024.0 * 1024.0;

double bubble_of(const std::vector<StepPart>& parts) {
  double busy = 0.0;
  double longest = 0.0;
  for (const StepPart& part : parts) {
    busy += part.busy_ms;
    longest = std::max(longest, part.span_ms);
  }
  return longest > 0.0 ? 1.0 - busy / (longest * static_cast<double>(parts.size())) : 0.0;
}

}  // namespace

StepReport combine_parts(const std::vector<StepPart>& parts, const Mesh& mesh, const BatchShape& shape) {
  StepReport report;
  const auto total = static_cast<std::size_t>(shape.microbatches_per_step());
  report.microbatches.resize(total);
  std::vector<LossReport> losses(total);
  std::vector<int> num_losses(total, 0);
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const int replica = mesh.index(MeshAxis::kDp, static_cast<int>(rank));
    for (std::size_t i = 0; i < parts[rank].microbatches.size(); ++i) {
      const MicrobatchPart& part = parts[rank].microbatches[i];
      const int batch = static_cast<int>(i) / shape.num_microbatches;
      const int global =
          (batch * shape.replicas + replica) * shape.num_microbatches + static_cast<int>(i) % shape.num_microbatches;
      const auto index = static_cast<std::size_t>(global);
      MicrobatchRecord& record = report.microbatches[index];
      record.microbatch = global;
      record.forward_ms += static_cast<double>(part.times.forward) / kNanosecondsPerMillisecond;
      record.backward_ms += static_cast<double>(part.times.backward) / kNanosecondsPerMillisecond;
      record.wait_ms += static_cast<double>(part.times.wait) / kNanosecondsPerMillisecond;
      if (!part.has_loss) continue;
      losses[index] = part.loss;
      ++num_losses[index];
    }
    report.memory_mib = std::max(report.memory_mib, parts[rank].memory_mib);
    report.total_memory_mib += parts[rank].memory_mib;
    report.save_ready = report.save_ready && parts[rank].save_ready;
    report.tensor_mib = std::max(report.tensor_mib, parts[rank].memory.between_steps / kMib);
    report.tensor_peak_mib = std::max(report.tensor_peak_mib, parts[rank].memory.peak / kMib);
    report.stop_requested = report.stop_requested || parts[rank].stop_requested;
  }
  double loss_sum = 0.0;
  for (std::size_t i = 0; i < total; ++i) {
    PPCTL_CHECK(num_losses[i] == 1, "microbatch {} has {} losses", i, num_losses[i]);
    report.microbatches[i].loss = losses[i].mean() + losses[i].aux_loss;
    report.microbatches[i].aux_loss = losses[i].aux_loss;
    report.microbatches[i].num_labels = losses[i].num_labels;
    loss_sum += losses[i].loss_sum;
    report.num_labels += losses[i].num_labels;
    report.aux_loss += losses[i].aux_loss / static_cast<double>(total);
  }
  if (report.num_labels > 0) report.loss = loss_sum / static_cast<double>(report.num_labels);
  report.loss += report.aux_loss;
  report.bubble = bubble_of(parts);
  return report;
}

double resident_mib() {
  std::ifstream file("/proc/self/statm");
  long total_pages = 0;
  long resident_pages = 0;
  if (!(file >> total_pages >> resident_pages)) return 0.0;
  return static_cast<double>(resident_pages) * static_cast<double>(::sysconf(_SC_PAGESIZE)) / kMib;
}

}  // namespace ppctl
