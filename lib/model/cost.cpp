#include "model/families/families.hpp"
#include "model/family.hpp"

namespace ppctl {
namespace {

std::int64_t num_elements(const ParameterGroup& group, bool matrices_only) {
  std::int64_t count = 0;
  for (const Parameter& parameter : group.parameters()) {
    if (parameter.matrix || !matrices_only) count += parameter.numel;
  }
  return count;
}

BuildContext cost_context(const ModelSpec& spec) { return {spec, at::kFloat, nullptr}; }

}  // namespace

LayerCost layer_cost(const ModelSpec& spec, std::int64_t sequence) {
  const std::unique_ptr<Layer> layer = family_of(spec).make_layer(cost_context(spec), 0);
  // Each weight is one multiplication and one addition a token; scores and their sums cost the same over half of the
  // sequence on average.
  const double attention = 2.0 * static_cast<double>(sequence * spec.num_heads * spec.head_dim);
  return {num_elements(layer->group(), false),
          2.0 * static_cast<double>(num_elements(layer->group(), true)) + attention};
}

LayerCost embedding_cost(const ModelSpec& spec) {
  const std::unique_ptr<TokenEmbedding> embedding = family_of(spec).make_embedding(cost_context(spec));
  return {num_elements(embedding->group(), false), 0.0};
}

LayerCost head_cost(const ModelSpec& spec) {
  const std::unique_ptr<LanguageHead> head = family_of(spec).make_head(cost_context(spec));
  return {num_elements(head->group(), false), 2.0 * static_cast<double>(num_elements(head->group(), true))};
}

}  // namespace ppctl
