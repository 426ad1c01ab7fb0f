#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/tensors.hpp"

namespace ppctl {

/// How a parameter starts when it is not read from a file. A function of seed and name alone: the same for every p, v
/// and dp.
struct ParameterInit {
  enum class Kind { kZeros, kOnes, kNormal } kind = Kind::kZeros;
  double stddev = 0.0;
};

/// One parameter under its Hugging Face name: a view of its group's flat buffers.
struct Parameter {
  std::string name;                 ///< "model.layers.3.self_attn.q_proj.weight"
  std::vector<std::int64_t> shape;  ///< as in the checkpoint
  std::int64_t offset = 0;          ///< elements from the start of the group's flat buffer
  std::int64_t numel = 0;
  ParameterInit init;
  bool trainable = true;
  bool matrix = true;  ///< two or more dims: what `decay: matrices` decays
  /// Another parameter's name where this is a second use of it (a tied head): it has its own gradient accumulator, the
  /// two are summed once at the end of a step, and checkpoints and norms count the first alone.
  std::string tied_to;
};

/// What weights and gradients of this dtype of computing are summed in: float32 for bfloat16, else the dtype itself.
inline at::ScalarType master_dtype(at::ScalarType compute) { return compute == at::kBFloat16 ? at::kFloat : compute; }

/// The parameters of one layer (or the embedding, or the head): the unit of FSDP. One flat buffer for values and one
/// for gradients (which accumulate in master_dtype), each parameter aligned to 64 bytes; tensors that are stored merged
/// (q/k/v, gate/up) lie next to each other, without padding between them.
///
/// Views stay valid for the life of the group: FSDP frees and refills the storage below them (flat_storage.hpp).
class ParameterGroup {
 public:
  ParameterGroup(std::string name, at::ScalarType dtype) : name_(std::move(name)), dtype_(dtype) {}

  /// Declares a parameter behind the last one. `merge_with_previous`: without padding, so that both form one matrix.
  /// Returns its index. REQUIRES: before allocate().
  int add(Parameter parameter, bool merge_with_previous = false);
  /// Allocates values and gradients, all zero: padding must hold nothing that an update could turn into a fault.
  void allocate();

  const std::string& name() const { return name_; }
  at::ScalarType dtype() const { return dtype_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  std::vector<Parameter>& parameters() { return parameters_; }
  std::int64_t numel() const { return numel_; }  ///< of the flat buffer, padding included

  bool trainable() const;  ///< whether any parameter is

  at::Tensor flat_data() const { return flat_data_; }
  at::Tensor flat_grad() const { return flat_grad_; }
  at::Tensor data(int index) const;
  at::Tensor grad(int index) const;
  /// `count` merged parameters as one matrix: rows are the sum of theirs.
  at::Tensor merged_data(int first, int count) const;
  at::Tensor merged_grad(int first, int count) const;

  void zero_grad();

  /// The part of `flat`, a tensor with the layout of the flat buffers, that holds a parameter.
  at::Tensor view(const at::Tensor& flat, int index) const;

 private:
  std::string name_;
  at::ScalarType dtype_;
  std::vector<Parameter> parameters_;
  std::int64_t numel_ = 0;
  at::Tensor flat_data_;
  at::Tensor flat_grad_;
};

}  // namespace ppctl
