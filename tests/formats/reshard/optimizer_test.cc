// The contents that an optimizer's files need to be resharded; everything else is refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "tests/formats/reshard/reshard_workshop.h"
#include "tests/formats/words.h"

namespace nxdkit {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_util::FileDraft;
using testing_util::ReshardWorkshop;
using testing_util::TagDifference;
using testing_util::TrainingTag;
using torch::PickleValue;

// The model of SmallConfig, tp 2, dp 3: group 0 is embedding, 4 matrices of each of 2 layers with
// q, k and v apart 6, and lm_head; group 1 has the 5 norms.
TrainingTag Two() {
  TrainingTag tag;
  tag.geometry.tp = 2;
  tag.dp = 3;
  return tag;
}
constexpr size_t kFirstNorm = 14;  // pid

// --- changes to a file on the way

using Change = std::function<void(FileDraft&)>;

Change InOptimizer(Change change) {
  return [change](FileDraft& draft) {
    if (draft.is_optimizer()) change(draft);
  };
}

Change OnRank(int tp, int dp, Change change) {
  return InOptimizer([=](FileDraft& draft) {
    if (draft.tp == tp && draft.dp == dp) change(draft);
  });
}

void AddKey(FileDraft& draft, const std::string& key) {
  draft.root.push_back({{key}, {int64_t{1}}});
}

// Removes a state's value from the dict; its tensor stays in the file, in the group's place.
void SetGroupValue(FileDraft& draft, PickleValue value) {
  FileDraft::At(draft.Group(0), "lr") = std::move(value);
}

// The tensor under this name in the state of `pid`.
FileDraft::Tensor& StateTensor(FileDraft& draft, size_t pid, const std::string& name) {
  return draft.TensorOf(FileDraft::At(draft.State(pid), name));
}

// Cuts the first rows off a tensor.
void KeepRows(FileDraft::Tensor& tensor, int64_t rows) {
  tensor.bytes.resize(tensor.bytes.size() / static_cast<size_t>(tensor.output.shape[0]) *
                      static_cast<size_t>(rows));
  tensor.output.shape[0] = rows;
}

void FlipBit(FileDraft::Tensor& tensor) {
  tensor.bytes[0] = static_cast<char>(tensor.bytes[0] ^ 1);
}

struct Refused {
  const char* name;
  Change change;
  Errc code;
  const char* message;
  const char* member;  // "" for none
  const char* tensor;
};

class RefusedState : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedState, SaysWhatAndWhere) {
  const Refused& row = GetParam();
  const ReshardWorkshop shop;
  TrainingTag tag = Two();
  tag.change = row.change;
  const Error error = shop.Refusal(shop.Make("in", tag), Two());
  EXPECT_EQ(error.code(), row.code) << error.ToString();
  EXPECT_THAT(error.message(), HasSubstr(row.message));
  EXPECT_THAT(error.member(), HasSubstr(row.member));
  EXPECT_THAT(error.tensor(), HasSubstr(row.tensor));
  EXPECT_FALSE(fs::exists(shop / "refused"));
}

