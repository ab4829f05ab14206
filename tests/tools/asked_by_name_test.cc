// Requests by name that cannot be fulfilled, and files that lack the expected information: an
// error, never a result that ignores them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/tools/convert_workshop.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

ProcessResult CallWords(const Words& command) {
  Words words = command;
  words[0] = Workshop::Tool(command[0]);
  return RunProcess(words);
}

class AskedByName : public ::testing::Test {
 protected:
  void SetUp() override {
    ExpectConverts("--to nxd --tp 2", model_, set_);
    ExpectConverts("--to rollout --tp 2", model_, bundle_);
    ExpectConverts("--to torch", model_, torch_);
    ExpectConverts("--to dcp", model_, dcp_);
  }
  void ExpectError(int code, const Words& command, const std::string& part) const {
    const ProcessResult result = CallWords(command);
    std::string line;
    for (const std::string& word : command) line += word + " ";
    EXPECT_EQ(result.exit_code, code) << line << "\n" << result.out << result.err;
    EXPECT_THAT(result.err, HasSubstr(part)) << line;
    EXPECT_LE(std::ranges::count(result.err, '\n'), 4) << result.err;
    EXPECT_FALSE(Traces(out_)) << line;
  }

  const Workshop shop_;
  const std::string model_ = shop_.MakeModel("model", TinyModel{});
  const std::string set_ = shop_ / "set";
  const std::string bundle_ = shop_ / "bundle";
  const std::string torch_ = shop_ / "model.bin";
  const std::string dcp_ = shop_ / "dcp";
  const std::string out_ = shop_ / "out";
};

TEST_F(AskedByName, TheOptimizerThatIsNotThere) {
  const char* const none = "the optimizer's state is asked for, and there is none";
  ExpectError(3, {"nxd-reshard", "--tp", "1", "--optimizer", set_, out_}, none);
  ExpectError(3, {"nxd-reshard", "--tp", "1", "--dp", "2", set_, out_}, none);
  ExpectError(3, {"nxd-reshard", "--tp", "1", "--param-order", "norms", set_, out_}, none);
  ExpectError(3, {"nxd-convert", "--to", "dcp", "--optimizer", set_, out_}, none);
  ExpectError(3, {"nxd-convert", "--to", "nxd", "--tp", "1", "--optimizer", dcp_, out_}, none);
  ExpectError(3, {"nxd-convert", "--to", "nxd", "--tp", "1", "--dp", "2", dcp_, out_}, none);
  ExpectError(3, {"ckpt-diff", "--optimizer", set_, dcp_}, "there is no optimizer's state");
  EXPECT_EQ(CallWords({"nxd-reshard", "--tp", "1", set_, out_}).exit_code, 0) << "not asked for";
}

TEST_F(AskedByName, ATagOfWhatHasNone) {
  for (const std::string& input : {model_, bundle_, torch_, dcp_}) {
    ExpectError(2, {"ckpt-inspect", "--tag", "step_1", input}, "other trainers have tags");
    ExpectError(2, {"ckpt-verify", "--tag", "step_1", input}, "other trainers have tags");
    ExpectError(2, {"ckpt-digest", "--tag", "step_1", input}, "other trainers have tags");
    ExpectError(2, {"ckpt-diff", "--b-tag", "step_1", model_, input}, "other trainers have tags");
    ExpectError(2, {"ckpt-verify", model_, "--against", input, "--against-tag", "step_1"},
                "other trainers have tags");
    ExpectError(2, {"nxd-convert", "--to", "nxd", "--tp", "1", "--tag", "step_1", input, out_},
                "--tag does not apply to a conversion from ");
  }
}

TEST_F(AskedByName, ALayoutOfWhatIsNoNxdSet) {
  for (const std::string& input : {model_, torch_, dcp_})
    for (const char* option : {"--tp", "--pp", "--kv-multiplier"}) {
      ExpectError(2, {"ckpt-verify", option, "2", input}, "how the ranks of an NxD set");
      ExpectError(2, {"ckpt-inspect", option, "2", input}, "how the ranks of an NxD set");
      ExpectError(2, {"ckpt-digest", option, "2", input}, "how the ranks of an NxD set");
    }
  ExpectError(2, {"ckpt-verify", "--hw", "trn1", bundle_}, "how the ranks of an NxD set");
  EXPECT_EQ(CallWords({"ckpt-verify", "--tp", "2", bundle_}).exit_code, 0);
}

TEST_F(AskedByName, WeightsOfWhatIsNoFolderOfSets) {
  for (const std::string& input : {set_, bundle_, torch_, dcp_}) {
    ExpectError(2, {"ckpt-inspect", "--weights", "x.bin", input}, "--weights chooses weights");
    ExpectError(2, {"ckpt-diff", "--b-weights", "x.bin", model_, input},
                "--b-weights chooses weights");
  }
  ExpectError(2, {"ckpt-digest", "--weights", "x.bin", model_}, "x.bin is not a file of this");
  ExpectError(2, {"nxd-convert", "--to", "hf", "--weights", "x.bin", set_, out_},
              "--weights does not apply to a conversion from nxd to hf");
}

