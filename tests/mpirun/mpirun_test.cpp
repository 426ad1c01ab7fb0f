// What the in-process tests show holds under mpirun too, and a rank that is killed takes the others with it, with a
// word.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>

namespace {

namespace fs = std::filesystem;

struct Result {
  int status = 0;
  std::string output;
};

Result run(const std::string& command) {
  Result result;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> block;
  for (std::size_t size; (size = std::fread(block.data(), 1, block.size(), pipe)) > 0;)
    result.output.append(block.data(), size);
  result.status = ::pclose(pipe);
  return result;
}

class Mpirun : public testing::Test {
 protected:
  Mpirun() : folder_(fs::temp_directory_path() / ("ppctl-mpirun-" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Mpirun() override { fs::remove_all(folder_); }

  std::string command(int ranks, const std::string& log, const std::string& options) const {
    return std::string(PPCTL_MPIRUN) + " -np " + std::to_string(ranks) + " " + PPCTL_PROGRAM + " train --config " +
           PPCTL_SOURCE_DIR + "/configs/parity/llama-tiny.yaml --set parallel.pp=" + std::to_string(ranks) +
           " --log-json " + (folder_ / log).string() + " " + options;
  }

  /// Loss and gradient norm of each step, as they are written.
  std::string losses(const std::string& log) const {
    std::string text;
    std::ifstream file(folder_ / log);
    for (std::string line; std::getline(file, line);) {
      // The last line may be half written.
      const auto record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!record.is_discarded() && record.contains("grad_norm"))
        text += record.at("loss").dump() + " " + record.at("grad_norm").dump() + "\n";
    }
    return text;
  }

  /// Once the log has a step, all ranks train.
  void await_first_step(const std::string& log) const {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (losses(log).empty() && std::chrono::steady_clock::now() < give_up) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }

  fs::path folder_;
};

TEST_F(Mpirun, ProcessesGiveTheBitsOfOneRank) {
  const Result one = run(command(1, "one.jsonl", "--set steps=5"));
  ASSERT_EQ(one.status, 0) << one.output;
  const std::string expected = losses("one.jsonl");
  ASSERT_EQ(std::count(expected.begin(), expected.end(), '\n'), 5);
  for (const int ranks : {2, 4}) {
    for (const char* schedule : {"1f1b", "zb_v"}) {
      const std::string log = std::to_string(ranks) + schedule + ".jsonl";
      const Result many = run(command(ranks, log, std::string("--set steps=5 --set pipeline.schedule=") + schedule));
      ASSERT_EQ(many.status, 0) << many.output;
      EXPECT_EQ(losses(log), expected) << ranks << " ranks, " << schedule;
    }
  }
}

TEST_F(Mpirun, ProcessesThatShareParametersGiveTheSameBitsForAnyPipeline) {
  const auto train = [&](const std::string& log, int pp, const std::string& options) {
    const std::string mesh = " --set parallel.pp=" + std::to_string(pp) + " --set parallel.dp_shard=2 ";
    const Result result = run(command(2 * pp, log, "--set steps=4" + mesh + options));
    EXPECT_EQ(result.status, 0) << result.output;
    return losses(log);
  };
  const std::string expected = train("shards.jsonl", 1, "");
  ASSERT_EQ(std::count(expected.begin(), expected.end(), '\n'), 4);
  EXPECT_EQ(train("shards-zb_v.jsonl", 2, "--set pipeline.schedule=zb_v"), expected);
}

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The process of a rank of the job whose command line names `mark`; -1 if there is none.
pid_t rank_process(int rank, const std::string& mark) {
  const std::string variable = "OMPI_COMM_WORLD_RANK=" + std::to_string(rank) + '\0';
  for (const auto& entry : fs::directory_iterator("/proc")) {
    if (contents(entry.path() / "comm") != "ppctl\n") continue;
    if (contents(entry.path() / "cmdline").find(mark) == std::string::npos) continue;
    if (contents(entry.path() / "environ").find(variable) != std::string::npos) {
      return std::stoi(entry.path().filename().string());
    }
  }
  return -1;
}

/// mpirun, for a rank that it started on its own host.
pid_t parent_of(pid_t process) {
  const std::string stat = contents("/proc/" + std::to_string(process) + "/stat");
  // "pid (command) state parent ...", where the command may hold anything.
  std::istringstream rest(stat.substr(stat.rfind(')') + 1));
  char state = 0;
  pid_t parent = -1;
  rest >> state >> parent;
  return parent;
}

TEST_F(Mpirun, HandsOnTheWishToStopAndTheStateIsSaved) {
  Result result;
  const std::string options = "--set steps=1000000 --set checkpoint.folder=" + (folder_ / "saved").string();
  std::thread job([&] { result = run(command(2, "stopped.jsonl", options)); });
  await_first_step("stopped.jsonl");
  const pid_t rank = rank_process(0, folder_.string());
  if (rank < 0) job.join();
  ASSERT_GT(rank, 0) << result.output;
  ::kill(parent_of(rank), SIGUSR1);
  job.join();
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_NE(result.output.find("as asked"), std::string::npos) << result.output;
  EXPECT_FALSE(fs::is_empty(folder_ / "saved"));
}

TEST_F(Mpirun, AKilledRankEndsTheOthersWhoNameItAndTheStepEachWasIn) {
  Result result;
  std::thread job([&] { result = run(command(3, "killed.jsonl", "--set steps=1000000")); });
  await_first_step("killed.jsonl");
  const pid_t victim = rank_process(1, folder_.string());
  if (victim < 0) job.join();
  ASSERT_GT(victim, 0) << result.output;
  const auto killed = std::chrono::steady_clock::now();
  ::kill(victim, SIGKILL);
  job.join();
  EXPECT_LT(std::chrono::steady_clock::now() - killed, std::chrono::seconds(60));
  EXPECT_NE(result.status, 0);
  EXPECT_NE(result.output.find("rank 1 (pid " + std::to_string(victim) + ") died in step "), std::string::npos)
      << result.output;
  EXPECT_NE(result.output.find(" was in step "), std::string::npos) << result.output;
}

std::string process_file(pid_t process, const char* name) { return fmt::format("/proc/{}/{}", process, name); }

int count_of(std::string_view word, const std::string& text) {
  int count = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

/// How often a process has given up its core, by itself.
long num_sleeps(pid_t process) {
  constexpr std::string_view kKey = "\nvoluntary_ctxt_switches:";
  const std::string status = contents(process_file(process, "status"));
  const auto at = status.find(kKey);
  return at == std::string::npos ? 0 : std::atol(status.c_str() + at + kKey.size());
}

TEST_F(Mpirun, ABenchOfWhichARankDiesEndsAndNamesIt) {
  Result result;
  const std::string trace = (folder_ / "bench.json").string();
  std::thread job([&] {
    result = run(std::string(PPCTL_MPIRUN) + " -np 2 " + PPCTL_PROGRAM +
                 " bench bubbles --schedules 1f1b --pp 2 --microbatches 100000 --trace " + trace);
  });
  // A rank has mapped the others' memory once it is connected, and then sleeps once a step.
  pid_t victim = -1;
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto runs = [&] {
    victim = rank_process(1, trace);
    return victim > 0 && count_of("memfd:ppctl", contents(process_file(victim, "maps"))) >= 2;
  };
  while (!runs() && std::chrono::steady_clock::now() < give_up)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const long connected = num_sleeps(victim);
  while (num_sleeps(victim) < connected + 100 && std::chrono::steady_clock::now() < give_up)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  if (victim > 0) ::kill(victim, SIGKILL);
  job.join();
  ASSERT_GT(victim, 0) << result.output;
  EXPECT_NE(result.status, 0);
  EXPECT_NE(result.output.find("rank 1 (pid " + std::to_string(victim) + ") died"), std::string::npos) << result.output;
  EXPECT_FALSE(fs::exists(trace));
}

TEST_F(Mpirun, ABenchPutsAnEncoderInFrontOfTheStagesInFourPlaces) {
  const std::string file = (folder_ / "rows.json").string();
  const Result result = run(std::string(PPCTL_MPIRUN) + " -np 2 sh -c '" + PPCTL_PROGRAM +
                            " bench bubbles --schedules 1f1b --pp 2 --microbatches 4 --forward-ms 2 --dx-ms 2 "
                            "--dw-ms 2 --encoder-scale 2 --steps 1 --format json >> " +
                            file + "'");
  ASSERT_EQ(result.status, 0) << result.output;
  const nlohmann::json rows = nlohmann::json::parse(contents(file));
  const auto wall = [&](std::size_t row, const char* how) { return rows.at(row).at(how).at("wall_ms").get<double>(); };
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0].at("encoder"), "first_stage");
  EXPECT_DOUBLE_EQ(wall(0, "simulated"), 4 * 18);  // nobody else is as busy as the first rank
  EXPECT_EQ(rows[1].at("encoder"), "split");
  EXPECT_DOUBLE_EQ(wall(1, "simulated"), (4 + 1) * 12);  // 1F1B of stages twice as long
  EXPECT_EQ(rows[2].at("encoder"), "before_body");
  EXPECT_EQ(rows[3].at("encoder"), "just_in_time");
  for (std::size_t row = 1; row < rows.size(); ++row) EXPECT_LE(wall(row, "simulated"), wall(row - 1, "simulated"));
  for (std::size_t row = 0; row < rows.size(); ++row) {
    EXPECT_GE(wall(row, "measured"), 0.99 * wall(row, "simulated")) << row;
    EXPECT_DOUBLE_EQ(rows[row].at("measured").at("ideal_ms").get<double>(),
                     rows[row].at("simulated").at("ideal_ms").get<double>());
  }
}

/// Steps of the complete checkpoints in a folder, and whether one is being written.
struct Saved {
  int newest = 0;
  bool writing = false;
};

Saved look(const fs::path& folder) {
  Saved saved;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (entry->path().extension() == ".partial")
      saved.writing = true;
    else if (name.starts_with("step-"))
      saved.newest = std::max(saved.newest, std::stoi(name.substr(5)));
  }
  return saved;
}

