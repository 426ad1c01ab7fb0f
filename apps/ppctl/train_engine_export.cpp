#include "train_engine_export.hpp"

#include "base/error.hpp"
#include "base/log.hpp"
#include "errors.hpp"
#include "storage/step_folders.hpp"
#include "train/checkpoint_weights.hpp"

namespace ppctl {

int export_weights(const EngineRequest& request) {
  const std::string given = request.options.at("checkpoint");
  const std::string checkpoint = newest_checkpoint_or(given);
  if (!is_checkpoint(checkpoint)) throw_error("{}: holds no complete checkpoint", given);
  std::optional<at::ScalarType> dtype;
  const std::string& wanted = request.options.at("dtype");
  if (!wanted.empty()) dtype = wanted == "bfloat16" ? at::kBFloat16 : at::kFloat;
  export_checkpoint(checkpoint, request.options.at("out"), dtype);
  log_info("exported {} to {}", checkpoint, request.options.at("out"));
  return kExitOk;
}

}  // namespace ppctl
