#include "schedule/verifier/preprocess.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "schedule/text.hpp"

namespace ppctl {
namespace {

constexpr bool is_mpipe(MetaStepType type) { return type >= MetaStepType::LOAD_DATA; }

enum MessageKind { kData, kFeatures, kGrads, kNumMessageKinds };

struct MailStep {
  MessageKind kind;
  bool is_send;
};
std::optional<MailStep> mail_of(MetaStepType type) {
  switch (type) {
    case MetaStepType::SEND_DATA:
      return MailStep{kData, true};
    case MetaStepType::RECV_DATA:
      return MailStep{kData, false};
    case MetaStepType::SEND_FEATURES:
      return MailStep{kFeatures, true};
    case MetaStepType::RECV_FEATURES:
      return MailStep{kFeatures, false};
    case MetaStepType::SEND_FEATURE_GRADS:
      return MailStep{kGrads, true};
    case MetaStepType::RECV_FEATURE_GRADS:
      return MailStep{kGrads, false};
    default:
      return std::nullopt;
  }
}

/// Where one microbatch's preprocessing happens.
struct Passage {
  struct Message {
    int from = -1;
    int to = -1;  ///< as the sender names it
    int receiver = -1;
    bool sent = false;  ///< in the run without time
  };
  std::array<Message, kNumMessageKinds> messages;
  int loaded = -1;  ///< rank
  int encoded = -1;
  int encoded_back = -1;  ///< the whole backward or its first half
  int weighted = -1;      ///< the whole backward or its second half
  int graded = -1;        ///< the rank whose backward made the feature gradient
};

class PreprocessChecker {
 public:
  PreprocessChecker(const Schedule& schedule, const StageLinks& links, int consumer, FaultList& faults)
      : schedule_(schedule),
        links_(links),
        consumer_(consumer),
        faults_(faults),
        passages_(static_cast<std::size_t>(schedule.num_microbatches)) {}

  void check() {
    for (const RankSteps& rank : schedule_.ranks) {
      for (const MetaStep step : rank.steps) encodes_ |= step.type() == MetaStepType::PREPROCESS_FORWARD;
    }
    for (rank_ = 0; rank_ < schedule_.pp(); ++rank_) check_rank();
    if (faults_.empty()) check_complete();
    if (faults_.empty()) run_without_time();
  }

 private:
  Passage& passage(MetaStep step) { return passages_[static_cast<std::size_t>(step.microbatch_value())]; }
  const RankSteps& steps_of(int rank) const { return schedule_.ranks[static_cast<std::size_t>(rank)]; }
  bool takes(MetaStep part) const { return part.stage_value() == consumer_ && part.type() == MetaStepType::FORWARD; }
  bool makes_grads(MetaStep part) const { return part.stage_value() == consumer_ && makes_input_gradient(part.type()); }

  void check_rank() {
    const RankSteps& rank = steps_of(rank_);
    for (number_ = 0; number_ < rank.steps.size() && !faults_.full(); ++number_) {
      for_each_part(rank, rank.steps[number_], [&](MetaStep part) { check_part(part); });
    }
  }

  void check_part(MetaStep part) {
    if (takes(part)) return check_taken(part);
    if (makes_grads(part)) passage(part).graded = rank_;
    if (!is_mpipe(part.type())) return;
    if (part.stage_value() != consumer_) {
      return fault(fmt::format("features are taken by stage {}, not {}", consumer_, part.stage()));
    }
    Passage& own = passage(part);
    if (const auto mail = mail_of(part.type())) return check_mail(part, *mail, own);
    if (part.type() == MetaStepType::LOAD_DATA) {
      once(own.loaded, "it is loaded a second time");
    } else if (part.type() == MetaStepType::PREPROCESS_FORWARD) {
      if (own.loaded != rank_) fault("its data is loaded later or never on this rank");
      once(own.encoded, "it is encoded a second time");
    } else {
      check_backward(part.type(), own);
    }
  }

  /// The whole one, or one of its halves.
  void check_backward(MetaStepType type, Passage& own) {
    if (takes_feature_grads(type)) {
      if (own.encoded != rank_) fault("it is encoded later or never on this rank");
      if (own.graded != rank_ && own.messages[kGrads].receiver != rank_) {
        fault("the gradient of its features is made or received later or never");
      }
      once(own.encoded_back, "its backward is computed a second time");
    } else if (own.encoded_back != rank_) {
      fault("its PREPROCESS_BACKWARD_INPUT comes later or never on this rank");
    }
    if (type != MetaStepType::PREPROCESS_BACKWARD_INPUT) {
      once(own.weighted, "its weight gradients are computed a second time");
    }
  }

  void check_taken(MetaStep forward) {
    const Passage& own = passage(forward);
    const int made = encodes_ ? own.encoded : own.loaded;
    const Passage::Message& message = own.messages[encodes_ ? kFeatures : kData];
    if (made != rank_ && message.receiver != rank_) fault("its features are made or received later or never");
  }

