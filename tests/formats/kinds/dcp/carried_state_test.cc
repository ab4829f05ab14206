// The training state that a conversion keeps, and its notes on the state that it cannot keep:
// dtypes, options that were not written, missing master weights, files of another step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "formats/kinds/open.h"
#include "formats/ops/diff/diff.h"
#include "formats/torch/archive.h"
#include "tests/formats/dcp/folder_draft.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/formats/reshard/training_tag.h"
#include "tests/lib/expect_error.h"

namespace nxdkit {
namespace {

using ops::Kind;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using testing_util::DcpDraft;
using testing_util::ExpectError;
using testing_util::FileDraft;
using testing_util::OpsWorkshop;
using testing_util::TrainingTag;
using torch::PickleDict;
using torch::PickleValue;

std::string FloatBytes(float number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

PickleValue TextValue(const char* text) { return {std::string(text)}; }

PickleDict Dict(const char* key, PickleValue value) { return {{TextValue(key), std::move(value)}}; }

class CarriedState : public ::testing::Test {
 protected:
  CarriedState() { tag_.rounded = true; }

  void WriteTag() const { testing_util::WriteTrainingTag(shop_ / "tag", tag_); }

  Result<ops::ConvertReport> Carry(const std::string& from, const Kind* from_kind,
                                   const std::string& to, const Kind* to_kind,
                                   ops::OutputOptions options = {}) {
    options.Set("training-tag", to_kind == &ops::kNxd);
    if (to_kind == &ops::kNxd) {
      options.Set("tp", tag_.geometry.tp);
      options.Set("pp", tag_.geometry.pp);
    }
    ops::ConvertRequest request =
        OpsWorkshop::Request(shop_ / from, from_kind, shop_ / to, to_kind, options);
    request.hints.optimizer = true;
    if (from_kind == &ops::kDcp) request.hints.config = shop_ / "tag/config.json";
    request.verify = true;
    return ops::Convert(request);
  }
  Result<ops::ConvertReport> There(ops::OutputOptions options = {}) {
    return Carry("tag", &ops::kNxd, "dcp", &ops::kDcp, std::move(options));
  }
  Result<ops::ConvertReport> Back(ops::OutputOptions options = {}) {
    return Carry("dcp", &ops::kDcp, "back", &ops::kNxd, std::move(options));
  }

  // A checkpoint made from the tag, as torch leaves it after saving into the folder.
  DcpDraft Trained() {
    WriteTag();
    const auto made = There();
    EXPECT_TRUE(made.ok()) << made.error().ToString();
    DcpDraft draft = DcpDraft::Read(shop_ / "dcp");
    draft.Remove("nxdkit.optimizer");
    return draft;
  }

  Result<ops::BoundArtifact> OpenBack() const {
    ops::InputHints hints;
    hints.optimizer = true;
    return ops::OpenAndBind(shop_ / "back", &ops::kNxd, hints);
  }

  void WriteObject(const std::string& name, const PickleValue& value) const {
    std::ofstream(shop_ / name, std::ios::binary | std::ios::trunc) << *torch::EncodeObject(value);
  }

  Result<ops::VerifyReport> VerifyTag() const {
    ops::VerifyRequest request;
    request.path = shop_ / "tag";
    return ops::Verify(request);
  }

  Result<ops::DiffReport> Diff(const std::string& a, const std::string& b) const {
    ops::DiffRequest request;
    request.optimizer = true;
    for (const auto& [name, side] : {std::pair(a, &request.a), std::pair(b, &request.b)}) {
      side->path = shop_ / name;
      side->hints.config = shop_ / "tag/config.json";
    }
    return ops::Diff(request);
  }

  OpsWorkshop shop_;
  TrainingTag tag_;
};

// --- dtypes are those of weights

// 1001 is not a BF16 number: the nearest are 1000 and 1004.
void CountTo1001(FileDraft& file) {
  if (!file.is_optimizer()) return;
  for (auto& tensor : file.tensors)
    if (tensor.output.shape.empty()) tensor.bytes = FloatBytes(1001);
}

struct NarrowCase {
  const char* name;
  std::optional<Dtype> dtype;  // nullopt: downcast

  ops::OutputOptions Options() const {
    ops::OutputOptions options;
    options.dtype = dtype;
    options.downcast = !dtype;
    return options;
  }
};
constexpr NarrowCase kNarrow[] = {
    {"downcast", std::nullopt}, {"bf16", Dtype::kBF16}, {"f16", Dtype::kF16}};

void ExpectStateInF32(const std::string& folder, Dtype weights) {
  DcpDraft draft = DcpDraft::Read(folder);
  for (const DcpDraft::Tensor& tensor : draft.tensors) {
    const bool is_state = tensor.key.starts_with("optimizer.state.");
    EXPECT_EQ(tensor.dtype, is_state ? Dtype::kF32 : weights) << tensor.key;
    if (tensor.key.ends_with(".step")) {
      EXPECT_EQ(tensor.bytes, FloatBytes(1001)) << tensor.key;
    }
  }
}

TEST_F(CarriedState, KeepsItsDtypesOnTheWayToACheckpoint) {
  tag_.change = CountTo1001;
  WriteTag();
  for (const NarrowCase& narrow : kNarrow) {
    SCOPED_TRACE(narrow.name);
    std::filesystem::remove_all(shop_ / "dcp");
    const auto made = There(narrow.Options());
    ASSERT_TRUE(made.ok()) << made.error().ToString();
    ExpectStateInF32(shop_ / "dcp", narrow.dtype.value_or(Dtype::kBF16));
  }
}

TEST_F(CarriedState, KeepsItsDtypesFromCheckpointToCheckpointAndWarnsOfRounding) {
  tag_.change = CountTo1001;
  WriteTag();
  ASSERT_TRUE(There().ok());
  for (const NarrowCase& narrow : kNarrow) {
    SCOPED_TRACE(narrow.name);
    std::filesystem::remove_all(shop_ / "again");
    const auto made = Carry("dcp", &ops::kDcp, "again", &ops::kDcp, narrow.Options());
    ASSERT_TRUE(made.ok()) << made.error().ToString();
    const Dtype dtype = narrow.dtype.value_or(Dtype::kBF16);
    ExpectStateInF32(shop_ / "again", dtype);
    EXPECT_THAT(made->warnings,
                Contains(AllOf(HasSubstr("the weights that training goes on from are rounded"),
                               HasSubstr("from F32 to " + std::string(Name(dtype))))));
  }
}

TEST_F(CarriedState, KeepsItsDtypesOnTheWayBack) {
  tag_.change = CountTo1001;
  WriteTag();
  ASSERT_TRUE(There().ok());
  for (const NarrowCase& narrow : kNarrow) {
    SCOPED_TRACE(narrow.name);
    std::filesystem::remove_all(shop_ / "back");
    const auto made = Back(narrow.Options());
    ASSERT_TRUE(made.ok()) << made.error().ToString();
    const auto back = OpenBack();
    ASSERT_TRUE(back.ok()) << back.error().ToString();
    for (uint32_t i = 0; i < back->model_params(); ++i) {
      EXPECT_EQ(back->optimizer->masters[i]->dtype, Dtype::kF32) << back->params[i].name;
      for (const ops::OptimizerEntry& entry : *back->optimizer->entries[i])
        EXPECT_EQ(entry.dtype, Dtype::kF32) << back->params[entry.param].name;
      const auto& step = back->bound.stored[back->optimizer->Find(i, "step")->stored];
      EXPECT_EQ(*ReadScalar(step), 1001) << back->params[i].name;
    }
  }
}

// --- options that were not written

bool IsOfNorm(const std::string& key) { return key.find("norm.weight.") != std::string::npos; }

TEST_F(CarriedState, GetsTorchsDefaultsWhereAParameterHasNoOptions) {
  DcpDraft draft = Trained();
  std::erase_if(draft.objects, [](const DcpDraft::Object& object) {
    return object.key.starts_with("optimizer.param_groups.") && IsOfNorm(object.key);
  });
  draft.Write(shop_ / "dcp");
  const auto made = Back();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_THAT(made->notes, Contains(AllOf(HasSubstr("the checkpoint does not have lr, betas, eps, "
                                                    "weight_decay of model.layers.0."),
                                          HasSubstr("layernorm.weight and "),
                                          HasSubstr("other parameters: torch's defaults"))));
  const auto back = OpenBack();
  ASSERT_TRUE(back.ok()) << back.error().ToString();
  const auto rate = [&](size_t group) {
    return std::get<double>(
        FileDraft::At(const_cast<PickleDict&>(back->optimizer->groups[group]), "lr").value);
  };
  ASSERT_EQ(back->optimizer->groups.size(), 2u);
  EXPECT_EQ(rate(0), 3e-4);
  EXPECT_EQ(rate(1), 1e-3);
}

TEST_F(CarriedState, SaysWhichOptionKeepsTwoParametersApart) {
  DcpDraft draft = Trained();
  draft.FindObject("optimizer.param_groups.model.layers.1.self_attn.q_proj.weight.weight_decay")
      .value = {0.5};
  draft.Write(shop_ / "dcp");
  ExpectError(Back(), Errc::kUnsupported,
              "the parameters have 3 different sets of options, which are not the groups that "
              "NxD's trainers make (one, norms, biases): weight_decay is 0.01 in "
              "model.embed_tokens.weight, and 0.5 in model.layers.1.self_attn.q_proj.weight");
}

TEST_F(CarriedState, NamesOptionsThatOnlyTheCheckpointHas) {
  DcpDraft draft = Trained();
  for (const DcpDraft::Object& object : std::vector(draft.objects))
    if (object.key.ends_with(".lr") && object.key.starts_with("optimizer.")) {
      draft.objects.push_back({object.key + "_scale", {0.5}});
      draft.objects.push_back(
          {object.key.substr(0, object.key.size() - 2) + "name", TextValue("g")});
    }
  draft.Write(shop_ / "dcp");
  const auto made = Back();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_THAT(made->notes,
              Contains(AllOf(HasSubstr("options of model.embed_tokens.weight and 15 other "
                                       "parameters that AdamW does not know"),
                             HasSubstr("are left out: lr_scale (0.5), name (\"g\")"))));
}

TEST_F(CarriedState, SaysWhatTheTagDoesNot) {
  tag_.change = [](FileDraft& file) {
    if (!file.is_optimizer()) return;
    for (const size_t group : {0, 1})
      std::erase_if(file.Group(group), [&](const auto& item) {
        return *item.first.string() == "betas" || (group == 0 && *item.first.string() == "lr");
      });
  };
  WriteTag();
  const auto made = There();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_THAT(made->notes, Contains(HasSubstr("the tag does not have lr, betas, eps of "
                                              "model.embed_tokens.weight and ")));
  EXPECT_THAT(made->notes, Contains(HasSubstr("the tag does not have betas, eps of "
                                              "model.layers.0.input_layernorm.weight and ")));
}

// --- a step that has gone on

TEST_F(CarriedState, WritesTheStepOfTheCheckpointIntoUserContent) {
  DcpDraft draft = Trained();
  draft.FindObject("train_state.step").value = {int64_t{15}};
  draft.Write(shop_ / "dcp");
  PickleDict content = Dict("global_step", {int64_t{10}});
  content.push_back({TextValue("consumed_samples"), {int64_t{160}}});
  WriteObject("dcp/user_content.pt", PickleValue::MakeDict(content));
  const auto made = Back();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  const auto file = torch::ReadArchive(shop_ / "back/user_content.pt");
  ASSERT_TRUE(file.ok()) << file.error().ToString();
  EXPECT_EQ(*file->root.Find("global_step")->integer(), 15);
  EXPECT_EQ(*file->root.Find("consumed_samples")->integer(), 160);
  EXPECT_THAT(made->notes,
              Contains("user_content.pt next to the checkpoint is of another step (global_step "
                       "10): step 15 is written; its consumed_samples, 160, stays"));
}

TEST_F(CarriedState, LeavesOutUserContentThatDoesNotSayItsStep) {
  struct Row {
    PickleValue content;
    const char* why;
  };
  for (const Row& row : {Row{PickleValue::MakeDict(Dict("seed", {int64_t{1}})),
                             "it may be of another step, since it has no global_step"},
                         Row{PickleValue::MakeDict(Dict("global_step", TextValue("10"))),
                             "its global_step is \"10\", which is not a count"},
                         Row{{int64_t{10}}, "it is not a dict that could have a step"}}) {
    SCOPED_TRACE(row.why);
    for (const char* name : {"tag", "dcp", "back"}) std::filesystem::remove_all(shop_ / name);
    Trained().Write(shop_ / "dcp");
    WriteObject("dcp/user_content.pt", row.content);
    const auto made = Back();
    ASSERT_TRUE(made.ok()) << made.error().ToString();
    EXPECT_FALSE(std::filesystem::exists(shop_ / "back/user_content.pt"));
    EXPECT_THAT(
        made->notes,
        Contains(std::string("user_content.pt next to the checkpoint is left out: ") + row.why));
  }
}

// A file of the same step is the tag's own, whatever its other contents.
TEST_F(CarriedState, CarriesUserContentOfTheSameStep) {
  DcpDraft draft = Trained();
  draft.Write(shop_ / "dcp");
  WriteObject("dcp/user_content.pt", PickleValue::MakeDict(Dict("global_step", {int64_t{12}})));
  const auto made = Back();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_EQ(testing_util::ReadBytes(shop_ / "back/user_content.pt"),
            testing_util::ReadBytes(shop_ / "dcp/user_content.pt"));
  EXPECT_THAT(made->notes, Not(Contains(HasSubstr("user_content.pt"))));
}

void WriteArchiveOfTensor(const std::string& path, const char* key, int64_t number) {
  const std::vector<OutputTensor> outputs = {{key, Dtype::kI64, {}}};
  const auto encoder = torch::EncodeValue(PickleValue::MakeDict(Dict(key, {torch::TensorIndex{0}})),
                                          outputs, "archive");
  ASSERT_TRUE(encoder.ok());
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  std::string file((*encoder)->file_bytes(), '\0');
  file.replace((*encoder)->data_offset(0), bytes.size(), bytes);
  const std::vector<uint32_t> crcs = {Crc32(0, std::as_bytes(std::span(bytes)))};
  for (const Fragment& fragment : (*encoder)->Frame(crcs))
    file.replace(fragment.offset, fragment.bytes.size(), fragment.bytes);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << file;
}

TEST_F(CarriedState, TakesAnEpochThatIsATensor) {
  WriteTag();
  WriteArchiveOfTensor(shop_ / "tag/scheduler.pt", "last_epoch", 11);
  const auto made = There();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_EQ(*DcpDraft::Read(shop_ / "dcp").FindObject("lr_scheduler.last_epoch").value.integer(),
            11);
}

TEST_F(CarriedState, NamesCountsThatAreNot) {
  WriteTag();
  WriteObject("tag/scheduler.pt", PickleValue::MakeDict(Dict("last_epoch", {int64_t{-1}})));
  WriteObject("tag/user_content.pt",
              PickleValue::MakeDict(Dict("global_step", PickleValue::MakeList({{int64_t{3}}}))));
  const auto made = There();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_THAT(made->notes, Contains("last_epoch of scheduler.pt is -1, which is not a count, and "
                                    "is not read"));
  EXPECT_THAT(made->notes, Contains("global_step of user_content.pt is [3], which is not a count, "
                                    "and is not read"));
}

TEST_F(CarriedState, NamesUserContentThatIsNotADict) {
  WriteTag();
  WriteObject("tag/user_content.pt", PickleValue::MakeList({{int64_t{3}}}));
  const auto made = There();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_THAT(made->notes,
              Contains("user_content.pt is not a dict, so its record of the run is not known"));
}

// --- master weights

TEST_F(CarriedState, KeepsTheMasterWeightsThatAreThere) {
  WriteTag();
  ASSERT_TRUE(There().ok());
  DcpDraft whole = DcpDraft::Read(shop_ / "dcp");
  for (const char* name : {"tag", "dcp"}) std::filesystem::remove_all(shop_ / name);
  tag_.change = [](FileDraft& file) {
    if (!file.is_optimizer()) return;
    auto& masters = file.Table("sharded_master_weights");
    file.tensors.pop_back();  // the last one, which a master weight is
    masters.pop_back();
  };
  WriteTag();
  const auto made = There();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  DcpDraft partly = DcpDraft::Read(shop_ / "dcp");
  std::vector<std::string> others;
  for (const DcpDraft::Tensor& tensor : whole.tensors) {
    const DcpDraft::Tensor& found = partly.Find(tensor.key);
    EXPECT_EQ(found.dtype, Dtype::kF32) << tensor.key;
    if (found.bytes != tensor.bytes) others.push_back(tensor.key);
  }
  EXPECT_THAT(others, ElementsAre("model.norm.weight"));
  EXPECT_THAT(made->warnings,
              Contains(AllOf(HasSubstr("1 of "), HasSubstr("parameters have no master weight"),
                             HasSubstr("model.norm.weight"))));
}

TEST_F(CarriedState, OfOtherWeightsThanTheModelsIsAFinding) {
  tag_.rounded = false;
  WriteTag();
  const auto report = VerifyTag();
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  ASSERT_EQ(report->findings.size(), 1u);
  EXPECT_EQ(report->findings.front().check, "master weights");
  EXPECT_EQ(report->findings.front().param, "model.embed_tokens.weight");
  EXPECT_THAT(report->findings.front().message,
              HasSubstr("parameters are not their master weights rounded: of "
                        "model.embed_tokens.weight, "));
}

// Towards zero, as a device may round.
TEST_F(CarriedState, OfWeightsRoundedOtherwiseIsAWarning) {
  tag_.change = [](FileDraft& file) {
    if (file.is_optimizer()) return;
    for (auto& tensor : file.tensors)
      for (size_t i = 0; i < tensor.bytes.size(); i += 64) {
        uint16_t bits = 0;
        std::memcpy(&bits, &tensor.bytes[i], 2);
        if ((bits & 0x7fff) != 0) --bits;
        std::memcpy(&tensor.bytes[i], &bits, 2);
      }
  };
  WriteTag();
  const auto report = VerifyTag();
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_TRUE(report->findings.empty());
  EXPECT_THAT(report->warnings, Contains(HasSubstr("not the master weight rounded to nearest")));
}

// A parameter is in one of the two counts: the first weight of each is changed, the second is the
// master's other neighbour.
TEST_F(CarriedState, CountsWeightsOfOtherMastersOnce) {
  tag_.change = [](FileDraft& file) {
    if (file.is_optimizer()) return;
    for (auto& tensor : file.tensors) {
      tensor.bytes[1] ^= 4;
      tensor.bytes[2] ^= 1;
    }
  };
  WriteTag();
  const auto made = There();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_THAT(made->warnings, Contains(HasSubstr("are not their master weights rounded")));
  EXPECT_THAT(made->warnings, Not(Contains(HasSubstr("but not to nearest even"))));
}

// A little above the middle of two BF16 numbers: in F32 it is the middle, which rounds to even.
TEST_F(CarriedState, TakesMasterWeightsInF64AsTorchRoundsThem) {
  tag_.change = [](FileDraft& file) {
    const double master = 1 + 0x1p-8 + 0x1p-40;
    std::string wide(sizeof master, '\0');
    std::memcpy(wide.data(), &master, sizeof master);
    const auto fill = [](FileDraft::Tensor& tensor, Dtype dtype, const std::string& number) {
      tensor.output.dtype = dtype;
      tensor.bytes.clear();
      for (int64_t i = 0; i < *ElementCount(tensor.output.shape); ++i) tensor.bytes += number;
    };
    if (file.is_optimizer()) {
      for (auto& [pid, value] : file.Table("sharded_master_weights"))
        fill(file.TensorOf(value), Dtype::kF64, wide);
    } else {
      for (auto& tensor : file.tensors) fill(tensor, Dtype::kBF16, std::string("\x80\x3f", 2));
    }
  };
  WriteTag();
  const auto made = There();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_THAT(made->warnings, Not(Contains(HasSubstr("rounded"))));
}

// --- tied embeddings on several pipeline ranks

TEST_F(CarriedState, OfATiedPairOnTwoPipelineRanksComesBack) {
  tag_.config = testing_util::SmallConfig({{"model_type", "qwen3"}, {"tie_word_embeddings", true}});
  tag_.geometry.pp = 2;
  WriteTag();
  const auto there = There();
  ASSERT_TRUE(there.ok()) << there.error().ToString();
  const auto made = Back();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_EQ(testing_util::TagDifference(shop_ / "tag", shop_ / "back"), "");
  tag_.geometry.pp = 1;
  std::filesystem::remove_all(shop_ / "back");
  ExpectError(Back(), Errc::kUnsupported, "is known for pp 2, but not for pp 1");
}

// --- compared

TEST_F(CarriedState, ComparesStepsHoweverTheyAreStored) {
  DcpDraft draft = Trained();
  const DcpDraft tensors = draft;
  const auto store = [&](const char* to, int64_t step) {
    draft = tensors;
    for (const DcpDraft::Tensor& tensor : tensors.tensors)
      if (tensor.key.ends_with(".step")) {
        draft.Remove(tensor.key);
        draft.objects.push_back({tensor.key, {step}});
      }
    draft.Write(shop_ / to);
  };
  store("twelve", 12);
  store("thirteen", 13);
  const auto same = Diff("twelve", "tag");
  ASSERT_TRUE(same.ok()) << same.error().ToString();
  EXPECT_FALSE(same->differs());
  EXPECT_TRUE(same->findings.empty());
  const auto other = Diff("twelve", "thirteen");
  ASSERT_TRUE(other.ok()) << other.error().ToString();
  EXPECT_TRUE(other->differs());
  EXPECT_EQ(other->total.changed, other->params.size() / 4);
  EXPECT_THAT(other->params.front().worst_a, StartsWith("12 "));
  EXPECT_THAT(other->params.front().worst_b, StartsWith("13 "));
}

TEST_F(CarriedState, ComparesParametersWithoutState) {
  DcpDraft draft = Trained();
  draft.Remove("optimizer.state.model.norm.weight");
  draft.Write(shop_ / "dcp");
  ASSERT_TRUE(Back().ok());
  for (const auto& [a, b] : {std::pair("dcp", "back"), std::pair("back", "dcp")}) {
    const auto same = Diff(a, b);
    ASSERT_TRUE(same.ok()) << same.error().ToString();
    EXPECT_FALSE(same->differs()) << same->findings.size();
  }
}

TEST_F(CarriedState, ComparesOptions) {
  DcpDraft draft = Trained();
  draft.FindObject("optimizer.param_groups.model.norm.weight.lr").value = {0.5};
  draft.Write(shop_ / "dcp");
  const auto report = Diff("tag", "dcp");
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_TRUE(report->differs());
  ASSERT_EQ(report->findings.size(), 1u);
  EXPECT_EQ(report->findings.front().param, "model.norm.weight");
  EXPECT_EQ(report->findings.front().message, "lr is 0.0003 in A, 0.5 in B");
}

}  // namespace
}  // namespace nxdkit
