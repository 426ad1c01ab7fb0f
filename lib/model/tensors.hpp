#pragma once

#include "model/aten.hpp"

#include <map>
#include <string>
#include <vector>

namespace ppctl {

using TensorList = std::vector<at::Tensor>;
/// Keyword inputs, by name ("input_ids", "labels", "position_ids").
using TensorMap = std::map<std::string, at::Tensor>;

}  // namespace ppctl
