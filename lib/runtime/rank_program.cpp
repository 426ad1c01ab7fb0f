#include "runtime/rank_program.hpp"

#include "schedule/text.hpp"

namespace ppctl {
namespace {

void write_texts(RankProgram& program) {
  program.texts.clear();
  program.texts.reserve(program.rank.steps.size());
  for (const MetaStep step : program.rank.steps) program.texts.push_back(format_step(program.rank, step));
}

void find_transfers(RankProgram& program) {
  std::vector<PairTransfer> transfers;
  for (std::size_t i = 0; i < program.rank.steps.size(); ++i) {
    if (program.rank.steps[i].type() != MetaStepType::OVERLAP_B_F) continue;
    find_pair_transfers(program.rank, i, transfers);
    if (!transfers.empty()) program.transfers.emplace(i, transfers);
  }
}

bool belongs_to_forward(MetaStepType type) {
  switch (type) {
    case MetaStepType::FORWARD:
    case MetaStepType::SEND_FORWARD:
    case MetaStepType::RECV_FORWARD:
    case MetaStepType::UNSHARD:
    case MetaStepType::RESHARD:
    case MetaStepType::LOAD_DATA:
    case MetaStepType::PREPROCESS_FORWARD:
    case MetaStepType::SEND_DATA:
    case MetaStepType::RECV_DATA:
    case MetaStepType::SEND_FEATURES:
    case MetaStepType::RECV_FEATURES:
      return true;
    default:
      return false;
  }
}

}  // namespace

RankProgram whole_program(const Schedule& schedule, PipelineRank rank) {
  RankProgram program{schedule.ranks.at(static_cast<std::size_t>(rank.value)), {}, {}};
  write_texts(program);
  find_transfers(program);
  return program;
}

RankProgram forward_program(const Schedule& schedule, PipelineRank rank) {
  const RankSteps& whole = schedule.ranks.at(static_cast<std::size_t>(rank.value));
  RankProgram program;
  std::vector<MetaStep> kept;
  for (const MetaStep step : whole.steps) {
    if (!is_composite(step.type())) {
      if (belongs_to_forward(step.type())) program.rank.steps.push_back(step);
      continue;
    }
    kept.clear();
    for (const MetaStep part : whole.sub_steps_of(step)) {
      if (belongs_to_forward(part.type())) kept.push_back(part);
    }
    if (kept.size() > 1) {
      program.rank.push_composite(step.type(), kept, step.peer());
    } else if (kept.size() == 1) {
      program.rank.steps.push_back(kept[0]);
    }
  }
  write_texts(program);
  return program;
}

}  // namespace ppctl
