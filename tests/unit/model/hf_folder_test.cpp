#include "model/hf_folder.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "arch/declare.hpp"
#include "base/error.hpp"
#include "storage/safetensors.hpp"

namespace ppctl {
namespace {

namespace fs = std::filesystem;

class HfFolder : public testing::Test {
 protected:
  void SetUp() override {
    const testing::TestInfo& info = *testing::UnitTest::GetInstance()->current_test_info();
    folder_ = (fs::temp_directory_path() / fmt::format("ppctl_hf_{}_{}", info.name(), ::getpid())).string();
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// Writes `spec` with random weights as `shards` files; returns the stages that hold them.
  std::vector<std::shared_ptr<StageModule>> write(const ModelSpec& spec, int shards,
                                                  at::ScalarType dtype = at::kFloat) const {
    std::vector<std::shared_ptr<StageModule>> stages;
    std::vector<HfShard> written;
    for (int i = 0; i < shards; ++i) {
      const StageRange range{spec.num_layers * i / shards, spec.num_layers * (i + 1) / shards, i == 0, i == shards - 1};
      stages.push_back(build_stage(spec, dtype, range, 1));
      initialize(*stages.back(), 5);
      written.push_back(write_hf_shard(folder_, hf_tensors(*stages.back()), i, shards));
    }
    write_hf_index(folder_, spec, dtype, written);
    return stages;
  }

  std::string fault(const ModelSpec& spec) const {
    try {
      const HfWeights weights(folder_, spec);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  /// One file with these tensors, all zero.
  void write_zeros(const std::vector<SafetensorsWriter::Tensor>& tensors) const {
    SafetensorsWriter writer(folder_ + "/model.safetensors", tensors);
    for (const SafetensorsWriter::Tensor& tensor : tensors) {
      const SafetensorsEntry entry{tensor.dtype, tensor.shape, 0, 0};
      writer.write(std::vector<std::byte>(entry.numel() * safetensors_dtype_bytes(tensor.dtype)));
    }
    writer.finish();
  }

  std::string folder_;
};

ModelSpec tiny(const std::map<std::string, std::string>& more = {}) {
  std::map<std::string, std::string> keys = {{"vocab_size", "16"},
                                             {"hidden_size", "8"},
                                             {"intermediate_size", "8"},
                                             {"num_hidden_layers", "3"},
                                             {"num_attention_heads", "2"}};
  for (const auto& [key, value] : more) keys[key] = value;
  return parse_model_keys("llama", keys);
}

std::vector<SafetensorsWriter::Tensor> tensors_of(const ModelSpec& spec) {
  std::vector<SafetensorsWriter::Tensor> result;
  for (const Parameter& parameter : all_parameters(spec)) {
    if (parameter.tied_to.empty()) result.push_back({parameter.name, "F32", parameter.shape});
  }
  return result;
}

TEST_F(HfFolder, LoadsWhatWasSavedInOneFileOrInSeveral) {
  for (int shards : {1, 3}) {
    for (const char* tied : {"true", "false"}) {
      const ModelSpec spec = tiny({{"tie_word_embeddings", tied}});
      const auto written = write(spec, shards);
      const ModelSpec read = read_hf_config(folder_);
      const HfWeights weights(folder_, read);
      const auto loaded = build_stage(read, at::kFloat, StageRange::whole(read), 1);
      weights.load(*loaded);
      std::size_t group = 0;
      for (const auto& stage : written) {
        for (ParameterGroup* part : stage->parameter_groups()) {
          EXPECT_TRUE(at::equal(part->flat_data(), loaded->parameter_groups()[group++]->flat_data())) << part->name();
        }
      }
      fs::remove(folder_ + "/model.safetensors");
    }
  }
}

TEST_F(HfFolder, ConvertsDtypes) {
  const ModelSpec spec = tiny();
  const auto written = write(spec, 1, at::kBFloat16);
  EXPECT_EQ(nlohmann::json::parse(std::ifstream(folder_ + "/config.json"))["dtype"], "bfloat16");
  const HfWeights weights(folder_, spec);
  const auto loaded = build_stage(spec, at::kFloat, StageRange::whole(spec), 1);
  weights.load(*loaded);
  EXPECT_TRUE(
      at::equal(written[0]->parameter_groups()[1]->data(1).to(at::kFloat), loaded->parameter_groups()[1]->data(1)));
}

TEST_F(HfFolder, KeepsUnknownKeysOfTheSourcesConfig) {
  const ModelSpec spec = parse_model(
      R"({"model_type": "llama", "vocab_size": 16, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
          "num_attention_heads": 2, "torch_dtype": "float16", "my_own": {"a": [1, null]}})",
      "config.json");
  write(spec, 1);
  const nlohmann::json config = nlohmann::json::parse(std::ifstream(folder_ + "/config.json"));
  EXPECT_EQ(config["my_own"], nlohmann::json::parse(R"({"a": [1, null]})"));
  EXPECT_EQ(config["torch_dtype"], "float32");
  EXPECT_FALSE(config.contains("dtype"));
}

TEST_F(HfFolder, ReadsCheckpointsOfTheBareModelAndPassesOverBuffers) {
  const ModelSpec spec =
      parse_model_keys("gpt2", {{"vocab_size", "16"}, {"n_embd", "8"}, {"n_layer", "1"}, {"n_head", "2"}});
  std::vector<SafetensorsWriter::Tensor> tensors = tensors_of(spec);
  for (SafetensorsWriter::Tensor& tensor : tensors)
    tensor.name = tensor.name.substr(std::string("transformer.").size());
  tensors.push_back({"h.0.attn.bias", "F32", {1, 1, 4, 4}});
  write_zeros(tensors);
  const HfWeights weights(folder_, spec);
  const auto stage = build_stage(spec, at::kFloat, StageRange::whole(spec), 1);
  weights.load(*stage);
  EXPECT_EQ(stage->parameter_groups()[0]->flat_data().abs().sum().item<float>(), 0.0F);
}

ModelSpec tiny_llava() {
  return parse_model_keys(
      "llava",
      {{"text_config", R"({"vocab_size": 16, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
                           "num_attention_heads": 2})"},
       {"vision_config", R"({"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
                             "image_size": 4, "patch_size": 2})"},
       {"image_token_index", "15"}});
}

/// As transformers of several versions call a tensor of LLaVA: the tower with "vision_model." or without, all of it
/// below "model." or not. There the language model is no whole model: its own "model." is left out and its head is
/// outside.
std::string renamed(std::string name, bool older_tower, bool nested) {
  const auto replace = [&name](const std::string& prefix, const std::string& by) {
    if (!name.starts_with(prefix)) return false;
    name = by + name.substr(prefix.size());
    return true;
  };
  if (older_tower) replace("vision_tower.", "vision_tower.vision_model.");
  if (!nested) return name;
  if (replace("language_model.lm_head.", "lm_head.")) return name;
  replace("language_model.model.", "language_model.");
  return "model." + name;
}

TEST_F(HfFolder, ReadsLlavaUnderTheNamesOfAllVersions) {
  const ModelSpec spec = tiny_llava();
  const auto source = build_stage(spec, at::kFloat, StageRange::whole(spec), 1);
  initialize(*source, 5);
  for (const bool older_tower : {false, true}) {
    for (const bool nested : {false, true}) {
      SCOPED_TRACE(fmt::format("older tower {}, nested {}", older_tower, nested));
      std::vector<HfTensor> tensors = hf_tensors(*source);
      for (HfTensor& tensor : tensors) tensor.name = renamed(tensor.name, older_tower, nested);
      write_hf_shard(folder_, tensors, 0, 1);
      const auto loaded = build_stage(spec, at::kFloat, StageRange::whole(spec), 2);
      HfWeights(folder_, spec).load(*loaded);
      for (std::size_t i = 0; i < source->parameter_groups().size(); ++i) {
        EXPECT_TRUE(at::equal(loaded->parameter_groups()[i]->flat_data(), source->parameter_groups()[i]->flat_data()))
            << source->parameter_groups()[i]->name();
      }
    }
  }
}

TEST_F(HfFolder, NamesTensorsThatAreMissing) {
  std::vector<SafetensorsWriter::Tensor> tensors = tensors_of(tiny());
  std::erase_if(tensors, [](const auto& tensor) { return tensor.name.find("layers.1.mlp") != std::string::npos; });
  write_zeros(tensors);
  EXPECT_EQ(fault(tiny()), folder_ +
                               ": 3 tensors are missing:\n  model.layers.1.mlp.gate_proj.weight\n  "
                               "model.layers.1.mlp.up_proj.weight\n  model.layers.1.mlp.down_proj.weight");
}

TEST_F(HfFolder, NamesTensorsThatDoNotFit) {
  std::vector<SafetensorsWriter::Tensor> tensors = tensors_of(tiny());
  tensors[0].shape = {15, 8};
  tensors[1].dtype = "I32";
  write_zeros(tensors);
  EXPECT_EQ(fault(tiny()),
            folder_ +
                ": 2 tensors do not fit:\n  model.embed_tokens.weight is [15, 8], config.json makes it "
                "[16, 8]\n  model.layers.0.input_layernorm.weight has dtype I32, not F32, BF16, F16 or F64");
}

TEST_F(HfFolder, NamesTensorsThatAreNotPartOfTheModelTheFirstTenOfThem) {
  std::vector<SafetensorsWriter::Tensor> tensors = tensors_of(tiny());
  for (int i = 0; i < 12; ++i) tensors.push_back({fmt::format("x{:02}", i), "F32", {1}});
  write_zeros(tensors);
  const std::string text = fault(tiny());
  EXPECT_EQ(text.rfind(folder_ + ": 12 tensors are not part of the model:\n  x00\n  x01\n", 0), 0U) << text;
  EXPECT_TRUE(text.ends_with("\n  x09\n  and 2 more")) << text;
}

TEST_F(HfFolder, NamesFilesThatAreMissingOrBroken) {
  EXPECT_EQ(fault(tiny()), folder_ + ": there is neither model.safetensors nor model.safetensors.index.json");
  const std::string index = folder_ + "/model.safetensors.index.json";
  std::ofstream(index) << "{}";
  EXPECT_EQ(fault(tiny()), index + ": weight_map is missing");
  std::ofstream(index) << R"({"weight_map": {"a": 1}})";
  EXPECT_EQ(fault(tiny()), index + ": weight_map: the file of 'a' is 1");
  std::ofstream(index) << R"({"weight_map": {"a": "part.safetensors"}})";
  EXPECT_EQ(fault(tiny()).rfind(folder_ + "/part.safetensors: ", 0), 0U) << fault(tiny());
}

}  // namespace
}  // namespace ppctl
