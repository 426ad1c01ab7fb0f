#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/tensor_meter.hpp"
#include "simulate/rank_memory.hpp"
#include "topology/mesh.hpp"

namespace ppctl {

/// What one rank measured of its memory in a step, in bytes.
struct MemoryPart {
  double between_steps = 0;  ///< tensors before the step
  double peak = 0;           ///< most tensors at once within it
  double buffers = 0;        ///< receive buffers
};

/// A rank's memory beside what its plan says.
class MemoryWatch {
 public:
  /// `planned` by world rank. The meter must outlive the object.
  MemoryWatch(TensorMeter& meter, std::vector<RankMemory> planned) : meter_(meter), planned_(std::move(planned)) {
    measured_.resize(planned_.size());
  }

  void begin_step();
  /// Of this rank, since begin_step().
  MemoryPart part(std::size_t buffer_bytes) const;
  /// Keeps the most that any step took, of every rank.
  void note(std::size_t rank, const MemoryPart& part);

  const std::vector<RankMemory>& planned() const { return planned_; }
  const std::vector<MemoryPart>& measured() const { return measured_; }
  /// Of tensors, on the fullest rank.
  double planned_peak_mib() const;
  /// Planned and measured, of the fullest rank.
  std::string summary() const;

 private:
  std::size_t fullest() const;

  TensorMeter& meter_;
  std::vector<RankMemory> planned_;
  std::vector<MemoryPart> measured_;
  std::int64_t before_step_ = 0;
};

/// The plan of every rank of a job's mesh, by world rank.
std::vector<RankMemory> planned_memory(const Schedule& schedule, MemoryModel model, const Mesh& mesh);

}  // namespace ppctl