  void check_mail(MetaStep step, MailStep mail, Passage& own) {
    Passage::Message& message = own.messages[mail.kind];
    if (!mail.is_send) {
      if (message.receiver >= 0) return fault("it is received a second time");
      message.receiver = rank_;
      return;
    }
    const int made = mail.kind == kData ? own.loaded : mail.kind == kFeatures ? own.encoded : own.graded;
    if (made != rank_) fault("what it sends is made later or never on this rank");
    if (message.from >= 0) fault("it is sent a second time");
    message.from = rank_;
    message.to = step.peer().value;
  }

  void once(int& rank, const char* again) {
    if (rank >= 0) fault(again);
    rank = rank_;
  }

  void fault(std::string reason) { faults_.add(rank_, number_, std::move(reason)); }

  void check_complete() {
    bool trains = std::ranges::any_of(passages_, [](const Passage& one) { return one.encoded_back >= 0; });
    for (std::size_t j = 0; j < passages_.size() && !faults_.full(); ++j) {
      const Passage& one = passages_[j];
      const auto missing = [&](MetaStepType type) {
        const MetaStep step(type, StageId(consumer_), MicrobatchId(static_cast<int>(j)));
        faults_.add_missing(0, step, fmt::format("{} is missing", format_step(step)));
      };
      if (one.loaded < 0) missing(MetaStepType::LOAD_DATA);
      if (encodes_ && one.encoded < 0) missing(MetaStepType::PREPROCESS_FORWARD);
      if (trains && one.encoded_back < 0) missing(MetaStepType::PREPROCESS_BACKWARD);
      if (one.encoded_back >= 0 && one.weighted < 0) missing(MetaStepType::PREPROCESS_BACKWARD_WEIGHT);
      for (const Passage::Message& message : one.messages) {
        if (message.to == message.receiver) continue;
        faults_.add_missing(std::max(message.from, message.receiver), MetaStep(),
                            fmt::format("microbatch {} is sent from rank {} to {}, and received by rank {}", j,
                                        message.from, message.to, message.receiver));
      }
    }
  }

  /// Every rank goes on until what it needs has not been made.
  void run_without_time() {
    std::vector<std::size_t> next(schedule_.ranks.size(), 0);
    forward_.assign(links_.num_keys(), false);
    backward_.assign(links_.num_keys(), false);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < next.size(); ++rank) {
        const RankSteps& steps = schedule_.ranks[rank];
        while (next[rank] < steps.steps.size() && can_run(steps, steps.steps[next[rank]])) {
          for_each_part(steps, steps.steps[next[rank]++], [&](MetaStep part) { apply(part); });
          moved = true;
        }
      }
    }
    for (std::size_t rank = 0; rank < next.size(); ++rank) {
      if (next[rank] == schedule_.ranks[rank].steps.size()) continue;
      faults_.add(static_cast<int>(rank), next[rank], "deadlock together with the steps of the encoder");
    }
  }

  bool can_run(const RankSteps& steps, MetaStep step) {
    bool ready = true;
    for_each_part(steps, step, [&](MetaStep part) { ready = ready && has_inputs(part); });
    return ready;
  }

  bool has_inputs(MetaStep part) {
    const int stage = part.stage_value();
    const int microbatch = part.microbatch_value();
    if (part.type() == MetaStepType::FORWARD) {
      const bool fed = stage != consumer_ || has_arrived(passage(part).messages[encodes_ ? kFeatures : kData]);
      return fed && (stage == 0 || forward_[links_.key(stage - 1, microbatch)]);
    }
    if (makes_input_gradient(part.type())) {
      return stage + 1 == links_.num_stages() || backward_[links_.key(stage + 1, microbatch)];
    }
    return !takes_feature_grads(part.type()) || has_arrived(passage(part).messages[kGrads]);
  }

  static bool has_arrived(const Passage::Message& message) { return message.from < 0 || message.sent; }

  void apply(MetaStep part) {
    if (part.type() == MetaStepType::FORWARD) forward_[links_.key(part.stage_value(), part.microbatch_value())] = true;
    if (makes_input_gradient(part.type())) {
      backward_[links_.key(part.stage_value(), part.microbatch_value())] = true;
    }
    if (const auto mail = mail_of(part.type()); mail && mail->is_send) passage(part).messages[mail->kind].sent = true;
  }

  const Schedule& schedule_;
  const StageLinks& links_;
  int consumer_;
  FaultList& faults_;
  std::vector<Passage> passages_;  ///< by microbatch
  bool encodes_ = false;
  int rank_ = 0;
  std::size_t number_ = 0;
  std::vector<bool> forward_;  ///< computed, by stage and microbatch
  std::vector<bool> backward_;
};

}  // namespace

void check_preprocess(const Schedule& schedule, const StageLinks& links, FaultList& faults) {
  for (const RankSteps& rank : schedule.ranks) {
    const auto step = std::ranges::find_if(rank.steps, [](MetaStep one) { return is_mpipe(one.type()); });
    if (step != rank.steps.end()) return PreprocessChecker(schedule, links, step->stage_value(), faults).check();
  }
}

}  // namespace ppctl
