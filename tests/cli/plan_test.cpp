#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "cli/program.hpp"

namespace ppctl::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Plan : public ::testing::Test {
 protected:
  std::string out_of(const std::vector<std::string>& arguments) {
    std::vector<std::string> all{"plan"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Result result = place_.ppctl(all);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return result.out;
  }
  std::string error_of(const std::vector<std::string>& arguments) {
    std::vector<std::string> all{"plan"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Result result = place_.ppctl(all);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.out, "");
    return result.err;
  }
  Workplace place_;
};

TEST_F(Plan, PrintsStepsAsCsv) {
  EXPECT_EQ(out_of({"--schedule", "1f1b", "--pp", "2", "--microbatches", "2", "--format", "csv"}),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
            "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n");
}

TEST_F(Plan, DrawsTheGridRankByRank) {
  const std::string text = out_of({"--schedule", "gpipe", "--pp", "2", "--microbatches", "2"});
  EXPECT_THAT(text, StartsWith("gpipe: 2 ranks, 1 chunk a rank (loop placement), 2 microbatches\n"));
  EXPECT_THAT(text, HasSubstr("\nrank 0  F0 F1 ......"));
}

TEST_F(Plan, GivesTheFieldsOfJson) {
  const std::string json = out_of({"--schedule", "1f1b", "--pp", "4", "--microbatches", "8", "--format", "json"});
  for (const char* field : {"schedule", "pp", "chunks", "microbatches", "wall_ms", "span_ms", "ideal_ms", "bubble_wall",
                            "bubble_span", "peak_chunks", "steps"}) {
    EXPECT_THAT(json, HasSubstr(std::string("\"") + field + "\":"));
  }
  EXPECT_THAT(json, HasSubstr("\"wall_ms\": 33.0"));
  EXPECT_THAT(json, HasSubstr("\"ideal_ms\": 24.0"));
}

TEST_F(Plan, ShowsTheRanksThatShareExpertsAndTheirMemory) {
  place_.write("job.yaml", R"(name: experts
steps: 1
model: {family: mixtral, vocab_size: 64, hidden_size: 32, intermediate_size: 48, num_hidden_layers: 2, num_attention_heads: 2,
        num_local_experts: 4, num_experts_per_tok: 2}
data: {kind: text, path: text, sequence_length: 16}
batch: {global_size: 16, microbatch_size: 2}
parallel: {pp: 2, dp_shard: 4, ep: 2}
)");
  const std::string text = out_of({"--config", "job.yaml"});
  EXPECT_THAT(text, StartsWith("mesh: pp 2 × dp_shard 4 (ep 2) = 8 ranks\n"));
  EXPECT_THAT(text, HasSubstr("  ep           [0 1] [2 3] [4 5] [6 7]\n  ep_shard     [0 2] [1 3] [4 6] [5 7]\n"));
  EXPECT_THAT(text, HasSubstr("dp_shard 4, reduce step in float32, ep 2 with balanced routing"));
}

TEST_F(Plan, SaysThatAModelHasNoExpertsToSpread) {
  place_.write("job.yaml", R"(name: experts
steps: 1
model: {family: llama, vocab_size: 64, hidden_size: 32, intermediate_size: 48, num_hidden_layers: 2, num_attention_heads: 2}
data: {kind: text, path: text, sequence_length: 16}
batch: {global_size: 16, microbatch_size: 2}
parallel: {pp: 2, dp_shard: 4, ep: 2}
)");
  EXPECT_EQ(error_of({"--config", "job.yaml"}),
            "ppctl: error: job.yaml:6:36: 'parallel.ep' is 2, but the family llama has no experts\n");
  EXPECT_EQ(error_of({"--config", "job.yaml", "--set", "parallel.ep=4"}),
            "ppctl: error: --set parallel.ep=4: 'parallel.ep' is 4, but the family llama has no experts\n");
}

TEST_F(Plan, TakesTimesOfALayerWhereLayersAreGiven) {
  EXPECT_THAT(out_of({"--pp", "2", "--microbatches", "4", "--layers", "2,1", "--format", "json"}),
              HasSubstr("\"ideal_ms\": 24.0"));
  EXPECT_THAT(out_of({"--pp", "1", "--microbatches", "2", "--layers", "3", "--forward-ms", "0.5", "--format", "json"}),
              HasSubstr("\"ideal_ms\": 15.0"));
}

TEST_F(Plan, ReadsTheJobAndTakesOptionsOnTopOfIt) {
  place_.write("job.yaml",
               "steps: 1\nmodel: {family: llama, num_hidden_layers: 8}\ndata: {path: a.txt}\nbatch: {global_size: 8, "
               "microbatch_size: 1}\n"
               "parallel: {pp: 4}\n");
  EXPECT_THAT(out_of({"--config", "job.yaml"}),
              StartsWith("1f1b: 4 ranks, 1 chunk a rank (loop placement), 8 microbatches\n"));
  EXPECT_THAT(out_of({"--config", "job.yaml", "--schedule", "zb_v", "--microbatches", "4"}),
              StartsWith("zb_v: 4 ranks, 2 chunks a rank (V placement), 4 microbatches\n"));
  EXPECT_EQ(error_of({"--config", "job.yaml", "--pp", "16"}),
            "ppctl: error: --set parallel.pp=16: 16 stages (pp 16 x 1 chunks) need at least as many layers; the model "
            "has 8\n");
}

const std::string kWholeModel =
    "steps: 1\n"
    "model: {family: llama, vocab_size: 4096, hidden_size: 256, intermediate_size: 512, num_hidden_layers: 8,\n"
    "        num_attention_heads: 4}\n"
    "data: {path: a.txt, sequence_length: 128}\nbatch: {global_size: 16, microbatch_size: 2}\nparallel: {pp: 4}\n";

TEST_F(Plan, KnowsMemoryAndCostsOfTheJobsModel) {
  place_.write("job.yaml", kWholeModel);
  const std::string text = out_of({"--config", "job.yaml"});
  EXPECT_THAT(text, HasSubstr("\nmemory:  "));
  EXPECT_THAT(text, HasSubstr(" (float32)\n"));
  EXPECT_THAT(text, HasSubstr("\ntimes:   relative, from the model's operations"));
  EXPECT_THAT(text, HasSubstr("\nrank  parameters  gradients "));
  const std::string json = out_of({"--config", "job.yaml", "--format", "json"});
  // Embedding and two layers (attention 4 x 256 x 256, MLP 3 x 256 x 512, two norms), float32.
  EXPECT_THAT(json,
              HasSubstr("\"parameters\": " + std::to_string(4 * (4096 * 256 + 2 * (4 * 65536 + 3 * 131072 + 512)))));
  EXPECT_THAT(json, HasSubstr("\"peak_step\": \"0B0\""));
  EXPECT_THAT(out_of({"--config", "job.yaml", "--set", "model.dtype=bfloat16"}), HasSubstr(" (bfloat16)\n"));
}

TEST_F(Plan, SplitsLayersByCostAsTrainDoes) {
  place_.write("job.yaml", kWholeModel);
  const std::string uniform = out_of({"--config", "job.yaml", "--format", "json"});
  const std::string balanced = out_of({"--config", "job.yaml", "--set", "pipeline.layers=auto", "--format", "json"});
  EXPECT_NE(uniform, balanced) << "the head costs more than two layers";
}

TEST_F(Plan, MarksRanksThatNeedMoreMemoryThanTheyMay) {
  place_.write("job.yaml", kWholeModel);
  EXPECT_THAT(out_of({"--config", "job.yaml", "--memory-gib", "1"}), Not(HasSubstr("does not fit")));
  const std::string text = out_of({"--config", "job.yaml", "--memory-gib", "0.03"});
  EXPECT_THAT(text, HasSubstr("\n         more than 30.7 MiB on rank 0, "));
  EXPECT_THAT(text, HasSubstr("  does not fit\n"));
}

TEST_F(Plan, SaysWhatToWriteInsteadOfAJobThatDoesNotFit) {
  place_.write("job.yaml", kWholeModel);
  const std::string text = out_of({"--config", "job.yaml", "--set", "pipeline.schedule=gpipe", "--memory-gib", "0.06"});
  EXPECT_THAT(text, HasSubstr("\nDoes not fit in 0.06 GiB a rank. The fastest that does takes "));
  EXPECT_THAT(text, HasSubstr(" MiB:\npipeline: {schedule: "));
  EXPECT_THAT(out_of({"--config", "job.yaml", "--set", "memory_gib=0.0001"}), HasSubstr(", and nothing does: "));
  EXPECT_THAT(out_of({"--config", "job.yaml", "--set", "memory_gib=4"}), Not(HasSubstr("fit in")));
}

TEST_F(Plan, ListsTheFastestMixesThatFit) {
  place_.write("job.yaml", kWholeModel);
  const std::string text = out_of({"--config", "job.yaml", "--auto", "--memory-gib", "0.06"});
  EXPECT_THAT(text, StartsWith("schedule "));
  EXPECT_THAT(text, HasSubstr(" ways to run the job fit in 0.06 GiB a rank. The fastest, for the job file:\n"));
  EXPECT_THAT(text, HasSubstr(", layers: "));
}

TEST_F(Plan, ShowsWhatIsRecomputedAndSwapped) {
  place_.write("job.yaml", kWholeModel);
  const auto with = [&](const char* set) { return out_of({"--config", "job.yaml", "--set", set, "--format", "csv"}); };
  EXPECT_THAT(with("swap={layers: all}"), HasSubstr("0LAUNCH_OFFLOAD0"));
  const std::string text = out_of({"--config", "job.yaml", "--set", "swap={layers: all}"});
  EXPECT_THAT(text, HasSubstr(" swapped "));
  EXPECT_NE(out_of({"--config", "job.yaml", "--set", "recompute=full", "--format", "json"}),
            out_of({"--config", "job.yaml", "--format", "json"}));
}

TEST_F(Plan, ChoosesByTheMemoryOfTheJobsModel) {
  place_.write("job.yaml", kWholeModel);
  EXPECT_THAT(out_of({"--config", "job.yaml", "--auto", "--memory-gib", "1"}), HasSubstr("\npipeline: {schedule: "));
  EXPECT_THAT(error_of({"--config", "job.yaml", "--auto", "--memory-gib", "0.01"}),
              StartsWith("ppctl: error: no schedule fits in 10.2 MiB a rank; the leanest, "));
}

/// A vision tower of six layers in front of a language model of eight, which cost about as much each.
void write_images_job(const Workplace& place) {
  std::filesystem::create_directories(place.folder() + "/hf");
  place.write("hf/config.json", R"({"model_type": "llava", "image_token_index": 255, "vision_feature_layer": -2,
    "text_config": {"model_type": "llama", "vocab_size": 256, "hidden_size": 64, "intermediate_size": 160,
                    "num_hidden_layers": 8, "num_attention_heads": 4, "head_dim": 16, "num_key_value_heads": 2},
    "vision_config": {"model_type": "clip_vision_model", "hidden_size": 64, "intermediate_size": 192,
                      "num_hidden_layers": 7, "num_attention_heads": 4, "image_size": 28, "patch_size": 14}})");
  place.write("job.yaml", R"(name: images
steps: 1
model: {from: hf, load_weights: false}
data: {kind: tokens, path: tokens.bin, pixels: pixels.bin, sequence_length: 32}
batch: {global_size: 32, microbatch_size: 2}
parallel: {pp: 4}
pipeline: {schedule: 1f1b, layers: auto}
)");
}

