#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/stage_module.hpp"

namespace ppctl {

/// A parameter of a user's module: a leaf tensor under a name. Frozen where it does not require a gradient.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// The parameters of a torch::nn::Module, whose header the caller includes: it is too costly to be included here.
template <class Module>
std::vector<NamedTensor> parameters_of(const Module& module) {
  std::vector<NamedTensor> parameters;
  for (const auto& item : module.named_parameters()) parameters.push_back({item.key(), item.value()});
  return parameters;
}

/// What a user's loss function gives.
struct LossValue {
  at::Tensor sum;               ///< scalar: the sum over this microbatch's labels (or samples); undefined: no labels
  std::int64_t num_labels = 1;  ///< what it is a sum over
  at::Tensor aux;               ///< scalar, or undefined: an auxiliary loss, its coefficient included
};

/// A stage made of the user's own code, differentiated by plain autograd. It knows nothing of pipelines; BACKWARD_INPUT
/// and BACKWARD_WEIGHT are right for it all the same (see WeightGradSplit).
///
/// The module's parameters move into flat buffers, one group for each dtype: the user's tensors keep their identity and
/// become views of them, so an optimizer that updates the buffers updates the module. Gradients accumulate in the
/// buffers, in the order of backwards; the tensors' own .grad stays empty.
///
/// The objective is loss_scale · sum + aux (aux is per microbatch by definition).
class AutogradModule : public StageModule {
 public:
  /// Outputs from inputs. At the first stage the inputs are microbatch.args.
  using Forward = std::function<TensorList(const TensorList& inputs, const Microbatch& microbatch)>;
  /// The same for a function that needs no keyword inputs.
  using PlainForward = std::function<TensorList(TensorList inputs)>;
  using Loss = std::function<LossValue(const TensorList& outputs, const Microbatch& microbatch)>;

  /// `loss` is called at the last stage alone. Where it gives a loss, that takes the outputs' place; where it gives
  /// none (or there is no loss function) the last stage returns its outputs, and cannot be trained.
  AutogradModule(Forward forward, const std::vector<NamedTensor>& parameters, Loss loss = nullptr);
  AutogradModule(PlainForward forward, const std::vector<NamedTensor>& parameters, Loss loss = nullptr);

  TensorList forward(const Microbatch& microbatch, TensorList inputs, SavedActivations& saved,
                     LossReport* loss) override;
  TensorList backward(const Microbatch& microbatch, TensorList output_grads, SavedActivations& saved,
                      WeightGradQueue& queue) override;
  std::vector<ParameterGroup*> parameter_groups() override;

 private:
  /// A trainable parameter and where its gradient accumulates.
  struct Weight {
    at::Tensor leaf;
    at::Tensor grad;
  };
  /// What lives between forward and backward.
  struct Graph {
    TensorList inputs;   ///< leaves; those that require no gradient too
    TensorList outputs;  ///< or the objective alone, at the last stage
    bool is_objective = false;
  };

  void adopt(const std::vector<NamedTensor>& parameters);
  static TensorList to_leaves(TensorList inputs, bool training);
  /// The objective, or an undefined tensor where there are no labels.
  at::Tensor run_loss(const Microbatch& microbatch, const TensorList& outputs, LossReport* report) const;
  void accumulate(const TensorList& grads);

  Forward forward_;
  Loss loss_;
  std::vector<std::unique_ptr<ParameterGroup>> groups_;
  std::vector<Weight> weights_;
};

}  // namespace ppctl
