#pragma once

#include <string>

#include "config/yaml_tree.hpp"

namespace ppctl {

/// Applies the n-th `--set` (`set` is "a.b=value", `source` is n, from 1) to a job's tree: returns a tree in which the
/// value stands at that key, with maps made where there are none. The value is read as YAML. `root` may be null. Notes
/// what is wrong with `set` in `diagnostics` and then returns `root` as it was.
YamlPtr apply_set(const YamlPtr& root, const std::string& set, int source, Diagnostics& diagnostics);

}  // namespace ppctl
