// The whole text of each diagnostic, as a user sees it.

#include <gtest/gtest.h>

#include "unit/config/job_text.hpp"

namespace ppctl {
namespace {

TEST(Diagnostics, NamesAnUnknownKeyAndTheLikelyOne) {
  EXPECT_EQ(problems_of(with_line(7, "pipeline: {shedule: 1f1b}")),
            "job.yaml:7:12: error: unknown key 'shedule' in 'pipeline' (did you mean 'schedule'?)\n"
            "    pipeline: {shedule: 1f1b}\n"
            "               ^");
}

TEST(Diagnostics, NamesAnUnknownKeyOfTheTop) {
  EXPECT_EQ(problems_of(kGoodJob + "optimiser: {lr: 1.0}\n"),
            "job.yaml:8:1: error: unknown key 'optimiser' (did you mean 'optimizer'?)\n"
            "    optimiser: {lr: 1.0}\n"
            "    ^");
}

TEST(Diagnostics, SendsAKeyToTheSectionItBelongsTo) {
  EXPECT_EQ(problems_of(with_line(7, "pipeline: {global_size: 4}")),
            "job.yaml:7:12: error: unknown key 'global_size' in 'pipeline' (did you mean 'batch.global_size'?)\n"
            "    pipeline: {global_size: 4}\n"
            "               ^");
}

TEST(Diagnostics, SendsAKeyThatBelongsToNoSectionOutOfOne) {
  EXPECT_EQ(problems_of(with_line(7, "pipeline: {accumulate: 2}")),
            "job.yaml:7:12: error: unknown key 'accumulate' in 'pipeline' (it is a key of the job itself, outside of "
            "the sections)\n"
            "    pipeline: {accumulate: 2}\n"
            "               ^");
}

TEST(Diagnostics, ListsTheKeysOfASmallSectionWhereNoneIsClose) {
  EXPECT_EQ(problems_of(kGoodJob + "eval: {interval: 4}\n"),
            "job.yaml:8:8: error: unknown key 'interval' in 'eval' (its keys: every, batches)\n"
            "    eval: {interval: 4}\n"
            "           ^");
}

TEST(Diagnostics, RefusesADuplicateKey) {
  EXPECT_EQ(problems_of(kGoodJob + "steps: 30\n"),
            "job.yaml:8:1: error: duplicate key 'steps' (the first is in line 2)\n"
            "    steps: 30\n"
            "    ^");
}

TEST(Diagnostics, RefusesADuplicateKeyInASection) {
  EXPECT_EQ(problems_of(with_line(6, "parallel:\n  pp: 4\n  pp: 2")),
            "job.yaml:8:3: error: duplicate key 'pp' (the first is in line 7)\n"
            "      pp: 2\n"
            "      ^");
}

TEST(Diagnostics, WantsAWholeNumber) {
  EXPECT_EQ(problems_of(with_line(2, "steps: many")),
            "job.yaml:2:8: error: 'steps' must be a whole number of at least 0, not 'many'\n"
            "    steps: many\n"
            "           ^");
}

TEST(Diagnostics, RefusesAFractionForAWholeNumber) {
  EXPECT_EQ(problems_of(with_line(2, "steps: 1e3")),
            "job.yaml:2:8: error: 'steps' must be a whole number of at least 0, not '1e3'\n"
            "    steps: 1e3\n"
            "           ^");
}

TEST(Diagnostics, RefusesANumberInQuotes) {
  EXPECT_EQ(problems_of(with_line(2, "steps: \"20\"")),
            "job.yaml:2:8: error: 'steps' must be a whole number of at least 0, not the text \"20\"\n"
            "    steps: \"20\"\n"
            "           ^");
}

TEST(Diagnostics, RefusesALeadingZeroThatYamlReadsAsOctal) {
  EXPECT_EQ(problems_of(with_line(2, "steps: 010")),
            "job.yaml:2:8: error: 'steps' must be a whole number without leading zeros, not '010'\n"
            "    steps: 010\n"
            "           ^");
}

TEST(Diagnostics, RefusesANegativeNumber) {
  EXPECT_EQ(problems_of(with_line(2, "steps: -5")),
            "job.yaml:2:8: error: 'steps' must be a whole number of at least 0, not '-5'\n"
            "    steps: -5\n"
            "           ^");
}

TEST(Diagnostics, RefusesANumberBeyondItsType) {
  EXPECT_EQ(problems_of(kGoodJob + "accumulate: 3000000000\n"),
            "job.yaml:8:13: error: 'accumulate' must be a whole number from 1 to 2147483647, not '3000000000'\n"
            "    accumulate: 3000000000\n"
            "                ^");
}

TEST(Diagnostics, RefusesANumberThatFitsNoType) {
  EXPECT_EQ(problems_of(with_line(2, "steps: 99999999999999999999")),
            "job.yaml:2:8: error: 'steps' must be a whole number of at least 0, not '99999999999999999999'\n"
            "    steps: 99999999999999999999\n"
            "           ^");
}

TEST(Diagnostics, RefusesAPipelineWithoutRanks) {
  EXPECT_EQ(problems_of(with_line(6, "parallel: {pp: 0}")),
            "job.yaml:6:16: error: 'parallel.pp' must be a whole number from 1 to 65535, not '0'\n"
            "    parallel: {pp: 0}\n"
            "                   ^");
}

TEST(Diagnostics, RefusesWhatIsNoNumber) {
  EXPECT_EQ(problems_of(kGoodJob + "optimizer: {lr: .nan}\n"),
            "job.yaml:8:17: error: 'optimizer.lr' must be a number of at least 0, not '.nan'\n"
            "    optimizer: {lr: .nan}\n"
            "                    ^");
}

TEST(Diagnostics, RefusesInfinity) {
  EXPECT_EQ(problems_of(kGoodJob + "optimizer: {clip_norm: inf}\n"),
            "job.yaml:8:24: error: 'optimizer.clip_norm' must be a number of at least 0, not 'inf'\n"
            "    optimizer: {clip_norm: inf}\n"
            "                           ^");
}

TEST(Diagnostics, RefusesANumberThatOverflows) {
  EXPECT_EQ(problems_of(kGoodJob + "optimizer: {eps: 1e999}\n"),
            "job.yaml:8:18: error: 'optimizer.eps' must be a number above 0, not '1e999'\n"
            "    optimizer: {eps: 1e999}\n"
            "                     ^");
}

TEST(Diagnostics, StatesBothBoundsOfANumber) {
  EXPECT_EQ(problems_of(with_line(4, "data: {path: a.txt, eval_fraction: 1}")),
            "job.yaml:4:36: error: 'data.eval_fraction' must be a number of at least 0 and below 1, not '1'\n"
            "    data: {path: a.txt, eval_fraction: 1}\n"
            "                                       ^");
}

TEST(Diagnostics, WantsTrueOrFalse) {
  EXPECT_EQ(problems_of(with_line(7, "pipeline: {overlap_p2p: yes}")),
            "job.yaml:7:25: error: 'pipeline.overlap_p2p' must be true or false, not 'yes'\n"
            "    pipeline: {overlap_p2p: yes}\n"
            "                            ^");
}

TEST(Diagnostics, WantsOneOfSeveralNames) {
  EXPECT_EQ(problems_of(with_line(4, "data: {kind: token, path: tokens.bin}")),
            "job.yaml:4:14: error: 'data.kind' must be text or tokens, not 'token' (did you mean 'tokens'?)\n"
            "    data: {kind: token, path: tokens.bin}\n"
            "                 ^");
}

TEST(Diagnostics, KnowsTheSchedulesItWasTold) {
  EXPECT_EQ(problems_of(with_line(7, "pipeline: {schedule: interleaved_1b1f}")),
            "job.yaml:7:22: error: 'pipeline.schedule' must be gpipe, 1f1b or interleaved_1f1b, not 'interleaved_1b1f' "
            "(did you mean 'interleaved_1f1b'?)\n"
            "    pipeline: {schedule: interleaved_1b1f}\n"
            "                         ^");
}

TEST(Diagnostics, PassesOnWhyAScheduleCannotBeGenerated) {
  EXPECT_EQ(problems_of(with_line(7, "pipeline: {schedule: 1f1b, chunks: 2}")),
            "job.yaml:7:22: error: schedule 1f1b: chunks must be 1, not 2\n"
            "    pipeline: {schedule: 1f1b, chunks: 2}\n"
            "                         ^");
}

TEST(Diagnostics, WantsAMapForASection) {
  EXPECT_EQ(problems_of(with_line(7, "pipeline: 1f1b")),
            "job.yaml:7:11: error: 'pipeline' must be a map, not '1f1b'\n"
            "    pipeline: 1f1b\n"
            "              ^");
}

TEST(Diagnostics, RefusesAKeyWithoutAValue) {
  EXPECT_EQ(problems_of(with_line(2, "steps:")),
            "job.yaml:2:1: error: 'steps' has no value\n"
            "    steps:\n"
            "    ^");
}

TEST(Diagnostics, RefusesAMicrobatchThatDoesNotDivideTheBatch) {
  EXPECT_EQ(problems_of(with_line(5, "batch: {global_size: 16, microbatch_size: 3}")),
            "job.yaml:5:43: error: 'batch.microbatch_size' (3) does not divide the 16 samples of a replica\n"
            "    batch: {global_size: 16, microbatch_size: 3}\n"
            "                                              ^");
}

TEST(Diagnostics, SaysHowManySamplesAReplicaHas) {
  EXPECT_EQ(problems_of(with_line(5, "batch: {global_size: 16, microbatches: 3}"), {"parallel.dp_replicate=2"}),
            "job.yaml:5:40: error: 'batch.microbatches' (3) does not divide the 8 samples of a replica (global_size 16 "
            "/ 2 replicas)\n"
            "    batch: {global_size: 16, microbatches: 3}\n"
            "                                           ^");
}

TEST(Diagnostics, RefusesABatchThatReplicasCannotShare) {
  EXPECT_EQ(problems_of(with_line(6, "parallel: {dp_replicate: 3, dp_shard: 2}")),
            "job.yaml:5:22: error: 'batch.global_size' (16) is not divisible by the 6 replicas (dp_replicate 3 x "
            "dp_shard 2)\n"
            "    batch: {global_size: 16, microbatch_size: 2}\n"
            "                         ^");
}

TEST(Diagnostics, RefusesTwoStatementsOfTheMicrobatchThatDiffer) {
  EXPECT_EQ(problems_of(with_line(5, "batch: {global_size: 16, microbatch_size: 2, microbatches: 4}")),
            "job.yaml:5:60: error: 'batch.microbatches' (4) x 'batch.microbatch_size' (2) x 1 replicas is not "
            "'batch.global_size' (16); "
            "give one of the two\n"
            "    batch: {global_size: 16, microbatch_size: 2, microbatches: 4}\n"
            "                                                               ^");
}

TEST(Diagnostics, WantsTheMicrobatchStated) {
  EXPECT_EQ(problems_of(with_line(5, "batch: {global_size: 16}")),
            "job.yaml:5:1: error: 'batch' needs 'microbatch_size' (samples) or 'microbatches' (a replica)\n"
            "    batch: {global_size: 16}\n"
            "    ^");
}

TEST(Diagnostics, RefusesExpertsThatDoNotSpreadEvenly) {
  EXPECT_EQ(problems_of(with_line(6, "parallel: {dp_shard: 4, ep: 3}")),
            "job.yaml:6:29: error: 'parallel.ep' (3) does not divide the 4 replicas (dp_replicate 1 x dp_shard 4) over "
            "which experts are spread\n"
            "    parallel: {dp_shard: 4, ep: 3}\n"
            "                                ^");
  EXPECT_EQ(problems_of(with_line(6, "parallel: {dp_replicate: 2, dp_shard: 6, ep: 4}")),
            "job.yaml:5:22: error: 'batch.global_size' (16) is not divisible by the 12 replicas (dp_replicate 2 x "
            "dp_shard 6)\n"
            "    batch: {global_size: 16, microbatch_size: 2}\n"
            "                         ^\n"
            "job.yaml:6:46: error: 'parallel.ep' (4) must divide 'parallel.dp_shard' (6) or be a multiple of it\n"
            "    parallel: {dp_replicate: 2, dp_shard: 6, ep: 4}\n"
            "                                                 ^");
}

TEST(Diagnostics, RefusesExpertsThatRanksCannotShareEvenly) {
  EXPECT_EQ(problems_of(with_line(3, "model: {family: mixtral, num_hidden_layers: 8, num_local_experts: 6}"),
                        {"parallel.pp=1", "parallel.dp_shard=4", "parallel.ep=4"}),
            "--set parallel.ep=4: 'parallel.ep' (4) does not divide 'model.num_local_experts' (6)");
}

TEST(Diagnostics, RefusesMoreStagesThanLayers) {
  EXPECT_EQ(problems_of(with_line(6, "parallel: {pp: 16}")),
            "job.yaml:6:16: error: 16 stages (pp 16 x 1 chunks) need at least as many layers; the model has 8\n"
            "    parallel: {pp: 16}\n"
            "                   ^");
}

TEST(Diagnostics, RefusesMoreChunksThanLayers) {
  EXPECT_EQ(problems_of(with_line(7, "pipeline: {schedule: interleaved_1f1b, chunks: 3}")),
            "job.yaml:7:48: error: 12 stages (pp 4 x 3 chunks) need at least as many layers; the model has 8\n"
            "    pipeline: {schedule: interleaved_1f1b, chunks: 3}\n"
            "                                                   ^");
}

TEST(Diagnostics, CountsTheNumbersOfALayerList) {
  EXPECT_EQ(problems_of(with_line(7, "pipeline: {layers: [4, 4]}")),
            "job.yaml:7:20: error: 'pipeline.layers' has 2 numbers for 4 stages (pp 4 x 1 chunks)\n"
            "    pipeline: {layers: [4, 4]}\n"
            "                       ^");
}

TEST(Diagnostics, AddsUpALayerList) {
  EXPECT_EQ(problems_of(with_line(7, "pipeline: {layers: [1, 2, 2, 2]}")),
            "job.yaml:7:20: error: 'pipeline.layers' adds up to 7 layers; the model has 8\n"
            "    pipeline: {layers: [1, 2, 2, 2]}\n"
            "                       ^");
}

TEST(Diagnostics, PointsAtTheItemOfAList) {
  EXPECT_EQ(problems_of(with_line(7, "pipeline: {layers: [2, 2, two, 2]}")),
            "job.yaml:7:27: error: 'pipeline.layers' must be a whole number of at least 0, not 'two'\n"
            "    pipeline: {layers: [2, 2, two, 2]}\n"
            "                              ^");
}

TEST(Diagnostics, RefusesAnotherShapeOfLayers) {
  EXPECT_EQ(problems_of(with_line(7, "pipeline: {layers: unifrom}")),
            "job.yaml:7:20: error: 'pipeline.layers' must be uniform, auto or a list with the number of layers of each "
            "stage, not 'unifrom' "
            "(did you mean 'uniform'?)\n"
            "    pipeline: {layers: unifrom}\n"
            "                       ^");
}

TEST(Diagnostics, RefusesAWarmUpBeyondTheEnd) {
  EXPECT_EQ(problems_of(kGoodJob + "lr_schedule: {kind: cosine, warmup_steps: 30}\n"),
            "job.yaml:8:43: error: 'lr_schedule.warmup_steps' (30) is more than the 20 steps of the schedule\n"
            "    lr_schedule: {kind: cosine, warmup_steps: 30}\n"
            "                                              ^");
}

TEST(Diagnostics, RefusesADecayThatMeetsTheWarmUp) {
  EXPECT_EQ(problems_of(kGoodJob + "lr_schedule: {kind: wsd, warmup_steps: 15, decay_steps: 10}\n"),
            "job.yaml:8:57: error: 'lr_schedule.warmup_steps' (15) and 'lr_schedule.decay_steps' (10) are more than "
            "the 20 steps of the "
            "schedule\n"
            "    lr_schedule: {kind: wsd, warmup_steps: 15, decay_steps: 10}\n"
            "                                                            ^");
}

TEST(Diagnostics, RefusesAKeyWithoutEffect) {
  EXPECT_EQ(problems_of(kGoodJob + "lr_schedule: {kind: constant, final_ratio: 0.1}\n"),
            "job.yaml:8:44: error: 'lr_schedule.final_ratio' has no effect with 'lr_schedule.kind' constant\n"
            "    lr_schedule: {kind: constant, final_ratio: 0.1}\n"
            "                                               ^");
}

TEST(Diagnostics, WantsAnEndOfTheSchedule) {
  EXPECT_EQ(
      problems_of(with_line(2, "stop_tokens: 1000") + "lr_schedule: {kind: linear}\n"),
      "job.yaml:8:21: error: 'lr_schedule.kind' linear needs 'lr_schedule.total_steps' where the job has no 'steps'\n"
      "    lr_schedule: {kind: linear}\n"
      "                        ^");
}

TEST(Diagnostics, KnowsTheDimensionsOfAFamily) {
  EXPECT_EQ(problems_of(with_line(3, "model: {family: llama, hiden_size: 64}")),
            "job.yaml:3:24: error: unknown key 'hiden_size' in 'model' (did you mean 'hidden_size'?)\n"
            "    model: {family: llama, hiden_size: 64}\n"
            "                           ^");
}

TEST(Diagnostics, TranslatesADimensionForGpt2) {
  EXPECT_EQ(problems_of(with_line(3, "model: {family: gpt2, hidden_size: 64}")),
            "job.yaml:3:23: error: unknown key 'hidden_size' in 'model': gpt2 calls it 'n_embd'\n"
            "    model: {family: gpt2, hidden_size: 64}\n"
            "                          ^");
}

TEST(Diagnostics, ChecksTheTypeOfADimension) {
  EXPECT_EQ(problems_of(with_line(3, "model: {family: llama, hidden_size: large}")),
            "job.yaml:3:37: error: 'model.hidden_size' must be a whole number of at least 1, not 'large'\n"
            "    model: {family: llama, hidden_size: large}\n"
            "                                        ^");
}

TEST(Diagnostics, LooksIntoRopeScaling) {
  EXPECT_EQ(problems_of(with_line(3, "model: {family: llama, rope_scaling: {rope_type: llama3, facter: 8}}")),
            "job.yaml:3:58: error: unknown key 'facter' in 'model.rope_scaling' (did you mean 'factor'?)\n"
            "    model: {family: llama, rope_scaling: {rope_type: llama3, facter: 8}}\n"
            "                                                             ^");
}

TEST(Diagnostics, WantsAModel) {
  EXPECT_EQ(problems_of(with_line(3, "model: {dtype: float32}")),
            "job.yaml:3:1: error: 'model' needs 'from' (a Hugging Face folder) or 'family' and the model's dimensions\n"
            "    model: {dtype: float32}\n"
            "    ^");
}

TEST(Diagnostics, RefusesTwoSourcesOfTheFamily) {
  EXPECT_EQ(problems_of(with_line(3, "model: {from: hf, family: llama}")),
            "job.yaml:3:27: error: 'model.family' has no place beside 'model.from': the folder's config.json says the "
            "family\n"
            "    model: {from: hf, family: llama}\n"
            "                              ^");
}

TEST(Diagnostics, WantsBothBetas) {
  EXPECT_EQ(problems_of(kGoodJob + "optimizer: {betas: [0.9]}\n"),
            "job.yaml:8:20: error: 'optimizer.betas' must be a list of two numbers such as [0.9, 0.95], not a list\n"
            "    optimizer: {betas: [0.9]}\n"
            "                       ^");
}

TEST(Diagnostics, WantsSamplesToEvaluateOnWhereAJobIsTrained) {
  const auto train = [](const std::string& more) { parse_config(kGoodJob + more, "job.yaml", {}, {}, JobUse::kTrain); };
  try {
    train("eval: {every: 10}\n");
    FAIL() << "nothing was thrown";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "job.yaml:8:15: error: 'eval.every' needs 'data.eval_fraction', the share of the samples that is held "
                 "out\n"
                 "    eval: {every: 10}\n"
                 "                  ^");
  }
  EXPECT_NO_THROW(train("eval: {batches: 10}\n"));
  EXPECT_EQ(problems_of(kGoodJob + "eval: {every: 10}\n"), "") << "a plan does not evaluate";
}

TEST(Diagnostics, WantsAFolderForCheckpoints) {
  EXPECT_EQ(problems_of(kGoodJob + "checkpoint: {every: 10}\n"),
            "job.yaml:8:21: error: 'checkpoint.every' needs 'checkpoint.folder', where checkpoints go\n"
            "    checkpoint: {every: 10}\n"
            "                        ^");
}

TEST(Diagnostics, RefusesPostValidationWithWhatItCannotDo) {
  const std::string job = with_line(7, "pipeline: {schedule: 1f1b, post_validation: true}");
  EXPECT_EQ(problems_of(job), "");
  EXPECT_EQ(problems_of(job, {"parallel.dp_shard=2"}),
            "job.yaml:7:45: error: 'pipeline.post_validation' does not go together with 'parallel.dp_shard' above 1\n"
            "    pipeline: {schedule: 1f1b, post_validation: true}\n"
            "                                                ^");
}

TEST(Diagnostics, ListsEveryProblemInTheOrderOfTheFile) {
  EXPECT_EQ(problems_of("stepz: 20\n"
                        "model: {family: lama}\n"
                        "data: {path: a.txt, order: random}\n"
                        "batch: {global_size: 16, microbatch_size: 0}\n"),
            "job.yaml:1:1: error: unknown key 'stepz' (did you mean 'steps'?)\n"
            "    stepz: 20\n"
            "    ^\n"
            "job.yaml:1:1: error: the job has no end: give 'steps' or 'stop_tokens'\n"
            "    stepz: 20\n"
            "    ^\n"
            "job.yaml:2:17: error: 'model.family' must be llama, qwen3, gpt2, mixtral, qwen3_moe or llava, not 'lama' "
            "(did you mean 'llama'?)\n"
            "    model: {family: lama}\n"
            "                    ^\n"
            "job.yaml:3:28: error: 'data.order' must be sequential or shuffled, not 'random'\n"
            "    data: {path: a.txt, order: random}\n"
            "                               ^\n"
            "job.yaml:4:43: error: 'batch.microbatch_size' must be a whole number of at least 1, not '0'\n"
            "    batch: {global_size: 16, microbatch_size: 0}\n"
            "                                              ^");
}

TEST(Diagnostics, NamesALinkThatIsThereTwice) {
  const std::string line = "link: {pairs: [{from: 0, to: 1}, {from: 1, to: 0}, {from: 0, to: 1}]}";
  EXPECT_EQ(
      problems_of(kGoodJob + line + "\n"),
      fmt::format("job.yaml:8:52: error: 'link.pairs[2]' is from rank 0 to rank 1, as 'link.pairs[0]' is already\n"
                  "    {}\n{:>56}",
                  line, '^'));
}

TEST(Diagnostics, NamesTheLinksWhoseRanksAreNotThere) {
  const std::string line = "link: {pairs: [{from: 0, to: 99}, {from: 1, to: 1}, {from: 0}]}";
  const auto at = [&](int column, const std::string& rule) {
    return fmt::format("job.yaml:8:{}: error: {}\n    {}\n{:>{}}", column, rule, line, '^', column + 4);
  };
  EXPECT_EQ(problems_of(kGoodJob + line + "\n"),
            at(16, "'link.pairs[0]' is from rank 0 to rank 99, but the job's ranks are 0 to 3") + "\n" +
                at(35, "'link.pairs[1]' is from rank 1 to itself") + "\n" +
                at(53, "missing key 'link.pairs[2].to', for example {from: 0, to: 1, latency_us: 50}"));
}

}  // namespace
}  // namespace ppctl
