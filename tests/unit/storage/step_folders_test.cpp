#include "storage/step_folders.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "storage/content_hash.hpp"
#include "support/temporary_folder.hpp"

namespace ppctl {
namespace {

namespace fs = std::filesystem;
using test::read_file;
using test::TemporaryFolder;

class StepFolders : public testing::Test {
 protected:
  void complete(std::int64_t step, const std::string& content = "") const {
    folder_.write(fs::path(step_folder("", step)).filename().string() + "/manifest.json", content);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const std::string& path : complete_checkpoints(folder_.path()))
      names.push_back(fs::path(path).filename().string());
    return names;
  }

  TemporaryFolder folder_;
};

TEST_F(StepFolders, AreListedByStepAndNothingElseIs) {
  complete(7);
  complete(123456789);
  complete(100000);
  folder_.write("step-00000008.partial/manifest.json", "");
  folder_.write("step-/manifest.json", "");
  folder_.write("step--0000001/manifest.json", "");
  folder_.write("step-0000000x/manifest.json", "");
  fs::create_directories(folder_ / "step-00000009");
  EXPECT_EQ(names(), (std::vector<std::string>{"step-00000007", "step-00100000", "step-123456789"}));
  EXPECT_EQ(newest_checkpoint_or(folder_.path()), folder_ / "step-123456789");
  EXPECT_EQ(newest_checkpoint_or(folder_ / "step-00000007"), folder_ / "step-00000007");
  EXPECT_TRUE(complete_checkpoints(folder_ / "nowhere").empty());
}

TEST_F(StepFolders, TakeThePlaceOfAnOlderOneOfTheSameStep) {
  complete(5, "old");
  folder_.write("step-00000005.partial/manifest.json", "new");
  publish_checkpoint(step_folder(folder_.path(), 5));
  EXPECT_EQ(read_file(folder_ / "step-00000005/manifest.json"), "new");
  EXPECT_FALSE(fs::exists(folder_ / "step-00000005.partial"));
}

TEST_F(StepFolders, AreRemovedButForTheNewestUpToTheStepThatWasSaved) {
  for (const std::int64_t step : {10, 20, 30, 40}) complete(step);
  keep_newest_checkpoints(folder_.path(), 30, 2);
  EXPECT_EQ(names(), (std::vector<std::string>{"step-00000020", "step-00000030"}));
  keep_newest_checkpoints(folder_.path(), 30, 0);
  EXPECT_EQ(names(), (std::vector<std::string>{"step-00000030"})) << "one always stays";
}

TEST(ContentHash, IsXxh128) {
  // As XXH3_128bits() of the library in one call.
  const std::string text = "ppctl";
  EXPECT_EQ(content_hash(std::as_bytes(std::span(text))), "xxh128:1953758c90aa352dfebe94263270ed67");
  EXPECT_EQ(content_hash({}), "xxh128:99aa06d3014798d86001c324468d497f");
}

TEST(ContentHash, DoesNotDependOnHowTheBytesCome) {
  std::string text(10'000, 'x');
  text[1234] = 'y';
  const auto bytes = std::as_bytes(std::span(text));
  ContentHash parts;
  parts.add(bytes.first(1));
  parts.add(bytes.subspan(1, 7000));
  parts.add(bytes.subspan(7001));
  EXPECT_EQ(parts.text(), content_hash(bytes));
}

}  // namespace
}  // namespace ppctl
