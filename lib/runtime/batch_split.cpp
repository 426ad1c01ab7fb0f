#include "runtime/batch_split.hpp"

#include "base/error.hpp"

namespace ppctl {
namespace {

/// The parts of one input, by microbatch.
TensorList split_input(const std::string& name, const at::Tensor& input, BatchDimSpec spec, int num_microbatches) {
  if (spec.dim == BatchDimSpec::kReplicated) return TensorList(static_cast<std::size_t>(num_microbatches), input);
  if (spec.dim < 0) throw_error("input {}: batch dim {} is neither a dim nor -1 (replicated)", name, spec.dim);
  if (!input.defined()) throw_error("input {} is an undefined tensor", name);
  if (spec.dim >= input.dim()) {
    throw_error("input {}: its batch dim is {}, but it has {} dim{}", name, spec.dim, input.dim(),
                input.dim() == 1 ? "" : "s");
  }
  const std::int64_t size = input.size(spec.dim);
  if (size % num_microbatches != 0) {
    throw_error("input {}: {} rows in dim {} cannot be split into {} microbatches of equal size", name, size, spec.dim,
                num_microbatches);
  }
  if (size == 0) throw_error("input {}: dim {} is empty", name, spec.dim);
  return input.split(size / num_microbatches, spec.dim);
}

}  // namespace

std::vector<MicrobatchInputs> split_batch(const TensorList& args, const TensorMap& kwargs, const BatchDims& dims,
                                          int num_microbatches) {
  if (num_microbatches < 1) throw_error("a batch cannot be split into {} microbatches", num_microbatches);
  if (dims.args.size() > args.size()) {
    throw_error("there are {} batch dims for {} positional inputs", dims.args.size(), args.size());
  }
  for (const auto& [name, spec] : dims.kwargs) {
    if (!kwargs.contains(name)) throw_error("there is a batch dim for the keyword input {}, which is not given", name);
  }
  std::vector<MicrobatchInputs> parts(static_cast<std::size_t>(num_microbatches));
  for (std::size_t i = 0; i < args.size(); ++i) {
    const BatchDimSpec spec = i < dims.args.size() ? dims.args[i] : BatchDimSpec();
    const TensorList split = split_input(std::to_string(i), args[i], spec, num_microbatches);
    for (std::size_t m = 0; m < parts.size(); ++m) parts[m].args.push_back(split[m]);
  }
  for (const auto& [name, tensor] : kwargs) {
    const auto found = dims.kwargs.find(name);
    const BatchDimSpec spec = found == dims.kwargs.end() ? BatchDimSpec() : found->second;
    const TensorList split = split_input(name, tensor, spec, num_microbatches);
    for (std::size_t m = 0; m < parts.size(); ++m) parts[m].kwargs.emplace(name, split[m]);
  }
  return parts;
}

}  // namespace ppctl
