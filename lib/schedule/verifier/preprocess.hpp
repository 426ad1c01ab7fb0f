#pragma once

#include "schedule/links.hpp"
#include "schedule/verifier/fault_list.hpp"

namespace ppctl {

/// Proves MPipe's steps, where a schedule has some: each microbatch loaded and encoded once, loaded before encoded
/// before sent, features there (made on the rank, or received) before the stage that takes them computes, their
/// gradient made before it is sent and there before the encoder's backward; each message sent and received once between
/// the same two ranks; and no deadlock together with the body's own waits, with tags and buffered sends. REQUIRES:
/// RankChecker found nothing.
void check_preprocess(const Schedule& schedule, const StageLinks& links, FaultList& faults);

}  // namespace ppctl