/// The row of a table of ways to run the encoder that is taken.
struct EncoderRow {
  std::string layers;
  std::string mode;
  double step_ms = 0;
  double peak_mib = 0;
};

EncoderRow first_row(const std::string& text) {
  std::istringstream lines(text);
  std::string header;
  std::getline(lines, header);
  EXPECT_EQ(header, "encoder, mpipe    mode             step ms        peak");
  EncoderRow row;
  lines >> row.layers >> row.mode >> row.step_ms >> row.peak_mib;
  return row;
}

TEST_F(Plan, ChoosesWhereTheEncoderOfAMultimodalJobRuns) {
  write_images_job(place_);
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--config", "job.yaml"});
    return out_of(more);
  };
  const std::string chosen = with({"--set", "mpipe={layers: auto, mode: auto}"});
  const EncoderRow best = first_row(chosen);
  EXPECT_THAT(chosen, HasSubstr("\nnone  ")) << "the plain way is always shown";
  EXPECT_THAT(chosen,
              HasSubstr("\nThe first of 15 ways is taken, where 1 ms is a rank's share of the whole forward.\n"));
  EXPECT_THAT(chosen, EndsWith(with({"--set", "mpipe={layers: " + best.layers + ", mode: " + best.mode + "}"})));
  EXPECT_THAT(with({"--set", "mpipe={layers: 2, mode: auto}"}), HasSubstr("\nThe first of 2 ways is taken"));
  EXPECT_THAT(with({"--schedule", "auto"}), HasSubstr("\nThe first of 15 ways is taken"));
  EXPECT_THAT(with({"--schedule", "auto", "--post-validation"}), StartsWith("auto: 4 ranks")) << "it excludes MPipe";
  const std::string less = std::to_string(0.97 * best.peak_mib / 1024);  // than the fastest needs
  const EncoderRow lean = first_row(with({"--set", "mpipe={layers: auto, mode: auto}", "--memory-gib", less}));
  EXPECT_LE(lean.peak_mib, 0.97 * best.peak_mib + 0.05);
  EXPECT_GE(lean.step_ms, best.step_ms);
}

