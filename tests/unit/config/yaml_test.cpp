// What is not wrong with one key, but with the text: YAML itself, and what people write in it.

#include <gtest/gtest.h>

#include "unit/config/job_text.hpp"

namespace ppctl {
namespace {

TEST(Yaml, SaysThatAFileIsEmpty) {
  const std::string expected =
      "job.yaml:1:1: error: the file is empty; a job has at least 'model', 'data', 'batch' and 'steps'";
  EXPECT_EQ(problems_of(""), expected);
  EXPECT_EQ(problems_of("# nothing yet\n"), expected + "\n    # nothing yet\n    ^");
}

TEST(Yaml, WantsAMap) {
  EXPECT_EQ(problems_of("- steps\n"),
            "job.yaml:1:1: error: a job is a map of keys such as 'model', not a list\n"
            "    - steps\n"
            "    ^");
}

TEST(Yaml, PointsAtWhatIsNoYaml) {
  EXPECT_EQ(problems_of("name: tiny\nparallel: {pp: 4\n"),
            "job.yaml:3:1: error: this is not valid YAML: end of map flow not found");
}

TEST(Yaml, PointsAtTheFirstByteThatIsNoText) {
  EXPECT_EQ(problems_of(std::string("name: a\nseed: \0\x01\n", 16)),
            "job.yaml:2:7: error: byte 0x00 has no place in a job file, which is UTF-8 text\n"
            "    seed: ??\n"
            "          ^");
  EXPECT_EQ(problems_of("name: \xff\xfe\n"),
            "job.yaml:1:7: error: byte 0xff has no place in a job file, which is UTF-8 text\n"
            "    name: \xff\xfe\n"
            "          ^");
}

TEST(Yaml, CountsColumnsInCharacters) {
  EXPECT_EQ(problems_of(with_line(3, "model: {family: llama, hidden_act: \"\u00e4\u00f6\", hiden_size: 8}")),
            "job.yaml:3:42: error: unknown key 'hiden_size' in 'model' (did you mean 'hidden_size'?)\n"
            "    model: {family: llama, hidden_act: \"\u00e4\u00f6\", hiden_size: 8}\n"
            "                                             ^");
}

TEST(Yaml, CutsALongLineAroundTheCaret) {
  const std::string text =
      problems_of(kGoodJob + "sample: {prompt: \"" + std::string(300, 'x') + "\", tokens: none, top_k: 5}\n");
  EXPECT_EQ(text,
            "job.yaml:8:330: error: 'sample.tokens' must be a whole number of at least 1, not 'none'\n"
            "    ..." +
                std::string(49, 'x') + "\", tokens: none, top_k: 5}\n" + std::string(67, ' ') + "^");
}

TEST(Yaml, RefusesASecondDocument) {
  EXPECT_EQ(problems_of(kGoodJob + "---\nsteps: 3\n"),
            "job.yaml:8:1: error: a second document begins here; a job file has one\n"
            "    ---\n"
            "    ^");
}

TEST(Yaml, RefusesAStrayBracket) {
  EXPECT_EQ(problems_of("]\n"),
            "job.yaml:1:1: error: this is not valid YAML: illegal flow end\n"
            "    ]\n"
            "    ^");
}

TEST(Yaml, RefusesTags) {
  EXPECT_EQ(problems_of(with_line(2, "steps: !!int 20")),
            "job.yaml:2:8: error: a job has no use for tags such as 'tag:yaml.org,2002:int'\n"
            "    steps: !!int 20\n"
            "           ^");
}

TEST(Yaml, RefusesAnAliasInsideItself) {
  EXPECT_EQ(problems_of(kGoodJob + "x-loop: &loop {again: *loop}\n"),
            "job.yaml:8:23: error: this alias stands inside the value that it names\n"
            "    x-loop: &loop {again: *loop}\n"
            "                          ^");
}

TEST(Yaml, RefusesDeepNesting) {
  const std::string deep = std::string(40, '[') + std::string(40, ']');
  EXPECT_NE(problems_of(kGoodJob + "x-deep: " + deep + "\n").find("values are nested more than 32 deep here"),
            std::string::npos);
  const std::string very_deep(100'000, '[');
  EXPECT_NE(problems_of(very_deep).find("job.yaml:1:"), std::string::npos);
}

TEST(Yaml, DoesNotExpandAliasesOfAliases) {
  std::string bomb = kGoodJob + "x-0: &a0 [1, 2]\n";
  for (int i = 1; i < 30; ++i) {
    const std::string below = "*a" + std::to_string(i - 1);
    bomb += "x-" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + below + ", " + below + ", " + below + "]\n";
  }
  EXPECT_EQ(problems_of(bomb), "");
}

TEST(Yaml, RefusesAListAsAKey) {
  EXPECT_EQ(problems_of(kGoodJob + "[a, b]: 3\n"),
            "job.yaml:8:1: error: a key must be a word\n"
            "    [a, b]: 3\n"
            "    ^");
}

TEST(Yaml, RefusesAMergeOfWhatIsNoMap) {
  EXPECT_EQ(problems_of(with_line(6, "parallel:\n  <<: 4\n  pp: 4")),
            "job.yaml:7:7: error: '<<' takes a map or a list of maps\n"
            "      <<: 4\n"
            "          ^");
}

TEST(Yaml, AppliesMergesWithTheMapsOwnKeysFirst) {
  const JobConfig job = parse(
      "x-small: &small {global_size: 8, microbatch_size: 4}\n"
      "x-more: &more {microbatch_size: 1, global_size: 99}\n" +
      with_line(5, "batch: {<<: [*small, *more], microbatch_size: 2}"));
  EXPECT_EQ(job.batch.global_size, 8);
  EXPECT_EQ(job.batch.microbatch_size, 2);
}

TEST(Yaml, FollowsAliases) {
  EXPECT_EQ(parse("x-size: &size 3\n" + with_line(7, "eval: {batches: *size}")).eval.batches, 3);
}

TEST(Yaml, ReportsAProblemOfAnAliasOnceWhereItIsWritten) {
  EXPECT_EQ(problems_of("x-bad: &bad {every: soon}\n" + kGoodJob + "eval: *bad\nlog: *bad\n"),
            "job.yaml:1:21: error: 'eval.every' must be a whole number of at least 0, not 'soon'\n"
            "    x-bad: &bad {every: soon}\n"
            "                        ^\n"
            "job.yaml:1:21: error: 'log.every' must be a whole number of at least 1, not 'soon'\n"
            "    x-bad: &bad {every: soon}\n"
            "                        ^");
}

TEST(Yaml, ReadsAFileWithAByteOrderMarkAndCarriageReturns) {
  EXPECT_EQ(problems_of(
                "\xef\xbb\xbf"
                "steps: 20\r\nmodel: {from: hf}\r\ndata: {path: a}\r\nbatch: {global_size: x, microbatch_size: 1}\r\n"),
            "job.yaml:4:22: error: 'batch.global_size' must be a whole number of at least 1, not 'x'\n"
            "    batch: {global_size: x, microbatch_size: 1}\n"
            "                         ^");
}

TEST(Yaml, ShowsThirtyProblemsAndCountsTheRest) {
  std::string text = kGoodJob;
  for (int i = 0; i < 40; ++i) text += "unknown_key_number_" + std::to_string(i) + ": 1\n";
  const std::string problems = problems_of(text);
  EXPECT_TRUE(problems.ends_with("\n... and 10 more")) << problems;
}

}  // namespace
}  // namespace ppctl
