#include "train/checkpoint.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>

#include "arch/declare.hpp"
#include "arch/job_model.hpp"
#include "base/error.hpp"
#include "storage/content_hash.hpp"
#include "storage/safetensors.hpp"
#include "storage/step_folders.hpp"
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

/// No file of this process may grow beyond a size: what a full disk does, at another number.
class FileSizeLimit {
 public:
  FileSizeLimit() : handler_(::signal(SIGXFSZ, SIG_IGN)) { ::getrlimit(RLIMIT_FSIZE, &before_); }
  ~FileSizeLimit() {
    lift();
    ::signal(SIGXFSZ, handler_);
  }
  void set(rlim_t bytes) {
    const rlimit now{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  void lift() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

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
  run_job(job({"steps=1", "parallel.dp_replicate=2", "batch.microbatch_size=1", "model.tie_word_embeddings=true"}));
  const std::string folder = complete_checkpoints(saved()).front();
  const CheckpointManifest manifest = read_manifest(folder);
  EXPECT_EQ(manifest.state.step, 1);
  EXPECT_EQ(manifest.state.samples, 8);
  EXPECT_EQ(manifest.state.tokens, 64);
  EXPECT_NE(manifest.job_config.find("parallel.dp_replicate"), std::string::npos);
  std::vector<std::string> names;
  for (const SavedFile& file : manifest.files) {
    const std::string bytes = read_file(folder + "/" + file.name);
    EXPECT_EQ(file.num_bytes, bytes.size());
    EXPECT_EQ(file.hash, content_hash(std::as_bytes(std::span(bytes))));
    if (file.tensors.empty()) continue;
    const SafetensorsFile tensors(folder + "/" + file.name);
    for (const SavedRows& rows : file.tensors) {
      const SafetensorsEntry* entry = tensors.find(rows.name);
      ASSERT_NE(entry, nullptr);
      const auto data = tensors.bytes(*entry);
      EXPECT_EQ(bytes.substr(rows.offset, rows.num_bytes),
                std::string(reinterpret_cast<const char*>(data.data()), data.size()))
          << rows.name;
      names.push_back(rows.name);
    }
  }
  std::vector<std::string> expected;
  for (const Parameter& parameter : all_parameters(model_of_job(job({"model.tie_word_embeddings=true"})))) {
    if (!parameter.tied_to.empty()) continue;
    for (const std::string& name : {parameter.name, exp_avg_name(parameter.name), exp_avg_sq_name(parameter.name)})
      expected.push_back(name);
  }
  std::ranges::sort(names);
  std::ranges::sort(expected);
  EXPECT_EQ(names, expected) << "each once, whatever holds it twice";
}

TEST_F(Checkpoint, WritesCopiesOfAStageOnce) {
  const std::vector<std::string> dualpipe{"steps=1", "pipeline.schedule=dualpipe", "batch.microbatch_size=1"};
  run_job(job(dualpipe));
  std::map<std::string, int> times;
  for (const SavedFile& file : read_manifest(complete_checkpoints(saved()).front()).files) {
    for (const SavedRows& rows : file.tensors) ++times[rows.name];
  }
  EXPECT_EQ(times.size(), 3u * (4 * 9 + 3));
  for (const auto& [name, count] : times) EXPECT_EQ(count, 1) << name;
}

TEST_F(Checkpoint, HoldsTheSameWhetherItIsWrittenBesideTrainingOrNot) {
  run_job(job({"steps=3", "checkpoint.every=2"}));
  std::map<std::string, std::string> beside;
  for (const std::string& name : names()) {
    for (const char* file : {"/rank-00000.safetensors", "/rank-00001.safetensors"})
      beside[name + file] = read_file(saved() + "/" + name + file);
  }
  fs::remove_all(saved());
  run_job(job({"steps=3", "checkpoint.every=2", "checkpoint.asynchronous=false"}));
  EXPECT_EQ(names(), (std::vector<std::string>{"step-00000002", "step-00000003"}));
  for (const auto& [path, content] : beside) EXPECT_TRUE(read_file(saved() + "/" + path) == content) << path;
}

TEST_F(Checkpoint, RemovesWhatACrashedSaveHasLeft) {
  folder_.write("saved/step-00000001.partial/rank-00000.safetensors", "half of it");
  folder_.write("saved/notes.partial", "the user's own");
  run_job(job({"steps=2"}));
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(saved())) left.push_back(entry.path().filename().string());
  std::ranges::sort(left);
  EXPECT_EQ(left, (std::vector<std::string>{"notes.partial", "step-00000002"}));
}

TEST_F(Checkpoint, TakesThePlaceOfAnEarlierRunThatIsStartedAnew) {
  run_job(job({"steps=4", "checkpoint.every=2"}));
  const std::string before = read_file(saved() + "/step-00000002/rank-00000.safetensors");
  run_job(job({"steps=2", "checkpoint.resume=false", "seed=7"}));
  EXPECT_EQ(names(), (std::vector<std::string>{"step-00000002"}));
  EXPECT_FALSE(read_file(saved() + "/step-00000002/rank-00000.safetensors") == before);
}

TEST_F(Checkpoint, EndsTheRunWithOneLineAndKeepsTheOlderOneWhenTheDiskTakesNoMore) {
  for (const char* asynchronous : {"true", "false"}) {
    fs::remove_all(saved());
    run_job(job({"steps=2"}));
    FileSizeLimit limit;
    TrainOptions options;
    options.stop_requested = [&] {
      limit.set(4096);
      return false;
    };
    const JobConfig failing =
        job({"steps=9", "checkpoint.every=3", std::string("checkpoint.asynchronous=") + asynchronous});
    const std::string said = text_of<AgreedError>([&] { run_job(failing, options); });
    limit.lift();
    const std::string step = saved() + "/step-00000003";
    EXPECT_EQ(said,
              step + " was not saved: rank 0: " + step +
                  ".partial/rank-00000.safetensors.partial: cannot be written: File too large (and 1 more); older "
                  "checkpoints are as they were");
    EXPECT_EQ(names(), (std::vector<std::string>{"step-00000002"}));
    EXPECT_EQ(std::distance(fs::directory_iterator(saved()), fs::directory_iterator()), 1) << "room is given back";
    EXPECT_EQ(run_job(job({"steps=3"})).steps.front().step, 2);
  }
}

TEST_F(Checkpoint, LogsHowLongTrainingWaitedForIt) {
  const RunLog log = run_job(job({"steps=5", "checkpoint.every=2"}));
  EXPECT_EQ(log.steps[0].save_stall_ms, 0.0);
  EXPECT_GT(log.steps[2].save_stall_ms, 0.0) << "the save after step 2 is told with the next step";
}

TEST_F(Checkpoint, NamesTheFolderThatCannotBeWritten) {
  folder_.write("saved", "a file where the folder should be");
  const std::string said = text_of<AgreedError>([&] { run_job(job({"steps=1"})); });
  EXPECT_NE(said.find(saved()), std::string::npos) << said;
}

}  // namespace
}  // namespace ppctl
