#pragma once

#include "model/aten.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include "train/optimizer.hpp"

namespace ppctl {

/// What one rank holds of one tensor of the training state: rows row_begin .. row_end - 1 of dim 0 of a tensor whose
/// whole has `shape`. This is all that checkpoints know of how a run divides its state.
///
/// The name is the parameter's Hugging Face name for its values, and "optimizer.exp_avg.NAME" or
/// "optimizer.exp_avg_sq.NAME" for its moments. Values are those that the optimizer updates: the master weights where
/// computing has another dtype. A rank may hold no row (row_begin == row_end), and several tensors of one name (the
/// uses of a tied weight, the copies of a bidirectional pipeline, replicas): they have equal values, of which one is
/// written; all are read.
struct StateTensor {
  std::string name;
  std::vector<std::int64_t> shape;  ///< global; at least one dim
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
  at::Tensor local;  ///< contiguous, [row_end - row_begin, shape[1], ...]; a view: reading fills it

  std::int64_t num_rows() const { return row_end - row_begin; }
};

/// The names of the moments of a parameter.
std::string exp_avg_name(const std::string& parameter);
std::string exp_avg_sq_name(const std::string& parameter);

/// All that this rank holds, in the order of its parameters: values, then moments (which a frozen parameter has not).
/// The views stay valid for the life of the optimizer.
std::vector<StateTensor> state_tensors(AdamW& optimizer);

}  // namespace ppctl
