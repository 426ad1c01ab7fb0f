#include <gtest/gtest.h>

#include "support/temporary_folder.hpp"
#include "unit/train/tiny_job.hpp"

namespace ppctl {
namespace {

using namespace ppctl::test;

/// What a run of the job gives, to the last bit.
struct Bits {
  std::vector<double> losses;
  std::vector<double> norms;
  friend bool operator==(const Bits&, const Bits&) = default;
};

Bits bits_of(const std::string& path, const std::vector<std::string>& sets) {
  Bits bits;
  for (const StepRecord& step : run_job(tiny_job(path, sets)).steps) {
    bits.losses.push_back(step.loss);
    bits.norms.push_back(step.grad_norm);
    EXPECT_GE(step.bubble, 0.0);
  }
  return bits;
}

const std::vector<std::string> kInterleaved{"pipeline.schedule=interleaved_1f1b", "pipeline.chunks=2"};

std::vector<std::string> with(std::vector<std::string> sets, const std::vector<std::string>& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

TEST(TrainOverlapped, ChangesNoBitOfLossesAndNorms) {
  const TemporaryFolder folder;
  const std::string text = folder.write("text", some_text());
  for (const std::vector<std::string>& shards :
       {std::vector<std::string>{}, std::vector<std::string>{"parallel.dp_shard=2"},
        std::vector<std::string>{"parallel.dp_shard=2", "fsdp.reduce=microbatch", "fsdp.reshard_after_forward=true"}}) {
    const auto base = with(with(kInterleaved, {"batch.global_size=16"}), shards);
    const Bits plain = bits_of(text, base);
    EXPECT_EQ(plain.losses.size(), 4U);
    EXPECT_EQ(bits_of(text, with(base, {"pipeline.overlap_b_f=true"})), plain);
    EXPECT_EQ(bits_of(text, with(base, {"pipeline.overlap_b_f=true", "pipeline.overlap_p2p=true"})), plain);
    EXPECT_EQ(bits_of(text, with(base, {"pipeline.overlap_p2p=true", "pipeline.duplex=true"})), plain);
    EXPECT_EQ(bits_of(text, with(base, {"pipeline.overlap_b_f=true", "pipeline.duplex=false"})), plain);
  }
}

TEST(TrainOverlapped, ChangesNoBitOverSlowLinks) {
  const TemporaryFolder folder;
  const std::string text = folder.write("text", some_text());
  const Bits plain = bits_of(text, kInterleaved);
  for (const char* rendezvous : {"false", "true"}) {
    const auto linked = with(
        kInterleaved, {"link.latency_us=200", "link.bandwidth_gbps=1", "link.pairs=[{from: 0, to: 1, latency_us: 500}]",
                       std::string("link.rendezvous=") + rendezvous});
    EXPECT_EQ(bits_of(text, linked), plain);
    EXPECT_EQ(bits_of(text, with(linked, {"pipeline.overlap_b_f=true", "pipeline.overlap_p2p=true"})), plain);
  }
}

const std::vector<std::string> kExperts{"model.family=mixtral",        "model.num_local_experts=4",
                                        "model.num_experts_per_tok=2", "model.output_router_logits=true",
                                        "parallel.dp_replicate=2",     "parallel.ep=2"};

TEST(TrainOverlapped, ChangesNoBitOfAMixtureOfExpertsWhoseRanksExchangeTokens) {
  const TemporaryFolder folder;
  const std::string text = folder.write("text", some_text());
  const auto base = with(with(kInterleaved, {"batch.global_size=16"}), kExperts);
  const Bits plain = bits_of(text, base);
  EXPECT_EQ(plain.losses.size(), 4U);
  EXPECT_EQ(bits_of(text, with(base, {"pipeline.overlap_b_f=true"})), plain);
  EXPECT_EQ(bits_of(text, with(base, {"pipeline.overlap_p2p=true", "pipeline.duplex=true"})), plain);
  const auto all = with(base, {"pipeline.overlap_b_f=true", "pipeline.overlap_p2p=true"});
  EXPECT_EQ(bits_of(text, all), plain);
  EXPECT_EQ(bits_of(text, with(all, {"link.latency_us=100", "link.bandwidth_gbps=1"})), plain);
  EXPECT_EQ(bits_of(text, with(all, {"recompute=full"})), plain);
}

TEST(TrainOverlapped, ChangesNoBitWhereStagesHaveDifferentNumbersOfLayers) {
  const TemporaryFolder folder;
  const std::string text = folder.write("text", some_text());
  const auto base = with(with(kInterleaved, {"batch.global_size=16", "pipeline.layers=[2, 1, 0, 1]"}), kExperts);
  EXPECT_EQ(bits_of(text, with(base, {"pipeline.overlap_b_f=true"})), bits_of(text, base));
}

}  // namespace
}  // namespace ppctl
