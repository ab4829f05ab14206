// Checkpoints of the real torchtitan and transformers, there and back through NxD tags:
// testdata/new_stack/SOURCES.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "formats/dcp/folder.h"
#include "formats/kinds/open.h"
#include "formats/kinds/table.h"
#include "formats/kinds/transformers_folder.h"
#include "formats/ops/convert/convert.h"
#include "formats/torch/archive.h"
#include "formats/torch/encoder.h"
#include "lib/hash/digest.h"
#include "tests/formats/dcp/assemble.h"
#include "tests/formats/dcp/folder_draft.h"
#include "tests/formats/foreign/stored_runs.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/lib/expect_error.h"

namespace nxdkit {
namespace {

using artifact::InputHints;
using ops::OutputOptions;
using testing_util::Assemble;
using testing_util::DcpDraft;
using testing_util::ExpectRun;
using testing_util::OpsWorkshop;
using testing_util::ReadBytes;
using testing_util::Unpacked;

const std::string& Fixtures() { return Unpacked(NXDKIT_TESTDATA "/new_stack/fixtures.tar.zst"); }

struct Case {
  const char* name;
  const char* folder;  // of the checkpoint
  const char* mesh;    // not the one that the program had
  const char* program;
  const char* style;

  std::string Path() const { return Fixtures() + "/" + name + "/" + folder; }
  std::string Config() const { return Fixtures() + "/" + name + "/config.json"; }
  bool IsTitan() const { return std::string_view(program) == "torchtitan"; }

  nlohmann::json Expected() const {
    return nlohmann::json::parse(ReadBytes(Fixtures() + "/expected.json"))[name];
  }
  InputHints Hints() const {
    InputHints hints;
    hints.config = Config();
    return hints;
  }
  InputHints HintsWithState() const {
    InputHints hints = Hints();
    hints.optimizer = true;
    return hints;
  }
  OutputOptions Options() const {
    OutputOptions options;
    options.Set("for", program);
    options.Set("mesh", mesh);
    if (IsTitan()) options.Set("style", style);
    return options;
  }
};

constexpr Case kCases[] = {
    // 128 rows of wqkv on 3 ranks end within pairs of rows that rope rotates.
    {"titan-0.3.0-llama3", "checkpoint/step-2", "dp=3,tp=1", "torchtitan", "torchtitan"},
    {"titan-0.3.0-qwen3", "checkpoint/step-2", "dp=3,tp=2", "torchtitan", "torchtitan"},
    {"titan-0.2.2-llama3", "checkpoint/step-2", "dp=1,tp=4", "torchtitan", "torchtitan-2025"},
    {"transformers-5.24-qwen3-fsdp2", "checkpoint-2", "dp=3,tp=2", "transformers", ""},
    {"transformers-5.24-qwen3moe-tp2", "checkpoint-2", "dp=3,tp=2", "transformers", ""},
    {"transformers-5.19-qwen3-fsdp2", "checkpoint-2", "dp=1,tp=2", "transformers", ""},
};

void PrintTo(const Case& run, std::ostream* out) { *out << run.name; }

class NewStack : public ::testing::TestWithParam<Case> {
 protected:
  std::string ToTag() const {
    ops::ConvertRequest request =
        OpsWorkshop::Request(GetParam().Path(), &kinds::kDcp, shop_ / "tag", &kinds::kNxd);
    request.options.Set("tp", 2);
    request.hints = GetParam().HintsWithState();
    const auto made = ops::Convert(request);
    EXPECT_TRUE(made.ok()) << made.error().ToString();
    return shop_ / "tag";
  }
  std::string FromTag(const std::string& tag) const {
    ops::ConvertRequest request =
        OpsWorkshop::Request(tag, &kinds::kNxd, shop_ / "back", &kinds::kDcp, GetParam().Options());
    request.hints = GetParam().HintsWithState();
    const auto made = ops::Convert(request);
    EXPECT_TRUE(made.ok()) << made.error().ToString();
    return shop_ / "back";
  }

