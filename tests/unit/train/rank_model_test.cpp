#include "train/rank_model.hpp"

#include <gtest/gtest.h>

#include "model/flat_storage.hpp"
#include "support/temporary_folder.hpp"
#include "tiny_job.hpp"
#include "train/optimizer.hpp"

namespace ppctl {
namespace {

using test::some_text;
using test::TemporaryFolder;
using test::tiny_job;

RankModel model_at(const JobConfig& job, const MeshCoordinates& place) {
  const ModelSpec spec = model_of_job(job);
  const Placement placement(PlacementKind::kLoop, job.parallel.pp, 1);
  return {job, spec, placement, place, {layers_per_stage(job, spec, placement), {}}};
}

TEST(RankModel, HoldsItsRowsOfValuesAndOptimizerStateAndNothingElse) {
  const TemporaryFolder folder;
  for (const char* dtype : {"float32", "bfloat16"}) {
    const JobConfig job = tiny_job(folder.write("text", some_text()), {"parallel.dp_shard=3", "batch.global_size=6",
                                                                       std::string("precision.param=") + dtype});
    std::int64_t owned = 0;
    std::int64_t whole = 0;
    for (int pp = 0; pp < 2; ++pp) {
      for (int shard = 0; shard < 3; ++shard) {
        const RankModel model = model_at(job, {PipelineRank(pp), 0, shard});
        AdamW optimizer({}, model.shards());
        for (const AdamW::State& state : optimizer.states()) {
          EXPECT_EQ(state.data.scalar_type(), at::kFloat);
          EXPECT_EQ(state.exp_avg.numel(), state.data.numel());
          owned += state.data.numel();
          if (shard == 0) whole += state.parameter->numel;
        }
        std::int64_t bytes = 0;
        for (const GroupShard* part : model.shards()) {
          EXPECT_FALSE(has_storage(part->group().flat_data()));
          EXPECT_FALSE(has_storage(part->group().flat_grad()));
          EXPECT_FALSE(has_storage(part->flat_grad()));
          bytes += static_cast<std::int64_t>(part->flat_master().storage().nbytes());
          EXPECT_EQ(part->flat_master().numel(), part->layout().numel(shard));
        }
        EXPECT_GT(bytes, 0);
      }
    }
    EXPECT_EQ(owned, whole) << "every element is owned once";
  }
}

TEST(RankModel, StartsFromTheSameValuesHoweverItIsCut) {
  const TemporaryFolder folder;
  const std::string text = folder.write("text", some_text());
  const JobConfig whole_job = tiny_job(text, {"parallel.pp=1"});
  const RankModel whole = model_at(whole_job, {PipelineRank(0), 0, 0});
  const JobConfig job = tiny_job(text, {"parallel.pp=1", "parallel.dp_shard=2", "precision.param=bfloat16"});
  for (int shard = 0; shard < 2; ++shard) {
    const RankModel part = model_at(job, {PipelineRank(0), 0, shard});
    for (std::size_t g = 0; g < part.shards().size(); ++g) {
      const GroupShard& mine = *part.shards()[g];
      for (int i = 0; i < static_cast<int>(mine.parameters().size()); ++i) {
        const at::Tensor rows = whole.shards()[g]->master(i).narrow(0, mine.rows(i).begin, mine.rows(i).size());
        EXPECT_TRUE(at::equal(mine.master(i), rows)) << mine.parameters()[static_cast<std::size_t>(i)].name;
      }
    }
  }
}

}  // namespace
}  // namespace ppctl
