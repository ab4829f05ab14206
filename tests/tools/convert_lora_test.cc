// nxd-convert --merge-lora, and adapters alone, with the command.
#include "tests/formats/kinds/adapter/lora_workshop.h"
#include "tests/tools/convert_workshop.h"

namespace nxdkit::test {
namespace {

using ::testing::HasSubstr;
using testing_util::PeftFiles;
using testing_util::TinyLlama;

class ConvertLora : public ::testing::Test {
 protected:
  ConvertLora() {
    model_ = shop_.MakeModel("model", TinyLlama(), "--seed 3");
    for (const char* module : {"self_attn.q_proj", "self_attn.o_proj"})
      peft_.Add(module, 4, 32, 32);
    peft_.Add("mlp.up_proj", 4, 48, 32);
    adapter_ = peft_.Write(shop_ / "adapter");
  }
  std::string Merge(const std::string& more) const {
    return "--merge-lora " + adapter_ + " " + more;
  }

  Workshop shop_;
  PeftFiles peft_;
  std::string model_, adapter_;
};

TEST_F(ConvertLora, BytesDoNotDependOnThreadsAndMemory) {
  ExpectConverts(Merge("--from hf --to hf -j 1"), model_, shop_ / "one");
  ExpectConverts(Merge("--from hf --to hf -j 5"), model_, shop_ / "five");
  ExpectConverts(Merge("--from hf --to hf -j 2 --max-memory 48M"), model_, shop_ / "small");
  ExpectSameTree(shop_ / "one", shop_ / "five");
  ExpectSameTree(shop_ / "one", shop_ / "small");
  EXPECT_EQ(Workshop::Verify(shop_ / "one", "--against " + model_).exit_code, 1)
      << "something was added";
}

TEST_F(ConvertLora, EveryPairOfFormatsGivesTheSameModel) {
  ExpectConverts(Merge("--from hf --to hf"), model_, shop_ / "merged");
  const std::map<std::string, std::string> formats = {
      {"hf", ""}, {"nxd", "--tp 2 --qkv linear"}, {"rollout", "--tp 2 --fused-qkv"}, {"torch", ""}};
  for (const auto& [from, base_options] : formats) {
    const std::string base = shop_ / ("base-" + from);
    ExpectConverts("--from hf --to " + from + " " + base_options, model_, base);
    for (const auto& [to, options] : formats) {
      const std::string out = shop_ / ("out-" + from + "-" + to);
      ExpectConverts(Merge("--from " + from + " --to " + to + " --config " + model_ +
                           "/config.json --verify " + options),
                     base, out);
      const ProcessResult same = Workshop::Verify(
          out, "--against " + (shop_ / "merged") + " --config " + model_ + "/config.json");
      EXPECT_EQ(same.exit_code, 0) << from << " to " << to << same.out << same.err;
    }
  }
}

TEST_F(ConvertLora, InPartsTheBytesAreTheSame) {
  const std::string options = Merge("--from hf --to nxd --tp 4 --kv-multiplier 2 --hw trn1");
  ExpectConverts(options, model_, shop_ / "whole");
  for (const char* part : {" --part 0/3", " --part 2/3", " --part 1/3"})
    EXPECT_EQ(Workshop::Convert(options + part, model_, shop_ / "parts").exit_code, 0);
  ExpectSameTree(shop_ / "whole", shop_ / "parts");
}

TEST_F(ConvertLora, ABundleInUseIsRefreshed) {
  ExpectConverts("--from hf --to rollout --tp 2", model_, shop_ / "bundle");
  ExpectConverts(Merge("--from hf --to rollout --into --verify"), model_, shop_ / "bundle");
  ExpectConverts(Merge("--from hf --to hf"), model_, shop_ / "merged");
  EXPECT_EQ(Workshop::Verify(shop_ / "bundle", "--against " + (shop_ / "merged")).exit_code, 0);
}

TEST_F(ConvertLora, ADeltaOfWhatTheAdapterChanges) {
  const Json json = JsonOf(Workshop::Convert(Merge("--from hf --to delta --json --base " + model_),
                                             model_, shop_ / "step.delta"));
  EXPECT_EQ(json["lora"]["pairs"], 12);
  ExpectConverts("--from delta --to hf --base " + model_, shop_ / "step.delta", shop_ / "applied");
  ExpectConverts(Merge("--from hf --to hf"), model_, shop_ / "merged");
  EXPECT_EQ(Workshop::Verify(shop_ / "applied", "--against " + (shop_ / "merged")).exit_code, 0);
  ExpectRefused(Merge("--from delta --to hf --base " + model_), shop_ / "step.delta", shop_ / "no",
                2, "apply the delta first");
}

TEST_F(ConvertLora, TheReportSaysWhatWasMerged) {
  const Json json =
      JsonOf(Workshop::Convert(Merge("--from hf --to hf --json"), model_, shop_ / "merged"));
  EXPECT_EQ(json["lora"]["adapter"], adapter_);
  EXPECT_EQ(json["lora"]["pairs"], 12);
  EXPECT_EQ(json["lora"]["whole"], 0);
  EXPECT_EQ(json["lora"]["rank"], 4);
  EXPECT_EQ(json["lora"]["scale"], 1.5);
  const ProcessResult text =
      Workshop::Convert(Merge("--from hf --to hf --dry-run"), model_, shop_ / "dry");
  EXPECT_THAT(text.out,
              HasSubstr("12 weights with A and B, 0 parameters whole; rank 4, scale 1.5"));
  const ProcessResult why =
      Workshop::Convert(Merge("--from hf --to hf --explain model.layers.0.mlp.up_proj.weight"),
                        model_, shop_ / "dry");
  EXPECT_THAT(why.out, HasSubstr("F32 [48, 32] in " + model_ + " with " + adapter_ + "\n"));
}

TEST_F(ConvertLora, AdaptersAloneGoToShardsAndBack) {
  const std::string config = " --config " + model_ + "/config.json";
  ExpectConverts("--from hf --to nxd --tp 4 --kv-multiplier 2 --hw trn2 --verify" + config,
                 adapter_, shop_ / "set");
  ExpectConverts("--from nxd --to nxd --tp 2 --pp 2 --qkv separate --kv-multiplier 1 --verify",
                 shop_ / "set", shop_ / "other");
  ExpectConverts("--from nxd --to hf --verify", shop_ / "other", shop_ / "back");
  EXPECT_TRUE(ReadFile(shop_ / "back/adapter_model.safetensors").size() > 0);
  ExpectConverts(Merge("--from hf --to hf"), model_, shop_ / "merged");
  for (const char* form : {"set", "other", "back"}) {
    ExpectConverts("--from hf --to hf --merge-lora " + (shop_ / form), model_,
                   shop_ / (std::string("by-") + form));
    ExpectSameTree(shop_ / "merged", shop_ / (std::string("by-") + form));
  }
}

TEST_F(ConvertLora, AdaptersAloneHaveTwoForms) {
  const std::string config = " --config " + model_ + "/config.json";
  ExpectRefused("--from hf --to rollout --tp 2" + config, adapter_, shop_ / "no", 4,
                "--merge-lora");
  ExpectRefused("--from hf --to torch" + config, adapter_, shop_ / "no", 4, "no torch form");
  ExpectRefused("--from hf --to nxd --tp 2 --digest" + config, adapter_, shop_ / "no", 2,
                "an adapter alone has no digest of a model");
  ExpectRefused("--from hf --to nxd --tp 2 --xser" + config, adapter_, shop_ / "no", 2, "--xser");
  ExpectRefused("--from hf --to nxd --tp 2 --style megatron" + config, adapter_, shop_ / "no", 4,
                "Megatron");
  ExpectRefused("--from hf --to nxd --tp 2", adapter_, shop_ / "no", 3, "--config");
}

TEST_F(ConvertLora, TheAdapterIsNotOverwritten) {
  ExpectRefused(Merge("--from hf --to hf --force"), model_, adapter_, 2, "adapter");
}

TEST_F(ConvertLora, OtherCommandsSayWhatTheyCanDo) {
  for (const char* tool : {"ckpt-verify", "ckpt-digest"}) {
    const ProcessResult result = RunProcess({Workshop::Tool(tool), adapter_});
    EXPECT_EQ(result.exit_code, 4) << tool;
    EXPECT_THAT(result.err, HasSubstr("a LoRA adapter, not a whole model"));
    EXPECT_THAT(result.err, HasSubstr("hint: nxd-convert --merge-lora merges it into its base"));
  }
  ExpectConverts("--from hf --to nxd --tp 2 --config " + model_ + "/config.json", adapter_,
                 shop_ / "set");
  const Json set = JsonOf(RunProcess({Workshop::Tool("ckpt-inspect"), shop_ / "set", "--json"}));
  EXPECT_EQ(set["layout_check"]["outcome"], "not_checked");
  EXPECT_EQ(set["layout_check"]["message"],
            "the shards of a LoRA adapter, which is not a whole model");
  const ProcessResult inspected = RunProcess({Workshop::Tool("ckpt-inspect"), adapter_});
  EXPECT_THAT(inspected.out, HasSubstr("12 pairs of A and B"));
}

}  // namespace
}  // namespace nxdkit::test