  OpsWorkshop shop_;
};

// The program's numbers under Hugging Face's names, in the form of ExpectRun.
nlohmann::json AsRun(const nlohmann::json& expected) {
  nlohmann::json run = {{"tensors", nlohmann::json::object()}, {"steps", expected["steps"]}};
  for (const auto& [name, tensor] : expected["hf"].items()) {
    run["tensors"][name] = tensor;
    run["tensors"][name]["dtype"] = "float32";
    run["tensors"][name]["kind"] = "trained";
  }
  return run;
}

TEST_P(NewStack, HasWhatTheProgramHad) {
  ExpectRun(GetParam().Path(), GetParam().Hints(), AsRun(GetParam().Expected()), true);
}

TEST_P(NewStack, ATagHasIt) {
  ExpectRun(ToTag(), GetParam().Hints(), AsRun(GetParam().Expected()), true);
}

std::string DigestOf(const dcp::StoredEntry& entry) {
  Sha256 digest;
  const std::string bytes = Assemble(entry);
  digest.Update(std::as_bytes(std::span(bytes)));
  return HexText(digest.Finish()).substr(0, 24);
}

// Each tensor under the program's own name, byte for byte.
void ExpectStored(const dcp::Folder& folder, const nlohmann::json& expected) {
  std::set<std::string> found;
  for (const dcp::StoredEntry& entry : folder.tensors) {
    SCOPED_TRACE(entry.key);
    found.insert(entry.key);
    ASSERT_TRUE(expected.contains(entry.key));
    EXPECT_EQ(entry.shape, expected[entry.key]["shape"].get<Shape>());
    EXPECT_EQ(TorchName(entry.dtype), expected[entry.key]["dtype"].get<std::string>());
    EXPECT_EQ(DigestOf(entry), expected[entry.key]["sha256"].get<std::string>());
  }
  for (const auto& [key, tensor] : expected.items()) EXPECT_TRUE(found.contains(key)) << key;
}

nlohmann::json StoredBy(const Case& run) {
  nlohmann::json expected = run.Expected();
  if (run.IsTitan()) return expected["tensors"];
  nlohmann::json all = expected["modules"];
  all.update(expected["optimizer_as_stored"]);
  return all;
}

Result<dcp::Folder> OpenStored(const Case& run, const std::string& path) {
  return run.IsTitan() ? dcp::Open(path) : kinds::OpenTransformers(path);
}

TEST_P(NewStack, ComesBackFromATagAsTheProgramSavedIt) {
  const auto folder = OpenStored(GetParam(), FromTag(ToTag()));
  ASSERT_TRUE(folder.ok()) << folder.error().ToString();
  EXPECT_THAT(folder->warnings, ::testing::IsEmpty());
  ExpectStored(*folder, StoredBy(GetParam()));
}

// vLLM Neuron expects one name for each expert, not those of the modules.
TEST_P(NewStack, AHuggingFaceFolderHasANameForEachExpert) {
  ops::ConvertRequest request =
      OpsWorkshop::Request(GetParam().Path(), &kinds::kDcp, shop_ / "hf", &kinds::kHf);
  request.hints = GetParam().Hints();
  const auto made = ops::Convert(request);
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  const auto folder = kinds::OpenArtifact(shop_ / "hf", &kinds::kHf, {});
  ASSERT_TRUE(folder.ok()) << folder.error().ToString();
  std::set<std::string> names, expected;
  for (const TensorFile& file : folder->files)
    for (const StoredTensor& tensor : file.tensors) names.insert(tensor.name);
  const nlohmann::json run = GetParam().Expected();
  for (const auto& [name, tensor] : run["hf"].items()) expected.insert(name);
  EXPECT_EQ(names, expected);
}

// The keys of an optimizer's options, and the keys that a run needs to be resumed.
std::set<std::string> KeysToResume(const dcp::Folder& folder) {
  std::set<std::string> keys;
  for (const dcp::ObjectEntry& object : folder.metadata.objects)
    if (!object.key.starts_with("dataloader.") && object.key != "nxdkit.optimizer")
      keys.insert(object.key);
  return keys;
}

// The release of 5.19 has lists of groups, which later ones do not load: those need every option of
// AdamW, and those that a schedule adds, for every parameter.
std::set<std::string> OptionsNeeded(const dcp::Folder& folder) {
  const std::string state = "optimizer.state.";
  std::set<std::string> keys;
  for (const dcp::StoredEntry& entry : folder.tensors)
    if (entry.key.starts_with(state) && entry.key.ends_with(".step"))
      for (const char* option :
           {"lr", "betas", "eps", "weight_decay", "amsgrad", "maximize", "foreach", "capturable",
            "differentiable", "fused", "decoupled_weight_decay", "initial_lr"})
        keys.insert("optimizer.param_groups." +
                    entry.key.substr(state.size(), entry.key.size() - state.size() - 4) + option);
  return keys;
}

TEST_P(NewStack, HasEveryKeyThatResumingNeeds) {
  const auto theirs = OpenStored(GetParam(), GetParam().Path());
  const auto ours = OpenStored(GetParam(), FromTag(ToTag()));
  ASSERT_TRUE(theirs.ok() && ours.ok());
  std::set<std::string> needed = OptionsNeeded(*theirs);
  ASSERT_FALSE(needed.empty());
  if (GetParam().IsTitan()) needed.merge(KeysToResume(*theirs));
  const std::set<std::string> had = KeysToResume(*ours);
  for (const std::string& key : needed) EXPECT_TRUE(had.contains(key)) << key;
}

INSTANTIATE_TEST_SUITE_P(Programs, NewStack, ::testing::ValuesIn(kCases),
                         [](const ::testing::TestParamInfo<Case>& row) {
                           std::string name = row.param.name;
                           for (char& c : name)
                             if (c == '-' || c == '.') c = '_';
                           return name;
                         });

class BetweenPrograms : public ::testing::Test {
 protected:
  Result<ops::ConvertReport> Convert(const std::string& from, const Case& run, const char* program,
                                     const char* style = nullptr) {
    OutputOptions options;
    options.Set("for", program);
    options.Set("mesh", "dp=2,tp=2");
    if (style) options.Set("style", style);
    ops::ConvertRequest request =
        OpsWorkshop::Request(from, &kinds::kDcp, shop_ / "out", &kinds::kDcp, options);
    request.hints = run.HintsWithState();
    return ops::Convert(request);
  }

