// neuron-export: the source of the blob, and the refused requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/formats/kinds/adapter/lora_workshop.h"
#include "tests/tools/export_workshop.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Export : public ::testing::Test {
 protected:
  const ExportWorkshop workshop_;
  const std::string model_ = workshop_.MakeModel("model", testing_util::TinyLlama());
  const std::string out_ = workshop_ / "out";
};

constexpr char kShape[] = "--tp 2 --bs 4 --seq 256";

TEST_F(Export, IsRefusedWhenNoBlobCanBeHad) {
  const ProcessResult result = workshop_.Export(kShape, model_, out_);
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, AllOf(HasSubstr("no compiled blob was found"), HasSubstr("--target cpu"),
                                HasSubstr("--bundle"), HasSubstr("--no-blob")));
  EXPECT_FALSE(Traces(out_));
  EXPECT_FALSE(fs::exists(workshop_.Cache())) << "a question makes no cache";
}

TEST_F(Export, GoesWithoutABlobWhenAskedTo) {
  const ProcessResult result =
      workshop_.Export(std::string(kShape) + " --no-blob --json", model_, out_);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(JsonOf(result)["blob"], "none");
  EXPECT_EQ(Workshop::Verify(out_, "--against " + model_).exit_code, 0);
}

// The same bundle as from a model with the adapter already merged.
TEST_F(Export, MergesAnAdapter) {
  testing_util::PeftFiles peft;
  peft.Add("self_attn.q_proj", 4, 32, 32);
  const std::string adapter = peft.Write(workshop_ / "adapter");
  const ProcessResult result = workshop_.Export(
      std::string(kShape) + " --no-blob --json --merge-lora " + adapter, model_, out_);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = JsonOf(result);
  EXPECT_EQ(json["lora"]["pairs"], 4);
  EXPECT_EQ(json["lora"]["adapter"], adapter);
  ExpectConverts("--from hf --to hf --merge-lora " + adapter, model_, workshop_ / "merged");
  EXPECT_EQ(Workshop::Verify(out_, "--against " + (workshop_ / "merged")).exit_code, 0);
  EXPECT_EQ(Workshop::Verify(out_, "--against " + model_).exit_code, 1) << "something was added";
}

TEST_F(Export, WritesAPlanForTheCpu) {
  const std::string options = std::string(kShape) + " --target cpu --verify";
  const ProcessResult result = workshop_.Export(options + " --json", model_, out_);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(JsonOf(result)["blob"], "cpu_plan");
  EXPECT_EQ(JsonOf(result)["verified"], true);
  EXPECT_FALSE(fs::exists(out_ + "/model.pt"));
  const Json plan = *ParseJson(ReadFile(out_ + "/nxdkit-cpu-plan.json"));
  EXPECT_EQ(plan["kv_cache"]["shape"], Json::array({4, 1, 256, 4}));
  EXPECT_EQ(plan["kv_cache"]["bytes_per_rank"], 4 * 256 * 4 * 2 * 2 * 4);
  EXPECT_EQ(plan["buckets"]["prompt"], Json::array({128, 256}));
  EXPECT_EQ(plan["gqa_strategy"], "replicate-to-tp-degree");
  workshop_.Export(options, model_, workshop_ / "again");
  ExpectSameTree(out_, workshop_ / "again");
  EXPECT_THAT(RunProcess({Workshop::Tool("ckpt-inspect"), "--top", "0", out_}).out,
              HasSubstr("nxdkit-cpu-plan.json"));
}

TEST_F(Export, RefusesWhatTheCpuHasNoUseFor) {
  for (const char* option : {"--bundle x", "--compiler x", "--no-blob"}) {
    const ProcessResult result =
        workshop_.Export(std::string(kShape) + " --target cpu " + option, model_, out_);
    EXPECT_EQ(result.exit_code, 2) << option;
    EXPECT_THAT(result.err, HasSubstr("does not apply to --target cpu"));
  }
}

TEST_F(Export, RefusesVersionsWhereNoneAreWritten) {
  for (const char* options : {"--target cpu", "--no-blob --flavor nxdi"}) {
    const ProcessResult result =
        workshop_.Export(std::string(kShape) + " --optimum-version 0.3.0 " + options, model_, out_);
    EXPECT_EQ(result.exit_code, 2) << options;
    EXPECT_THAT(result.err, HasSubstr("carries no versions")) << options;
  }
}

