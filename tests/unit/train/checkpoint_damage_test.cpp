// What is wrong with a checkpoint is said by the name of the file, and never passed over.

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/hf_folder.hpp"
#include "storage/step_folders.hpp"
#include "support/temporary_folder.hpp"
#include "tiny_job.hpp"
#include "train/agreement.hpp"
#include "train/checkpoint_weights.hpp"

namespace ppctl {
namespace {

namespace fs = std::filesystem;
using test::read_file;
using test::run_job;
using test::some_text;
using test::TemporaryFolder;
using test::text_of;
using test::tiny_job;

/// A checkpoint of two ranks after step 2, beside one after step 1.
class CheckpointDamage : public testing::Test {
 protected:
  CheckpointDamage() { run_job(job({"steps=2", "checkpoint.every=1"})); }

  JobConfig job(std::vector<std::string> sets) const {
    sets.push_back("checkpoint.folder=" + saved());
    return tiny_job(text_, sets);
  }
  std::string saved() const { return folder_ / "saved"; }
  std::string newest() const { return saved() + "/step-00000002"; }
  std::string file(const std::string& name) const { return newest() + "/" + name; }
  void write(const std::string& name, const std::string& content) const {
    folder_.write("saved/step-00000002/" + name, content);
  }
  /// Where resuming fails: "rank 1: FILE: ..." without the rank.
  std::string fault_of_resuming(std::vector<std::string> sets = {}) const {
    sets.push_back("steps=3");
    const std::string said = text_of<AgreedError>([&] { run_job(job(sets)); });
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
    EXPECT_EQ(complete_checkpoints(saved()).size(), 2u);
    return said.starts_with("rank ") ? said.substr(said.find(": ") + 2) : said;
  }

