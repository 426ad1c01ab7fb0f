#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/program.hpp"

namespace ppctl::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kJob =
    "name: tiny\n"
    "steps: 20\n"
    "model: {family: llama, hidden_size: 64, num_hidden_layers: 8}\n"
    "data: {kind: tokens, path: tokens.bin, sequence_length: 32}\n"
    "batch: {global_size: 16, microbatch_size: 2}\n"
    "parallel: {pp: 4}\n"
    "pipeline: {schedule: 1f1b}\n";

class CommandLine : public ::testing::Test {
 protected:
  CommandLine() { place_.write("job.yaml", kJob); }
  void expect(const std::vector<std::string>& arguments, int exit_code, const std::string& out, const std::string& err,
              const std::map<std::string, std::string>& environment = {}) {
    const Result result = place_.ppctl(arguments, environment);
    EXPECT_EQ(result.exit_code, exit_code);
    EXPECT_EQ(result.out, out);
    EXPECT_EQ(result.err, err);
  }
  /// A ppctl with another engine beside it.
  Result with_engine(const std::string& library, const std::vector<std::string>& arguments,
                     const std::map<std::string, std::string>& environment = {}) {
    const std::filesystem::path folder = place_.folder();
    std::filesystem::create_directories(folder / "bin");
    std::filesystem::create_directories(folder / "lib");
    const auto replace = std::filesystem::copy_options::overwrite_existing;
    std::filesystem::copy_file(PPCTL_PROGRAM, folder / "bin/ppctl", replace);
    if (!library.empty()) std::filesystem::copy_file(library, folder / "lib/libppctl_engine.so", replace);
    return run_program(folder / "bin/ppctl", arguments, folder, environment);
  }
  Workplace place_;
};

TEST_F(CommandLine, PrintsItsVersion) { expect({"--version"}, 0, "ppctl 0.1.0\n", ""); }

TEST_F(CommandLine, PrintsHelpToStandardOutput) {
  const Result result = place_.ppctl({"train", "--help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("Usage: ppctl train [OPTIONS]"));
  EXPECT_EQ(result.err, "");
}

TEST_F(CommandLine, WantsACommand) {
  expect({}, 2, "", "ppctl: error: no command was given\nppctl --help lists what there is.\n");
}

TEST_F(CommandLine, SuggestsACommand) {
  expect({"trian"}, 2, "",
         "ppctl: error: unknown argument 'trian' (did you mean 'train'?)\n"
         "ppctl --help lists what there is.\n");
}

TEST_F(CommandLine, SuggestsAnOption) {
  expect({"train", "--confg", "job.yaml"}, 2, "",
         "ppctl: error: unknown argument '--confg' (did you mean '--config'?)\n"
         "ppctl train --help lists what there is.\n");
}

TEST_F(CommandLine, NamesTheWholeCommandWhoseHelpAnswers) {
  expect({"bench", "bubbles", "--encoder", "split"}, 2, "",
         "ppctl: error: --encoder requires --encoder-scale\nppctl bench bubbles --help lists what there is.\n");
}

TEST_F(CommandLine, WantsAJobToTrain) {
  expect({"train"}, 2, "", "ppctl: error: --config is required\nppctl train --help lists what there is.\n");
}

TEST_F(CommandLine, ReportsAMissingFile) {
  expect({"train", "--config", "nowhere.yaml"}, 2, "",
         "ppctl: error: nowhere.yaml: cannot be opened: No such file or directory\n");
}

TEST_F(CommandLine, ReportsEveryProblemOfAJob) {
  place_.write("bad.yaml", kJob + "optimiser: {lr: 1}\ntimeout_s: 0\n");
  expect({"train", "--config", "bad.yaml"}, 2, "",
         "bad.yaml:8:1: error: unknown key 'optimiser' (did you mean 'optimizer'?)\n"
         "    optimiser: {lr: 1}\n"
         "    ^\n"
         "bad.yaml:9:12: error: 'timeout_s' must be a number above 0, not '0'\n"
         "    timeout_s: 0\n"
         "               ^\n");
}

TEST_F(CommandLine, ReportsAProblemOfSet) {
  expect({"plan", "--config", "job.yaml", "--set", "pipeline.schedule=1f1"}, 2, "",
         "ppctl: error: --set pipeline.schedule=1f1: 'pipeline.schedule' must be gpipe, 1f1b, interleaved_1f1b, "
         "looped_bfs, zb_h1, zb_h2, "
         "interleaved_zb, zb_v, v_half, v_min, dualpipe, dualpipe_v, auto or mpipe_transpose, not '1f1' (did you mean "
         "'1f1b'?)\n");
}

TEST_F(CommandLine, PassesOnWhyAScheduleDoesNotFitTheJob) {
  expect({"plan", "--config", "job.yaml", "--set", "pipeline.schedule=1f1b", "--set", "pipeline.chunks=2"}, 2, "",
         "ppctl: error: --set pipeline.schedule=1f1b: schedule 1f1b: chunks must be 1, not 2\n");
}

TEST_F(CommandLine, WantsSamplesToEvaluateOnBeforeItTrains) {
  expect({"train", "--config", "job.yaml", "--set", "eval.every=5"}, 2, "",
         "ppctl: error: --set eval.every=5: 'eval.every' needs 'data.eval_fraction', the share of the samples that is "
         "held out\n");
}

TEST_F(CommandLine, SaysHowManyRanksAJobNeeds) {
  expect({"train", "--config", "job.yaml", "--set", "parallel.dp_shard=2", "--set", "batch.microbatch_size=1"}, 2, "",
         "ppctl: error: the job has 8 ranks (pp 4 x dp_replicate 1 x dp_shard 2), but 1 was started. Type:\n"
         "    mpirun -n 8 " PPCTL_PROGRAM
         " train --config job.yaml --set parallel.dp_shard=2 --set batch.microbatch_size=1\n");
}

TEST_F(CommandLine, LetsRankZeroAloneSpeakOfTheWrongNumberOfRanks) {
  expect({"train", "--config", "job.yaml"}, 2, "",
         "ppctl: error: the job has 4 ranks (pp 4 x dp_replicate 1 x dp_shard 1), but 3 were started. Type:\n"
         "    mpirun -n 4 " PPCTL_PROGRAM " train --config job.yaml\n",
         {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "3"}});
  expect({"train", "--config", "job.yaml"}, 2, "", "", {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "3"}});
}