INSTANTIATE_TEST_SUITE_P(
    Rows, RefusedState,
    ::testing::Values(
        Refused{"AnExpertParallelOptimizer",
                InOptimizer([](FileDraft& d) { AddKey(d, "ep_param_id_offset"); }),
                Errc::kUnsupported, "ep_param_id_offset belongs to the state of an expert parallel",
                "", ""},
        Refused{"ALegacyFile", InOptimizer([](FileDraft& d) { AddKey(d, "dp_rank"); }),
                Errc::kUnsupported, "dp_rank belongs to a file of the legacy form", "", ""},
        Refused{"AnUnknownKey", InOptimizer([](FileDraft& d) { AddKey(d, "surprise"); }),
                Errc::kUnsupported, "the key surprise is not known", "", ""},
        Refused{"OneRankWithoutAKey", OnRank(1, 2, [](FileDraft& d) {
                  std::erase_if(d.root, [](auto& i) { return *i.first.string() == "shape_info"; });
                }),
                Errc::kCorrupt, "the file has the keys state, param_groups, base_state,", "",
                ""},
        Refused{"ATensorAmongTheHyperParameters", InOptimizer([](FileDraft& d) {
                  d.tensors.push_back({{"lr", Dtype::kF32, {1}}, std::string(4, '\0')});
                  SetGroupValue(d, {torch::TensorIndex{d.tensors.size() - 1}});
                }),
                Errc::kUnsupported, "lr is a tensor of shape [1], expected a number",
                "param_groups", ""},
        Refused{"AnotherLearningRateOnOneRank",
                OnRank(1, 0, [](FileDraft& d) { SetGroupValue(d, {1e-5}); }), Errc::kCorrupt,
                "lr is not what", "param_groups[0]", ""},
        Refused{"OneMoreHyperParameterOnOneRank", OnRank(0, 1, [](FileDraft& d) {
                  d.Group(1).push_back({{std::string("fused")}, {true}});
                }),
                Errc::kCorrupt, "the group has 7 keys", "param_groups[1]", ""},
        Refused{"ParametersNumberedAnotherWay", InOptimizer([](FileDraft& d) {
                  FileDraft::At(d.Group(1), "params") = PickleValue::MakeList({{int64_t{0}}});
                }),
                Errc::kUnsupported, "found 0, expected 14", "param_groups", ""},
        Refused{"NamesForNumbers", InOptimizer([](FileDraft& d) {
                  d.Table("base_state")[0].first = {std::string("model.norm.weight")};
                }),
                Errc::kUnsupported, "parameters have names (model.norm.weight)", "base_state", ""},
        Refused{"ANumberThatNoGroupHas", InOptimizer([](FileDraft& d) {
                  d.Table("shape_info")[3].first = {int64_t{500}};
                }),
                Errc::kCorrupt, "parameter 500 is not in param_groups, which have 19", "shape_info",
                ""},
        Refused{"ShapesThatNoOrderFits", InOptimizer([](FileDraft& d) {
                  d.Table("shape_info")[1].second =
                      PickleValue::MakeList({{int64_t{3}}, {int64_t{16}}});
                }),
                Errc::kUnsupported,
                "norms: tp rank 0 pp rank 0, parameter 1: shape_info has shape [3, 16], "
                "model.layers.0.self_attn.q_proj.weight has [8, 16]; biases: the groups of tp rank "
                "0 pp rank 0 have [14, 5] parameters, expected [19, 0]; one:",
                "", ""},
        Refused{"StateOfAnotherShape", InOptimizer([](FileDraft& d) {
                  FileDraft::Tensor& tensor = StateTensor(d, 0, "exp_avg_sq");
                  tensor.output.shape = {4, 2, 8};
                }),
                Errc::kUnsupported, "parameter 0: exp_avg_sq has shape [4, 2, 8]", "", ""},
        Refused{"AnotherEntryOnOneRank", OnRank(1, 1, [](FileDraft& d) {
                  d.State(2)[1].first = {std::string("momentum")};
                }),
                Errc::kCorrupt,
                "the optimizer keeps [step, momentum, exp_avg_sq] here, and [step, exp_avg, "
                "exp_avg_sq] on other ranks",
                "", "model.layers.0.self_attn.k_proj.weight"},
        Refused{"AnObjectWithTensorsAmongTheState", OnRank(1, 1, [](FileDraft& d) {
                  d.Table("base_state")[2].first = {int64_t{2}};
                  d.Table("base_state")[2].second = PickleValue::MakeDict(
                      {{{std::string("kept")}, d.Table("base_state")[2].second}});
                }),
                Errc::kUnsupported, "the value of kept cannot be carried over", "",
                "model.layers.0.self_attn.k_proj.weight"},
        Refused{"AStepThatDiffers",
                OnRank(1, 2, [](FileDraft& d) { FlipBit(StateTensor(d, 4, "step")); }),
                Errc::kCorrupt, "1 element differs from the other copy of", "", "/step"},
        Refused{"ANormThatDiffers", OnRank(1, 2, [](FileDraft& d) {
                  FlipBit(StateTensor(d, kFirstNorm, "exp_avg"));
                }),
                Errc::kCorrupt,
                "differs from the other copy of model.layers.0.input_layernorm.weight/exp_avg", "",
                "model.layers.0.input_layernorm.weight/exp_avg"},
        // 8 rows of q on 3 ranks: 3, 3, 2 and one row of padding.
        Refused{"PaddingThatIsNotZero", OnRank(0, 2, [](FileDraft& d) {
                  std::string& bytes = StateTensor(d, 1, "exp_avg").bytes;
                  bytes[bytes.size() - 1] = 0x40;
                }),
                Errc::kCorrupt, "1 element of padding must be 0", "",
                "model.layers.0.self_attn.q_proj.weight/exp_avg"},
        Refused{"MasterWeightsCutTwice", InOptimizer([](FileDraft& d) {
                  for (auto& [pid, value] : d.Table("sharded_master_weights"))
                    KeepRows(d.TensorOf(value), 1);
                }),
                Errc::kCorrupt, "nxd_convert_zero_checkpoints cut the master weights of rank 0", "",
                "model.embed_tokens.weight"},
        Refused{"MoreRowsThanThereAre", InOptimizer([](FileDraft& d) {
                  FileDraft::Tensor& tensor = StateTensor(d, 0, "exp_avg");
                  tensor.bytes += tensor.bytes;
                  tensor.output.shape[0] *= 2;
                }),
                Errc::kCorrupt, "exp_avg has 8 rows on each of 3 data parallel ranks,", "",
                "model.embed_tokens.weight"},
        Refused{"AModuleOfAnotherOrder",
                [](FileDraft& d) {
                  if (!d.is_optimizer()) std::swap(d.root[3], d.root[2]);
                },
                Errc::kUnsupported,
                "the state dict has the parameter where model.layers.0.self_attn.k_proj.weight was "
                "expected",
                "", "model.layers.0.self_attn.v_proj.weight"}),
    [](const auto& row) { return std::string(row.param.name); });

