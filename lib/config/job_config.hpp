#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace ppctl {

/// The job, as plain structs with one field a YAML key. Paths are absolute (relative ones in a file are relative to the
/// file). Each field's comment gives unit and trade-off; its initialiser is the default.
struct ModelConfig {
  std::string from;               ///< Hugging Face folder; empty: family and dimensions below
  std::string family;             ///< "llama", "qwen3", "gpt2", ...
  std::string dtype = "float32";  ///< of parameters and activations: float32 | bfloat16
  /// Dimensions and other config.json keys under their Hugging Face names, as JSON text by key ("hidden_size" -> "64").
  /// With `from`, they override the folder's config.json.
  std::map<std::string, std::string> hf;
  bool load_weights = true;  ///< with `from`: read its weights; false: initialise by seed
  /// Multimodal models: trainable | frozen (all but the encoder is trained) | projector_only.
  std::string encoder = "trainable";
};

struct DataConfig {
  std::string kind = "text";      ///< text (bytes of files) | tokens (flat token file)
  std::vector<std::string> path;  ///< files, or folders whose files are read in name order (text)
  /// Multimodal jobs: the images, a file of float32 [image, channel, row, column], or a folder of PNG files in name
  /// order; empty: none.
  std::string pixels;
  /// A text file whose line i names the images of sample i by number, separated by blanks; empty: image j of sample i
  /// is number i + j, modulo their number.
  std::string images;
  double images_per_sample = 1.0;      ///< the mean, that plans reckon with
  std::string token_dtype = "uint16";  ///< uint16 | uint32
  std::int64_t sequence_length = 128;  ///< tokens a sample
  std::int64_t stride = 0;             ///< tokens between the starts of two samples; 0: sequence_length
  std::string order = "shuffled";      ///< sequential | shuffled (a function of seed and epoch)
  double eval_fraction = 0.0;          ///< share of the samples, from the end of the data, held out for evaluation
};

struct BatchConfig {
  std::int64_t global_size = 0;      ///< samples a step, over all replicas
  std::int64_t microbatch_size = 0;  ///< samples; 0: from `microbatches`
  std::int64_t microbatches = 0;     ///< a replica and step; 0: from `microbatch_size`
};

struct ParallelConfig {
  int pp = 1;
  int dp_replicate = 1;
  int dp_shard = 1;
  int ep = 1;
};

struct PipelineConfig {
  std::string schedule = "1f1b";   ///< a generator's name, or "file"
  std::string schedule_file;       ///< with {file: ...}
  int chunks = 0;                  ///< stages a rank; 0: auto
  std::string layers = "uniform";  ///< uniform | list | auto
  std::vector<int> layer_counts;   ///< with `layers: [...]`, one a stage
  bool overlap_p2p = false;
  bool overlap_b_f = false;
  std::optional<bool> duplex;    ///< unset: auto (on under overlap_b_f)
  bool split_backward = false;   ///< dx and dw apart also in schedules that do not need it
  int group = 0;                 ///< interleaved: microbatches a group; 0: default
  bool less_memory = false;      ///< interleaved
  double memory_limit = 0;       ///< auto: microbatches of activations a rank
  bool post_validation = false;  ///< zero-bubble optimizer step without a global barrier
};

/// Activations that the backward computes again instead of keeping them: the same bits for less memory and more time.
struct RecomputeConfig {
  bool full = false;        ///< whole layers
  bool attention = false;   ///< attention and the norm before it
  bool mlp = false;         ///< the feed-forward and the norm before it
  int every = 1;            ///< of the layers 0, every, 2 * every, ...
  std::vector<int> stages;  ///< in these stages alone; empty: in all

  bool any() const { return full || attention || mlp; }
};

/// Activations that leave memory between forward and backward.
struct SwapConfig {
  std::string layers;           ///< "" (off) | all | auto (as few as memory_gib needs; without it all) | list
  std::vector<int> layer_list;  ///< numbers of layers, with `layers: [...]`
  std::string tier = "host";    ///< host (memory, for a device with its own) | file
  std::string folder;           ///< tier file: where a rank's file without a name lies
  double limit_gib = 0;         ///< of the tier, a rank; 0: what there is
  bool direct = false;          ///< tier file: past the page cache
  double bandwidth_gbps = 0;    ///< slows the tier down to 10^9 bits a second each way; 0: as fast as it is
  int distance = 4;             ///< compute slots between a forward and its backward that make it worth while, >= 3
};

struct FsdpConfig {
  std::string reduce = "step";  ///< step | microbatch
  bool reshard_after_forward = false;
};

struct PrecisionConfig {
  std::string param;  ///< dtype of compute; empty: the model's
  std::string reduce = "float32";
};

/// On with `pipeline.schedule: mpipe_transpose`, whose body is `body`; or with a section `mpipe` beside another
/// schedule, which then is the body.
struct MpipeConfig {
  static constexpr int kAllLayers = -1;
  static constexpr int kAutoLayers = -2;