TEST_F(CommandLine, HandsTheJobToTheEngine) {
  const Result result = with_engine(PPCTL_ECHO_ENGINE, {"train", "--config", "job.yaml", "--set", "parallel.pp=1",
                                                        "--set", "seed=2", "--steps", "5", "--log-json", "it's.jsonl"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "train job.yaml\nset parallel.pp=1\nset seed=2\nset steps=5\nset log.json='it''s.jsonl'\n");
  EXPECT_EQ(result.err, "");
}

TEST_F(CommandLine, TellsAFailedRunFromABug) {
  const Result failed = with_engine(
      PPCTL_ECHO_ENGINE, {"train", "--config", "job.yaml", "--set", "parallel.pp=1", "--set", "name=broken"});
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_EQ(failed.err, "ppctl: error: rank 2 died in step 7\n");
  const Result bug =
      with_engine(PPCTL_ECHO_ENGINE, {"train", "--config", "job.yaml", "--set", "parallel.pp=1", "--set", "name=bug"});
  EXPECT_EQ(bug.exit_code, 1);
  EXPECT_EQ(bug.err,
            "ppctl: bug: schedule.cpp:1: check failed\nThis is a fault of ppctl, not of the job. Please report it with "
            "the job file.\n");
}

TEST_F(CommandLine, ComputesOnAHeapThatKeepsItsPages) {
  const std::vector<std::string> asks{"train", "--config", "job.yaml", "--set", "parallel.pp=1", "--set", "name=heap"};
  EXPECT_THAT(with_engine(PPCTL_ECHO_ENGINE, asks).out,
              HasSubstr("\nglibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold="));
  EXPECT_THAT(with_engine(PPCTL_ECHO_ENGINE, asks, {{"GLIBC_TUNABLES", "glibc.cpu.x86_shstk=off"}}).out,
              HasSubstr("\nglibc.cpu.x86_shstk=off:glibc.malloc.hugetlb=1:"));
}

TEST_F(CommandLine, LeavesAHeapThatTheUserHasTunedAsItIs) {
  const std::string own = "glibc.malloc.arena_max=2";
  const std::vector<std::string> asks{"train", "--config", "job.yaml", "--set", "parallel.pp=1", "--set", "name=heap"};
  EXPECT_THAT(with_engine(PPCTL_ECHO_ENGINE, asks, {{"GLIBC_TUNABLES", own}}).out, HasSubstr("\n" + own + "\n"));
}

TEST_F(CommandLine, SaysThatTheEngineIsMissing) {
  const Result result = with_engine("", {"train", "--config", "job.yaml", "--set", "parallel.pp=1"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "ppctl: error: the training engine is not there: " + std::filesystem::canonical(place_.folder()).string() +
                "/lib/libppctl_engine.so\n"
                "This ppctl was built without LibTorch (PPCTL_WITH_TORCH=OFF), or the file was not installed with it; "
                "commands "
                "that do not compute, such as plan, work without it.\n");
}

TEST_F(CommandLine, SaysThatTheEngineIsNoLibrary) {
  const Result result =
      with_engine(place_.folder() + "/job.yaml", {"train", "--config", "job.yaml", "--set", "parallel.pp=1"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, StartsWith("ppctl: error: the training engine cannot be loaded: "));
}

TEST_F(CommandLine, ShowsTheOriginOfEachValue) {
  const Result result = place_.ppctl({"plan", "--config", "job.yaml", "--set", "seed=3", "--show-config"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("\npipeline.schedule           1f1b "));
  EXPECT_THAT(result.out, ::testing::ContainsRegex("\nseed +3 +command line\n"));
  EXPECT_THAT(result.out, ::testing::ContainsRegex("\nsteps +20 +job.yaml:2\n"));
  EXPECT_THAT(result.out, ::testing::ContainsRegex("\npipeline.chunks +auto +default\n"));
}

}  // namespace
}  // namespace ppctl::cli