  TemporaryFolder folder_;
  std::string text_ = folder_.write("text", some_text());
};

TEST_F(CheckpointDamage, ATruncatedFileIsRefused) {
  for (const char* name : {"rank-00000.safetensors", "rank-00001.safetensors", "config.json"}) {
    const std::string whole = read_file(file(name));
    write(name, whole.substr(0, whole.size() / 2));
    EXPECT_EQ(fault_of_resuming(), fmt::format("{}: is damaged: it has {} bytes, {} when it was written", file(name),
                                               whole.size() / 2, whole.size()));
    write(name, whole);
  }
  EXPECT_EQ(run_job(job({"steps=3"})).steps.front().step, 2);
}

TEST_F(CheckpointDamage, ABitThatFlippedAnywhereIsRefusedOnAnyNumberOfRanks) {
  for (const char* name : {"rank-00000.safetensors", "rank-00001.safetensors", "config.json"}) {
    const std::string whole = read_file(file(name));
    for (const std::size_t position : {whole.size() / 2, whole.size() - 1}) {
      std::string flipped = whole;
      flipped[position] = static_cast<char>(flipped[position] ^ 1);
      write(name, flipped);
      for (const char* ranks : {"parallel.pp=1", "parallel.pp=2", "parallel.pp=4"}) {
        const std::string said = fault_of_resuming({ranks});
        EXPECT_TRUE(said.starts_with(file(name) + ": ")) << said;
      }
    }
    write(name, whole);
  }
}

TEST_F(CheckpointDamage, ABitThatFlippedInTheManifestIsRefused) {
  const std::string whole = read_file(file("manifest.json"));
  for (std::size_t position = 3; position < whole.size(); position += whole.size() / 40) {
    // Space between words says nothing.
    if (whole[position] == ' ' || whole[position] == '\n') continue;
    std::string flipped = whole;
    flipped[position] = static_cast<char>(flipped[position] ^ 1);
    write("manifest.json", flipped);
    const std::string said = fault_of_resuming();
    EXPECT_TRUE(said.starts_with(file("manifest.json") + ": is ")) << said;
  }
}

TEST_F(CheckpointDamage, AFileOfAnotherCheckpointIsRefused) {
  write("rank-00001.safetensors", read_file(saved() + "/step-00000001/rank-00001.safetensors"));
  EXPECT_EQ(fault_of_resuming(),
            file("rank-00001.safetensors") +
                ": is damaged, or of another checkpoint: it does not have the hash that manifest.json lists");
}

TEST_F(CheckpointDamage, AFileThatIsMissingIsNamed) {
  fs::remove(file("rank-00001.safetensors"));
  EXPECT_EQ(fault_of_resuming(),
            file("rank-00001.safetensors") + ": is missing: the checkpoint's manifest.json lists it");
}

TEST_F(CheckpointDamage, AnotherVersionIsNamed) {
  auto manifest = nlohmann::ordered_json::parse(read_file(file("manifest.json")));
  manifest["version"] = 9;
  write("manifest.json", manifest.dump());
  EXPECT_EQ(fault_of_resuming(), file("manifest.json") + ": is of version 9; this ppctl reads version 2");
}

TEST_F(CheckpointDamage, ADamagedFileIsNeitherExportedNorStartedFrom) {
  std::string flipped = read_file(file("rank-00001.safetensors"));
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 1);
  write("rank-00001.safetensors", flipped);
  const std::string expected = file("rank-00001.safetensors") + ": is damaged";
  EXPECT_TRUE(text_of<Error>([&] { export_checkpoint(newest(), folder_ / "hf", std::nullopt); }).starts_with(expected));
  EXPECT_FALSE(fs::exists(folder_ / "hf"));
  JobConfig start = tiny_job(text_, {"steps=1", "parallel.pp=1"});
  start.model = ModelConfig{.from = saved()};
  EXPECT_TRUE(text_of<AgreedError>([&] { run_job(start); }).starts_with(expected));
}

at::Tensor tensor_of(const SafetensorsFile& file, const SafetensorsEntry& entry, at::ScalarType dtype) {
  return at::from_blob(const_cast<std::byte*>(file.bytes(entry).data()), entry.shape, at::TensorOptions().dtype(dtype));
}

class CheckpointExport : public CheckpointDamage {
 protected:
  std::string hf() const { return folder_ / "hf"; }
  /// The loss of a first step that starts from a folder.
  double first_loss(const std::string& from) const {
    JobConfig start = tiny_job(text_, {"steps=1"});
    start.model.from = from;
    start.model.family.clear();
    start.model.hf.clear();
    return run_job(start).steps.at(0).loss;
  }
};

TEST_F(CheckpointExport, GivesTheFolderThatTheWeightsWereIn) {
  export_checkpoint(newest(), hf(), std::nullopt);
  EXPECT_TRUE(fs::exists(hf() + "/model.safetensors"));
  EXPECT_EQ(first_loss(hf()), first_loss(newest()));
}

TEST_F(CheckpointExport, DividesWhatIsLongIntoFilesWithAnIndex) {
  export_checkpoint(newest(), hf(), std::nullopt, /*max_bytes=*/8000);
  EXPECT_FALSE(fs::exists(hf() + "/model.safetensors"));
  EXPECT_TRUE(fs::exists(hf() + "/model.safetensors.index.json"));
  const std::ptrdiff_t num_files = std::distance(fs::directory_iterator(hf()), fs::directory_iterator()) - 2;
  EXPECT_GT(num_files, 1);
  for (int i = 0; i < num_files; ++i) {
    const std::string file = hf() + "/" + hf_shard_name(i, static_cast<int>(num_files));
    EXPECT_LT(fs::file_size(file), 20'000u) << "one tensor, or several that fit";
  }
  EXPECT_EQ(first_loss(hf()), first_loss(newest()));
}

TEST_F(CheckpointExport, ConvertsAsItIsTold) {
  export_checkpoint(newest(), hf(), at::kBFloat16);
  export_checkpoint(newest(), hf() + "32", at::kFloat);
  const SafetensorsFile half(hf() + "/model.safetensors");
  const SafetensorsFile full(hf() + "32/model.safetensors");
  EXPECT_EQ(half.entries().size(), full.entries().size());
  for (const auto& [name, entry] : full.entries()) {
    const at::Tensor expected = tensor_of(full, entry, at::kFloat).to(at::kBFloat16);
    EXPECT_TRUE(at::equal(tensor_of(half, *half.find(name), at::kBFloat16), expected)) << name;
  }
}

TEST_F(CheckpointExport, WritesOverNothing) {
  folder_.write("hf/notes", "the user's own");
  EXPECT_EQ(text_of<Error>([&] { export_checkpoint(newest(), hf(), std::nullopt); }),
            hf() + ": is there already and not an empty folder");
}

}  // namespace
}  // namespace ppctl