TEST_F(Plan, ShowsTheHalvesOfAnEncodersBackwardByName) {
  write_images_job(place_);
  const auto planned = [&](const std::string& mode, const std::string& format) {
    return out_of({"--config", "job.yaml", "--set", "pipeline.schedule=mpipe_transpose", "--set", "mpipe.mode=" + mode,
                   "--format", format});
  };
  const std::string apart = planned("just_in_time", "html");
  EXPECT_THAT(apart, HasSubstr("encoder backward, input"));
  EXPECT_THAT(apart, HasSubstr("encoder backward, weight"));
  EXPECT_THAT(planned("just_in_time", "csv"), HasSubstr("0PREPROCESS_BACKWARD_INPUT15"));
  EXPECT_THAT(planned("just_in_time", "csv"), HasSubstr("0PREPROCESS_BACKWARD_WEIGHT15"));
  const std::string whole = planned("before_body", "html");
  EXPECT_THAT(whole, HasSubstr("encoder backward"));
  EXPECT_THAT(whole, Not(HasSubstr("encoder backward, input")));
}

TEST_F(Plan, ShowsWhatGradientsOfTheEncoderCostUntilTheyAreFolded) {
  write_images_job(place_);
  const auto with = [&](const char* set) { return out_of({"--config", "job.yaml", "--set", set}); };
  EXPECT_THAT(with("mpipe={}"), HasSubstr("  gradients  encoder's, by microbatch  "));
  EXPECT_THAT(with("mpipe={layers: 0}"), Not(HasSubstr("encoder's")));
  EXPECT_THAT(with("batch.microbatch_size=2"), Not(HasSubstr("encoder's")));
}

