// Every direction between the formats, for every kind of model and layout: converting back gives
// the original files byte for byte, the same at any number of threads, and ckpt-verify accepts
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/tools/convert_workshop.h"

namespace nxdkit::test {
namespace {

struct Route {
  std::string name;
  std::string format;
  std::string options;  // of the conversion there
  std::string back;     // of the conversion back
};

// For models of 8 query and 2 key heads, 4 layers.
const std::vector<Route>& Routes() {
  static const std::vector<Route> routes = {
      {"Separate", "nxd", "--tp 2 --qkv separate", ""},
      {"OneRank", "nxd", "--tp 1", ""},
      {"Linear", "nxd", "--tp 2 --qkv linear", ""},
      {"Fused", "nxd", "--tp 2 --qkv fused", ""},
      {"Xser", "nxd", "--tp 2 --xser", ""},
      {"Pipeline", "nxd", "--tp 2 --pp 2", ""},
      {"VirtualPipelineXser", "nxd", "--tp 1 --pp 2 --vpp 2 --xser", ""},
      {"Trn1Kv2", "nxd", "--tp 4 --hw trn1", ""},
      {"Trn2Kv2", "nxd", "--tp 4 --hw trn2", ""},
      {"Trn1Kv4", "nxd", "--tp 8 --hw trn1 --kv-multiplier 4 --qkv linear", ""},
      {"Trn2Kv4Fused", "nxd", "--tp 8 --hw trn2 --qkv fused", ""},
      {"Trn1Kv2FusedPipelineXser", "nxd", "--tp 4 --hw trn1 --qkv fused --pp 2 --xser", ""},
      {"Trn2Kv2TwoSlotsPerRank", "nxd", "--tp 2 --kv-multiplier 2 --qkv linear --hw trn2", ""},
      {"Megatron", "nxd", "--tp 2 --style megatron", ""},
      {"Rollout2", "rollout", "--tp 2", ""},
      {"RolloutNxdi", "rollout", "--tp 2 --flavor nxdi", ""},
      {"RolloutReplicates", "rollout", "--tp 8", ""},
      {"RolloutReplicatesNxdi", "rollout", "--tp 4 --flavor nxdi --bs 8 --seq 512", ""},
      {"RolloutApart", "rollout", "--tp 4 --no-fused-qkv", ""},
      {"RolloutPads", "rollout", "--tp 16", ""},
      {"RolloutMha", "rollout", "--tp 3", ""},
      {"Torch", "torch", "", "--config {model}/config.json"},
      {"DcpMesh", "dcp", "--mesh dp=3,tp=2", ""},
      {"HfShards", "hf", "--max-shard-size 9KB", "--max-shard-size 5GB"},
  };
  return routes;
}

// For models of 4 experts, with the same heads: such models are not padded.
const std::vector<Route>& ExpertRoutes() {
  static const std::vector<Route> routes = {
      {"Separate", "nxd", "--tp 2 --qkv separate", ""},
      {"Trn1Kv2", "nxd", "--tp 4 --hw trn1", ""},
      {"Trn2Kv4LinearXser", "nxd", "--tp 8 --hw trn2 --qkv linear --xser", ""},
      {"Ep2", "nxd", "--tp 2 --ep 2", ""},
      {"Ep4PipelineXser", "nxd", "--tp 2 --ep 4 --pp 2 --xser", ""},
      {"DcpMesh", "dcp", "--mesh dp=3,tp=2", ""},
      {"Nxdt", "nxd", "--tp 2 --style nxdt", ""},
      {"MegatronEp2", "nxd", "--tp 2 --ep 2 --style megatron", ""},
      {"Rollout4", "rollout", "--tp 4", ""},
      {"RolloutNxdi", "rollout", "--tp 2 --flavor nxdi --fused-qkv", ""},
      {"RolloutPadsHeads", "rollout", "--tp 16", ""},
      {"HfShards", "hf", "--max-shard-size 9KB", "--max-shard-size 5GB"},
  };
  return routes;
}

// For families without bundles.
const std::vector<Route>& TrainingRoutes() {
  static const std::vector<Route> routes = {
      {"Nxd", "nxd", "--tp 2", ""},
      {"NxdXser", "nxd", "--tp 8 --xser", ""},
      {"Torch", "torch", "", "--config {model}/config.json"},
      {"DcpMesh", "dcp", "--mesh dp=3,tp=2", ""},
      {"HfShards", "hf", "--max-shard-size 9KB", "--max-shard-size 5GB"},
  };
  return routes;
}

struct Subject {
  std::string name;
  TinyModel model;
};

const std::vector<Subject>& TrainingSubjects() {
  static const std::vector<Subject> subjects = {{"GptNeox", testing_util::TinyGptNeox()},
                                                {"Bert", testing_util::TinyBert()}};
  return subjects;
}

const std::vector<Subject>& ExpertSubjects() {
  static const std::vector<Subject> subjects = {{"Mixtral", testing_util::TinyMixtral()},
                                                {"Qwen3Moe", testing_util::TinyQwen3Moe()}};
  return subjects;
}

const std::vector<Subject>& Subjects() {
  static const std::vector<Subject> subjects = {{"Llama", testing_util::TinyLlama()},
                                                {"Qwen2", testing_util::TinyQwen2()},
                                                {"Qwen3", testing_util::TinyQwen3()}};
  return subjects;
}

// The models, made once for all tests of this file.
const Workshop& Models() {
  static const auto workshop = [] {
    auto made = std::make_unique<Workshop>();
    std::vector<Subject> subjects = Subjects();
    subjects.insert(subjects.end(), ExpertSubjects().begin(), ExpertSubjects().end());
    subjects.insert(subjects.end(), TrainingSubjects().begin(), TrainingSubjects().end());
    for (const Subject& subject : subjects) {
      const std::string folder = made->MakeModel(subject.name, subject.model);
      made->Write(subject.name + "/tokenizer.json", "{\"of\": \"" + subject.name + "\"}");
      made->Write(subject.name + "/generation_config.json", "{}");
    }
    return made;
  }();
  return *workshop;
}

std::string Filled(std::string text, const std::string& model) {
  const size_t at = text.find("{model}");
  if (at != std::string::npos) text.replace(at, 7, model);
  return text;
}

class Matrix : public ::testing::TestWithParam<std::tuple<Subject, Route>> {
 protected:
  // A converted copy of the model, by a name inside the workshop.
  std::string Make(const std::string& name, const std::string& more) {
    const Route& route = std::get<1>(GetParam());
    const std::string out = workshop_ / name + (route.format == "torch" ? ".pt" : "");
    ExpectConverts("--from hf --to " + route.format + " " + route.options + " " + more, model(),
                   out);
    return out;
  }
  std::string model() const { return Models() / std::get<0>(GetParam()).name; }
  Workshop workshop_;
};

TEST_P(Matrix, ThereAndBackIsByteIdentical) {
  const Route& route = std::get<1>(GetParam());
  const std::string made = Make("made", "-j 2 --verify");
  const std::string back = workshop_ / "back";
  ExpectConverts("--from " + route.format + " --to hf " + Filled(route.back, model()), made, back);
  if (route.format == "torch") {
    // A file has no tokenizer; config.json came by --config, with the other files of its folder.
    EXPECT_TRUE(ReadFile(back + "/model.safetensors") == ReadFile(model() + "/model.safetensors"));
  } else {
    ExpectSameTree(model(), back);
  }
}

TEST_P(Matrix, SameBytesWithAnyThreadsAndMemory) {
  const std::string one = Make("one/x", "-j 1 --max-memory 64MiB");
  const std::string eight = Make("eight/x", "-j 8");
  ExpectSameTree(one, eight);
}

TEST_P(Matrix, IsGoodByItselfAndAgainstTheModel) {
  const Route& route = std::get<1>(GetParam());
  const std::string made = Make("made", "");
  const std::string config = route.format == "torch" ? " --config " + model() + "/config.json" : "";
  const ProcessResult alone = Workshop::Verify(made, config);
  EXPECT_EQ(alone.exit_code, 0) << alone.out << alone.err;
  EXPECT_EQ(alone.err, "");
  const ProcessResult against = Workshop::Verify(made, config + " --against " + model());
  EXPECT_EQ(against.exit_code, 0) << against.out << against.err;
  EXPECT_THAT(against.out, ::testing::HasSubstr("every element equals"));
}

INSTANTIATE_TEST_SUITE_P(
    All, Matrix, ::testing::Combine(::testing::ValuesIn(Subjects()), ::testing::ValuesIn(Routes())),
    [](const auto& row) { return std::get<0>(row.param).name + std::get<1>(row.param).name; });

INSTANTIATE_TEST_SUITE_P(Experts, Matrix,
                         ::testing::Combine(::testing::ValuesIn(ExpertSubjects()),
                                            ::testing::ValuesIn(ExpertRoutes())),
                         [](const auto& row) {
                           return std::get<0>(row.param).name + std::get<1>(row.param).name;
                         });

INSTANTIATE_TEST_SUITE_P(TrainingOnly, Matrix,
                         ::testing::Combine(::testing::ValuesIn(TrainingSubjects()),
                                            ::testing::ValuesIn(TrainingRoutes())),
                         [](const auto& row) {
                           return std::get<0>(row.param).name + std::get<1>(row.param).name;
                         });

// --- models with one key head for each query head

TEST(ConvertMha, CoalescedAndMegatronComeBack) {
  const Workshop workshop;
  const std::string model = workshop.MakeModel("model", testing_util::TinyMha());
  int n = 0;
  for (const std::string options :
       {"--tp 2 --qkv coalesced", "--tp 4 --qkv coalesced --xser", "--tp 2 --style megatron",
        "--tp 4 --pp 2 --style megatron", "--tp 8 --qkv fused"}) {
    const std::string set = workshop / ("set" + std::to_string(n));
    const std::string back = workshop / ("back" + std::to_string(n++));
    ExpectConverts("--from hf --to nxd " + options, model, set);
    ExpectConverts("--from nxd --to hf", set, back);
    ExpectSameTree(model, back);
  }
}

// --- without Hugging Face on either side

struct Step {
  std::string from;
  std::string to;
  std::string options;
};

TEST(ConvertChain, EveryFormatLeadsToEveryOther) {
  const Workshop workshop;
  const std::string model = workshop.MakeModel("model", testing_util::TinyQwen3());
  const std::string config = " --config " + model + "/config.json";
  const std::vector<Step> steps = {
      {"hf", "nxd", "--tp 4 --hw trn2"},
      {"nxd", "rollout", "--tp 8 --flavor nxdi --bs 64 --seq 4096"},
      {"rollout", "nxd", "--tp 2 --pp 2 --xser"},
      {"nxd", "nxd", "--tp 8 --pp 1 --hw trn1 --qkv fused"},
      {"nxd", "rollout", "--tp 4 --no-fused-qkv"},
      {"rollout", "rollout", "--tp 2"},
      {"rollout", "torch", ""},
      {"torch", "rollout", "--tp 8" + config},
      {"rollout", "nxd", "--tp 2 --style megatron"},
      {"nxd", "torch", ""},
      {"torch", "nxd", "--tp 4 --hw trn1" + config},
      {"nxd", "nxd", "--tp 4 --hw trn2"},
      {"nxd", "hf", ""},
      {"hf", "torch", ""},
      {"torch", "torch", config},
      {"torch", "hf", config},
      {"hf", "hf", ""},
  };
  std::string at = model;
  for (size_t i = 0; i < steps.size(); ++i) {
    SCOPED_TRACE(steps[i].from + " to " + steps[i].to + " " + steps[i].options);
    const std::string next = workshop / (std::to_string(i) + (steps[i].to == "torch" ? ".pt" : ""));
    ExpectConverts("--from " + steps[i].from + " --to " + steps[i].to + " " + steps[i].options, at,
                   next);
    at = next;
  }
  EXPECT_TRUE(ReadFile(at + "/model.safetensors") == ReadFile(model + "/model.safetensors"));
}

// --- dtypes

TEST(ConvertDtype, OtherNamesOfAnElementTypeAreTaken) {
  const Workshop workshop;
  const std::string f32 = workshop.MakeModel("f32", testing_util::TinyLlama(), "--dtype float32");
  ExpectConverts("--from hf --to hf --dtype bf16", f32, workshop / "a");
  const std::string plain = ReadFile(workshop / "a/model.safetensors");
  for (const std::string name : {"bfloat16", "torch.bfloat16", "BF16"}) {
    ExpectConverts("--from hf --to hf -f --dtype " + name, f32, workshop / "b");
    EXPECT_TRUE(ReadFile(workshop / "b/model.safetensors") == plain) << name;
  }
  ExpectRefused("--from hf --to hf --dtype float8", f32, workshop / "no", 2,
                "one of keep|bf16|f16|f32|downcast");
}

TEST(ConvertDtype, NarrowsAndWidens) {
  const Workshop workshop;
  const std::string f32 = workshop.MakeModel("f32", testing_util::TinyLlama(), "--dtype f32");
  const std::string bf16 = workshop / "bf16";
  ExpectConverts("--from hf --to hf --dtype bf16", f32, bf16);
  // The bytes are the same through shards, whether rounded on the way there or back.
  const std::string set = workshop / "set";
  const std::string set16 = workshop / "set16";
  ExpectConverts("--from hf --to nxd --tp 2", f32, set);
  ExpectConverts("--from hf --to nxd --tp 2 --dtype bf16 --verify", f32, set16);
  const std::string a = workshop / "a";
  const std::string b = workshop / "b";
  ExpectConverts("--from nxd --to hf --dtype bf16", set, a);
  ExpectConverts("--from nxd --to hf", set16, b);
  EXPECT_TRUE(ReadFile(a + "/model.safetensors") == ReadFile(bf16 + "/model.safetensors"));
  EXPECT_TRUE(ReadFile(b + "/model.safetensors") == ReadFile(bf16 + "/model.safetensors"));
  // bf16 fits into f32: nothing is lost in either direction.
  const std::string wide = workshop / "wide";
  const std::string again = workshop / "again";
  ExpectConverts("--from hf --to nxd --tp 4 --hw trn1 --dtype f32", bf16, wide);
  ExpectConverts("--from nxd --to hf --dtype bf16", wide, again);
  EXPECT_TRUE(ReadFile(again + "/model.safetensors") == ReadFile(bf16 + "/model.safetensors"));
  // A rounded artifact equals the wide one in the rounded one's dtype. The other direction is
  // reported: the wide one holds more than the one it is compared with.
  EXPECT_EQ(Workshop::Verify(set16, "--against " + f32).exit_code, 0);
  const ProcessResult back = Workshop::Verify(f32, "--against " + set16);
  EXPECT_EQ(back.exit_code, 0);
  EXPECT_THAT(back.out, ::testing::HasSubstr("rounded from F32 to BF16"));
}

// --- sharded Hugging Face folders

TEST(ConvertShards, WritesAnIndexAndReadsIt) {
  const Workshop workshop;
  const std::string model = workshop.MakeModel("model", testing_util::TinyQwen2());
  const std::string shards = workshop / "shards";
  ExpectConverts("--from hf --to hf --max-shard-size 9KB", model, shards);
  const Json index = *ParseJson(ReadFile(shards + "/model.safetensors.index.json"));
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(shards))
    files += entry.path().extension() == ".safetensors";
  EXPECT_GE(files, 3u);
  EXPECT_EQ(index["weight_map"].size(), 1u + 4 * 12 + 1);
  EXPECT_EQ(index["metadata"]["total_size"], 62'400);
  EXPECT_FALSE(std::filesystem::exists(shards + "/model.safetensors"));
  EXPECT_EQ(Workshop::Verify(shards, "--against " + model).exit_code, 0);
}

}  // namespace
}  // namespace nxdkit::test
