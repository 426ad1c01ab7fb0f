#include "train/samples.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/error.hpp"
#include "support/temporary_folder.hpp"

namespace ppctl {
namespace {

using test::TemporaryFolder;
using test::text_of;

/// `count` tokens 0, 1, 2, ...
std::string counting_tokens(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes.push_back(static_cast<char>(i & 0xff));
    bytes.push_back(static_cast<char>(i >> 8));
  }
  return bytes;
}

DataConfig tokens_config(const std::string& path, std::int64_t length) {
  DataConfig config;
  config.kind = "tokens";
  config.path = {path};
  config.sequence_length = length;
  return config;
}

std::vector<std::int64_t> labels_of(const SampleSource& source, std::int64_t index) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(source.sequence_length()));
  std::vector<std::int64_t> labels(ids.size());
  source.read(index, ids, labels);
  return labels;
}

std::vector<std::int64_t> ids_of(const SampleSource& source, std::int64_t index) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(source.sequence_length()));
  std::vector<std::int64_t> labels(ids.size());
  source.read(index, ids, labels);
  return ids;
}

TEST(Samples, FollowEachOtherWithLabelsShiftedByOne) {
  const TemporaryFolder folder;
  const Dataset dataset = open_dataset(tokens_config(folder.write("t", counting_tokens(13)), 4), 100, false);
  EXPECT_EQ(dataset.training->num_samples(), 3);
  EXPECT_EQ(ids_of(*dataset.training, 2), (std::vector<std::int64_t>{8, 9, 10, 11}));
  EXPECT_EQ(labels_of(*dataset.training, 2), (std::vector<std::int64_t>{9, 10, 11, 12}));
  EXPECT_EQ(dataset.training->num_labels(2), 4);
}

TEST(Samples, NeedOneTokenMoreForTheLastLabel) {
  const TemporaryFolder folder;
  EXPECT_EQ(open_dataset(tokens_config(folder.write("t", counting_tokens(12)), 4), 100, false).training->num_samples(),
            2);
  const std::string path = folder.write("short", counting_tokens(4));
  EXPECT_EQ(text_of<Error>([&] { open_dataset(tokens_config(path, 4), 100, false); }),
            path + ": holds 4 tokens; one sample of data.sequence_length 4 takes 5, with the last label");
}

TEST(Samples, MayOverlap) {
  const TemporaryFolder folder;
  DataConfig config = tokens_config(folder.write("t", counting_tokens(13)), 4);
  config.stride = 2;
  const Dataset dataset = open_dataset(config, 100, false);
  EXPECT_EQ(dataset.training->num_samples(), 5);
  EXPECT_EQ(ids_of(*dataset.training, 1), (std::vector<std::int64_t>{2, 3, 4, 5}));
}

TEST(Samples, AreHeldOutFromTheEnd) {
  const TemporaryFolder folder;
  DataConfig config = tokens_config(folder.write("t", counting_tokens(41)), 4);
  config.eval_fraction = 0.25;
  const Dataset dataset = open_dataset(config, 100, false);
  EXPECT_EQ(dataset.training->num_samples(), 8);
  EXPECT_EQ(dataset.evaluation->num_samples(), 2);
  EXPECT_EQ(ids_of(*dataset.evaluation, 0), (std::vector<std::int64_t>{32, 33, 34, 35}));
}

TEST(Samples, ThatOverlapAreNotBothTrainedOnAndHeldOut) {
  const TemporaryFolder folder;
  DataConfig config = tokens_config(folder.write("t", counting_tokens(41)), 4);
  config.stride = 1;
  config.eval_fraction = 0.5;
  const Dataset dataset = open_dataset(config, 100, false);
  const std::int64_t last = dataset.training->num_samples() - 1;
  EXPECT_LE(labels_of(*dataset.training, last).back(), ids_of(*dataset.evaluation, 0).front());
}

TEST(Samples, RefuseAFractionThatLeavesAPartEmpty) {
  const TemporaryFolder folder;
  const std::string path = folder.write("t", counting_tokens(13));
  DataConfig config = tokens_config(path, 4);
  config.eval_fraction = 0.1;
  EXPECT_EQ(
      text_of<Error>([&] { open_dataset(config, 100, false); }),
      path + ": data.eval_fraction 0.1 of its 3 samples of 4 tokens holds out 0 and leaves 3; both must be at least 1");
}

TEST(Samples, NameTheTokenThatIsOutsideTheVocabulary) {
  const TemporaryFolder folder;
  const std::string path = folder.write("t", counting_tokens(13));
  const Dataset dataset = open_dataset(tokens_config(path, 4), 12, false);
  EXPECT_EQ(text_of<Error>([&] { labels_of(*dataset.training, 2); }),
            path + ", token 12: token id 12 is outside the model's vocabulary of 12");
}

TEST(Samples, OfTextHaveTheEntropyOfTheTrainingPartsBytes) {
  const TemporaryFolder folder;
  DataConfig config;
  config.kind = "text";
  config.path = {folder.write("t",
                              "aaab"
                              "aaab"
                              "aaab"
                              "zzzz"
                              "z")};
  config.sequence_length = 4;
  config.eval_fraction = 0.25;
  const Dataset dataset = open_dataset(config, 256, true);
  EXPECT_NEAR(dataset.unigram_entropy, -0.75 * std::log(0.75) - 0.25 * std::log(0.25), 1e-12);
}

}  // namespace
}  // namespace ppctl