TEST_F(Export, TakesTheBlobOfOnePlaceOnly) {
  const ProcessResult result = workshop_.Export("--bundle x --compiler y", model_, out_);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("from only one of them"));
}

TEST_F(Export, CarriesConfigurationAndTokenizerFiles) {
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"})
    workshop_.Write(std::string("model/") + name, std::string("{\"name\": \"") + name + "\"}");
  for (const char* flavor : {"optimum", "nxdi"}) {
    const std::string out = workshop_ / flavor;
    EXPECT_EQ(
        workshop_.Export(std::string(kShape) + " --target cpu --flavor " + flavor, model_, out)
            .exit_code,
        0);
    for (const char* name :
         {"config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"})
      EXPECT_EQ(ReadFile(out + "/" + name), ReadFile(model_ + "/" + name)) << flavor;
    EXPECT_TRUE(fs::exists(out + (*flavor == 'o' ? "/checkpoint/weights" : "/weights")));
  }
}

TEST_F(Export, TakesTheBlobOfABundle) {
  const std::string compiled = workshop_ / "compiled";
  workshop_.Export(std::string(kShape) + " --no-blob", model_, compiled);
  workshop_.Write("compiled/model.pt", testing_util::CompiledBlob());
  workshop_.Compiler();
  const ProcessResult result = workshop_.Export("--json --bundle " + compiled, model_, out_);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(JsonOf(result)["blob"], "bundle");
  EXPECT_TRUE(ReadFile(out_ + "/model.pt") == testing_util::CompiledBlob());
  EXPECT_EQ(workshop_.Runs(), 0u);
}

// Any other file under the blob's name: no command takes it for one.
TEST_F(Export, RefusesABlobThatIsNone) {
  const std::string compiled = workshop_ / "compiled";
  workshop_.Export(std::string(kShape) + " --target cpu", model_, compiled);
  const std::string plan = ReadFile(compiled + "/nxdkit-cpu-plan.json");
  const std::string good = testing_util::CompiledBlob();
  for (const std::string& bytes :
       {std::string(), good.substr(0, 900), std::string("compiled"), plan}) {
    workshop_.Write("compiled/model.pt", bytes);
    const ProcessResult result = workshop_.Export("--bundle " + compiled, model_, out_);
    EXPECT_EQ(result.exit_code, 3) << bytes;
    EXPECT_THAT(result.err, AllOf(HasSubstr(compiled + "/model.pt: the compiled blob: it is "),
                                  HasSubstr("hint: compile it again")));
    EXPECT_FALSE(Traces(out_));
    EXPECT_EQ(workshop_.Export("-n --bundle " + compiled, model_, out_).exit_code, 3);
    const ProcessResult fits = Workshop::Verify(compiled, "--weights " + model_);
    EXPECT_EQ(fits.exit_code, 1) << bytes;
    EXPECT_THAT(fits.out, HasSubstr("WRONG: " + compiled + "/model.pt: it is "));
    EXPECT_EQ(Workshop::Verify(compiled, "").exit_code, 1) << bytes;
  }
  workshop_.Write("compiled/model.pt", good);
  EXPECT_EQ(Workshop::Verify(compiled, "").exit_code, 0);
  EXPECT_EQ(Workshop::Verify(compiled, "--weights " + model_).exit_code, 0);
  EXPECT_EQ(workshop_.Export("--bundle " + compiled, model_, out_).exit_code, 0);
}

TEST_F(Export, RefusesABlobThatDoesNotFitAndSaysWhatToDo) {
  const std::string compiled = workshop_ / "compiled";
  workshop_.Export(std::string(kShape) + " --no-blob", model_, compiled);
  workshop_.Write("compiled/model.pt", testing_util::CompiledBlob());
  fs::remove_all(compiled + "/checkpoint");  // only the configurations differ
  const auto refused = [&](const std::string& options, const std::string& model, int code,
                           const std::string& part) {
    const ProcessResult result =
        workshop_.Export("--bundle " + compiled + " " + options, model, out_);
    EXPECT_EQ(result.exit_code, code) << options;
    EXPECT_THAT(result.err, AllOf(HasSubstr(part), HasSubstr("hint:"))) << options;
    EXPECT_FALSE(Traces(out_));
  };
  refused("--tp 4", model_, 2, "--tp 4 was asked for, but the bundle is made for 2");
  refused("--bs 8", model_, 2, "--bs 8 was asked for, but the bundle is made for 4");
  refused("--seq 512", model_, 2, "--seq 512 was asked for, but the bundle is made for 256");
  refused("--dtype f32", model_, 2, "the bundle is made for bfloat16");
  refused("--no-fused-qkv", model_, 2, "the bundle was compiled with q, k and v fused");
  TinyModel other = testing_util::TinyLlama();
  other.kv_heads = 8;
  refused("", workshop_.MakeModel("other", other), 4,
          "num_key_value_heads: the bundle was compiled for 2, the model has 8");
}

