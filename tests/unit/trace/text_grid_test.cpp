#include "trace/text_grid.hpp"

#include <gtest/gtest.h>

namespace ppctl {
namespace {

TimelineEvent event(EventKind kind, int stage, int microbatch, double start_ms, double end_ms, int lane = 0) {
  return {start_ms, end_ms, kind, static_cast<std::uint8_t>(lane), StageId(stage), MicrobatchId(microbatch), {}};
}

/// 1F1B on two ranks with two microbatches, F = 1 and B = 2.
Timeline small_pipeline() {
  Timeline timeline;
  timeline.title = "1f1b";
  timeline.ranks = {{event(EventKind::kForward, 0, 0, 0, 1), event(EventKind::kForward, 0, 1, 1, 2),
                     event(EventKind::kBackward, 0, 0, 4, 6), event(EventKind::kBackward, 0, 1, 7, 9)},
                    {event(EventKind::kForward, 1, 0, 1, 2), event(EventKind::kBackward, 1, 0, 2, 4),
                     event(EventKind::kForward, 1, 1, 4, 5), event(EventKind::kBackward, 1, 1, 5, 7)}};
  return timeline;
}

TEST(TextGrid, DrawsEachStepAsLongAsItTook) {
  EXPECT_EQ(render_text_grid(small_pipeline()),
            "ms      0              5\n"
            "rank 0  F0 F1 ......B0--- ...B1---\n"
            "rank 1  ...F0 B0--- F1 B1--- ......\n");
}

TEST(TextGrid, NamesTheStageWhereARankHasSeveral) {
  Timeline timeline;
  timeline.ranks = {{event(EventKind::kForward, 0, 0, 0, 1), event(EventKind::kForward, 1, 0, 1, 2)}};
  EXPECT_EQ(render_text_grid(timeline),
            "ms      0\n"
            "rank 0  0F0 1F0\n");
}

TEST(TextGrid, ShowsBothHalvesOfAnOverlappedPair) {
  Timeline timeline;
  timeline.ranks = {{event(EventKind::kForward, 0, 0, 0, 1), event(EventKind::kOverlapped, 0, 0, 1, 4),
                     event(EventKind::kForward, 0, 1, 1, 4, 1), event(EventKind::kBackward, 0, 1, 4, 6)}};
  EXPECT_EQ(render_text_grid(timeline),
            "ms      0              5\n"
            "rank 0  F0 B0+F1--- B1---\n");
}

TEST(TextGrid, LeavesOutTheMiddleOfWhatIsTooWideOrTooTall) {
  Timeline timeline;
  for (int rank = 0; rank < 6; ++rank) {
    timeline.ranks.emplace_back();
    for (int m = 0; m < 100; ++m) timeline.ranks.back().push_back(event(EventKind::kForward, rank, m, m, m + 1));
  }
  EXPECT_EQ(render_text_grid(timeline, {.width = 44, .max_ranks = 2, .colour = false}),
            "ms      0                 ~\n"
            "rank 0  F0  F1  F2  F3  F ~ F96 F97 F98 F99\n"
            "...  (4 more ranks)\n"
            "rank 5  F0  F1  F2  F3  F ~ F96 F97 F98 F99\n");
}

TEST(TextGrid, ColoursByKindWhenAsked) {
  Timeline timeline;
  timeline.ranks = {{event(EventKind::kForward, 0, 0, 0, 1)}};
  EXPECT_EQ(render_text_grid(timeline, {.colour = true}), "ms      0\nrank 0  \x1b[30;48;5;75mF0 \x1b[0m\n");
}

TEST(TextGrid, SaysWhenThereIsNothingToDraw) { EXPECT_EQ(render_text_grid(Timeline()), "(nothing to draw)\n"); }

}  // namespace
}  // namespace ppctl