  bool enabled = false;
  /// Encoder layers that are transposed, with the patch embedding; 0: data loading alone; kAllLayers; kAutoLayers: as
  /// many as make the step shortest, or no MPipe at all.
  int layers = kAllLayers;
  std::string mode = "just_in_time";  ///< before_body | just_in_time | auto (what makes the step shorter)
  std::string backward = "owner";     ///< owner | recompute
  std::string body = "1f1b";

  bool is_auto() const { return enabled && (layers == kAutoLayers || mode == "auto"); }
};

/// As the job file has it: "all", "auto" or a number.
std::string layers_text(const MpipeConfig& mpipe);

/// The link of one ordered pair of ranks of the job, where it differs from the others.
struct LinkPairConfig {
  int from = 0;
  int to = 0;
  double latency_us = 0;
  double bandwidth_gbps = 0;
};

/// Links that are slower than the machine's: in training and benchmarks emulated, in plans simulated.
struct LinkConfig {
  double latency_us = 0;
  double bandwidth_gbps = 0;  ///< 10^9 bits a second; 0: unlimited
  bool rendezvous = false;    ///< a message starts when it is sent and its receive is posted, as with NCCL
  std::vector<LinkPairConfig> pairs;

  bool is_given() const { return latency_us > 0 || bandwidth_gbps > 0 || !pairs.empty(); }
};

struct OptimizerConfig {
  std::string name = "adamw";
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  std::string decay = "matrices";  ///< all | matrices
  double clip_norm = 1.0;          ///< 0: no clipping
  bool skip_nonfinite = false;     ///< a step whose gradients are not finite leaves the parameters as they are
};

struct LrScheduleConfig {
  std::string kind = "constant";  ///< constant | linear | cosine | wsd
  int warmup_steps = 0;           ///< lr · min(1, (step + 1) / warmup_steps)
  std::int64_t total_steps = 0;   ///< 0: the job's steps
  double final_ratio = 0.0;       ///< of lr, at the end of linear, cosine, wsd
  int decay_steps = 0;            ///< wsd: the last steps in which it decays
};

struct CheckpointConfig {
  std::string folder;  ///< empty: no checkpoints
  int every = 0;       ///< steps; 0: only at the end
  int keep = 2;
  std::string export_when = "never";  ///< `export: never | final`: a Hugging Face folder, <folder>/hf
  bool resume = true;                 ///< from the newest complete checkpoint in the folder
  /// Write while training goes on: a step waits for a copy in memory at most, which costs as much memory again as the
  /// state of the rank until it is written.
  bool asynchronous = true;
};

struct EvalConfig {
  int every = 0;  ///< steps; 0: off
  int batches = 8;
};

struct LogConfig {
  std::string json;    ///< JSON lines; empty: none
  int every = 1;       ///< steps between console lines
  bool memory = true;  ///< measure tensors to the byte beside the plan: about 0.1 µs an allocation
};

/// A continuation that is generated at the end of training.
struct SampleConfig {
  std::string prompt;  ///< empty: none
  int tokens = 200;
  double temperature = 0.8;  ///< 0: greedy
  int top_k = 40;            ///< 0: all
};

struct JobConfig {
  std::string file;  ///< where it was read from
  std::string text;  ///< every value with its origin, as --show-config prints it; empty for a job made in code
  std::map<std::string, FilePosition> places;  ///< of the keys that were given, by dotted key
  std::string name = "job";
  std::uint64_t seed = 1;
  std::int64_t steps = 0;        ///< stop after this many; 0: by tokens
  std::int64_t stop_tokens = 0;  ///< stop once so many tokens were trained on; 0: by steps
  int accumulate = 1;            ///< batches an optimizer step
  int threads = 1;               ///< compute threads a rank
  std::string device = "cpu";
  double timeout_s = 300;  ///< deadline of each wait for another rank
  double memory_gib = 0;   ///< what a rank may take, for `layers: auto`, `swap: {layers: auto}` and plans; 0: no limit
  std::string profile;     ///< costs of layers that `bench --profile` measured; empty: as many operations as they have
  ModelConfig model;
  DataConfig data;
  BatchConfig batch;
  ParallelConfig parallel;
  PipelineConfig pipeline;
  RecomputeConfig recompute;
  SwapConfig swap;
  FsdpConfig fsdp;
  PrecisionConfig precision;
  MpipeConfig mpipe;
  LinkConfig link;
  OptimizerConfig optimizer;
  LrScheduleConfig lr_schedule;
  CheckpointConfig checkpoint;
  EvalConfig eval;
  LogConfig log;
  SampleConfig sample;

  /// Replicas of the model that see different data.
  int dp() const { return parallel.dp_replicate * parallel.dp_shard; }
  int world_size() const { return parallel.pp * dp(); }
  /// Microbatches of one replica in one batch.
  int num_microbatches() const;
  std::int64_t microbatch_size() const;

  /// What is wrong with the value of `key`, for the model or the ranks it meets later than the file was read: at its
  /// place, or that of the closest section above it that was given.
  Error fault(std::string_view key, const std::string& what) const;
};

}  // namespace ppctl
