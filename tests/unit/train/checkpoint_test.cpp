#include "train/checkpoint.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "storage/safetensors.hpp"
#include "support/temporary_folder.hpp"
#include "tiny_job.hpp"
#include "train/agreement.hpp"

namespace ppctl {
namespace {

namespace fs = std::filesystem;
using test::read_file;
using test::run_job;
using test::RunLog;
using test::some_text;
using test::TemporaryFolder;
using test::text_of;
using test::tiny_job;

class Checkpoint : public testing::Test {
 protected:
  JobConfig job(std::vector<std::string> sets = {}) const {
    sets.push_back("checkpoint.folder=" + saved());
    return tiny_job(text_, sets);
  }
  std::string saved() const { return folder_ / "saved"; }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const std::string& path : complete_checkpoints(saved())) names.push_back(fs::path(path).filename().string());
    return names;
  }

  TemporaryFolder folder_;
  std::string text_ = folder_.write("text", some_text());
};

TEST_F(Checkpoint, GoesOnWithTheNextLossToTheLastBit) {
  for (const char* tied : {"false", "true"}) {
    const std::string tie = std::string("model.tie_word_embeddings=") + tied;
    fs::remove_all(saved());
    const RunLog whole = run_job(tiny_job(text_, {"steps=6", tie}));
    run_job(job({"steps=3", tie}));
    const RunLog rest = run_job(job({"steps=6", tie}));
    ASSERT_EQ(rest.steps.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(rest.steps[i].step, whole.steps[3 + i].step);
      EXPECT_EQ(rest.steps[i].loss, whole.steps[3 + i].loss);
      EXPECT_EQ(rest.steps[i].grad_norm, whole.steps[3 + i].grad_norm);
      EXPECT_EQ(rest.steps[i].tokens, whole.steps[3 + i].tokens);
    }
    EXPECT_EQ(rest.messages.at(2), "resumed after step 3 of 6");
  }
}

TEST_F(Checkpoint, ResumesUnderAnotherScheduleOfTheSameLayoutAndWithReplicas) {
  const RunLog whole = run_job(tiny_job(text_, {"steps=4", "parallel.dp_replicate=2"}));
  run_job(job({"steps=2", "parallel.dp_replicate=2"}));
  const RunLog rest = run_job(job({"steps=4", "parallel.dp_replicate=2", "pipeline.schedule=gpipe"}));
  ASSERT_EQ(rest.steps.size(), 2u);
  EXPECT_EQ(rest.steps[1].loss, whole.steps[3].loss);
}

TEST_F(Checkpoint, KeepsTheNewest) {
  run_job(job({"steps=5", "checkpoint.every=1", "checkpoint.keep=2"}));
  EXPECT_EQ(names(), (std::vector<std::string>{"step-00000004", "step-00000005"}));
  EXPECT_EQ(std::distance(fs::directory_iterator(saved()), fs::directory_iterator()), 2) << "something was left beside";
}

TEST_F(Checkpoint, PassesOverOneThatIsNotComplete) {
  run_job(job({"steps=2"}));
  fs::create_directories(saved() + "/step-00000003.partial");
  fs::create_directories(saved() + "/step-00000004");
  EXPECT_EQ(names(), (std::vector<std::string>{"step-00000002"}));
  EXPECT_EQ(run_job(job({"steps=3"})).steps.front().step, 2);
}

TEST_F(Checkpoint, StartsAnewWhenItIsTold) {
  run_job(job({"steps=2"}));
  EXPECT_EQ(run_job(job({"steps=2", "checkpoint.resume=false"})).steps.front().step, 0);
}

TEST_F(Checkpoint, TrainsNothingWhenItIsAtItsEnd) {
  run_job(job({"steps=2"}));
  const RunLog log = run_job(job({"steps=2"}));
  EXPECT_TRUE(log.steps.empty());
  EXPECT_EQ(log.result.state.step, 2);
}

TEST_F(Checkpoint, ListsEveryTensorWithItsPlaceInTheManifest) {
  run_job(job({"steps=1"}));
  const std::string folder = complete_checkpoints(saved()).front();
  const auto manifest = nlohmann::json::parse(read_file(folder + "/manifest.json"));
  EXPECT_EQ(manifest.at("step"), 1);
  EXPECT_EQ(manifest.at("samples"), 8);
  EXPECT_EQ(manifest.at("layout").at("layers"), nlohmann::json({2, 2}));
  int weights = 0;
  for (const auto& file : manifest.at("files")) {
    const SafetensorsFile tensors(folder + "/" + file.at("file").get<std::string>());
    const std::string bytes = read_file(tensors.path());
    EXPECT_EQ(file.at("bytes"), bytes.size());
    for (const auto& [name, place] : file.at("tensors").items()) {
      const SafetensorsEntry* entry = tensors.find(name);
      ASSERT_NE(entry, nullptr);
      const auto data = tensors.bytes(*entry);
      EXPECT_EQ(bytes.substr(place.at("offset"), place.at("bytes")),
                std::string(reinterpret_cast<const char*>(data.data()), data.size()))
          << name;
      weights += name.starts_with("optimizer.") ? 0 : 1;
    }
  }
  EXPECT_EQ(weights, 4 * 9 + 3);
}

TEST_F(Checkpoint, RefusesAnotherLayoutByName) {
  run_job(job({"steps=1"}));
  EXPECT_EQ(text_of<AgreedError>([&] { run_job(job({"steps=2", "parallel.pp=4"})); }),
            saved() +
                "/step-00000001: was saved at another layout (pp 2, stages by rank [[0],[1]], layers by stage [2,2]) "
                "than this "
                "job's (pp 4, stages by rank [[0],[1],[2],[3]], layers by stage [1,1,1,1]); this version resumes at "
                "the same one "
                "only. Give the job that layout, another checkpoint.folder, or checkpoint.resume: false");
}

TEST_F(Checkpoint, NamesTheFileThatIsDamaged) {
  run_job(job({"steps=1"}));
  const std::string file = complete_checkpoints(saved()).front() + "/rank-00001.safetensors";
  fs::resize_file(file, fs::file_size(file) / 2);
  const std::string said = text_of<AgreedError>([&] { run_job(job({"steps=2"})); });
  EXPECT_TRUE(said.starts_with("rank 1: " + file)) << said;
}

TEST_F(Checkpoint, NamesTheFolderThatCannotBeWritten) {
  folder_.write("saved", "a file where the folder should be");
  const std::string said = text_of<AgreedError>([&] { run_job(job({"steps=1"})); });
  EXPECT_NE(said.find(saved()), std::string::npos) << said;
}

}  // namespace
}  // namespace ppctl
