#include "schedule/text.hpp"

#include <ostream>

#include "base/error.hpp"
#include "schedule/text_form.hpp"

namespace ppctl {
namespace {

void append_step(std::string& out, MetaStep step) {
  PPCTL_CHECK(!is_composite(step.type()), "a composite needs its rank's sub-steps to be written");
  const auto number = [&out](int value) { out += fmt::format_int(value).c_str(); };
  if (step.stage().valid()) number(step.stage().value);
  out += text_form::spelling(step.type());
  if (step.microbatch().valid()) number(step.microbatch().value);
}

void append_step(std::string& out, const RankSteps& rank, MetaStep step) {
  if (!is_composite(step.type())) return append_step(out, step);
  out += '(';
  const auto subs = rank.sub_steps_of(step);
  for (std::size_t i = 0; i < subs.size(); ++i) {
    if (i > 0) out += ';';
    append_step(out, subs[i]);
  }
  out += ')';
  out += text_form::spelling(step.type());
}

}  // namespace

namespace text_form {

std::string_view spelling(MetaStepType type) {
  switch (type) {
    case MetaStepType::FORWARD:
      return "F";
    case MetaStepType::BACKWARD:
      return "B";
    case MetaStepType::BACKWARD_INPUT:
      return "I";
    case MetaStepType::BACKWARD_WEIGHT:
      return "W";
    case MetaStepType::SEND_FORWARD:
      return "SEND_F";
    case MetaStepType::RECV_FORWARD:
      return "RECV_F";
    case MetaStepType::SEND_BACKWARD:
      return "SEND_B";
    case MetaStepType::RECV_BACKWARD:
      return "RECV_B";
    default:
      return to_string(type);
  }
}

std::optional<MetaStepType> type_of(std::string_view spelled) {
  for (int i = 0; i < kNumMetaStepTypes; ++i) {
    const auto type = static_cast<MetaStepType>(i);
    if (spelling(type) == spelled) return type;
  }
  return std::nullopt;
}

}  // namespace text_form

std::string format_step(const RankSteps& rank, MetaStep step) {
  std::string out;
  append_step(out, rank, step);
  return out;
}

std::string format_step(MetaStep step) {
  std::string out;
  append_step(out, step);
  return out;
}

void write_csv(std::ostream& out, const Schedule& schedule) {
  std::string line;
  for (const RankSteps& rank : schedule.ranks) {
    line.clear();
    for (const MetaStep step : rank.steps) {
      if (!line.empty()) line += ',';
      append_step(line, rank, step);
    }
    line += '\n';
    out.write(line.data(), static_cast<std::streamsize>(line.size()));
  }
}

}  // namespace ppctl
