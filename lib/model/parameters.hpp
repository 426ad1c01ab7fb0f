#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "arch/parameter.hpp"
#include "model/tensors.hpp"

namespace ppctl {

/// What weights and gradients of this dtype of computing are summed in: float32 for bfloat16, else the dtype itself.
inline at::ScalarType master_dtype(at::ScalarType compute) { return compute == at::kBFloat16 ? at::kFloat : compute; }

/// The parameters of one layer (or the embedding, or the head): the unit of FSDP. One flat buffer for values and one
/// for gradients (which accumulate in master_dtype), both laid out as GroupLayout says.
///
/// Views stay valid for the life of the group: FSDP frees and refills the storage below them (flat_storage.hpp).
class ParameterGroup {
 public:
  ParameterGroup(std::string name, at::ScalarType dtype, GroupKind kind = GroupKind::kCommon)
      : name_(std::move(name)), dtype_(dtype), layout_(static_cast<std::int64_t>(c10::elementSize(dtype)), kind) {}

  /// Declares a parameter behind the last one. `merge_with_previous`: without padding, so that both form one matrix.
  /// Returns its index. REQUIRES: before allocate().
  int add(Parameter parameter, bool merge_with_previous = false);
  /// Allocates values and gradients, all zero: padding must hold nothing that an update could turn into a fault.
  void allocate();

  const std::string& name() const { return name_; }
  at::ScalarType dtype() const { return dtype_; }
  GroupKind kind() const { return layout_.kind(); }
  const std::vector<Parameter>& parameters() const { return layout_.parameters(); }
  std::vector<Parameter>& parameters() { return layout_.parameters(); }
  std::int64_t numel() const { return layout_.numel(); }  ///< of the flat buffer, padding included

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
  GroupLayout layout_;
  at::Tensor flat_data_;
  at::Tensor flat_grad_;
};

}  // namespace ppctl
