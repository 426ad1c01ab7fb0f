#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/tensors.hpp"

namespace ppctl {

/// Which dim of an input is split into microbatches.
struct BatchDimSpec {
  static constexpr int kReplicated = -1;
  int dim = 0;  ///< kReplicated: every microbatch gets the whole tensor
};

/// The specs of a stage's inputs. An input without one is split in dim 0.
struct BatchDims {
  std::vector<BatchDimSpec> args;              ///< by position; may be shorter than the inputs
  std::map<std::string, BatchDimSpec> kwargs;  ///< by name
};

/// The inputs of one microbatch: views of the batch's tensors.
struct MicrobatchInputs {
  TensorList args;
  TensorMap kwargs;
};

/// Splits a batch into `num_microbatches` equal parts. Throws Error that names the input where its dim does not exist
/// or cannot be divided, and where a spec names an input that is not there.
std::vector<MicrobatchInputs> split_batch(const TensorList& args, const TensorMap& kwargs, const BatchDims& dims,
                                          int num_microbatches);

}  // namespace ppctl
