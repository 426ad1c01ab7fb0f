#include "config/load.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "unit/config/job_text.hpp"

namespace ppctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string error_of_loading(const std::string& file) {
  try {
    load_config(file);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class LoadConfig : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("ppctl_load_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }
  std::filesystem::path folder_;
};

TEST_F(LoadConfig, ReadsEveryKeyOfTheDocumentation) {
  const JobConfig job = parse(R"(name: everything
seed: 7
steps: 100
stop_tokens: 100000
accumulate: 2
threads: 3
device: cuda
timeout_s: 12.5
model: {from: hf, dtype: bfloat16, load_weights: false, num_hidden_layers: 8, rope_scaling: {rope_type: llama3, factor: 8.0}}
data: {kind: tokens, path: [a.bin, b.bin], pixels: pixels.bin, token_dtype: uint32, sequence_length: 64, order: sequential, eval_fraction: 0.1}
batch: {global_size: 32, microbatches: 4}
parallel: {pp: 2, dp_replicate: 2, dp_shard: 2, ep: 2}
pipeline: {schedule: interleaved_1f1b, chunks: 2, layers: [1, 2, 2, 3], overlap_p2p: true, overlap_b_f: true, duplex: false,
           split_backward: true, group: 2, less_memory: true, memory_limit: 3.5, post_validation: false}
mpipe: {layers: 3, mode: before_body, backward: recompute, body: gpipe}
fsdp: {reduce: microbatch, reshard_after_forward: true}
precision: {param: bfloat16, reduce: bfloat16}
recompute: {attention: true, mlp: true, every: 2}
swap: {layers: [0, 3], tier: file, folder: spill}
link: {latency_us: 10, bandwidth_gbps: 2.5, rendezvous: true, pairs: [{from: 0, to: 7, latency_us: 5}]}
optimizer: {name: adamw, lr: 2.0e-3, betas: [0.8, 0.99], eps: 1.0e-6, weight_decay: 0.2, decay: all, clip_norm: 0, skip_nonfinite: true}
lr_schedule: {kind: wsd, warmup_steps: 5, total_steps: 90, final_ratio: 0.1, decay_steps: 20}
checkpoint: {folder: out, every: 10, keep: 3, export: final, resume: false}
eval: {every: 5, batches: 4}
log: {json: run.jsonl, every: 2}
sample: {prompt: "Once", tokens: 10, temperature: 0, top_k: 0}
)");
  const std::string here = std::filesystem::current_path().string() + "/";
  EXPECT_EQ(job.name, "everything");
  EXPECT_EQ(job.seed, 7U);
  EXPECT_EQ(job.stop_tokens, 100000);
  EXPECT_EQ(job.accumulate, 2);
  EXPECT_EQ(job.threads, 3);
  EXPECT_EQ(job.device, "cuda");
  EXPECT_EQ(job.timeout_s, 12.5);
  EXPECT_EQ(job.model.from, here + "hf");
  EXPECT_EQ(job.model.dtype, "bfloat16");
  EXPECT_FALSE(job.model.load_weights);
  EXPECT_THAT(job.model.hf, ElementsAre(std::pair("num_hidden_layers", "8"),
                                        std::pair("rope_scaling", "{\"factor\": 8, \"rope_type\": \"llama3\"}")));
  EXPECT_THAT(job.data.path, ElementsAre(here + "a.bin", here + "b.bin"));
  EXPECT_EQ(job.data.pixels, here + "pixels.bin");
  EXPECT_EQ(job.data.token_dtype, "uint32");
  EXPECT_EQ(job.data.order, "sequential");
  EXPECT_EQ(job.num_microbatches(), 4);
  EXPECT_EQ(job.microbatch_size(), 2);
  EXPECT_EQ(job.world_size(), 8);
  EXPECT_EQ(job.pipeline.chunks, 2);
  EXPECT_EQ(job.pipeline.layers, "list");
  EXPECT_THAT(job.pipeline.layer_counts, ElementsAre(1, 2, 2, 3));
  EXPECT_EQ(job.pipeline.duplex, std::optional(false));
  EXPECT_EQ(job.pipeline.group, 2);
  EXPECT_EQ(job.pipeline.memory_limit, 3.5);
  EXPECT_TRUE(job.pipeline.overlap_p2p && job.pipeline.overlap_b_f && job.pipeline.split_backward &&
              job.pipeline.less_memory);
  EXPECT_TRUE(job.mpipe.enabled);
  EXPECT_EQ(job.mpipe.layers, 3);
  EXPECT_EQ(job.mpipe.backward, "recompute");
  EXPECT_EQ(job.fsdp.reduce, "microbatch");
  EXPECT_EQ(job.precision.param, "bfloat16");
  EXPECT_TRUE(job.recompute.attention && job.recompute.mlp && !job.recompute.full);
  EXPECT_EQ(job.recompute.every, 2);
  EXPECT_THAT(job.swap.layer_list, ElementsAre(0, 3));
  EXPECT_EQ(job.swap.folder, here + "spill");
  EXPECT_EQ(job.link.bandwidth_gbps, 2.5);
  EXPECT_TRUE(job.link.rendezvous);
  ASSERT_EQ(job.link.pairs.size(), 1U);
  EXPECT_EQ(job.link.pairs[0].to, 7);
  EXPECT_EQ(job.link.pairs[0].latency_us, 5);
  EXPECT_EQ(job.link.pairs[0].bandwidth_gbps, 0);
  EXPECT_EQ(job.optimizer.beta2, 0.99);
  EXPECT_EQ(job.optimizer.decay, "all");
  EXPECT_TRUE(job.optimizer.skip_nonfinite);
  EXPECT_EQ(job.lr_schedule.decay_steps, 20);
  EXPECT_EQ(job.checkpoint.export_when, "final");
  EXPECT_FALSE(job.checkpoint.resume);
  EXPECT_EQ(job.eval.batches, 4);
  EXPECT_EQ(job.log.every, 2);
  EXPECT_EQ(job.sample.prompt, "Once");
}

TEST_F(LoadConfig, ReadsTheJobOfTheDocumentation) {
  EXPECT_EQ(problems_of(R"(name: tiny-llama
seed: 1
steps: 20
model: {from: path/to/hf_folder, dtype: float32}
data: {kind: tokens, path: tokens.bin, token_dtype: uint16, sequence_length: 32, order: sequential}
batch: {global_size: 16, microbatch_size: 2}
parallel: {pp: 4, dp_shard: 1, dp_replicate: 1, ep: 1}
pipeline: {schedule: 1f1b, chunks: auto, layers: uniform, overlap_p2p: false, overlap_b_f: false, duplex: auto}
optimizer: {name: adamw, lr: 1.0e-3, betas: [0.9, 0.95], eps: 1.0e-8, weight_decay: 0.1, decay: all, clip_norm: 1.0}
lr_schedule: {kind: constant, warmup_steps: 5}
checkpoint: {folder: checkpoints, every: 100, keep: 2, export: final}
eval: {every: 100, batches: 8}
log: {json: run.jsonl}
)"),
            "");
}

TEST_F(LoadConfig, KnowsThePlaceOfAKeyForFaultsThatAreFoundLater) {
  const JobConfig job = parse_config(kGoodJob, "job.yaml", {"batch.global_size=32"}).job;
  EXPECT_STREQ(job.fault("steps", "too few").what(), "job.yaml:2:8: too few");
  EXPECT_STREQ(job.fault("batch.global_size", "too large").what(), "--set batch.global_size=32: too large");
  EXPECT_STREQ(job.fault("pipeline.layers", "of a section that is there").what(),
               "job.yaml:7:1: of a section that is there");
  EXPECT_STREQ(job.fault("swap.layers", "of none").what(), "job.yaml: of none");
  EXPECT_STREQ(JobConfig().fault("steps", "of a job made in code").what(), "of a job made in code");
}

TEST_F(LoadConfig, LetsASetChooseAnotherLearningRateScheduleThanTheFilesKeysAreFor) {
  const std::string cosine = kGoodJob + "lr_schedule: {kind: cosine, warmup_steps: 2, final_ratio: 0.1}\n";
  EXPECT_EQ(parse(cosine, {"lr_schedule.kind=constant"}).lr_schedule.kind, "constant");
}

TEST_F(LoadConfig, TakesTheShortFormsOfShapes) {
  const JobConfig job = parse(kGoodJob + "recompute: full\nmpipe: {layers: all}\nswap: {layers: auto}\neval:\n",
                              {"pipeline.schedule={file: plan.csv}", "pipeline.chunks=auto", "pipeline.duplex=auto"});
  EXPECT_TRUE(job.recompute.full);
  EXPECT_EQ(job.mpipe.layers, MpipeConfig::kAllLayers);
  EXPECT_FALSE(job.mpipe.is_auto());
  EXPECT_EQ(parse(kGoodJob + "mpipe: {layers: auto}\n").mpipe.layers, MpipeConfig::kAutoLayers);
  EXPECT_TRUE(parse(kGoodJob + "mpipe: {layers: auto}\n").mpipe.is_auto());
  EXPECT_TRUE(parse(kGoodJob + "mpipe: {layers: 2, mode: auto}\n").mpipe.is_auto());
  EXPECT_EQ(job.swap.layers, "auto");
  EXPECT_EQ(job.pipeline.schedule, "file");
  EXPECT_EQ(job.pipeline.schedule_file, std::filesystem::current_path() / "plan.csv");
  EXPECT_EQ(job.pipeline.chunks, 0);
  EXPECT_FALSE(job.pipeline.duplex.has_value());
}

TEST_F(LoadConfig, MakesPathsRelativeToTheJobFileAndThoseOfSetRelativeToTheCurrentFolder) {
  const std::string file = write("job.yaml", kGoodJob + "checkpoint: {folder: ../out}\n");
  const JobConfig job = load_config(file, {"log.json=run.jsonl"}).job;
  EXPECT_EQ(job.data.path, std::vector<std::string>{(folder_ / "tokens.bin").string()});
  EXPECT_EQ(job.checkpoint.folder, (folder_.parent_path() / "out").string());
  EXPECT_EQ(job.log.json, (std::filesystem::current_path() / "run.jsonl").string());
}

TEST_F(LoadConfig, LetsTheLastSetWin) {
  EXPECT_EQ(parse(kGoodJob, {"steps=1", "steps=2"}).steps, 2);
  EXPECT_EQ(parse(kGoodJob, {"optimizer.lr=0.5"}).optimizer.lr, 0.5);
}

TEST_F(LoadConfig, LetsAMicrobatchOfSetReplaceTheOtherOneOfTheFile) {
  EXPECT_EQ(parse(kGoodJob, {"batch.microbatches=4"}).microbatch_size(), 4);
  EXPECT_EQ(
      parse(with_line(5, "batch: {global_size: 16, microbatches: 2}"), {"batch.microbatch_size=1"}).num_microbatches(),
      16);
}

TEST_F(LoadConfig, DoesNotChangeAliasedValuesElsewhere) {
  const JobConfig job =
      parse("x-e: &e {every: 3}\n" + kGoodJob + "eval: *e\nlog: *e\n", {"log.every=9", "data.eval_fraction=0.5"});
  EXPECT_EQ(job.eval.every, 3);
  EXPECT_EQ(job.log.every, 9);
}

TEST_F(LoadConfig, NamesTheSetThatIsWrong) {
  EXPECT_EQ(problems_of(kGoodJob, {"pipeline.shedule=gpipe"}),
            "--set pipeline.shedule=gpipe: unknown key 'shedule' in 'pipeline' (did you mean 'schedule'?)");
  EXPECT_EQ(problems_of(kGoodJob, {"steps=ten"}),
            "--set steps=ten: 'steps' must be a whole number of at least 0, not 'ten'");
  EXPECT_EQ(problems_of(kGoodJob, {"steps"}),
            "--set steps: write it as key=value, where key is like pipeline.schedule");
  EXPECT_EQ(problems_of(kGoodJob, {"=3"}), "--set =3: write it as key=value, where key is like pipeline.schedule");
  EXPECT_EQ(problems_of(kGoodJob, {"steps="}), "--set steps=: 'steps' has no value");
  EXPECT_EQ(problems_of(kGoodJob, {"model.from=[a"}),
            "--set model.from=[a: this is not valid YAML: end of sequence flow not found");
  EXPECT_EQ(problems_of(kGoodJob, {"batch.microbatch_size=5"}),
            "--set batch.microbatch_size=5: 'batch.microbatch_size' (5) does not divide the 16 samples of a replica");
}

TEST_F(LoadConfig, LetsASetCutAJobShorterThanItsWarmUpAndDecay) {
  EXPECT_EQ(problems_of(kGoodJob + "lr_schedule: {kind: cosine, warmup_steps: 5}\n", {"steps=3"}), "");
  EXPECT_EQ(problems_of(kGoodJob + "lr_schedule: {kind: wsd, warmup_steps: 5, decay_steps: 6}\n", {"steps=10"}), "");
  EXPECT_EQ(problems_of(kGoodJob + "lr_schedule: {kind: cosine, warmup_steps: 5, total_steps: 4}\n", {"steps=3"}),
            "job.yaml:8:43: error: 'lr_schedule.warmup_steps' (5) is more than the 4 steps of the schedule\n"
            "    lr_schedule: {kind: cosine, warmup_steps: 5, total_steps: 4}\n"
            "                                              ^");
}

TEST_F(LoadConfig, ListsProblemsOfTheFileBeforeThoseOfSets) {
  EXPECT_EQ(problems_of(with_line(2, "steps: x"), {"seed=y"}),
            "job.yaml:2:8: error: 'steps' must be a whole number of at least 0, not 'x'\n"
            "    steps: x\n"
            "           ^\n"
            "--set seed=y: 'seed' must be a whole number of at least 0, not 'y'");
}

TEST_F(LoadConfig, CountsItsProblemsAndHasThePositionOfTheFirst) {
  try {
    parse(with_line(2, "steps: x\nseed: y"));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.num_problems(), 2);
    ASSERT_TRUE(error.position().has_value());
    EXPECT_EQ(error.position()->line, 2);
    EXPECT_EQ(error.position()->column, 8);
  }
}

TEST_F(LoadConfig, SaysWhyAFileCannotBeRead) {
  EXPECT_EQ(error_of_loading("missing.yaml"), "missing.yaml: cannot be opened: No such file or directory");
  EXPECT_EQ(error_of_loading(folder_.string()), folder_.string() + ": is a folder; a job is a YAML file");
  const std::string large = write("large.yaml", std::string((1U << 20U) + 1, '#'));
  EXPECT_EQ(error_of_loading(large), large + ": is longer than 1 MiB; a job file is a page or two of YAML");
}

TEST_F(LoadConfig, ReadsALargeFileWithoutDelay) {
  std::string text = kGoodJob;
  while (text.size() < 1'000'000) text += "x-" + std::to_string(text.size()) + ": [1, 2, 3]\n";
  EXPECT_EQ(problems_of(text), "");
}

TEST(ShowConfig, PrintsKeysValuesAndOrigins) {
  const LoadedConfig loaded = parse_config(kGoodJob, "job.yaml", {"optimizer.lr=0.5"});
  EXPECT_THAT(show_config(loaded), HasSubstr("\nparallel.pp                 4 "));
  for (const ConfigValue& value : loaded.values) {
    if (value.key == "steps") {
      EXPECT_EQ(value.origin.kind, ConfigOrigin::Kind::kFile);
      EXPECT_EQ(value.origin.line, 2);
    } else if (value.key == "optimizer.lr") {
      EXPECT_EQ(value.value, "0.5");
      EXPECT_EQ(value.origin.kind, ConfigOrigin::Kind::kCommandLine);
    } else if (value.key == "pipeline.chunks") {
      EXPECT_EQ(value.value, "auto");
      EXPECT_EQ(value.origin.kind, ConfigOrigin::Kind::kDefault);
    }
  }
}

TEST(ShowConfig, AlignsItsColumns) {
  LoadedConfig loaded;
  loaded.values = {{"steps", "20", {ConfigOrigin::Kind::kFile, "job.yaml", 3}},
                   {"pipeline.schedule", "1f1b", {}},
                   {"seed", "5", {ConfigOrigin::Kind::kCommandLine, "", 0}}};
  EXPECT_EQ(show_config(loaded),
            "key                value  origin\n"
            "steps              20     job.yaml:3\n"
            "pipeline.schedule  1f1b   default\n"
            "seed               5      command line\n");
}

}  // namespace
}  // namespace ppctl
