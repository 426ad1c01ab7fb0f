#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

/// Which ranks hold the same parameters of a group: all that are data-parallel to each other, or those that hold the
/// same experts.
enum class GroupKind : std::uint8_t { kCommon, kExperts };

/// Where the parameters of a group lie in its flat buffer: each aligned to 64 bytes; those that are stored merged
/// (q/k/v, gate/up) next to each other, without padding between them.
class GroupLayout {
 public:
  explicit GroupLayout(std::int64_t element_bytes, GroupKind kind = GroupKind::kCommon)
      : element_bytes_(element_bytes), kind_(kind) {}

  /// Puts a parameter behind the last one. `merge_with_previous`: without padding, so that both form one matrix.
  /// Returns its index.
  int add(Parameter parameter, bool merge_with_previous = false);
  /// All of `parameters`, merged into one matrix or vector. Returns the index of the first.
  int add_merged(std::vector<Parameter> parameters);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  std::vector<Parameter>& parameters() { return parameters_; }
  std::int64_t numel() const { return numel_; }  ///< of the flat buffer, padding included
  std::int64_t element_bytes() const { return element_bytes_; }
  GroupKind kind() const { return kind_; }

 private:
  std::int64_t element_bytes_;
  GroupKind kind_;
  std::vector<Parameter> parameters_;
  std::int64_t numel_ = 0;
};

}  // namespace ppctl