// --- files, by their names

struct Files {
  const char* name;
  std::function<void(const fs::path& optim)> change;
  Errc code;
  const char* message;
};

class RefusedFiles : public ::testing::TestWithParam<Files> {};

TEST_P(RefusedFiles, SaysWhat) {
  const Files& row = GetParam();
  const ReshardWorkshop shop;
  const std::string in = shop.Make("in", Two());
  row.change(in + "/optim");
  const Error error = shop.Refusal(in, Two());
  EXPECT_EQ(error.code(), row.code) << error.ToString();
  EXPECT_THAT(error.ToString(), HasSubstr(row.message));
  EXPECT_FALSE(fs::exists(shop / "refused"));
}

void RemoveRanks(const fs::path& optim, int first_dp) {
  for (int d = first_dp; d < 3; ++d)
    for (int t = 0; t < 2; ++t)
      fs::remove(optim / fmt::format("dp_rank_{:02d}_tp_rank_{:02d}_pp_rank_00.pt", d, t));
}

INSTANTIATE_TEST_SUITE_P(
    Rows, RefusedFiles,
    ::testing::Values(
        Files{"ZeroSavedAsIfReplicated", [](const fs::path& o) { RemoveRanks(o, 1); },
              Errc::kCorrupt,
              "exp_avg has 4 rows on each of 1 data parallel ranks, the parameter has 12: ZeRO-1 "
              "state that was saved as if it were the same on every rank (as NxDT does"},
        Files{"ContextParallelRanksOverEachOther", [](const fs::path& o) { RemoveRanks(o, 2); },
              Errc::kCorrupt,
              "exp_avg has 4 rows on each of 2 data parallel ranks, the parameter has 12: the "
              "context parallel ranks of a data parallel rank wrote"},
        Files{"AHoleInTheGrid",
              [](const fs::path& o) { fs::remove(o / "dp_rank_01_tp_rank_00_pp_rank_00.pt"); },
              Errc::kCorrupt,
              "5 shard files found, 6 expected for tp 2 pp 1 dp 3; missing "
              "tp_rank_00_pp_rank_00_dp_rank_01"},
        Files{"AnotherGridThanTheModels",
              [](const fs::path& o) {
                for (int d = 0; d < 3; ++d)
                  fs::remove(o / fmt::format("dp_rank_{:02d}_tp_rank_01_pp_rank_00.pt", d));
              },
              Errc::kCorrupt, "the optimizer's files have tp 1 pp 1, the model's tp 2 pp 1"},
        Files{"ExpertParallelNames",
              [](const fs::path& o) {
                fs::rename(o / "dp_rank_01_tp_rank_00_pp_rank_00.pt",
                           o / "dp_rank_01_ep_rank_00_tp_rank_00_pp_rank_00.pt");
              },
              Errc::kUnsupported, "the optimizer is expert parallel"},
        Files{"MergedAndShardedTogether",
              [](const fs::path& o) {
                fs::copy_file(o / "dp_rank_00_tp_rank_00_pp_rank_00.pt",
                              o / "full_tp_rank_00_pp_rank_00.pt");
              },
              Errc::kCorrupt, "a merged optimizer and a sharded one are here"},
        Files{"ADistributedCheckpoint",
              [](const fs::path& o) {
                RemoveRanks(o, 0);
                std::ofstream(o / ".metadata");
                std::ofstream(o / "__0_0.distcp");
              },
              Errc::kUnsupported, "a torch distributed checkpoint"},
        Files{"SomethingElse",
              [](const fs::path& o) {
                RemoveRanks(o, 0);
                std::ofstream(o / "notes.txt");
              },
              Errc::kUnsupported, "found notes.txt"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Merged, MasterWeightsOfOneRankAreRefused) {
  const ReshardWorkshop shop;
  TrainingTag tag = Two();
  tag.form = "merged";
  tag.change = InOptimizer([](FileDraft& draft) {
    for (auto& [pid, value] : draft.Table("sharded_master_weights"))
      KeepRows(draft.TensorOf(value), 1);
  });
  const Error error = shop.Refusal(shop.Make("in", tag), Two());
  EXPECT_EQ(error.code(), Errc::kCorrupt);
  EXPECT_THAT(error.message(), HasSubstr("sharded_master_weights has 1 of the parameter's 12 rows: "
                                         "nxd_convert_zero_checkpoints kept those of data parallel "
                                         "rank 0 only"));
}

TEST(Merged, BecomesShardedWithADataParallelSize) {
  const ReshardWorkshop shop;
  TrainingTag merged = Two();
  merged.form = "merged";
  const std::string out = shop.Reshard(shop.Make("in", merged), "out", Two(), true);
  EXPECT_EQ(TagDifference(shop.Make("expected", Two()), out), "");
}

// --- accepted states

TEST(Optimizer, ParametersBeforeTheirFirstStepStayWithoutState) {
  const ReshardWorkshop shop;
  TrainingTag a = Two();
  a.dp = 1;
  a.int_step = true;
  TrainingTag b = a;
  b.geometry.tp = 1;
  // Without any state: neither tensors nor numbers.
  const Change empty = InOptimizer([](FileDraft& draft) {
    std::vector<FileDraft::Tensor> masters;
    for (auto& [pid, value] : draft.Table("sharded_master_weights")) {
      masters.push_back(draft.TensorOf(value));
      value = {torch::TensorIndex{masters.size() - 1}};
    }
    draft.Table("base_state").clear();
    draft.tensors = std::move(masters);
  });
  a.change = b.change = empty;
  const std::string out = shop.Reshard(shop.Make("in", a), "out", b, true);
  EXPECT_EQ(TagDifference(shop.Make("expected", b), out), "");
}

TEST(Optimizer, ATagWithoutOneIsReshardedAndSaysSo) {
  const ReshardWorkshop shop;
  TrainingTag tag = Two();
  tag.form = "none";
  TrainingTag to = tag;
  to.geometry.tp = 4;
  const std::string in = shop.Make("in", tag);
  const auto report = ops::Convert(ReshardWorkshop::Request(in, shop / "out", to));
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_FALSE(report->optimizer);
  EXPECT_THAT(report->notes,
              ElementsAre("without an optimizer: only the model's weights are written"));
  EXPECT_EQ(TagDifference(shop.Make("expected", to), shop / "out"), "");
}

TEST(Optimizer, IsDescribedInTheReport) {
  const ReshardWorkshop shop;
  TrainingTag to = Two();
  to.dp = 5;
  const std::string in = shop.Make("in", Two());
  const auto report = ops::DryRun(ReshardWorkshop::Request(in, shop / "out", to));
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  ASSERT_TRUE(report->optimizer);
  EXPECT_EQ(report->optimizer->from, nxd::OptimizerStyle::kZero1);
  EXPECT_EQ(report->optimizer->from_dp, 3);
  EXPECT_EQ(report->optimizer->to_dp, 5);
  EXPECT_EQ(report->optimizer->order, nxd::GroupRule::kNorms);
  EXPECT_THAT(report->optimizer->entries,
              ElementsAre("step", "exp_avg", "exp_avg_sq", "sharded_master_weights"));
  EXPECT_FALSE(fs::exists(shop / "out"));
}

TEST(Optimizer, AnOrderThatIsAskedForMustFit) {
  const ReshardWorkshop shop;
  ops::ConvertRequest request =
      ReshardWorkshop::Request(shop.Make("in", Two()), shop / "out", Two());
  request.hints.Set("param-order", Word(nxd::GroupRule::kOne));
  const auto report = ops::Convert(request);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code(), Errc::kUnsupported);
  EXPECT_THAT(report.error().message(),
              HasSubstr("one: the groups of tp rank 0 pp rank 0 have [14, 5] parameters, expected "
                        "[19]"));
}

TEST(Optimizer, OfATiedModelIsNotTakenFromOnePipelineRankToSeveral) {
  const ReshardWorkshop shop;
  TrainingTag tag = Two();
  tag.config = testing_util::SmallConfig({{"tie_word_embeddings", true}});
  TrainingTag to = tag;
  to.geometry.pp = 2;
  const Error error = shop.Refusal(shop.Make("in", tag), to);
  EXPECT_EQ(error.code(), Errc::kUnsupported);
  EXPECT_THAT(error.message(), HasSubstr("whether lm_head.weight has a state of its own is known "
                                         "for pp 1, but not for pp 2"));
}

// The last stage would have a head of its own, and its state is unknown.
TEST(Optimizer, NorWhereNoHeadIsStored) {
  const ReshardWorkshop shop;
  TrainingTag tag = Two();
  tag.config = testing_util::SmallConfig({{"tie_word_embeddings", true}});
  tag.change = [](FileDraft& draft) {
    if (draft.is_optimizer()) return;
    ASSERT_EQ(*draft.root.back().first.string(), "lm_head.weight");
    draft.root.pop_back();
    draft.tensors.pop_back();
  };
  TrainingTag to = tag;
  to.geometry.pp = 2;
  const std::string in = shop.Make("in", tag);
  const Error error = shop.Refusal(in, to);
  EXPECT_EQ(error.code(), Errc::kUnsupported);
  EXPECT_THAT(error.message(), HasSubstr("known for pp 1, but not for pp 2"));
  EXPECT_THAT(error.hint(), HasSubstr("keep --pp 1, or leave the optimizer's state out with "
                                      "--no-optimizer"));
  to.geometry.pp = 1;
  to.geometry.tp = 4;
  EXPECT_EQ(shop.Refusal(in, to).message(), "it was not refused");
}

// --- older forms: their state is refused, not left behind

// The shards of a tag as v1 has them.
std::string AsV1(const ReshardWorkshop& shop, const std::string& tag) {
  const std::string v1 = shop / "v1";
  for (const char* rank : {"tp_rank_00_pp_rank_00", "tp_rank_01_pp_rank_00"}) {
    fs::create_directories(v1 + "/" + rank);
    fs::copy(tag + "/model/dp_rank_00_" + rank + ".pt", v1 + "/" + rank + "/checkpoint.pt");
  }
  fs::copy(tag + "/config.json", v1 + "/config.json");
  return v1;
}

void ExpectRefusedButForTheModel(const ReshardWorkshop& shop, const std::string& input,
                                 const std::string& message) {
  const Error error = shop.Refusal(input, Two());
  EXPECT_EQ(error.code(), Errc::kUnsupported) << error.ToString();
  EXPECT_THAT(error.message(), HasSubstr(message));
  EXPECT_EQ(error.hint(), "--no-optimizer leaves the optimizer's state out");
  ops::ConvertRequest request = ReshardWorkshop::Request(input, shop / "out", Two());
  request.hints.optimizer = false;
  request.options.Reset("dp");
  const auto without = ops::Convert(request);
  EXPECT_TRUE(without.ok()) << without.error().ToString();
}

TEST(OlderOptimizer, FilesBesideTheShards) {
  const ReshardWorkshop shop;
  TrainingTag tag = Two();
  tag.form = "none";
  const std::string v1 = AsV1(shop, shop.Make("in", tag));
  std::ofstream(v1 + "/optim.dp_rank_00.tp_rank_01") << "state";
  ExpectRefusedButForTheModel(shop, v1,
                              "a legacy ZeRO-1 optimizer (optim.dp_rank_00.tp_rank_01) is next");
}

TEST(OlderOptimizer, FilesInTheFolderOfTheNewerForm) {
  const ReshardWorkshop shop;
  TrainingTag tag = Two();
  tag.form = "none";
  const std::string in = shop.Make("in", tag);
  fs::create_directories(in + "/optim");
  std::ofstream(in + "/optim/optim.dp_rank_00.tp_rank_01") << "state";
  ExpectRefusedButForTheModel(shop, in, "a legacy ZeRO-1 optimizer (optim.dp_rank_DD.tp_rank_TT");
}

TEST(OlderOptimizer, StateInTheShards) {
  for (const char* wrapper : {"model", "state_dict"})
    for (const char* key : {"optimizer", "optimizer_states"}) {
      const ReshardWorkshop shop;
      TrainingTag tag = Two();
      tag.form = "none";
      tag.change = [&](FileDraft& draft) {
        torch::PickleValue weights = torch::PickleValue::MakeDict(std::move(draft.root));
        draft.root = {{{std::string(wrapper)}, std::move(weights)},
                      {{std::string(key)}, torch::PickleValue::MakeList({{int64_t{1}}})},
                      {{std::string("epoch")}, {int64_t{3}}}};
      };
      ExpectRefusedButForTheModel(
          shop, AsV1(shop, shop.Make("in", tag)),
          "the files of the model hold the optimizer's state too (\"" + std::string(key) + "\")");
    }
}

TEST(OlderOptimizer, AnEmptyEntryIsNone) {
  const ReshardWorkshop shop;
  TrainingTag tag = Two();
  tag.form = "none";
  tag.change = [](FileDraft& draft) {
    draft.root.push_back({{std::string("optimizer_states")}, torch::PickleValue::MakeList({})});
  };
  EXPECT_EQ(shop.Refusal(shop.Make("in", tag), Two()).message(), "it was not refused");
}

// Also next to a good folder optim/.
TEST(OlderOptimizer, NumbersAndNamesAreNoState) {
  const ReshardWorkshop shop;
  TrainingTag tag = Two();
  tag.change = [](FileDraft& draft) {
    if (draft.is_optimizer()) return;
    draft.root.push_back({{std::string("optimizer_step")}, {int64_t{5}}});
    draft.root.push_back({{std::string("optim_lr")}, {0.5}});
    draft.root.push_back({{std::string("optim_name")}, {std::string("adam")}});
    draft.root.push_back({{std::string("optim_on")}, {true}});
  };
  TrainingTag to = Two();
  to.dp = 2;
  const std::string out = shop.Reshard(shop.Make("in", tag), "out", to);
  EXPECT_EQ(TagDifference(shop.Make("expected", to), out), "");
}

// q, k and v that become one parameter have one step.
TEST(Optimizer, ProjectionsSteppedApartAreNotFused) {
  const ReshardWorkshop shop;
  TrainingTag tag = Two();
  tag.change = InOptimizer([](FileDraft& d) { FlipBit(StateTensor(d, 2, "step")); });
  TrainingTag to = Two();
  to.geometry.qkv = nxd::QkvStyle::kFused;
  const Error error = shop.Refusal(shop.Make("in", tag), to);
  EXPECT_EQ(error.code(), Errc::kUnsupported);
  EXPECT_EQ(error.tensor(), "model.layers.0.self_attn.qkv_proj.weight_qkv");
  EXPECT_THAT(error.message(), HasSubstr("model.layers.0.self_attn.q_proj.weight and "
                                         "model.layers.0.self_attn.k_proj.weight become one"));
}

// The copies of a key head that a smaller multiplier drops are compared.
TEST(Optimizer, CopiesOfKeyHeadsThatDifferAreRefused) {
  const ReshardWorkshop shop;
  TrainingTag tag = Two();
  tag.geometry.tp = 8;
  tag.geometry.kv_multiplier = 2;
  tag.geometry.qkv = nxd::QkvStyle::kLinear;
  tag.dp = 1;
  tag.change = OnRank(7, 0, [](FileDraft& d) { FlipBit(StateTensor(d, 2, "exp_avg_sq")); });
  const Error error = shop.Refusal(shop.Make("in", tag), Two());
  EXPECT_EQ(error.code(), Errc::kCorrupt);
  EXPECT_EQ(error.rank(), 7);
  EXPECT_EQ(error.tensor(), "model.layers.0.self_attn.qkv_proj.weight_k/exp_avg_sq");
  EXPECT_THAT(error.message(), HasSubstr("differs from the other copy of "
                                         "model.layers.0.self_attn.k_proj.weight/exp_avg_sq"));
}

TEST(Optimizer, GateAndUpKeptApartStayApart) {
  const ReshardWorkshop shop;
  TrainingTag a = Two();
  a.geometry.fused_gate_up = false;
  TrainingTag b = a;
  b.geometry.tp = 4;
  b.dp = 2;
  const std::string out = shop.Reshard(shop.Make("in", a), "out", b, true);
  EXPECT_EQ(TagDifference(shop.Make("expected", b), out), "");
}

}  // namespace
}  // namespace nxdkit
