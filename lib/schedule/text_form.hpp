#pragma once

#include <optional>
#include <string_view>

#include "schedule/meta_step.hpp"

/// The spellings of the text form, shared by its writer (text.cpp) and its reader (text_read.cpp).
namespace ppctl::text_form {

/// "F", "SEND_F", "UNSHARD": PyTorch's spelling where it has one, else the kind's name.
std::string_view spelling(MetaStepType type);
/// The kind spelled so, if any.
std::optional<MetaStepType> type_of(std::string_view spelled);

/// FSDP steps concern a whole stage.
constexpr bool has_microbatch(MetaStepType type) {
  return type < MetaStepType::UNSHARD || type > MetaStepType::REDUCE_GRAD;
}

}  // namespace ppctl::text_form
