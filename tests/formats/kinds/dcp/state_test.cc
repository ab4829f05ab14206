// The optimizer's state of a distributed checkpoint in all its forms, and the other objects of a
// run: torch's own checkpoint (testdata/dcp/one), changed by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "formats/kinds/open.h"
#include "formats/torch/pickle_writer.h"
#include "tests/formats/dcp/folder_draft.h"
#include "tests/formats/kinds/dcp/state_hints.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/formats/words.h"
#include "tests/lib/expect_error.h"

namespace nxdkit {
namespace {

using ops::Kind;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing_util::BytesOf;
using testing_util::DcpDraft;
using testing_util::ExpectError;
using testing_util::kQwenConfig;
using testing_util::OpsWorkshop;
using testing_util::OptionIn;
using testing_util::StateHints;
using torch::PickleValue;

// --- as torch saved it, three of its parameters trained

class SavedState : public ::testing::Test {
 protected:
  Result<ops::BoundArtifact> Bind() {
    draft_.Write(shop_ / "dcp");
    return ops::OpenAndBind(shop_ / "dcp", &ops::kDcp, StateHints());
  }

  Result<ops::ConvertReport> Convert(ops::ConvertRequest request) {
    draft_.Write(shop_ / "dcp");
    request.hints = StateHints();
    return ops::Convert(request);
  }
  // To a checkpoint again.
  Result<ops::ConvertReport> Recut() {
    return Convert(OpsWorkshop::Request(shop_ / "dcp", &ops::kDcp, shop_ / "again", &ops::kDcp));
  }

  Result<ops::VerifyReport> Verify() {
    draft_.Write(shop_ / "dcp");
    ops::VerifyRequest request;
    request.path = shop_ / "dcp";
    request.hints.config = kQwenConfig;
    return ops::Verify(request);
  }