// scripts/soak saves does this fifty times, with a larger model.
TEST_F(Mpirun, ARankThatIsKilledWhileItSavesLeavesACheckpointThatLoadsOnAnyNumberOfRanks) {
  const fs::path saved = folder_ / "saved";
  const std::string keep = " --set checkpoint.every=1 --set checkpoint.folder=" + saved.string();
  int newest = 0;
  for (const int ranks : {2, 4, 2}) {
    Result result;
    std::thread job([&] { result = run(command(ranks, "save.jsonl", "--set steps=1000000" + keep)); });
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    // Not the first save of the run, which could have found a folder that was left before.
    while (look(saved).newest < newest + 2 && std::chrono::steady_clock::now() < give_up)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    while (!look(saved).writing && std::chrono::steady_clock::now() < give_up)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const pid_t victim = rank_process(ranks - 1, folder_.string());
    if (victim > 0) ::kill(victim, SIGKILL);
    job.join();
    ASSERT_GT(victim, 0) << result.output;
    EXPECT_NE(result.status, 0);
    if (newest > 0) {
      EXPECT_NE(result.output.find("resumed after step " + std::to_string(newest) + " of"), std::string::npos)
          << result.output;
    }
    newest = look(saved).newest;
  }
  const Result rest = run(command(1, "rest.jsonl", "--set steps=" + std::to_string(newest + 1) + keep));
  EXPECT_EQ(rest.status, 0) << rest.output;
  EXPECT_NE(rest.output.find("resumed after step " + std::to_string(newest) + " of"), std::string::npos) << rest.output;
}

}  // namespace
