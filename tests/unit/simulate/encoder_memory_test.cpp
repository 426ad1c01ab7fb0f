#include "simulate/encoder_memory.hpp"

#include <gtest/gtest.h>

#include "arch/family.hpp"
#include "arch/job_model.hpp"
#include "schedule/generator.hpp"
#include "schedule/pass.hpp"

namespace ppctl {
namespace {

ModelSpec llava() {
  ModelSpec spec = parse_model_keys(
      "llava", {{"text_config", R"({"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64,
                                    "num_hidden_layers": 4, "num_attention_heads": 2})"},
                {"vision_config", R"({"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3,
                                      "num_attention_heads": 2, "image_size": 16, "patch_size": 4})"},
                {"image_token_index", "63"}});
  spec.transposed_layers = spec.num_vision_layers();
  return spec;
}

JobConfig job_of(int num_microbatches) {
  JobConfig job;
  job.parallel.pp = 4;
  job.data.sequence_length = 32;
  job.batch.global_size = 2 * num_microbatches;
  job.batch.microbatch_size = 2;
  job.mpipe.enabled = true;
  return job;
}

Schedule before_body(const JobConfig& job, bool trains = true) {
  ScheduleSpec spec;
  spec.name = "1f1b";
  spec.pp = job.parallel.pp;
  spec.num_microbatches = job.num_microbatches();
  Schedule schedule = generate_schedule(spec);
  PassOptions passes;
  passes.mpipe.enabled = true;
  passes.mpipe.trains = trains;
  passes.fsdp = job.parallel.dp_shard > 1;
  passes.reduce_every_microbatch = job.fsdp.reduce == "microbatch";
  lower_schedule(schedule, passes);
  return schedule;
}

/// What the gradients of a rank's microbatches of its own come to when all of them are kept.
std::int64_t most_kept(const JobConfig& job, const ModelSpec& spec, int rank) {
  const Schedule schedule = before_body(job);
  const MemoryModel model = memory_model(job, spec, layers_per_stage(job, spec, schedule.placement));
  EncoderMemory encoder(schedule, model, PipelineRank(rank));
  std::int64_t most = 0;
  const auto note = [&](std::int64_t, bool) { most = std::max(most, encoder.kept_gradients()); };
  for (const MetaStep step : schedule.ranks[static_cast<std::size_t>(rank)].steps) {
    if (is_preprocess(step.type())) encoder.run(step, note);
  }
  encoder.end_step(note);
  EXPECT_EQ(encoder.kept_gradients(), 0) << "all of them are folded";
  return most;
}

std::int64_t gradients_of(const JobConfig& job, const ModelSpec& spec) {
  const Placement placement(PlacementKind::kLoop, job.parallel.pp, 1);
  const HeldState held(memory_model(job, spec, layers_per_stage(job, spec, placement)), transposed_range(spec));
  return held.trained_gradients();
}

TEST(EncoderMemory, KeepsAGradientOfTheWholeEncoderForEachMicrobatchOfARanksOwn) {
  const ModelSpec spec = llava();
  const std::int64_t one = gradients_of(job_of(8), spec);
  EXPECT_GT(one, 0);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(most_kept(job_of(8), spec, rank), 2 * one) << "rank " << rank;
    EXPECT_EQ(most_kept(job_of(2), spec, rank), rank < 2 ? one : 0) << "rank " << rank;
  }
}

TEST(EncoderMemory, KeepsShardsWhereEveryMicrobatchIsReduced) {
  const ModelSpec spec = llava();
  JobConfig job = job_of(8);
  job.batch.global_size *= 2;
  job.parallel.dp_shard = 2;
  const std::int64_t whole = gradients_of(job, spec);
  EXPECT_EQ(most_kept(job, spec, 1), 2 * whole);
  job.fsdp.reduce = "microbatch";
  // Rows are divided evenly; the class token, one row of them all, has some to itself.
  EXPECT_NEAR(static_cast<double>(most_kept(job, spec, 1)), static_cast<double>(whole),
              0.01 * static_cast<double>(whole));
}

TEST(EncoderMemory, OfAFrozenEncoderHasNoGradients) {
  ModelSpec spec = llava();
  spec.vision->training = VisionSpec::Training::kEncoderFrozen;
  const JobConfig job = job_of(8);
  const Schedule schedule = before_body(job, /*trains=*/false);
  const MemoryModel model = memory_model(job, spec, layers_per_stage(job, spec, schedule.placement));
  for (const RankMemory& rank : plan_memory(schedule, model)) EXPECT_EQ(rank.encoder_gradients, 0);
}

TEST(PeerBuffers, AreAsManyAsAreInUseAtOnce) {
  constexpr std::int64_t kLong = 100'000;
  const std::int64_t block = static_cast<std::int64_t>(edge_buffer_bytes(kLong).steady);
  const std::int64_t header = static_cast<std::int64_t>(edge_buffer_bytes(kLong).first);
  PeerBuffers buffers;
  for (int i = 0; i < 3; ++i) {
    buffers.post(1, kLong, 0);
    buffers.take(1, kLong);
    buffers.release(1, kLong);
  }
  EXPECT_EQ(buffers.bytes(), block + header);
  buffers.post(1, kLong, 0);
  buffers.post(1, kLong, 0);
  EXPECT_EQ(buffers.bytes(), 2 * (block + header)) << "posted at once";
  buffers.post(2, kLong, 0);
  EXPECT_EQ(buffers.bytes(), 3 * (block + header)) << "another peer's are its own";
}

TEST(PeerBuffers, OfShortMessagesNeedNoBlockForTheirHeaders) {
  PeerBuffers buffers;
  buffers.post(1, 64, 0);
  buffers.take(1, 64);
  EXPECT_EQ(buffers.bytes(), static_cast<std::int64_t>(edge_buffer_bytes(64).steady));
}

}  // namespace
}  // namespace ppctl