  OpsWorkshop shop_;
  DcpDraft draft_ = DcpDraft::Read(NXDKIT_TESTDATA "/dcp/one");
};

// `capturable` and `fused` make the learning rate a tensor.
TEST_F(SavedState, TakesAnOptionThatIsATensor) {
  for (const DcpDraft::Object& object : std::vector(draft_.objects))
    if (object.key.ends_with(".lr")) {
      draft_.Remove(object.key);
      draft_.tensors.push_back({object.key, Dtype::kF32, {}, BytesOf(0.25f)});
    }
  const auto bound = Bind();
  ASSERT_TRUE(bound.ok()) << bound.error().ToString();
  ASSERT_EQ(bound->optimizer->groups.size(), 1u);
  const PickleValue* rate = OptionIn(*bound, 0, "lr");
  ASSERT_NE(rate, nullptr);
  EXPECT_EQ(std::get<double>(rate->value), 0.25);
}

TEST_F(SavedState, RefusesAnOptionThatIsATensorWithDimensions) {
  draft_.tensors.push_back(
      {"optimizer.param_groups.norm.weight.lrs", Dtype::kF32, {2}, std::string(8, '\0')});
  const auto error = ExpectError(Bind(), Errc::kUnsupported, "a tensor of shape [2]");
  EXPECT_EQ(error->tensor(), "optimizer.param_groups.norm.weight.lrs");
}

TEST_F(SavedState, OfTwoNamesIsOneAndCompared) {
  DcpDraft::Tensor copy = draft_.Find("optimizer.state.norm.weight.exp_avg");
  copy.key = "optimizer.state.model.norm.weight.exp_avg";
  draft_.tensors.push_back(copy);
  DcpDraft::Object option = draft_.FindObject("optimizer.param_groups.norm.weight.lr");
  option.key = "optimizer.param_groups.model.norm.weight.lr";
  draft_.objects.push_back(option);
  const auto bound = Bind();
  ASSERT_TRUE(bound.ok()) << bound.error().ToString();
  const auto norm = std::ranges::find(bound->params, "model.norm.weight", &LogicalTensor::name);
  std::vector<std::string> names;
  for (const ops::OptimizerEntry& entry :
       *bound->optimizer->entries[static_cast<size_t>(norm - bound->params.begin())])
    names.push_back(entry.name);
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("step", "exp_avg", "exp_avg_sq"));
  const auto made = Recut();
  EXPECT_TRUE(made.ok()) << made.error().ToString();
}

TEST_F(SavedState, OfTwoNamesThatDifferIsRefused) {
  DcpDraft::Tensor copy = draft_.Find("optimizer.state.norm.weight.exp_avg");
  copy.key = "optimizer.state.model.norm.weight.exp_avg";
  copy.bytes[4] ^= 1;
  draft_.tensors.push_back(copy);
  const auto error = ExpectError(Recut(), Errc::kCorrupt,
                                 "1 element differs from the other copy of "
                                 "model.norm.weight/exp_avg");
  EXPECT_EQ(error->tensor(), "optimizer.state.model.norm.weight.exp_avg");
}

TEST_F(SavedState, OfTwoNamesAndKindsIsRefused) {
  draft_.tensors.push_back(
      {"optimizer.state.model.norm.weight.step", Dtype::kF64, {}, BytesOf(1.0)});
  const auto error = ExpectError(Bind(), Errc::kCorrupt,
                                 "the step of model.norm.weight is kept under another of its "
                                 "names too, and as something else");
  EXPECT_EQ(error->tensor(), "optimizer.state.model.norm.weight.step");
}

TEST_F(SavedState, OptionsOfTwoNamesThatDifferAreRefused) {
  draft_.objects.push_back({"optimizer.param_groups.model.norm.weight.lr", {0.5}});
  const auto error =
      ExpectError(Bind(), Errc::kCorrupt, "lr of model.norm.weight has a different value");
  EXPECT_EQ(error->tensor(), "optimizer.param_groups.model.norm.weight.lr");
}

// The result of get_optimizer_state_dict: groups in a list, each with the names of its parameters.
void GroupOptions(DcpDraft& draft, const std::vector<PickleValue>& params) {
  std::vector<DcpDraft::Object> options;
  for (const DcpDraft::Object& object : draft.objects)
    if (const std::string own = "optimizer.param_groups.norm.weight."; object.key.starts_with(own))
      options.push_back(
          {"optimizer.param_groups.0." + object.key.substr(own.size()), object.value});
  draft.Remove("optimizer.param_groups.");
  draft.objects.insert(draft.objects.end(), options.begin(), options.end());
  draft.objects.push_back({"optimizer.param_groups.0.params", PickleValue::MakeList(params)});
}

TEST_F(SavedState, TakesGroupsOfNamedParameters) {
  const auto flat = Bind();
  ASSERT_TRUE(flat.ok()) << flat.error().ToString();
  std::vector<PickleValue> names;
  for (const DcpDraft::Tensor& tensor : draft_.tensors)
    if (const std::string_view key = tensor.key;
        key.starts_with("optimizer.state.") && key.ends_with(".exp_avg"))
      names.push_back({std::string(key.substr(16, key.size() - 24))});
  ASSERT_EQ(names.size(), 3u);
  GroupOptions(draft_, names);
  const auto bound = Bind();
  ASSERT_TRUE(bound.ok()) << bound.error().ToString();
  ASSERT_EQ(bound->optimizer->groups.size(), 1u);
  EXPECT_EQ(bound->optimizer->groups.front().size(), 11u);
  EXPECT_EQ(std::get<double>(OptionIn(*bound, 0, "lr")->value), 1e-3);
  EXPECT_EQ(bound->optimizer->group_of, flat->optimizer->group_of);
}

TEST_F(SavedState, RefusesGroupsOfNumberedParameters) {
  GroupOptions(draft_, {{int64_t{0}}, {int64_t{1}}});
  const auto error =
      ExpectError(Bind(), Errc::kUnsupported,
                  "the optimizer's parameters have numbers instead of names (found 0)");
  EXPECT_THAT(error->hint(), HasSubstr("get_optimizer_state_dict()"));
}

TEST_F(SavedState, RefusesNumberedState) {
  DcpDraft::Tensor state = draft_.Find("optimizer.state.norm.weight.exp_avg");
  state.key = "optimizer.state.7.exp_avg";
  draft_.tensors.push_back(state);
  const auto error =
      ExpectError(Bind(), Errc::kUnsupported,
                  "the optimizer's parameters have numbers instead of names (found 7)");
  EXPECT_EQ(error->tensor(), "optimizer.state.7.exp_avg");
  // It belongs to the run: nothing is wrong with it.
  const auto report = Verify();
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_THAT(report->findings, ::testing::IsEmpty());
  EXPECT_THAT(report->warnings,
              ::testing::Contains(HasSubstr("the optimizer's state is not checked: ")));
}

TEST_F(SavedState, RefusesAGroupThatDoesNotSayOfWhat) {
  GroupOptions(draft_, {});
  draft_.Remove("optimizer.param_groups.0.params");
  ExpectError(Bind(), Errc::kCorrupt, "the group does not list its parameters in \"params\"");
}

TEST_F(SavedState, WithoutOneOfAdamsNumbersIsAFinding) {
  draft_.Remove("optimizer.state.norm.weight.exp_avg_sq");
  const auto report = Verify();
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  ASSERT_EQ(report->findings.size(), 1u);
  EXPECT_EQ(report->findings.front().param, "model.norm.weight");
  EXPECT_THAT(report->findings.front().message, HasSubstr("the optimizer has no exp_avg_sq"));
}

TEST_F(SavedState, OfSomeParametersIsAWarning) {
  const auto report = Verify();
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_TRUE(report->findings.empty());
  EXPECT_THAT(report->warnings, Contains("22 of 25 parameters have no optimizer state, the first "
                                         "is model.embed_tokens.weight"));
}

TEST_F(SavedState, AndTensorsOfTheRunGoAlong) {
  draft_.tensors.push_back({"dataloader.seen", Dtype::kI64, {3}, std::string(24, '\7')});
  draft_.tensors.push_back({"rng_state", Dtype::kU8, {4}, "\1\2\3\4"});
  draft_.tensors.push_back({"optimizer.scale", Dtype::kF32, {}, BytesOf(2.0f)});
  draft_.objects.push_back({"optimizer.kind", {std::string("AdamW")}});
  const auto made = Recut();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  DcpDraft again = DcpDraft::Read(shop_ / "again");
  EXPECT_EQ(again.Find("dataloader.seen").bytes, std::string(24, '\7'));
  EXPECT_EQ(again.Find("dataloader.seen").dtype, Dtype::kI64);
  EXPECT_EQ(again.Find("rng_state").bytes, "\1\2\3\4");
  EXPECT_EQ(*again.FindObject("optimizer.kind").value.string(), "AdamW");
  EXPECT_THAT(made->notes, Contains("optimizer.scale is not a parameter and is left out"));
  EXPECT_THAT(made->notes, Contains("22 of 25 parameters have no state, and get none"));
}

TEST_F(SavedState, StepsThatArePlainNumbersGoAlong) {
  draft_.Remove("optimizer.state.norm.weight.step");
  draft_.objects.push_back({"optimizer.state.norm.weight.step", {int64_t{1}}});
  const auto made = Recut();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_EQ(*DcpDraft::Read(shop_ / "again")
                 .FindObject("optimizer.state.norm.weight.step")
                 .value.integer(),
            1);
}

// --- cut anew: all of it stays

// Keys with their values: a tensor's bytes, an object's pickle.
std::map<std::string, std::string> ContentsOf(const std::string& folder) {
  const DcpDraft draft = DcpDraft::Read(folder);
  std::map<std::string, std::string> out;
  for (const DcpDraft::Tensor& tensor : draft.tensors) out.emplace(tensor.key, tensor.bytes);
  for (const DcpDraft::Object& object : draft.objects)
    out.emplace(object.key, *torch::WritePickle(object.value, {}));
  return out;
}

TEST_F(SavedState, StaysWithoutAConfig) {
  draft_.Write(shop_ / "dcp");  // away from the fixtures' config.json
  ops::ConvertRequest request =
      OpsWorkshop::Request(shop_ / "dcp", &ops::kDcp, shop_ / "again", &ops::kDcp);
  request.hints.optimizer = true;
  request.verify = true;
  const auto made = ops::Convert(request);
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_EQ(made->model_type, "");
  const auto before = ContentsOf(NXDKIT_TESTDATA "/dcp/one");
  EXPECT_EQ(before.size(), 34u + 38u);
  EXPECT_EQ(ContentsOf(shop_ / "again"), before);
}

TEST_F(SavedState, StaysWithAConfig) {
  draft_.objects.push_back({"epoch", {int64_t{3}}});
  const auto made = Recut();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_EQ(ContentsOf(shop_ / "again"), ContentsOf(shop_ / "dcp"));
}

// Before the first step there are options, and a run.
TEST_F(SavedState, OfNoParameterLeavesTheRunAsItIs) {
  draft_.Remove("optimizer.state.");
  draft_.tensors.push_back({"rng_state", Dtype::kU8, {4}, "\1\2\3\4"});
  const auto made = Recut();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_EQ(ContentsOf(shop_ / "again"), ContentsOf(shop_ / "dcp"));
}

TEST_F(SavedState, ThatIsNotAskedForLeavesTheRunAsItIs) {
  draft_.Write(shop_ / "dcp");
  ops::ConvertRequest request =
      OpsWorkshop::Request(shop_ / "dcp", &ops::kDcp, shop_ / "again", &ops::kDcp);
  request.hints.config = kQwenConfig;
  const auto made = ops::Convert(request);
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  draft_.Remove("optimizer.");
  draft_.Write(shop_ / "expected");
  EXPECT_EQ(ContentsOf(shop_ / "again"), ContentsOf(shop_ / "expected"));
}

// dcp.save({"model": ...}): the names of the optimizer's parameters lack the prefix.
TEST_F(SavedState, KeepsThePrefixOfItsWeights) {
  for (DcpDraft::Tensor& tensor : draft_.tensors)
    if (!tensor.key.starts_with("optimizer.")) tensor.key.insert(0, "model.");
  const auto made = Recut();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_EQ(ContentsOf(shop_ / "again"), ContentsOf(shop_ / "dcp"));
}

TEST_F(SavedState, KeepsThePrefixOfItsStates) {
  const std::string state = "optimizer.state.";
  const std::string options = "optimizer.param_groups.";
  for (DcpDraft::Tensor& tensor : draft_.tensors)
    tensor.key.insert(tensor.key.starts_with(state) ? state.size() : 0, "model.");
  for (DcpDraft::Object& object : draft_.objects)
    if (object.key.starts_with(options)) object.key.insert(options.size(), "model.");
  const auto made = Recut();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_EQ(ContentsOf(shop_ / "again"), ContentsOf(shop_ / "dcp"));
}

// Makes it SGD's: one tensor for each parameter, options of its own, and none of AdamW's.
void MakeSgd(DcpDraft& draft) {
  const std::string adam = ".exp_avg";
  for (DcpDraft::Tensor& tensor : draft.tensors)
    if (tensor.key.ends_with(adam))
      tensor.key.replace(tensor.key.size() - adam.size(), adam.size(), ".momentum_buffer");
  std::erase_if(draft.tensors, [](const DcpDraft::Tensor& tensor) {
    return tensor.key.ends_with(".exp_avg_sq") || tensor.key.ends_with(".step");
  });
  draft.Remove("optimizer.param_groups.");
  draft.objects.push_back({"optimizer.param_groups.norm.weight.lr", {0.5}});
  draft.objects.push_back({"optimizer.param_groups.norm.weight.momentum", {0.9}});
}

TEST_F(SavedState, OfAnotherOptimizerGoesAlongAsItIs) {
  MakeSgd(draft_);
  const auto made = Recut();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_EQ(ContentsOf(shop_ / "again"), ContentsOf(shop_ / "dcp"));
}

TEST_F(SavedState, GetsNoOptionsUnderOtherNames) {
  MakeSgd(draft_);
  ops::OutputOptions style;
  style.Set("style", "hf");
  const auto made =
      Convert(OpsWorkshop::Request(shop_ / "dcp", &ops::kDcp, shop_ / "again", &ops::kDcp, style));
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  std::vector<std::string> keys;
  for (const DcpDraft::Object& object : DcpDraft::Read(shop_ / "again").objects)
    if (object.key.starts_with("optimizer.")) keys.push_back(object.key);
  EXPECT_THAT(keys,
              ::testing::UnorderedElementsAre("optimizer.param_groups.model.norm.weight.lr",
                                              "optimizer.param_groups.model.norm.weight.momentum"));
}

TEST_F(SavedState, NamesOptionsThatOtherNamesHaveNoPlaceFor) {
  draft_.Remove("optimizer.");
  draft_.objects.push_back({"optimizer.param_groups.norm.weight.eps", {0.5}});
  draft_.tensors.push_back(
      {"optimizer.param_groups.norm.weight.lr", Dtype::kF32, {}, BytesOf(0.25f)});
  ops::OutputOptions style;
  style.Set("style", "hf");
  const auto made =
      Convert(OpsWorkshop::Request(shop_ / "dcp", &ops::kDcp, shop_ / "again", &ops::kDcp, style));
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_THAT(made->notes, Contains("2 options of the optimizer have other names and are left out, "
                                    "the first is optimizer.param_groups.norm.weight.eps"));
}

// --- next to a second set of weights

class Averages : public SavedState {
 protected:
  // Adds an average of every weight, under both of the names that a program may give it.
  size_t AddAverages(const std::string& wrapper) {
    const std::vector<DcpDraft::Tensor> tensors = draft_.tensors;
    size_t count = 0;
    for (DcpDraft::Tensor tensor : tensors) {
      if (tensor.key.starts_with("optimizer.")) continue;
      tensor.key.insert(0, wrapper);
      for (char& byte : tensor.bytes) byte ^= 1;
      draft_.tensors.push_back(std::move(tensor));
      ++count;
    }
    return count;
  }
};

TEST_F(Averages, GoAlongToACheckpoint) {
  AddAverages("ema.");
  AddAverages("ema.model.");
  const auto made = Recut();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_EQ(ContentsOf(shop_ / "again"), ContentsOf(shop_ / "dcp"));
}

TEST_F(Averages, AreNamedWhereATagHasNoPlaceForThem) {
  const size_t count = AddAverages("ema.model.");
  draft_.Remove("optimizer.state.");
  ops::OutputOptions options;
  options.Set("tp", 1);
  options.Set("training-tag", true);
  const auto made =
      Convert(OpsWorkshop::Request(shop_ / "dcp", &ops::kDcp, shop_ / "tag", &ops::kNxd, options));
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_THAT(made->notes, Contains("a second set of weights, " + std::to_string(count) +
                                    " tensors under ema., has no counterpart in a tag"));
}

TEST_F(Averages, AreNamedWhereTheWeightsAloneAreAskedFor) {
  AddAverages("ema.");
  draft_.Write(shop_ / "dcp");
  ops::ConvertRequest request =
      OpsWorkshop::Request(shop_ / "dcp", &ops::kDcp, shop_ / "model", &ops::kHf);
  request.hints.config = kQwenConfig;
  const auto made = ops::Convert(request);
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_THAT(made->notes, Contains(HasSubstr(" tensors are not parameters and are left out, the "
                                              "first is ema.")));
}

// A single tensor is not a set of averages: it is an unknown part of the model.
TEST_F(Averages, AreMoreThanOneTensor) {
  DcpDraft::Tensor norm = draft_.Find("norm.weight");
  norm.key = "layers.0.extra.norm.weight";
  draft_.tensors.push_back(norm);
  const auto error = ExpectError(Recut(), Errc::kUnsupported, "it would be lost");
  EXPECT_EQ(error->tensor(), "layers.0.extra.norm.weight");
}

TEST_F(SavedState, OfAnotherOptimizerHasNoTag) {
  MakeSgd(draft_);
  ops::OutputOptions options;
  options.Set("tp", 1);
  options.Set("training-tag", true);
  const auto error = ExpectError(
      Convert(OpsWorkshop::Request(shop_ / "dcp", &ops::kDcp, shop_ / "tag", &ops::kNxd, options)),
      Errc::kUnsupported, "only the state of Adam and AdamW can be carried over");
  EXPECT_THAT(error->hint(), HasSubstr("--no-optimizer"));
}

// --- of experts

// A model with state of all experts except those of `without`, under the names of transformers.
DcpDraft WithExpertState(const OpsWorkshop& shop, const std::string& without) {
  const std::string model = shop.MakeModel("model", {.family = "qwen3_moe", .experts = 4});
  DcpDraft draft = DcpDraft::Read(shop.Make("plain", model, &ops::kHf, &ops::kDcp));
  for (const DcpDraft::Tensor& weight : std::vector(draft.tensors)) {
    if (weight.key.find(without) != std::string::npos) continue;
    const std::string state = "optimizer.state." + weight.key;
    std::string zeros(static_cast<size_t>(*ElementCount(weight.shape)) * 4, '\0');
    draft.tensors.push_back({state + ".step", Dtype::kF32, {}, BytesOf(3.0f)});
    draft.tensors.push_back({state + ".exp_avg", Dtype::kF32, weight.shape, zeros});
    draft.tensors.push_back({state + ".exp_avg_sq", Dtype::kF32, weight.shape, zeros});
    draft.objects.push_back({"optimizer.param_groups." + weight.key + ".lr", {0.5}});
  }
  draft.Write(shop / "dcp");
  std::filesystem::copy(shop / "plain/config.json", shop / "dcp/config.json");
  return draft;
}

Result<ops::ConvertReport> ToTitan(const OpsWorkshop& shop) {
  ops::OutputOptions options;
  options.Set("style", Word(dcp::Style::kTitan));
  ops::ConvertRequest request =
      OpsWorkshop::Request(shop / "dcp", &ops::kDcp, shop / "titan", &ops::kDcp, options);
  request.hints.optimizer = true;
  request.verify = true;
  return ops::Convert(request);
}

TEST(ExpertState, IsStackedWithTheWeights) {
  const OpsWorkshop shop;
  DcpDraft from = WithExpertState(shop, "none");
  const auto made = ToTitan(shop);
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  DcpDraft titan = DcpDraft::Read(shop / "titan");
  const std::string name = "layers.0.moe.routed_experts.inner_experts.w1_EFD";
  EXPECT_EQ(titan.Find("optimizer.state." + name + ".exp_avg").shape, titan.Find(name).shape);
  EXPECT_EQ(titan.Find("optimizer.state." + name + ".step").bytes, BytesOf(3.0f));
}

// Whichever expert has none: as one tensor, the others' state would be lost.
TEST(ExpertState, OfSomeExpertsIsRefused) {
  for (const char* without : {"experts.0.gate_proj", "experts.2.gate_proj"}) {
    SCOPED_TRACE(without);
    const OpsWorkshop shop;
    WithExpertState(shop, without);
    const auto error = ExpectError(ToTitan(shop), Errc::kUnsupported,
                                   "the optimizer keeps something else of each: nothing of one of "
                                   "them");
    EXPECT_EQ(error->tensor(), "layers.0.moe.routed_experts.inner_experts.w1_EFD");
  }
}

// --- between a tag and a checkpoint

}  // namespace
}  // namespace nxdkit