// Two head counts with the same shapes of weights, and a constant without any effect on shapes.
TEST_F(Export, SeesWhatShapesDoNotShow) {
  const std::string compiled = workshop_ / "compiled";
  workshop_.Export(std::string(kShape) + " --no-blob", model_, compiled);
  workshop_.Write("compiled/model.pt", testing_util::CompiledBlob());
  std::string config = ReadFile(compiled + "/config.json");
  config.insert(config.find('{') + 1, "\"rope_theta\": 10000.0,");
  workshop_.Write("compiled/config.json", config);
  std::string ours = ReadFile(model_ + "/config.json");
  const std::string with_theta = ours;
  workshop_.Write("model/config.json",
                  std::string(ours).insert(ours.find('{') + 1, "\"rope_theta\": 10000,"));
  EXPECT_EQ(workshop_.Export("--bundle " + compiled, model_, out_).exit_code, 0) << "one number";
  workshop_.Write("model/config.json",
                  std::string(ours).insert(ours.find('{') + 1, "\"rope_theta\": 500000,"));
  const ProcessResult result = workshop_.Export("--force --bundle " + compiled, model_, out_);
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err,
              HasSubstr("rope_theta: the bundle was compiled for 10000.0, the model has 500000"));
}

// ckpt-verify --weights: the same check, before anything is written.
TEST_F(Export, FitnessIsJudgedWithoutWriting) {
  const std::string compiled = workshop_ / "compiled";
  workshop_.Export(std::string(kShape) + " --target cpu", model_, compiled);
  const ProcessResult fits = Workshop::Verify(compiled, "--weights " + model_);
  EXPECT_EQ(fits.exit_code, 0) << fits.err;
  EXPECT_THAT(fits.out, AllOf(HasSubstr("ok: compiled for tp 2, batch size 4, sequence length 256"),
                              HasSubstr(compiled + ": fits\n")));
  TinyModel other = testing_util::TinyLlama();
  other.kv_heads = 4;
  const std::string model = workshop_.MakeModel("other", other);
  const ProcessResult result = Workshop::Verify(compiled, "--json --weights " + model);
  EXPECT_EQ(result.exit_code, 1);
  const Json json = JsonOf(result);
  EXPECT_EQ(json["weights"], model);
  EXPECT_EQ(json["findings"][0]["check"], "config");
  EXPECT_EQ(json["findings"][0]["expected"], "2");
  EXPECT_EQ(json["findings"][0]["found"], "4");
  EXPECT_EQ(Workshop::Verify(compiled, "--against x --weights " + model_).exit_code, 2);
  EXPECT_EQ(Workshop::Verify(compiled, "--from hf --weights " + model_).exit_code, 2);
  EXPECT_EQ(Workshop::Verify(compiled, "--weights " + workshop_ / "nothing").exit_code, 3);
}

TEST_F(Export, DryRunDoesNotCompile) {
  workshop_.Compiler();
  const ProcessResult result = workshop_.Export(std::string(kShape) + " -n", model_, out_);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("would be compiled: optimum-cli export neuron --model"));
  EXPECT_EQ(workshop_.Runs(), 0u);
  EXPECT_FALSE(Traces(out_));
  EXPECT_FALSE(fs::exists(workshop_.Cache()));
}

TEST_F(Export, IsOfAHuggingFaceModelOnly) {
  const std::string bundle = workshop_ / "bundle";
  workshop_.Export(std::string(kShape) + " --no-blob", model_, bundle);
  const ProcessResult result =
      workshop_.Export(std::string(kShape) + " --target cpu", bundle, out_);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_FALSE(Traces(out_));
}

}  // namespace
}  // namespace nxdkit::test
