#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "config/job_config.hpp"
#include "model/stage_module.hpp"
#include "train/samples.hpp"

namespace ppctl {

/// How the samples of a step are divided: replica d of D takes, of each batch, the contiguous block of global
/// microbatches d·m .. d·m + m − 1.
struct BatchShape {
  int replicas = 1;                  ///< D
  int num_microbatches = 1;          ///< m: of one replica and batch
  std::int64_t microbatch_size = 1;  ///< samples
  int accumulate = 1;                ///< batches a step

  static BatchShape of(const JobConfig& job);
  std::int64_t samples_per_batch() const {
    return static_cast<std::int64_t>(replicas) * num_microbatches * microbatch_size;
  }
  std::int64_t samples_per_step() const { return samples_per_batch() * accumulate; }
  /// Microbatches of a whole step: what logs number.
  int microbatches_per_step() const { return replicas * num_microbatches * accumulate; }
};

/// Which sample a run sees when: sample number n of a run, counted over all steps and replicas, is in epoch n / size at
/// position n mod size; shuffled epochs are each a permutation that depends on seed and epoch alone.
class SampleOrder {
 public:
  SampleOrder(std::int64_t num_samples, bool shuffled, std::uint64_t seed);
  std::int64_t epoch_of(std::int64_t number) const { return number / num_samples_; }
  std::int64_t index_of(std::int64_t number) const;

 private:
  std::int64_t num_samples_;
  bool shuffled_;
  std::uint64_t seed_;
};

/// What this rank needs of the data: input ids where it holds the stage that reads them (the first, without images),
/// pixels where it holds the patch embedding, labels where it holds the last stage.
struct BatchNeeds {
  bool input_ids = false;
  bool labels = false;
  bool pixels = false;
};

/// Makes the microbatches of one replica. Reads only what the rank needs.
class BatchLoader {
 public:
  BatchLoader(std::shared_ptr<const SampleSource> source, SampleOrder order, BatchShape shape, int replica,
              BatchNeeds needs);

  const BatchShape& shape() const { return shape_; }
  const SampleOrder& order() const { return order_; }
  std::int64_t sequence_length() const { return source_->sequence_length(); }
  /// Makes `step` begin with sample number `sample` of the run; without a call, step 0 begins with sample 0. For a run
  /// whose first steps had another number of samples.
  void begin_at(std::int64_t step, std::int64_t sample);
  /// Labels that count in a whole step, over replicas and batches: the same on every rank, without communication.
  std::int64_t num_labels(std::int64_t step) const;
  /// The microbatches of batch `batch` (0 .. accumulate - 1) of `step`. `loss_scale`: 1 / num_labels(step).
  std::vector<Microbatch> load(std::int64_t step, int batch, bool training, double loss_scale) const;
  /// The images of `size` samples from number `first` of the run on: [images, channels, size, size], as many as there
  /// are. Throws Error that names sample and file.
  at::Tensor load_pixels(std::int64_t first, std::int64_t size) const;

 private:
  std::int64_t first_sample_of(std::int64_t step) const;
  void fill(Microbatch& microbatch) const;

  std::shared_ptr<const SampleSource> source_;
  SampleOrder order_;
  BatchShape shape_;
  int replica_;
  BatchNeeds needs_;
  std::int64_t first_sample_ = 0;  ///< where step 0 would have begun
};

}  // namespace ppctl
