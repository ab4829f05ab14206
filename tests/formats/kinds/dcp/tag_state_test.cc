// A tag with its optimizer as a distributed checkpoint, and the checkpoint as a tag again,
// unchanged or changed by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "formats/kinds/dcp/dcp_contents.h"
#include "formats/kinds/decide.h"
#include "formats/kinds/open.h"
#include "formats/torch/archive.h"
#include "formats/training/named_state.h"
#include "tests/formats/dcp/folder_draft.h"
#include "tests/formats/kinds/adapter/lora_workshop.h"
#include "tests/formats/kinds/dcp/state_hints.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/formats/reshard/training_tag.h"
#include "tests/formats/words.h"
#include "tests/lib/expect_error.h"

namespace nxdkit {
namespace {

using ops::Kind;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_util::BytesOf;
using testing_util::DcpDraft;
using testing_util::ExpectError;
using testing_util::OpsWorkshop;
using testing_util::OptionIn;
using testing_util::ReadBytes;
using testing_util::StateHints;
using testing_util::TrainingTag;
using torch::PickleDict;
using torch::PickleValue;

// The tensor in another dtype, all of its numbers 1.5.
void MakeNarrow(DcpDraft::Tensor& tensor, Dtype dtype) {
  const double number = 1.5;
  std::string one(static_cast<size_t>(ElementBytes(dtype)), '\0');
  ConvertElements(Dtype::kF64, reinterpret_cast<const std::byte*>(&number), dtype,
                  reinterpret_cast<std::byte*>(one.data()), 1);
  tensor.bytes.clear();
  for (int64_t i = 0; i < *ElementCount(tensor.shape); ++i) tensor.bytes += one;
  tensor.dtype = dtype;
}

Result<ops::BoundArtifact> OpenTag(const std::string& path) {
  ops::InputHints hints;
  hints.optimizer = true;
  return ops::OpenAndBind(path, &ops::kNxd, hints);
}

// The first stored number of a logical parameter.
std::string BytesAt(const ops::BoundArtifact& bound, std::string_view name) {
  for (size_t t = 0; t < bound.bound.stored.size(); ++t) {
    const auto& pieces = bound.bound.layout.tensors[t].pieces;
    if (pieces.empty() || bound.params[pieces.front().param].name != name) continue;
    const StoredTensor& stored = bound.bound.stored[t];
    std::string bytes(static_cast<size_t>(ElementBytes(stored.dtype)), '\0');
    if (stored.storage->ReadAt(stored.offset, std::as_writable_bytes(std::span(bytes))).ok())
      return bytes;
  }
  return "not found";
}

class TagState : public ::testing::Test {
 protected:
  Result<ops::ConvertReport> There(const TrainingTag& tag = {}) {
    testing_util::WriteTrainingTag(shop_ / "tag", tag);
    return ThereAsIs();
  }
  Result<ops::ConvertReport> ThereAsIs() {
    ops::OutputOptions options;
    options.Set("style", Word(style_));
    ops::ConvertRequest request =
        OpsWorkshop::Request(shop_ / "tag", &ops::kNxd, shop_ / "dcp", &ops::kDcp, options);
    request.hints.optimizer = true;
    return ops::Convert(request);
  }
  Result<ops::ConvertReport> Back(const std::string& adapter = "") {
    ops::OutputOptions options;
    options.Set("tp", 1);
    options.Set("training-tag", true);
    ops::ConvertRequest request =
        OpsWorkshop::Request(shop_ / "dcp", &ops::kDcp, shop_ / "back", &ops::kNxd, options);
    request.hints.optimizer = adapter.empty();
    request.hints.lora = adapter;
    request.hints.config = shop_ / "tag/config.json";
    return ops::Convert(request);
  }
  void WriteObject(const std::string& name, const PickleDict& dict) const {
    std::filesystem::create_directories(std::filesystem::path(shop_ / name).parent_path());
    std::ofstream(shop_ / name, std::ios::binary)
        << *torch::EncodeObject(PickleValue::MakeDict(dict));
  }
  int64_t Object(const std::string& key) const {
    return *DcpDraft::Read(shop_ / "dcp").FindObject(key).value.integer();
  }

