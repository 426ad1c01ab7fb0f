#pragma once

#include "engine.hpp"

namespace ppctl {

/// `ppctl export`: options checkpoint, out and dtype (float32, bfloat16 or empty). One process. Throws Error.
int export_weights(const EngineRequest& request);

}  // namespace ppctl