  // The same in one chunk for each tensor.
  std::string OneChunk(const std::string& from, const Case& run) const {
    ops::ConvertRequest request =
        OpsWorkshop::Request(from, &kinds::kDcp, shop_ / "one", &kinds::kDcp);
    request.hints = run.HintsWithState();
    const auto made = ops::Convert(request);
    EXPECT_TRUE(made.ok()) << made.error().ToString();
    return shop_ / "one";
  }

  OpsWorkshop shop_;
};

// TorchTitan loads nothing without the counters of a run, which transformers keeps elsewhere.
TEST_F(BetweenPrograms, TorchTitanGetsTheCountsOfATransformersRun) {
  const Case& run = kCases[3];
  const auto made = Convert(run.Path(), run, "torchtitan");
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  const auto folder = dcp::Open(shop_ / "out");
  ASSERT_TRUE(folder.ok()) << folder.error().ToString();
  std::map<std::string, int64_t> counts;
  for (const dcp::ObjectEntry& object : folder->metadata.objects)
    if (object.key.starts_with("train_state.") || object.key == "lr_scheduler.last_epoch")
      counts[object.key] = *dcp::ReadObjectValue(*folder, object)->integer();
  EXPECT_THAT(counts, ::testing::ElementsAre(::testing::Pair("lr_scheduler.last_epoch", 2),
                                             ::testing::Pair("train_state.ntokens_seen", 0),
                                             ::testing::Pair("train_state.step", 2)));
}

// The head of a tied model has no state of its own; q, k and v have.
TEST_F(BetweenPrograms, TorchTitansOptimizerHasOneParameterOfThree) {
  const Case& run = kCases[3];
  ASSERT_TRUE(Convert(run.Path(), run, "torchtitan").ok());
  const auto folder = dcp::Open(shop_ / "out");
  ASSERT_TRUE(folder.ok());
  std::set<std::string> keys;
  for (const dcp::StoredEntry& entry : folder->tensors) keys.insert(entry.key);
  EXPECT_TRUE(keys.contains("layers.0.attention.qkv_linear.wq.weight"));
  EXPECT_TRUE(keys.contains("optimizer.state.layers.0.attention.qkv_linear.wqkv.weight.exp_avg"));
  EXPECT_FALSE(keys.contains("layers.0.attention.qkv_linear.wqkv.weight"));
  EXPECT_FALSE(keys.contains("optimizer.state.layers.0.attention.qkv_linear.wq.weight.exp_avg"));
  EXPECT_TRUE(keys.contains("lm_head.weight"));
  EXPECT_FALSE(keys.contains("optimizer.state.lm_head.weight.exp_avg"));
}

TEST_F(BetweenPrograms, AnUnfusedModelOfTorchTitanHasThree) {
  const Case& run = kCases[0];
  ASSERT_TRUE(Convert(run.Path(), run, "torchtitan", "torchtitan-unfused").ok());
  const auto folder = dcp::Open(shop_ / "out");
  ASSERT_TRUE(folder.ok());
  std::set<std::string> keys;
  for (const dcp::StoredEntry& entry : folder->tensors) keys.insert(entry.key);
  EXPECT_TRUE(keys.contains("optimizer.state.layers.0.attention.qkv_linear.wq.weight.exp_avg"));
  EXPECT_FALSE(keys.contains("optimizer.state.layers.0.attention.qkv_linear.wqkv.weight.exp_avg"));
  ExpectRun(shop_ / "out", run.Hints(), AsRun(run.Expected()), true);
  // A checkpoint that keeps its names keeps them here too, cut anew.
  ops::ConvertRequest again =
      OpsWorkshop::Request(shop_ / "out", &kinds::kDcp, shop_ / "again", &kinds::kDcp);
  again.hints = run.HintsWithState();
  ASSERT_TRUE(ops::Convert(again).ok());
  const auto kept = dcp::Open(shop_ / "again");
  ASSERT_TRUE(kept.ok());
  for (const dcp::StoredEntry& entry : kept->tensors)
    EXPECT_THAT(entry.key, ::testing::Not(::testing::HasSubstr("wqkv")));
}

// Parameters that become one have the same step.
TEST_F(BetweenPrograms, QueriesAndKeysOfDifferentStepsAreNotMadeOne) {
  const Case& run = kCases[0];
  OutputOptions options;
  options.Set("style", "torchtitan-unfused");
  ops::ConvertRequest request =
      OpsWorkshop::Request(run.Path(), &kinds::kDcp, shop_ / "unfused", &kinds::kDcp, options);
  request.hints = run.HintsWithState();
  ASSERT_TRUE(ops::Convert(request).ok());
  DcpDraft draft = DcpDraft::Read(shop_ / "unfused");
  const float step = 7;
  std::string& bytes =
      draft.Find("optimizer.state.layers.1.attention.qkv_linear.wk.weight.step").bytes;
  std::memcpy(bytes.data(), &step, sizeof step);
  draft.Write(shop_ / "unfused");
  const auto made = Convert(shop_ / "unfused", run, "torchtitan");
  testing_util::ExpectError(made, Errc::kUnsupported,
                            "model.layers.1.self_attn.q_proj.weight and "
                            "model.layers.1.self_attn.k_proj.weight become one parameter, but the "
                            "optimizer keeps something else of each: step");
  EXPECT_THAT(made.error().hint(), ::testing::HasSubstr("--style torchtitan-unfused"));
}

// Like a program that writes fewer options than TorchTitan needs.
TEST_F(BetweenPrograms, OptionsThatNobodySaysAreTorchsDefaults) {
  const Case& run = kCases[2];
  ops::ConvertRequest request =
      OpsWorkshop::Request(run.Path(), &kinds::kDcp, shop_ / "draft", &kinds::kDcp);
  request.hints = run.HintsWithState();
  ASSERT_TRUE(ops::Convert(request).ok());
  DcpDraft draft = DcpDraft::Read(shop_ / "draft");
  std::erase_if(draft.objects, [](const DcpDraft::Object& object) {
    return object.key.ends_with(".decoupled_weight_decay") || object.key.ends_with(".initial_lr");
  });
  draft.Write(shop_ / "draft");
  ASSERT_TRUE(Convert(shop_ / "draft", run, "torchtitan").ok());
  const DcpDraft made = DcpDraft::Read(OneChunk(shop_ / "out", run));
  std::map<std::string, torch::PickleValue> objects;
  for (const DcpDraft::Object& object : made.objects) objects[object.key] = object.value;
  const std::string options = "optimizer.param_groups.layers.0.attention.qkv_linear.wqkv.weight.";
  ASSERT_TRUE(objects.contains(options + "decoupled_weight_decay"));
  EXPECT_TRUE(std::get<bool>(objects[options + "decoupled_weight_decay"].value));
  EXPECT_EQ(std::get<double>(objects[options + "initial_lr"].value), 0.00075);
}

// A bias moved by balancing has no place in another format.
TEST_F(BetweenPrograms, ABiasOfExpertsThatIsNotZeroIsNamed) {
  const Case& run = kCases[4];
  ASSERT_TRUE(Convert(run.Path(), run, "torchtitan").ok());
  DcpDraft draft = DcpDraft::Read(OneChunk(shop_ / "out", run));
  draft.Find("layers.1.moe.expert_bias_E").bytes[3] = 0x3f;
  draft.Write(shop_ / "biased");
  const auto bound = kinds::OpenAndBind(shop_ / "biased", &kinds::kDcp, run.Hints());
  ASSERT_TRUE(bound.ok()) << bound.error().ToString();
  EXPECT_THAT(bound->artifact.warnings,
              ::testing::Contains(::testing::StartsWith(
                  "layers.1.moe.expert_bias_E is not zero: the model adds it")));
  // TorchTitan keeps it.
  ops::ConvertRequest again =
      OpsWorkshop::Request(shop_ / "biased", &kinds::kDcp, shop_ / "again", &kinds::kDcp);
  again.hints = run.HintsWithState();
  ASSERT_TRUE(ops::Convert(again).ok());
  EXPECT_EQ(DcpDraft::Read(shop_ / "again").Find("layers.1.moe.expert_bias_E").bytes[3], 0x3f);
  // Under its name of 2025, too.
  OutputOptions options;
  options.Set("style", "torchtitan-2025");
  ops::ConvertRequest older =
      OpsWorkshop::Request(shop_ / "biased", &kinds::kDcp, shop_ / "older", &kinds::kDcp, options);
  older.hints = run.HintsWithState();
  ASSERT_TRUE(ops::Convert(older).ok());
  const DcpDraft renamed = DcpDraft::Read(shop_ / "older");
  EXPECT_EQ(DcpDraft(renamed).Find("layers.1.moe.expert_bias").bytes[3], 0x3f);
  EXPECT_EQ(DcpDraft(renamed).Find("layers.0.moe.expert_bias").bytes, std::string(16, '\0'));
  EXPECT_EQ(std::ranges::count_if(
                renamed.tensors,
                [](const auto& tensor) { return tensor.key.ends_with("expert_bias_E"); }),
            0);
  // Without the optimizer nothing of the run is kept: the bias is not silently set to zero.
  again.output = shop_ / "bare";
  again.hints.optimizer = false;
  testing_util::ExpectError(ops::Convert(again), Errc::kUnsupported,
                            "a bias of the router that is not zero");
}

// 0.2.2 has other names for experts.
TEST_F(BetweenPrograms, ExpertsOf2025HaveItsNames) {
  const Case& run = kCases[4];
  ASSERT_TRUE(Convert(run.Path(), run, "torchtitan", "torchtitan-2025").ok());
  const auto folder = dcp::Open(shop_ / "out");
  ASSERT_TRUE(folder.ok());
  std::map<std::string, Shape> shapes;
  for (const dcp::StoredEntry& entry : folder->tensors)
    if (entry.key.starts_with("layers.0.moe.")) shapes[entry.key] = entry.shape;
  EXPECT_THAT(shapes, ::testing::ElementsAre(
                          ::testing::Pair("layers.0.moe.expert_bias", Shape({4})),
                          ::testing::Pair("layers.0.moe.experts.w1", Shape({4, 24, 32})),
                          ::testing::Pair("layers.0.moe.experts.w2", Shape({4, 32, 24})),
                          ::testing::Pair("layers.0.moe.experts.w3", Shape({4, 24, 32})),
                          ::testing::Pair("layers.0.moe.router.gate.weight", Shape({4, 32}))));
  ExpectRun(shop_ / "out", run.Hints(), AsRun(run.Expected()), true);
}

// Its optimizer has one group, and so has the schedule that it loads.
TEST_F(BetweenPrograms, TheScheduleOf2025HasOneGroup) {
  const Case& run = kCases[0];
  const auto made = Convert(run.Path(), run, "torchtitan", "torchtitan-2025");
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  const auto folder = dcp::Open(shop_ / "out");
  ASSERT_TRUE(folder.ok());
  size_t lists = 0;
  for (const dcp::ObjectEntry& object : folder->metadata.objects)
    if (object.key == "lr_scheduler.base_lrs" || object.key == "lr_scheduler._last_lr" ||
        object.key == "lr_scheduler.lr_lambdas") {
      ++lists;
      EXPECT_EQ(dcp::ReadObjectValue(*folder, object)->list()->size(), 1u) << object.key;
    }
  EXPECT_EQ(lists, 3u);
  EXPECT_THAT(made->notes, ::testing::Contains(::testing::HasSubstr("has one group: those of the "
                                                                    "first parameter become")));
}

// A buffer of the model that only this program has: it must be there, filled with zeros.
TEST_F(BetweenPrograms, TorchTitansExpertsHaveABias) {
  const Case& run = kCases[4];
  ASSERT_TRUE(Convert(run.Path(), run, "torchtitan").ok());
  const auto folder = dcp::Open(shop_ / "out");
  ASSERT_TRUE(folder.ok());
  std::map<std::string, std::string> biases;
  for (const dcp::StoredEntry& entry : folder->tensors)
    if (entry.key.ends_with("expert_bias_E")) {
      EXPECT_EQ(entry.dtype, Dtype::kF32);
      EXPECT_EQ(entry.shape, Shape({4}));
      biases[entry.key] = Assemble(entry);
    }
  const std::string zeros(16, '\0');
  EXPECT_THAT(biases, ::testing::ElementsAre(::testing::Pair("layers.0.moe.expert_bias_E", zeros),
                                             ::testing::Pair("layers.1.moe.expert_bias_E", zeros)));
  ExpectRun(shop_ / "out", run.Hints(), AsRun(run.Expected()), true);
}

// Cut for other ranks it is the same, in the form of 5.20 and later.
TEST_F(BetweenPrograms, ACheckpointOfTransformersStaysOne) {
  for (const size_t i : {3, 5}) {
    const Case& run = kCases[i];
    SCOPED_TRACE(run.name);
    std::filesystem::remove_all(shop_ / "out");
    OutputOptions options;
    options.Set("mesh", "dp=3,tp=1");
    ops::ConvertRequest request =
        OpsWorkshop::Request(run.Path(), &kinds::kDcp, shop_ / "out", &kinds::kDcp, options);
    request.hints = run.HintsWithState();
    ASSERT_TRUE(ops::Convert(request).ok());
    EXPECT_TRUE(
        std::filesystem::exists(shop_ / "out/shard-00003-model-00001-of-00001.safetensors"));
    const auto folder = kinds::OpenTransformers(shop_ / "out");
    ASSERT_TRUE(folder.ok()) << folder.error().ToString();
    ExpectStored(*folder, StoredBy(run));
    std::set<std::string> had = KeysToResume(*folder);
    for (const std::string& key : OptionsNeeded(*folder)) EXPECT_TRUE(had.contains(key)) << key;
  }
}

// A user who changes the program is told what is lost.
TEST_F(BetweenPrograms, WhatTheOtherProgramLacksIsSaid) {
  const auto made = Convert(kCases[0].Path(), kCases[0], "transformers");
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_THAT(
      made->notes,
      ::testing::Contains(::testing::HasSubstr("transformers has no place for it: dataloader")));
  std::filesystem::remove_all(shop_ / "out");
  const auto back = Convert(kCases[3].Path(), kCases[3], "torchtitan");
  ASSERT_TRUE(back.ok());
  EXPECT_THAT(back->notes, ::testing::Contains(::testing::HasSubstr("exclude_from_loading")));
  EXPECT_THAT(back->notes, ::testing::Contains(::testing::HasSubstr("ntokens_seen is not known")));
}

// A file of this name in the current folder is not used.
TEST_F(BetweenPrograms, TheStepOfATagIsWrittenWhereverItIsMade) {
  const Case& run = kCases[3];
  ops::ConvertRequest tag =
      OpsWorkshop::Request(run.Path(), &kinds::kDcp, shop_ / "tag", &kinds::kNxd);
  tag.options.Set("tp", 2);
  tag.hints = run.HintsWithState();
  ASSERT_TRUE(ops::Convert(tag).ok());
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::create_directory(shop_ / "here");
  std::filesystem::current_path(shop_ / "here");
  std::ofstream("trainer_state.json") << R"({"global_step": 9})";
  OutputOptions options;
  options.Set("for", "transformers");
  ops::ConvertRequest request =
      OpsWorkshop::Request(shop_ / "tag", &kinds::kNxd, shop_ / "out", &kinds::kDcp, options);
  request.hints = run.HintsWithState();
  const auto made = ops::Convert(request);
  std::filesystem::current_path(before);
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_EQ(ReadBytes(shop_ / "out/trainer_state.json"), "{\n \"global_step\": 2\n}\n");
}

// More ranks than a plan can hold are refused before they are laid out.
TEST_F(BetweenPrograms, FarTooManyRanksAreRefused) {
  OutputOptions options;
  options.Set("for", "transformers");
  options.Set("mesh", "dp=100000,tp=1");
  ops::ConvertRequest request =
      OpsWorkshop::Request(kCases[3].Path(), &kinds::kDcp, shop_ / "out", &kinds::kDcp, options);
  request.hints = kCases[3].Hints();
  testing_util::ExpectError(ops::Convert(request), Errc::kLimit,
                            "the plan alone for 100,000 ranks");
}

TEST_F(BetweenPrograms, NamesOfOneProgramAreNotForTheOther) {
  OutputOptions options;
  options.Set("for", "transformers");
  options.Set("style", "torchtitan");
  testing_util::ExpectError(kinds::kDcp.check_options(options), Errc::kUsage,
                            "--for transformers does not have the names of --style torchtitan");
}

// A changed folder of transformers.
class TransformersFolder : public ::testing::Test {
 protected:
  TransformersFolder() {
    std::filesystem::copy(kCases[3].Path(), shop_ / "run",
                          std::filesystem::copy_options::recursive);
  }
  Result<artifact::BoundArtifact> Bind() const {
    return kinds::OpenAndBind(shop_ / "run", nullptr, kCases[3].HintsWithState());
  }