TEST_F(Plan, TakesTimesOfAStageForTheEncoderToo) {
  write_images_job(place_);
  const auto ideal = [&](const char* ms) {
    const std::string json = out_of({"--config", "job.yaml", "--set", "mpipe={}", "--forward-ms", ms, "--dx-ms", ms,
                                     "--dw-ms", ms, "--format", "json"});
    const std::size_t at = json.find("\"ideal_ms\": ");
    return at == std::string::npos ? 0.0 : std::stod(json.substr(at + 12));
  };
  EXPECT_GT(ideal("1"), 3 * 16) << "16 microbatches of a stage, and the encoder's work";
  EXPECT_NEAR(ideal("4"), 4 * ideal("1"), 1e-6);
}

TEST_F(Plan, LaysTheWaysOfTheEncoderBesideThoseOfMemory) {
  write_images_job(place_);
  // One stage a rank alone: what is left to try takes a second.
  const std::string text = out_of({"--config", "job.yaml", "--auto", "--memory-gib", "1", "--chunks", "1"});
  EXPECT_THAT(text, HasSubstr("        peak  mpipe\n"));
  EXPECT_THAT(text, HasSubstr("\nmpipe: {layers: "));
  const std::string named = out_of({"--config", "job.yaml", "--compare", "--set", "mpipe={layers: all}"});
  EXPECT_NE(named, out_of({"--config", "job.yaml", "--compare"}));
}