  OpsWorkshop shop_;
  std::optional<dcp::Style> style_;
};

TEST_F(TagState, GivesTheStepsOfItsRun) {
  testing_util::WriteTrainingTag(shop_ / "tag", {});
  WriteObject("tag/scheduler.pt", {{{std::string("last_epoch")}, {int64_t{11}}}});
  WriteObject("tag/user_content.pt", {{{std::string("global_step")}, {int64_t{48}}},
                                      {{std::string("consumed_samples")}, {int64_t{768}}}});
  const auto made = ThereAsIs();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_EQ(Object("lr_scheduler.last_epoch"), 11);
  EXPECT_EQ(Object("train_state.step"), 48);
  EXPECT_THAT(made->notes, Contains("train_state.step is 48, the step of user_content.pt; the "
                                    "optimizer has made 12"));
  EXPECT_THAT(made->notes, Contains("user_content.pt counts 768 samples, not tokens"));
}

TEST_F(TagState, GivesWhatTheFolderAroundItSays) {
  testing_util::WriteTrainingTag(shop_ / "tag", {});
  std::filesystem::remove(shop_ / "tag/scheduler.pt");
  std::filesystem::remove(shop_ / "tag/user_content.pt");
  std::ofstream(shop_ / "trainer_state.json")
      << R"({"global_step": 5, "num_input_tokens_seen": 4096})";
  const auto hf = ThereAsIs();
  ASSERT_TRUE(hf.ok()) << hf.error().ToString();
  EXPECT_EQ(Object("train_state.step"), 5);
  EXPECT_EQ(Object("train_state.ntokens_seen"), 4096);
  EXPECT_EQ(Object("lr_scheduler.last_epoch"), 12);
  std::filesystem::remove_all(shop_ / "dcp");
  std::ofstream(shop_ / "trainer_state.json") << R"({"step": 6, "schedule_steps": 7})";
  const auto grpo = ThereAsIs();
  ASSERT_TRUE(grpo.ok()) << grpo.error().ToString();
  EXPECT_EQ(Object("train_state.step"), 6);
  EXPECT_EQ(Object("lr_scheduler.last_epoch"), 7);
}

TEST_F(TagState, NamesAScheduleThatCannotBeRead) {
  const auto made = There();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_THAT(made->notes, Contains(HasSubstr("scheduler.pt cannot be read")));
  EXPECT_EQ(Object("lr_scheduler.last_epoch"), 12);
}

// As torch leaves it: the record of the tag's form is gone, and the file next to it is an older
// one's.
TEST_F(TagState, GetsItsScheduleFromTheCheckpoint) {
  ASSERT_TRUE(There().ok());
  DcpDraft trained = DcpDraft::Read(shop_ / "dcp");
  trained.Remove("nxdkit.optimizer");
  trained.FindObject("lr_scheduler.last_epoch").value = {int64_t{40}};
  trained.FindObject("train_state.step").value = {int64_t{41}};
  trained.Write(shop_ / "dcp");
  const auto made = Back();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  const auto scheduler = torch::ReadArchive(shop_ / "back/scheduler.pt");
  ASSERT_TRUE(scheduler.ok()) << scheduler.error().ToString();
  EXPECT_EQ(*scheduler->root.Find("last_epoch")->integer(), 40);
  EXPECT_EQ(*scheduler->root.Find("_step_count")->integer(), 41);
  ASSERT_EQ(scheduler->root.Find("_last_lr")->list()->size(), 2u);
  EXPECT_EQ(std::get<double>(scheduler->root.Find("_last_lr")->list()->at(0).value), 3e-4);
  EXPECT_EQ(scheduler->root.Find("lr_lambdas")->list()->size(), 2u);
  EXPECT_THAT(made->notes, Contains("train_state.step is 41, for which a tag has no place"));
  EXPECT_THAT(made->notes,
              Contains(HasSubstr("scheduler.pt is made from lr_scheduler.last_epoch")));
}

// It had none, so it gets none: byte for byte as before.
TEST_F(TagState, WithoutAScheduleComesBackWithoutOne) {
  testing_util::WriteTrainingTag(shop_ / "tag", {});
  std::filesystem::remove(shop_ / "tag/scheduler.pt");
  ASSERT_TRUE(ThereAsIs().ok());
  EXPECT_EQ(Object("lr_scheduler.last_epoch"), 12);
  ASSERT_TRUE(Back().ok());
  EXPECT_FALSE(std::filesystem::exists(shop_ / "back/scheduler.pt"));
}

TEST_F(TagState, NamesAScheduleThatTheCheckpointLacks) {
  ASSERT_TRUE(There().ok());
  DcpDraft trained = DcpDraft::Read(shop_ / "dcp");
  trained.Remove("nxdkit.optimizer");
  trained.Remove("lr_scheduler.");
  trained.Write(shop_ / "dcp");
  std::filesystem::remove(shop_ / "dcp/scheduler.pt");
  const auto made = Back();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_FALSE(std::filesystem::exists(shop_ / "back/scheduler.pt"));
  EXPECT_THAT(made->notes,
              Contains("there is no lr_scheduler.last_epoch, so no scheduler.pt is made"));
}

TEST_F(TagState, TakesStepsThatAreTensorsOfWholeNumbers) {
  TrainingTag tag;
  tag.change = [](testing_util::FileDraft& file) {
    for (auto& tensor : file.tensors)
      if (file.is_optimizer() && tensor.output.shape.empty())
        tensor = {{tensor.output.name, Dtype::kI64, {}}, BytesOf(int64_t{12})};
  };
  const auto made = There(tag);
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_EQ(DcpDraft::Read(shop_ / "dcp").Find("optimizer.state.model.norm.weight.step").bytes,
            BytesOf(12.0f));
}

// A schedule of torch adds it to each group, and needs it in a checkpoint before it loads.
TEST_F(TagState, GivesTheRateThatAScheduleBeganWith) {
  for (const bool said : {true, false}) {
    SCOPED_TRACE(said);
    TrainingTag tag;
    if (said)
      tag.change = [](testing_util::FileDraft& file) {
        if (!file.is_optimizer()) return;
        for (const size_t group : {0, 1})
          file.Group(group).push_back({{std::string("initial_lr")}, {5e-3}});
      };
    testing_util::WriteTrainingTag(shop_ / "tag", tag);
    std::filesystem::remove_all(shop_ / "dcp");
    ASSERT_TRUE(ThereAsIs().ok());
    DcpDraft made = DcpDraft::Read(shop_ / "dcp");
    for (const char* name : {"model.norm.weight", "model.embed_tokens.weight"}) {
      const std::string options = std::string("optimizer.param_groups.") + name;
      const double rate = std::get<double>(made.FindObject(options + ".lr").value.value);
      EXPECT_EQ(std::get<double>(made.FindObject(options + ".initial_lr").value.value),
                said ? 5e-3 : rate);
    }
  }
}

// Weights in F32 are master weights.
TEST_F(TagState, WithoutMasterWeightsHasLostWhatF32Holds) {
  const auto is_lost = Contains(HasSubstr("the tag has no master weights"));
  TrainingTag tag;
  tag.master_weights = false;
  auto made = There(tag);
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_THAT(made->notes, is_lost);
  tag.change = [](testing_util::FileDraft& file) {
    if (file.is_optimizer()) return;
    for (auto& tensor : file.tensors) {
      std::string wide;
      for (size_t i = 0; i < tensor.bytes.size(); i += 2)
        wide += std::string(2, '\0') + tensor.bytes.substr(i, 2);
      tensor = {{tensor.output.name, Dtype::kF32, tensor.output.shape}, std::move(wide)};
    }
  };
  std::filesystem::remove_all(shop_ / "tag");
  std::filesystem::remove_all(shop_ / "dcp");
  made = There(tag);
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_THAT(made->notes, Not(is_lost));
}

// TorchTitan of 2025 needs everything that torch's LambdaLR keeps; a rate other than the first one
// would be mistaken for it.
TEST_F(TagState, GivesTheWholeScheduleTo2025) {
  for (const bool said : {true, false}) {
    SCOPED_TRACE(said);
    TrainingTag tag;
    tag.change = [said](testing_util::FileDraft& file) {
      if (!said || !file.is_optimizer()) return;
      for (const size_t group : {0, 1})
        file.Group(group).push_back({{std::string("initial_lr")}, {5e-3}});
    };
    testing_util::WriteTrainingTag(shop_ / "tag", tag);
    std::filesystem::remove(shop_ / "tag/scheduler.pt");
    std::filesystem::remove_all(shop_ / "dcp");
    style_ = dcp::Style::kTitan2025;
    const auto made = ThereAsIs();
    ASSERT_TRUE(made.ok()) << made.error().ToString();
    EXPECT_EQ(Object("lr_scheduler.last_epoch"), 12);
    EXPECT_EQ(Object("lr_scheduler._step_count"), 13);
    DcpDraft draft = DcpDraft::Read(shop_ / "dcp");
    // Its optimizer has one group: the embedding's.
    EXPECT_EQ(draft.FindObject("lr_scheduler.lr_lambdas").value.list()->size(), 1u);
    ASSERT_EQ(draft.FindObject("lr_scheduler._last_lr").value.list()->size(), 1u);
    EXPECT_EQ(std::get<double>(draft.FindObject("lr_scheduler._last_lr").value.list()->at(0).value),
              3e-4);
    EXPECT_EQ(std::ranges::count(draft.objects, "lr_scheduler.base_lrs", &DcpDraft::Object::key),
              said ? 1 : 0);
    if (said) {
      const PickleValue& rates = draft.FindObject("lr_scheduler.base_lrs").value;
      EXPECT_EQ(std::get<double>(rates.list()->at(0).value), 5e-3);
    }
    const auto is_not_known =
        Contains(HasSubstr("lr_scheduler.base_lrs, which TorchTitan of 2025 asks"));
    if (said) {
      EXPECT_THAT(made->notes, Not(is_not_known));
    } else {
      EXPECT_THAT(made->notes, is_not_known);
    }
    std::filesystem::remove_all(shop_ / "back");
    const auto back = Back();
    ASSERT_TRUE(back.ok()) << back.error().ToString();
    EXPECT_THAT(back->notes, Not(Contains(HasSubstr("lr_scheduler"))));
  }
}

// As torch leaves it. A rate equal to the current one was in no group of the trainer's.
TEST_F(TagState, TakesAnInitialRateThatIsNotTheRate) {
  ASSERT_TRUE(There().ok());
  DcpDraft trained = DcpDraft::Read(shop_ / "dcp");
  trained.Remove("nxdkit.optimizer");
  for (const bool differs : {false, true}) {
    SCOPED_TRACE(differs);
    if (differs)
      for (DcpDraft::Object& object : trained.objects)
        if (object.key.ends_with(".initial_lr")) object.value = {5e-3};
    trained.Write(shop_ / "dcp");
    std::filesystem::remove_all(shop_ / "back");
    ASSERT_TRUE(Back().ok());
    ops::InputHints hints = StateHints();
    hints.config = shop_ / "tag/config.json";
    const auto back = ops::OpenAndBind(shop_ / "back", &ops::kNxd, hints);
    ASSERT_TRUE(back.ok()) << back.error().ToString();
    for (const size_t group : {0, 1}) {
      const PickleValue* rate = OptionIn(*back, group, "initial_lr");
      ASSERT_EQ(rate != nullptr, differs);
      if (rate) {
        EXPECT_EQ(std::get<double>(rate->value), 5e-3);
      }
    }
  }
}

// Torch sorts the state that several ranks save; the tag is the same in any order.
TEST_F(TagState, HasItsEntriesInAdamsOrder) {
  ASSERT_TRUE(There().ok());
  DcpDraft trained = DcpDraft::Read(shop_ / "dcp");
  trained.Remove("nxdkit.optimizer");
  const std::string file = "optim/dp_rank_00_tp_rank_00_pp_rank_00.pt";
  std::string first;
  for (const bool sorted : {false, true}) {
    if (sorted) std::ranges::sort(trained.tensors, {}, &DcpDraft::Tensor::key);
    trained.Write(shop_ / "dcp");
    std::filesystem::remove_all(shop_ / "back");
    ASSERT_TRUE(Back().ok());
    if (!sorted) first = ReadBytes(shop_ / ("back/" + file));
  }
  EXPECT_TRUE(first == ReadBytes(shop_ / ("back/" + file)));
  const auto read = torch::ReadArchive(shop_ / ("back/" + file));
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  std::vector<std::string> names;
  for (const auto& [name, value] : *read->root.Find("base_state")->dict()->front().second.dict())
    names.push_back(*name.string());
  EXPECT_THAT(names, ElementsAre("step", "exp_avg", "exp_avg_sq"));
}

TEST_F(TagState, NamesObjectsThatItLacks) {
  ASSERT_TRUE(There().ok());
  DcpDraft trained = DcpDraft::Read(shop_ / "dcp");
  trained.objects.push_back({"epoch", {int64_t{3}}});
  trained.objects.push_back({"my.note", {int64_t{4}}});
  trained.objects.push_back({"lr_scheduler.base.rate", {0.5}});
  for (const bool recorded : {true, false}) {
    SCOPED_TRACE(recorded);
    if (!recorded) trained.Remove("nxdkit.optimizer");
    trained.Write(shop_ / "dcp");
    std::filesystem::remove_all(shop_ / "back");
    const auto made = Back();
    ASSERT_TRUE(made.ok()) << made.error().ToString();
    for (const char* key : {"epoch", "my.note", "lr_scheduler.base.rate"})
      EXPECT_THAT(made->notes, Contains(std::string(key) + " has no counterpart in a tag"));
    EXPECT_THAT(made->notes, Not(Contains("lr_scheduler.last_epoch has no counterpart in a tag")));
  }
}

TEST_F(TagState, NamesObjectsThatItLacksOfAMergedModel) {
  ASSERT_TRUE(There().ok());
  DcpDraft trained = DcpDraft::Read(shop_ / "dcp");
  trained.objects.push_back({"epoch", {int64_t{3}}});
  trained.Write(shop_ / "dcp");
  testing_util::PeftFiles adapter;
  const auto tag = OpenTag(shop_ / "tag");
  ASSERT_TRUE(tag.ok()) << tag.error().ToString();
  const auto weight = std::ranges::find(tag->params, "model.layers.0.self_attn.o_proj.weight",
                                        &LogicalTensor::name);
  adapter.Add("self_attn.o_proj", 2, weight->shape[0], weight->shape[1]);
  const auto made = Back(adapter.Write(shop_ / "lora"));
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_THAT(made->notes, Contains("epoch has no counterpart in a tag"));
}

TEST_F(TagState, NamesTensorsOfARunWithoutState) {
  ASSERT_TRUE(There().ok());
  DcpDraft trained = DcpDraft::Read(shop_ / "dcp");
  trained.Remove("optimizer.");
  trained.tensors.push_back({"rng_state", Dtype::kU8, {4}, "\1\2\3\4"});
  trained.Write(shop_ / "dcp");
  const auto made = Back();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_THAT(made->notes, Contains("rng_state has no counterpart in a tag"));
}

TEST_F(TagState, NamesTheDefaultsThatItTakes) {
  ASSERT_TRUE(There().ok());
  DcpDraft trained = DcpDraft::Read(shop_ / "dcp");
  trained.Remove("nxdkit.optimizer");
  for (const DcpDraft::Object& object : std::vector(trained.objects))
    if (object.key.ends_with(".betas")) trained.Remove(object.key);
  trained.Write(shop_ / "dcp");
  const auto made = Back();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_THAT(
      made->notes,
      Contains(HasSubstr("the checkpoint does not have betas of model.embed_tokens.weight")));
}

// The form that NxD's trainers accept: the numbers of its optimizer are F32, whatever torch had
// saved.
TEST_F(TagState, HasItsNumbersInF32) {
  for (const Dtype narrow : {Dtype::kBF16, Dtype::kF16}) {
    SCOPED_TRACE(Name(narrow));
    std::filesystem::remove_all(shop_ / "dcp");
    std::filesystem::remove_all(shop_ / "back");
    ASSERT_TRUE(There().ok());
    DcpDraft trained = DcpDraft::Read(shop_ / "dcp");
    trained.Remove("nxdkit.optimizer");
    for (DcpDraft::Tensor& tensor : trained.tensors)
      if (!tensor.shape.empty()) MakeNarrow(tensor, narrow);
    trained.Write(shop_ / "dcp");
    const auto made = Back();
    ASSERT_TRUE(made.ok()) << made.error().ToString();
    const auto back = OpenTag(shop_ / "back");
    ASSERT_TRUE(back.ok()) << back.error().ToString();
    ASSERT_FALSE(back->optimizer->masters.empty());
    for (size_t i = 0; i < back->model_params(); ++i) {
      EXPECT_EQ(back->optimizer->masters[i]->dtype, Dtype::kF32) << back->params[i].name;
      for (const ops::OptimizerEntry& entry : *back->optimizer->entries[i])
        EXPECT_EQ(entry.dtype, Dtype::kF32) << back->params[entry.param].name;
    }
    // 1.5 is the same number in all of them.
    EXPECT_EQ(BytesAt(*back, "model.norm.weight/exp_avg"), BytesOf(1.5f));
    EXPECT_EQ(BytesAt(*back, "model.norm.weight/sharded_master_weights"), BytesOf(1.5f));
  }
}

// Written before there were several dtypes.
TEST_F(TagState, TakesARecordOfOneDtype) {
  TrainingTag tag;
  tag.rounded = true;
  ASSERT_TRUE(There(tag).ok());
  DcpDraft draft = DcpDraft::Read(shop_ / "dcp");
  PickleDict record = *draft.FindObject("nxdkit.optimizer").value.dict();
  EXPECT_EQ(std::erase_if(record,
                          [](const auto& item) {
                            return item.first.string()->starts_with("other_") ||
                                   *item.first.string() == "state";
                          }),
            3u);
  draft.FindObject("nxdkit.optimizer").value = PickleValue::MakeDict(record);
  draft.Write(shop_ / "dcp");
  const auto made = Back();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_EQ(testing_util::TagDifference(shop_ / "tag", shop_ / "back"), "");
}

TEST_F(TagState, RefusesARecordOfOtherThingsThanDtypes) {
  ASSERT_TRUE(There().ok());
  DcpDraft draft = DcpDraft::Read(shop_ / "dcp");
  PickleDict record = *draft.FindObject("nxdkit.optimizer").value.dict();
  for (auto& [key, value] : record)
    if (*key.string() == "other_weights")
      value = PickleValue::MakeDict({{{std::string("model.norm.weight")}, {int64_t{3}}}});
  draft.FindObject("nxdkit.optimizer").value = PickleValue::MakeDict(record);
  draft.Write(shop_ / "dcp");
  const auto error = ExpectError(Back(), Errc::kCorrupt, "\"other_weights\" of the record");
  EXPECT_EQ(error->tensor(), "nxdkit.optimizer");
}

// As torch accepts it; only the number matters, in both directions.
TEST_F(TagState, TakesALearningRateThatIsATensor) {
  for (const bool xser : {false, true}) {
    SCOPED_TRACE(xser);
    for (const char* name : {"tag", "dcp", "back"}) std::filesystem::remove_all(shop_ / name);
    TrainingTag tag;
    tag.xser = xser;
    tag.change = [&](testing_util::FileDraft& file) {
      if (!file.is_optimizer()) return;
      const size_t index = file.tensors.size();
      file.tensors.push_back({{"lr", Dtype::kF32, {}}, BytesOf(0.25f)});
      PickleValue& rate = testing_util::FileDraft::At(file.Group(1), "lr");
      if (xser)
        rate = {torch::TensorReference{static_cast<int64_t>(index)}};
      else
        rate = {torch::TensorIndex{index}};
    };
    const auto made = There(tag);
    ASSERT_TRUE(made.ok()) << made.error().ToString();
    EXPECT_THAT(made->warnings,
                Contains(HasSubstr("the option lr is a tensor, and is taken as the number in it")));
    DcpDraft trained = DcpDraft::Read(shop_ / "dcp");
    const std::string key = "optimizer.param_groups.model.norm.weight.lr";
    EXPECT_EQ(std::get<double>(trained.FindObject(key).value.value), 0.25);
    for (const DcpDraft::Object& object : std::vector(trained.objects))
      if (object.key.ends_with("norm.weight.lr") || object.key.ends_with("layernorm.weight.lr")) {
        trained.Remove(object.key);
        trained.tensors.push_back({object.key, Dtype::kF32, {}, BytesOf(0.5f)});
      }
    trained.Write(shop_ / "dcp");
    const auto again = Back();
    ASSERT_TRUE(again.ok()) << again.error().ToString();
    const auto back = OpenTag(shop_ / "back");
    ASSERT_TRUE(back.ok()) << back.error().ToString();
    EXPECT_EQ(std::get<double>(OptionIn(*back, 0, "lr")->value), 3e-4);
    EXPECT_EQ(std::get<double>(OptionIn(*back, 1, "lr")->value), 0.5);
  }
}

// Every object is named, even if nothing has been trained yet.
TEST_F(TagState, NamesObjectsOfARunWithoutState) {
  ASSERT_TRUE(There().ok());
  DcpDraft before = DcpDraft::Read(shop_ / "dcp");
  before.Remove("optimizer.state.");
  before.Remove("nxdkit.optimizer");
  before.objects.push_back({"epoch", {int64_t{3}}});
  before.objects.push_back({"dataloader.version", {int64_t{1}}});
  size_t options = 0;
  for (const DcpDraft::Object& object : before.objects)
    options += object.key.starts_with("optimizer.param_groups.");
  before.Write(shop_ / "dcp");
  const auto made = Back();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  for (const char* key :
       {"epoch", "lr_scheduler.last_epoch", "train_state.step", "train_state.ntokens_seen"})
    EXPECT_THAT(made->notes, Contains(std::string(key) + " has no counterpart in a tag"));
  EXPECT_THAT(made->notes, Contains("the data loader's state has no counterpart in a tag"));
  EXPECT_THAT(made->notes, Contains("no parameter has state, so " + std::to_string(options) +
                                    " options of the optimizer (param_groups) are left out"));
}

// Refused before anything is made.
TEST_F(TagState, OfMoreEntriesThanMemoryHoldsIsRefused) {
  testing_util::WriteTrainingTag(shop_ / "tag", {});
  ops::ConvertRequest request =
      OpsWorkshop::Request(shop_ / "tag", &ops::kNxd, shop_ / "dcp", &ops::kDcp);
  request.hints.optimizer = true;
  request.run.max_memory = 600'000;  // 15 entries of 1500 bytes for each of 21 weights, and more
  request.verify = true;
  ExpectError(ops::Convert(request), Errc::kLimit,
              "the plan alone for 1 rank takes 504000 bytes or more, the cap is 450000; with "
              "--verify a quarter of --max-memory is kept for opening the output");
  // Without --verify that limit does not apply.
  request.verify = false;
  const auto made = ops::Convert(request);
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().message(), Not(HasSubstr("the plan alone")));
}

// The hint has to name another style.
TEST_F(TagState, OfMoreExpertsThanMemoryHoldsIsToldAnotherStyle) {
  testing_util::TrainingTag tag;
  tag.config = testing_util::SmallMoeConfig("qwen3_moe");
  testing_util::WriteTrainingTag(shop_ / "tag", tag);
  ops::ConvertRequest request =
      OpsWorkshop::Request(shop_ / "tag", &ops::kNxd, shop_ / "dcp", &ops::kDcp);
  request.hints.optimizer = true;
  request.run.max_memory = 600'000;
  const auto error = ExpectError(ops::Convert(request), Errc::kLimit, "the plan alone");
  EXPECT_THAT(error->hint(), HasSubstr("--style hf-fused (transformers 5) and torchtitan"));
}

// Twelve options for each parameter, most of which all of them have.
TEST_F(TagState, HasEachArchiveInMemoryOnce) {
  testing_util::WriteTrainingTag(shop_ / "tag", {});
  auto source = OpenTag(shop_ / "tag");
  ASSERT_TRUE(source.ok()) << source.error().ToString();
  std::vector<std::string> notes;
  ASSERT_TRUE(ops::ToNamedState(*source, notes).ok());
  const auto spec = ops::DecideOutput(*source, ops::kDcp, {});
  ASSERT_TRUE(spec.ok()) << spec.error().ToString();
  const auto contents = ops::MakeDcpContents(*source, static_cast<const ops::DcpOutput&>(**spec));
  ASSERT_TRUE(contents.ok()) << contents.error().ToString();
  std::set<std::string> values;
  std::set<const std::string*> places;
  for (const ops::DcpObject& object : contents->objects) {
    values.insert(*object.archive);
    places.insert(object.archive.get());
  }
  EXPECT_EQ(places.size(), values.size());
  EXPECT_GT(contents->objects.size(), 10 * values.size());
}

TEST_F(TagState, WarnsOfMasterWeightsThatAreRounded) {
  testing_util::WriteTrainingTag(shop_ / "tag", {});
  ops::OutputOptions options;
  options.dtype = Dtype::kBF16;
  ops::ConvertRequest request =
      OpsWorkshop::Request(shop_ / "tag", &ops::kNxd, shop_ / "dcp", &ops::kDcp, options);
  request.hints.optimizer = true;
  const auto made = ops::Convert(request);
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_THAT(made->warnings,
              Contains(AllOf(HasSubstr("the weights that training goes on from are rounded: "),
                             HasSubstr("model.embed_tokens.weight, from F32 to BF16"))));
}

// Moments in F64; F32 cannot hold every second one.
void MakeWide(testing_util::FileDraft& file) {
  if (!file.is_optimizer()) return;
  for (auto& tensor : file.tensors) {
    if (tensor.output.shape.empty()) continue;
    const size_t count = tensor.bytes.size() / 4;
    tensor.output.dtype = Dtype::kF64;
    tensor.bytes.clear();
    for (size_t i = 0; i < count; ++i) tensor.bytes += BytesOf(i % 2 == 0 ? 0.1 : 0.5);
  }
}

TEST_F(TagState, CountsWhatF32CannotHold) {
  TrainingTag tag;
  tag.master_weights = false;
  tag.change = MakeWide;
  const auto made = There(tag);
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_EQ(DcpDraft::Read(shop_ / "dcp").Find("optimizer.state.model.norm.weight.exp_avg").dtype,
            Dtype::kF32);
  // Both moments, half of the elements of every parameter.
  EXPECT_THAT(made->warnings,
              Contains(AllOf(HasSubstr(std::to_string(made->parameters) + " elements"),
                             HasSubstr("are F64 and become F32 with another value"))));
}

TEST_F(TagState, MakesMasterWeightsF32) {
  TrainingTag tag;
  tag.change = MakeWide;
  const auto made = There(tag);
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  const DcpDraft dcp = DcpDraft::Read(shop_ / "dcp");
  for (const DcpDraft::Tensor& tensor : dcp.tensors)
    EXPECT_EQ(tensor.dtype, Dtype::kF32) << tensor.key;
  // Two moments and the weight, half of the elements of every parameter.
  EXPECT_THAT(made->warnings,
              Contains(AllOf(HasSubstr(std::to_string(made->parameters * 3 / 2) + " elements"),
                             HasSubstr("are F64 and become F32 with another value"))));
}

// The tag's weights are not those of its master weights.
TEST_F(TagState, NamesWeightsThatAreNotTheirMasters) {
  const auto made = There();
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_THAT(made->warnings, Contains(HasSubstr("are not their master weights rounded: of "
                                                 "model.embed_tokens.weight, ")));
}

TEST_F(TagState, FindsNothingWhereWeightsAreTheirMasters) {
  TrainingTag tag;
  tag.rounded = true;
  const auto made = There(tag);
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_THAT(made->warnings, ElementsAre());
}

// Keys and values have the same shape: only the numbers show that these were swapped.
TEST_F(TagState, NamesParametersWhoseNumbersWereMixedUp) {
  TrainingTag tag;
  tag.rounded = true;
  tag.change = [](testing_util::FileDraft& file) {
    if (!file.is_optimizer()) return;
    auto& masters = file.Table("sharded_master_weights");
    std::swap(masters[2].second, masters[3].second);
  };
  const auto made = There(tag);
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_THAT(made->warnings, Contains(HasSubstr("the weights of 2 of ")));
}

}  // namespace
}  // namespace nxdkit