TEST_F(AskedByName, OptionsOfASideThatIsNotThere) {
  ExpectError(2, {"ckpt-verify", model_, "--against-tp", "2"}, "--against-tp does not apply");
  ExpectError(2, {"ckpt-verify", model_, "--against-from", "hf"}, "--against-from does not apply");
  ExpectError(2, {"ckpt-verify", model_, "--weights-tag", "x"}, "--weights-tag does not apply");
  ExpectError(2, {"ckpt-verify", model_, "--weights-from", "hf"}, "--weights-from does not apply");
  ExpectError(2, {"ckpt-verify", bundle_, "--weights", model_, "--config", "x"},
              "--config does not apply");
  ExpectError(2, {"ckpt-digest", "--base", model_, model_},
              "--base names the model that a delta changes");
}

TEST_F(AskedByName, OptionsOfWhatIsNotDone) {
  const Words exported = {"neuron-export", "--tp", "1", "--target", "cpu", model_, out_};
  for (const char* options : {"--pass-env X", "--cache-dir cache", "--retry-failed-compilation"}) {
    Words words = exported;
    for (const std::string& word : Split(options)) words.push_back(word);
    ExpectError(2, words, Split(options)[0] + " does not apply to --target cpu");
  }
  ExpectError(2, {"neuron-export", "--bundle", bundle_, "--cache-dir", "c", model_, out_},
              "--cache-dir does not apply: the blob is from --bundle");
  ExpectError(
      2, {"neuron-export", "--tp", "1", "--no-cache", "--retry-failed-compilation", model_, out_},
      "--retry-failed-compilation does not apply with --no-cache");
  ExpectError(2, {"ckpt-pack", "--level", "3", model_, shop_ / "model.tar"},
              "--level applies to a compressed archive");
  ExpectError(2, {"grpo-train", "report", "--instance", "trn1.32xlarge", model_},
              "--instance applies to training");
  ExpectError(2, {"grpo-train", "--out", "page.html", "trainer.max_steps=1"},
              "--out applies to the page");
  const ProcessResult none = CallWords({"ckpt-inspect", "--filter", "no*such", model_});
  EXPECT_EQ(none.exit_code, 0);
  EXPECT_THAT(none.err, HasSubstr("whole names, for instance '*q_proj*'"));
}

TEST_F(AskedByName, SettingsThatSayNothing) {
  for (const char* text : {"", "[]"}) {
    shop_.Write("model/generation_config.json", text);
    ExpectError(3, {"nxd-convert", "--to", "hf", model_, out_}, "expected a JSON object");
    ExpectError(3, {"nxd-convert", "--to", "nxd", "--tp", "2", model_, out_},
                shop_ / "model/generation_config.json");
    ExpectError(3, {"neuron-export", "--tp", "1", "--target", "cpu", model_, out_},
                "expected a JSON object");
  }
}

TEST_F(AskedByName, AConfigurationThatSaysNothing) {
  const std::string nothing = "neither model_type nor architectures is there";
  for (const auto& [text, part] : {std::pair<const char*, std::string>{"{}", nothing},
                                   {"{\"dtype\": \"bfloat16\"}", nothing},
                                   {"[]", "expected an object"},
                                   {"", "config.json"}}) {
    const std::string config = shop_.Write("empty/config.json", text);
    ExpectError(3, {"nxd-convert", "--to", "hf", "--config", config, set_, out_}, part);
    ExpectError(3, {"ckpt-verify", "--config", config, model_}, part);
    ExpectError(3, {"ckpt-diff", "--a-config", config, model_, model_}, part);
  }
}

TEST_F(AskedByName, ALayoutFileThatSaysNothing) {
  for (const char* text :
       {"", "[]", "{}", "distributed_strategy:\n", "distributed_strategy: []\n",
        "distributed_strategy: {}\n", "distributed_strategy: {tensor_parallel: 8}\n",
        "model_parallel_size: 8\n"})
    ExpectError(
        2,
        {"nxd-convert", "--to", "nxd", "--layout-from", shop_.Write("x.yaml", text), model_, out_},
        shop_ / "x.yaml");
}

TEST_F(AskedByName, WhatWasTakenFromALayoutFileIsSaid) {
  const std::string yaml = shop_.Write("conf.yaml",
                                       "distributed_strategy:\n"
                                       "  tensor_model_parallel_size: 2\n");
  const ProcessResult result =
      CallWords({"nxd-convert", "--to", "nxd", "--layout-from", yaml, model_, out_});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("note: layout from " + yaml +
                                    ": tp 2, pp 1, vpp 1, ep 1, kv multiplier 1, q/k/v coalesced "
                                    "(separate with fewer key heads)\n"));
}

TEST_F(AskedByName, ARecordThatSaysNothing) {
  const std::string manifest = shop_ / "manifest.json";
  ASSERT_EQ(CallWords({"ckpt-digest", "--manifest", manifest, model_}).exit_code, 0);
  Json json = Json::parse(ReadFile(manifest));
  json["artifact"]["files"] = Json::array();
  shop_.Write("no_files.json", json.dump());
  json["model"]["parameters"] = Json::array();
  shop_.Write("no_parameters.json", json.dump());
  ExpectError(3, {"ckpt-digest", "--check", shop_ / "no_files.json", model_}, "it records no file");
  ExpectError(3, {"ckpt-digest", "--check", shop_ / "no_parameters.json", model_},
              "it records no parameter");
  for (const char* text : {"", "{}", "[]"}) {
    ExpectError(3, {"ckpt-digest", "--check", shop_.Write("empty.json", text), model_},
                shop_ / "empty.json");
    shop_.Write("set/nxdkit.json", text);
    ExpectError(3, {"ckpt-verify", set_}, "nxdkit.json");
  }
}

}  // namespace
}  // namespace nxdkit::test