TEST_F(Plan, SavesStepsOfAnEncoderForTheJobThatAsksForThem) {
  write_images_job(place_);
  const auto with = [](std::vector<std::string> more) {
    std::vector<std::string> arguments{"--config", "job.yaml"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  const std::string as_generated = out_of(with({"--set", "mpipe={layers: 2}", "--save", "saved.csv"}));
  const std::string from_file = "pipeline.schedule={file: saved.csv}";
  const std::string rerun = out_of(with({"--set", from_file, "--set", "mpipe={layers: 2}"}));
  const auto times = [](const std::string& text) { return text.substr(text.find("\ntime: "), 60); };
  EXPECT_EQ(times(rerun), times(as_generated));
  EXPECT_EQ(error_of(with({"--set", from_file})),
            "ppctl: error: " + place_.folder() +
                "/saved.csv: has steps of MPipe; the job that runs them says how: mpipe: {layers: all}\n");
  EXPECT_THAT(error_of(with({"--check", "saved.csv"})), HasSubstr("saved.csv: has steps of MPipe; "));
  EXPECT_THAT(error_of(with({"--set", from_file, "--set", "mpipe={layers: 0}"})),
              HasSubstr("has steps for the encoder's forward, and the job (mpipe.layers, model.encoder) wants none\n"));
  EXPECT_THAT(error_of(with({"--set", from_file, "--set", "mpipe={layers: 2}", "--set", "model.encoder=frozen"})),
              HasSubstr("has steps for the encoder's backward, "));
  out_of(with({"--save", "plain.csv"}));
  EXPECT_THAT(error_of(with({"--set", "pipeline.schedule={file: plain.csv}", "--set", "mpipe={layers: 2}"})),
              HasSubstr("plain.csv: is lowered already, without steps of MPipe; "));
}

TEST_F(Plan, SaysWhyTheModelIsNotKnown) {
  place_.write("job.yaml",
               "steps: 1\nmodel: {from: hf}\ndata: {path: a.txt}\nbatch: {global_size: 8, microbatch_size: 1}\n");
  EXPECT_THAT(out_of({"--config", "job.yaml"}), HasSubstr("\nmemory:  not known, and stages cost the same: "));
}

TEST_F(Plan, SavesAScheduleThatItChecksAndAJobRuns) {
  const std::string steps =
      out_of({"--schedule", "zb_h1", "--pp", "3", "--microbatches", "5", "--format", "csv", "--save", "plan.csv"});
  EXPECT_EQ(place_.read("plan.csv"), steps);
  EXPECT_THAT(out_of({"--check", "plan.csv"}), StartsWith("plan.csv: proved, 3 ranks, 3 stages, 5 microbatches, "));
  place_.write(
      "job.yaml",
      "steps: 1\nmodel: {from: hf}\ndata: {path: a.txt}\nbatch: {global_size: 5, microbatches: 5}\nparallel: {pp: 3}\n"
      "pipeline: {schedule: {file: plan.csv}}\n");
  EXPECT_EQ(out_of({"--config", "job.yaml", "--format", "csv"}), steps);
}

TEST_F(Plan, AddsCommunicationToAComputeOnlySchedule) {
  place_.write("own.csv", "0F0,0F1,,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  EXPECT_THAT(out_of({"--check", "own.csv"}),
              StartsWith("own.csv: proved, 2 ranks, 2 stages, 2 microbatches, 16 steps (communication added)\n"));
}

TEST_F(Plan, RefusesAScheduleThatDeadlocks) {
  place_.write("own.csv", "0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1RECV_F0,1B0,1SEND_B0\n");
  EXPECT_THAT(error_of({"--check", "own.csv"}), StartsWith("ppctl: error: schedule own.csv"));
}

TEST_F(Plan, ComparesAllSchedules) {
  const std::string table = out_of({"--compare", "--pp", "4", "--microbatches", "8"});
  for (const char* name : {"gpipe", "1f1b", "interleaved_1f1b", "zb_h1", "zb_v", "dualpipe"}) {
    EXPECT_THAT(table, HasSubstr(std::string("\n") + name + " "));
  }
  EXPECT_THAT(out_of({"--compare", "--pp", "4", "--format", "json"}), StartsWith("["));
}

TEST_F(Plan, ChoosesTheFastestThatFits) {
  const std::vector<std::string> common{"--auto", "--pp", "4", "--microbatches", "8", "--activation-mib", "1024"};
  std::vector<std::string> tight = common;
  tight.insert(tight.end(), {"--memory-gib", "2.5"});
  EXPECT_THAT(out_of(tight), HasSubstr("\npipeline: {schedule: v_min, chunks: 2}\n"));
  std::vector<std::string> impossible = common;
  impossible.insert(impossible.end(), {"--memory-gib", "0.5", "--format", "json"});
  EXPECT_THAT(error_of(impossible), HasSubstr("v_min"));
}

TEST_F(Plan, WantsMemoryToChooseByIt) {
  EXPECT_EQ(error_of({"--auto", "--memory-gib", "1"}),
            "ppctl: error: --auto needs to know memory: give a job with a model, or --activation-mib (kept for one "
            "microbatch) "
            "and --state-mib\n");
}

TEST_F(Plan, ChoosesByTimeAloneWithoutALimitToMemory) {
  EXPECT_THAT(out_of({"--auto", "--pp", "4", "--microbatches", "8"}),
              HasSubstr("\nThe fastest, for the job file:\npipeline: {schedule: dualpipe, chunks: 2}\n"));
  place_.write("job.yaml", kWholeModel);
  const std::string text = out_of({"--config", "job.yaml", "--auto"});
  EXPECT_THAT(text, HasSubstr(" ways to run the job, without a limit to memory. The fastest, for the job file:\n"));
  EXPECT_EQ(text.substr(text.find("\npipeline: ")), [&](const std::string& roomy) {
    return roomy.substr(roomy.find("\npipeline: "));
  }(out_of({"--config", "job.yaml", "--auto", "--memory-gib", "1000"})));
  EXPECT_THAT(out_of({"--config", "job.yaml", "--auto", "--set", "memory_gib=0.06"}),
              HasSubstr(" fit in 0.06 GiB a rank"))
      << "the job's own limit";
}

TEST_F(Plan, WritesDrawingsAndTraces) {
  EXPECT_THAT(out_of({"--format", "svg"}), StartsWith("<svg"));
  EXPECT_THAT(out_of({"--format", "trace"}), StartsWith("{\"displayTimeUnit\""));
  EXPECT_THAT(out_of({"--format", "html"}), StartsWith("<!DOCTYPE html>"));
}

TEST_F(Plan, WantsFiniteNumbers) {
  for (const char* number : {"-1", "nan", "inf", "fast", "1e999"}) {
    EXPECT_EQ(error_of({"--forward-ms", number}), "ppctl: error: --forward-ms: '" + std::string(number) +
                                                      "' is no number of at least 0\nppctl plan --help lists what "
                                                      "there is.\n");
  }
  EXPECT_THAT(error_of({"--memory-gib", "0"}), StartsWith("ppctl: error: --memory-gib: '0' is no number above 0\n"));
}

TEST_F(Plan, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(error_of({"--schedule", "zbv"}),
            "ppctl: error: unknown schedule 'zbv' (did you mean 'zb_v'?); schedules are: gpipe, 1f1b, "
            "interleaved_1f1b, looped_bfs, zb_h1, "
            "zb_h2, interleaved_zb, zb_v, v_half, v_min, dualpipe, dualpipe_v, auto\n");
  EXPECT_EQ(error_of({"--layers", "2,3"}), "ppctl: error: 2 numbers of layers for 4 stages (pp 4 x 1 chunks)\n");
  EXPECT_EQ(error_of({"--layers", "many"}),
            "ppctl: error: --layers many: write the layers of the model (40) or of each stage (2,3,3,2)\n");
  EXPECT_EQ(error_of({"--set", "seed=1"}), "ppctl: error: --set changes a job file: give one with --config\n");
  EXPECT_EQ(error_of({"--schedule", "1f1b", "--chunks", "2"}),
            "ppctl: error: schedule 1f1b: chunks must be 1, not 2\n");
}

TEST_F(Plan, SaysWhereItCannotWrite) {
  EXPECT_EQ(error_of({"--save", "no/such/folder.csv"}),
            "ppctl: error: no/such/folder.csv: cannot be written: No such file or directory\n");
}

}  // namespace
}  // namespace ppctl::cli