  OpsWorkshop shop_;
};

// An output without its optimizer is not made silently.
TEST_F(TransformersFolder, AnOptimizerWhoseSaveDidNotEndIsRefused) {
  std::filesystem::remove(shop_ / "run/optimizer/.metadata");
  const auto bound = Bind();
  testing_util::ExpectError(bound, Errc::kCorrupt, ".metadata");
  EXPECT_THAT(bound.error().hint(), ::testing::HasSubstr("take an earlier checkpoint"));
}

TEST_F(TransformersFolder, AFileOfTheOptimizerThatIsMissingIsNamed) {
  std::filesystem::remove(shop_ / "run/optimizer/__1_0.distcp");
  testing_util::ExpectError(Bind(), Errc::kCorrupt, "the file is missing");
}

// The step is that of the loop, when the optimizer has counted another number.
TEST_F(TransformersFolder, HasTheStepOfTheTrainersFile) {
  std::ofstream(shop_ / "run/trainer_state.json") << R"({"global_step": 100})";
  ops::ConvertRequest request =
      OpsWorkshop::Request(shop_ / "run", &kinds::kDcp, shop_ / "titan", &kinds::kDcp);
  request.options.Set("for", "torchtitan");
  request.hints = kCases[3].HintsWithState();
  ASSERT_TRUE(ops::Convert(request).ok());
  const auto folder = dcp::Open(shop_ / "titan");
  ASSERT_TRUE(folder.ok());
  for (const dcp::ObjectEntry& object : folder->metadata.objects)
    if (object.key == "train_state.step") {
      EXPECT_EQ(*dcp::ReadObjectValue(*folder, object)->integer(), 100);
    }
}

// A schedule other than LambdaLR's, and rates that the groups do not have, are kept when it is cut
// anew.
TEST_F(TransformersFolder, KeepsItsScheduleAndItsStepWhenItIsCutAnew) {
  const torch::PickleDict schedule = {
      {{std::string("base_lrs")}, torch::PickleValue::MakeList({{0.5}, {0.25}})},
      {{std::string("T_max")}, {int64_t{77}}},
      {{std::string("last_epoch")}, {int64_t{2}}}};
  std::ofstream(shop_ / "run/scheduler.pt", std::ios::binary)
      << *torch::EncodeObject(torch::PickleValue::MakeDict(schedule));
  std::ofstream(shop_ / "run/trainer_state.json") << R"({"global_step": 100, "epoch": 3.5})";
  ops::ConvertRequest request =
      OpsWorkshop::Request(shop_ / "run", &kinds::kDcp, shop_ / "recut", &kinds::kDcp);
  request.options.Set("mesh", "dp=4,tp=1");
  request.hints = kCases[3].HintsWithState();
  ASSERT_TRUE(ops::Convert(request).ok());
  EXPECT_EQ(ReadBytes(shop_ / "recut/trainer_state.json"), R"({"global_step": 100, "epoch": 3.5})");
  const auto archive = torch::ReadArchive(shop_ / "recut/scheduler.pt");
  ASSERT_TRUE(archive.ok()) << archive.error().ToString();
  EXPECT_EQ(*archive->root.Find("T_max")->integer(), 77);
  ASSERT_EQ(archive->root.Find("base_lrs")->list()->size(), 2u);
  EXPECT_EQ(std::get<double>(archive->root.Find("base_lrs")->list()->at(1).value), 0.25);
  EXPECT_TRUE(archive->root.Find("lr_lambdas"));
}

// from_pretrained would round master weights to the dtype of config.json, even with one BF16 norm.
TEST_F(TransformersFolder, SaysFloat32ForMasterWeights) {
  std::string config = ReadBytes(shop_ / "run/config.json");
  const size_t at = config.find("float32");
  ASSERT_NE(at, std::string::npos);
  std::ofstream(shop_ / "run/config.json") << config.replace(at, 7, "bfloat16");
  ops::ConvertRequest request =
      OpsWorkshop::Request(shop_ / "run", &kinds::kDcp, shop_ / "recut", &kinds::kDcp);
  request.hints.optimizer = true;
  const auto made = ops::Convert(request);
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_THAT(ReadBytes(shop_ / "recut/config.json"), ::testing::HasSubstr("float32"));
  EXPECT_THAT(made->notes,
              ::testing::Contains(::testing::StartsWith("config.json says float32, not BF16")));
}

// torch.save of the folder's state, by numbers as in torch's optimizer, or by names.
class WholeState : public TransformersFolder {
 protected:
  void Write(torch::PickleValue name) const {
    std::filesystem::remove_all(shop_ / "run/optimizer");
    std::filesystem::create_directory(shop_ / "run/optimizer");
    torch::PickleDict kept = {{{std::string("step")}, {2.0}}};
    torch::PickleDict state = {{std::move(name), torch::PickleValue::MakeDict(kept)}};
    torch::PickleDict optimizer = {{{std::string("state")}, torch::PickleValue::MakeDict(state)}};
    torch::PickleDict root = {
        {{std::string("optimizer")}, torch::PickleValue::MakeDict(optimizer)}};
    std::ofstream(shop_ / "run/optimizer/optimizer.pt", std::ios::binary)
        << *torch::EncodeObject(torch::PickleValue::MakeDict(root));
  }
};

TEST_F(WholeState, ByNamesIsRead) {
  Write({std::string("model.norm.weight")});
  const auto folder = kinds::OpenTransformers(shop_ / "run");
  ASSERT_TRUE(folder.ok()) << folder.error().ToString();
  EXPECT_EQ(std::ranges::count(folder->metadata.objects, "optimizer.state.model.norm.weight.step",
                               &dcp::ObjectEntry::key),
            1);
}

TEST_F(WholeState, ByNumbersIsRefusedAsInAnyCheckpoint) {
  Write({int64_t{0}});
  testing_util::ExpectError(Bind(), Errc::kUnsupported, "numbers instead of names (found 0)");
}

TEST_F(TransformersFolder, WithoutTheOptimizersFolderItIsShardsAlone) {
  std::filesystem::remove_all(shop_ / "run/optimizer");
  const auto bound = Bind();
  ASSERT_TRUE(bound.ok()) << bound.error().ToString();
  EXPECT_FALSE(bound->optimizer);
}

TEST_F(TransformersFolder, AWholeFileBesideTheShardsIsNamed) {
  std::filesystem::copy(Fixtures() +
                            "/transformers-5.19-qwen3-fsdp2/checkpoint-2/"
                            "model-00001-of-00001.safetensors",
                        shop_ / "run/shard-00003-model-00001-of-00001.safetensors");
  testing_util::ExpectError(Bind(), Errc::kCorrupt, "the file has no DCP_SHARDING_INFO");
}

// The older form has the weights twice: the whole file is loaded, and compared.
TEST(TransformersForms, AWholeFileThatIsAnotherIsFound) {
  const Case& run = kCases[5];
  const OpsWorkshop shop;
  std::filesystem::copy(run.Path(), shop / "run", std::filesystem::copy_options::recursive);
  std::string bytes = ReadBytes(shop / "run/model-00001-of-00001.safetensors");
  bytes[bytes.size() - 2] = static_cast<char>(bytes[bytes.size() - 2] ^ 1);
  std::ofstream(shop / "run/model-00001-of-00001.safetensors", std::ios::binary) << bytes;
  const auto findings = testing_util::FindingsOf(shop / "run");
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].file, ::testing::HasSubstr("model-00001-of-00001.safetensors"));
  EXPECT_EQ(findings[0].count, 1);
}

// Without its shards the whole files are read.
TEST(TransformersForms, WholeFilesAndTheOptimizerAreOne) {
  const Case& run = kCases[5];
  const OpsWorkshop shop;
  std::filesystem::copy(run.Path(), shop / "run", std::filesystem::copy_options::recursive);
  std::filesystem::remove_all(shop / "run/sharded");
  ExpectRun(shop / "run", run.Hints(), AsRun(run.Expected()), true);
}

}  // namespace
}  // namespace nxdkit
