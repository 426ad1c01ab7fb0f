#include "runtime/weight_grad_split.hpp"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace ppctl {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Engine;
using torch::autograd::Node;

/// Notes the gradients that reach a node.
class CaptureHook : public torch::autograd::FunctionPreHook {
 public:
  explicit CaptureHook(TensorList& captured) : captured_(captured) {}
  TensorList operator()(const TensorList& grads) override {
    captured_ = grads;
    return grads;
  }

 private:
  TensorList& captured_;
};

edge_list edges_of(const TensorList& tensors) {
  edge_list edges;
  edges.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) edges.push_back(torch::autograd::impl::gradient_edge(tensor));
  return edges;
}

/// Roots without those that have no gradient or no graph.
struct Roots {
  edge_list edges;
  TensorList grads;

  void add(Edge edge, const at::Tensor& grad) {
    if (!edge.is_valid() || !grad.defined()) return;
    edges.push_back(std::move(edge));
    grads.push_back(grad);
  }
};

Roots roots_of(const TensorList& outputs, const TensorList& output_grads) {
  Roots roots;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].requires_grad()) roots.add(torch::autograd::impl::gradient_edge(outputs[i]), output_grads[i]);
  }
  return roots;
}

TensorList run_engine(const Roots& roots, const edge_list& leaves, bool keep_graph) {
  if (roots.edges.empty() || leaves.empty()) return TensorList(leaves.size());
  return Engine::get_default_engine().execute(roots.edges, roots.grads, keep_graph, /*create_graph=*/false,
                                              /*accumulate_grad=*/false, leaves);
}

/// What a node leads to.
enum Reach : unsigned { kNothing = 0, kInputs = 1, kWeights = 2, kBoth = 3 };

/// All nodes under some roots, children before parents, each with what it leads to.
struct ReachedGraph {
  std::unordered_map<Node*, unsigned> reach;
  std::vector<Node*> order;
};

ReachedGraph explore(const edge_list& roots, const edge_list& inputs, const edge_list& weights) {
  ReachedGraph graph;
  std::unordered_map<Node*, unsigned> leaves;
  for (const Edge& edge : inputs) leaves[edge.function.get()] |= kInputs;
  for (const Edge& edge : weights) leaves[edge.function.get()] |= kWeights;

  struct Visit {
    Node* node;
    std::size_t next_child;
  };
  std::vector<Visit> stack;
  std::unordered_set<Node*> seen;
  const auto enter = [&](const Edge& edge) {
    Node* node = edge.function.get();
    if (node != nullptr && seen.insert(node).second) stack.push_back({node, 0});
  };
  for (const Edge& root : roots) {
    enter(root);
    while (!stack.empty()) {
      Visit& top = stack.back();
      if (top.next_child < top.node->next_edges().size()) {
        enter(top.node->next_edges()[top.next_child++]);
        continue;
      }
      Node* node = top.node;
      stack.pop_back();
      const auto leaf = leaves.find(node);
      unsigned reach = leaf == leaves.end() ? kNothing : leaf->second;
      for (const Edge& child : node->next_edges()) {
        if (child.is_valid()) reach |= graph.reach.at(child.function.get());
      }
      graph.reach[node] = reach;
      graph.order.push_back(node);
    }
  }
  return graph;
}

bool leads_to_weights_alone(const ReachedGraph& graph, const Edge& edge) {
  return edge.is_valid() && graph.reach.at(edge.function.get()) == kWeights;
}

}  // namespace

struct WeightGradSplit::Impl {
  struct Boundary {
    c10::intrusive_ptr<Node> node;
    std::unique_ptr<TensorList> grads;  ///< that reached the node; stays at one address for the hook
  };
  std::vector<Boundary> boundaries;
  Roots roots;  ///< outputs that depend on weights alone
  edge_list weights;

  void find_boundaries(const ReachedGraph& graph);
  void cut(const ReachedGraph& graph);
};

void WeightGradSplit::Impl::find_boundaries(const ReachedGraph& graph) {
  for (Node* node : graph.order) {
    if (graph.reach.at(node) != kBoth) continue;
    for (const Edge& edge : node->next_edges()) {
      if (!leads_to_weights_alone(graph, edge)) continue;
      boundaries.push_back({node->getptr(), std::make_unique<TensorList>()});
      node->add_pre_hook(std::make_unique<CaptureHook>(*boundaries.back().grads));
      break;
    }
  }
}

void WeightGradSplit::Impl::cut(const ReachedGraph& graph) {
  std::unordered_set<const Node*> kept;
  for (const Boundary& boundary : boundaries) kept.insert(boundary.node.get());
  for (Node* node : graph.order) {
    if (graph.reach.at(node) != kWeights && !kept.contains(node)) node->release_variables();
  }
  // Last, since a node whose last edge is cut is gone.
  for (const Boundary& boundary : boundaries) {
    boundary.node->pre_hooks().pop_back();
    for (Edge& edge : boundary.node->next_edges()) {
      if (!leads_to_weights_alone(graph, edge)) edge = Edge();
    }
  }
}

WeightGradSplit::WeightGradSplit() : impl_(std::make_unique<Impl>()) {}
WeightGradSplit::~WeightGradSplit() = default;

TensorList WeightGradSplit::input_grads(const TensorList& outputs, const TensorList& output_grads,
                                        const TensorList& inputs, const TensorList& weights,
                                        std::unique_ptr<WeightGradSplit>& second_half) {
  second_half = std::make_unique<WeightGradSplit>();
  Impl& impl = *second_half->impl_;
  const edge_list input_edges = edges_of(inputs);
  impl.weights = edges_of(weights);

  const Roots roots = roots_of(outputs, output_grads);
  const ReachedGraph graph = explore(roots.edges, input_edges, impl.weights);
  Roots first;
  for (std::size_t i = 0; i < roots.edges.size(); ++i) {
    const unsigned reach = graph.reach.at(roots.edges[i].function.get());
    if (reach == kNothing) continue;
    Roots& half = reach == kWeights ? impl.roots : first;
    half.add(roots.edges[i], roots.grads[i]);
  }
  impl.find_boundaries(graph);
  TensorList grads = run_engine(first, input_edges, /*keep_graph=*/true);
  impl.cut(graph);
  return grads;
}

TensorList WeightGradSplit::weight_grads() {
  Roots roots = std::move(impl_->roots);
  for (const Impl::Boundary& boundary : impl_->boundaries) {
    for (std::size_t i = 0; i < boundary.grads->size(); ++i) {
      roots.add(Edge(boundary.node, static_cast<std::uint32_t>(i)), (*boundary.grads)[i]);
    }
  }
  impl_->boundaries.clear();
  return run_engine(roots, impl_->weights, /*keep_graph=*/false);
}

TensorList all_grads(const TensorList& outputs, const TensorList& output_grads, const TensorList& leaves) {
  return run_engine(roots_of(outputs, output_grads), edges_of(leaves), /*keep_graph=*/false);
}

}  // namespace ppctl
