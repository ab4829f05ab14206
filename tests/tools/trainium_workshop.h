// PRIVATE to tests. The inputs of trainer/configs/config_trainium.yaml, as small as its sizes
// allow: a model of eight key heads, and rows with its columns; and a compiled bundle.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/formats/compiled_blob.h"
#include "tests/tools/grpo_workshop.h"

namespace nxdkit::test {

// Eight key heads, as in Qwen3-4B.
inline constexpr char kEightHeads[] =
    R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
  "attention_bias": false, "attention_dropout": 0.0, "eos_token_id": 15, "head_dim": 8,
  "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 128,
  "max_position_embeddings": 4096, "num_attention_heads": 8, "num_hidden_layers": 2,
  "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_theta": 10000.0,
  "tie_word_embeddings": true, "torch_dtype": "bfloat16", "vocab_size": 16})";

// Without the bundle.
class TrainiumPlace : public GrpoTrain {
 protected:
  void SetUp() override {
    GrpoTrain::SetUp();
    const ProcessResult made = RunProcess({Workshop::Tool("nxdkit-make-model"), "--quiet",
                                           "--config", workshop_.Write("config.json", kEightHeads),
                                           "--dtype", "bf16", "--out", model_});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    for (const char* name : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"})
      std::filesystem::copy(workshop_ / ("arithmetic/model/" + std::string(name)), model_);
    std::string rows;
    for (int i = 0; i < 64; ++i)
      rows += fmt::format("{{\"problem\": \"{}+{}=\", \"answer\": \"{}\"}}\n", i % 8, i / 8,
                          i % 8 + i / 8);
    data_ = workshop_.Write("rows.jsonl", rows);
  }

  ProcessResult Export(const Words& more) const {
    Words words = {Workshop::Tool("neuron-export"),
                   "--no-sync",
                   "--no-cache",
                   "--tp",
                   "8",
                   "--bs",
                   "64",
                   "--seq",
                   "4096",
                   "--instance",
                   "trn1.32xlarge"};
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), {model_, bundle_});
    return RunProcess(words);
  }

  // The paths of this machine.
  Words Paths() const {
    return {"worker.actor.model.model_path=" + model_,
            "worker.rollout.model_path=" + bundle_,
            "data.train_files=" + data_,
            "data.val_files=" + data_,
            "trainer.save_checkpoint_path=" + (workshop_ / "run"),
            "trainer.logger=[console,file]"};
  }
  Words Port(const Words& more) const {
    Words words = {Workshop::Tool("grpo-train"), "--json", "--config",
                   NXDKIT_SOURCE_DIR "/trainer/configs/config_trainium.yaml"};
    for (const Words& each : {Paths(), more}) words.insert(words.end(), each.begin(), each.end());
    return words;
  }
  static std::string Peer() {
    return std::string("worker.rollout.command=" NXDKIT_VLLM_PEER " {port} {model} neuron 4096 ") +
           "{max_num_seqs} {tp}";
  }

  const std::string model_ = workshop_ / "model";
  const std::string bundle_ = workshop_ / "bundle";
  std::string data_;
};

class Trainium : public TrainiumPlace {
 protected:
  void SetUp() override {
    TrainiumPlace::SetUp();
    const ProcessResult exported = Export({"--no-blob"});
    ASSERT_EQ(exported.exit_code, 0) << exported.err;
    workshop_.Write("bundle/model.pt", testing_util::CompiledBlob());
  }
};

}  // namespace nxdkit::test
