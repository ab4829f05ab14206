// Inspect on every form of artifact: its name, and the facts of each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/kinds/nxd/facts_nxd.h"
#include "formats/kinds/rollout/facts_rollout.h"
#include "tests/formats/ops/inspect/inputs.h"
#include "tests/formats/words.h"
#include "tests/lib/expect_error.h"
#include "tools/inspect/report.h"

namespace nxdkit::ops {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_util::ExpectError;
using testing_util::InspectOk;
using testing_util::Models;
using testing_util::Names;
using testing_util::Number;
using testing_util::ReadBytes;
using testing_util::Reference;
using testing_util::Scratch;
using testing_util::Tensor;
using testing_util::Text;
using testing_util::ZipOf;
using Outcome = LayoutCheck::Outcome;
using torch::PickleValue;

constexpr uint64_t kElements = 254'656;  // in the tiny model, by its shapes

void ExpectFits(const Inspection& inspection) {
  EXPECT_EQ(inspection.layout.outcome, Outcome::kFits) << inspection.layout.message;
  EXPECT_EQ(inspection.layout.parameters, 46u);
  EXPECT_EQ(inspection.layout.missing_parameters, 0u);
  EXPECT_TRUE(inspection.parameters_are_logical);
  EXPECT_EQ(inspection.parameters, kElements);
  EXPECT_THAT(inspection.warnings, IsEmpty());
}

uint64_t BytesIn(const std::string& folder, std::string_view suffix) {
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().string().ends_with(suffix))
      bytes += entry.file_size();
  return bytes;
}

TEST(InspectHf, FolderWithOneFile) {
  const Models models;
  const Inspection inspection = InspectOk(models.path("model"));
  EXPECT_EQ(inspection.form, "hf");
  EXPECT_EQ(inspection.description, "Hugging Face model folder");
  ExpectFits(inspection);
  EXPECT_EQ(inspection.tensors, 46u);
  EXPECT_EQ(inspection.files, 1u);
  EXPECT_EQ(inspection.bytes, BytesIn(models.path("model"), ".safetensors"));
  ASSERT_EQ(inspection.dtypes.size(), 1u);
  EXPECT_EQ(inspection.dtypes[0].dtype, Dtype::kBF16);
  EXPECT_EQ(inspection.dtypes[0].tensors, 46u);
  EXPECT_EQ(inspection.dtypes[0].elements, kElements);
  EXPECT_EQ(inspection.dtypes[0].bytes, 2 * kElements);
}

TEST(InspectHf, ShardedFolder) {
  const Models models;
  const std::string path = models.Make("sharded", &ops::kHf, [](OutputOptions& options) {
    options.Set("max-shard-size", "200000");
  });
  const Inspection inspection = InspectOk(path);
  EXPECT_EQ(inspection.files, 3u);
  EXPECT_EQ(inspection.description, "Hugging Face model folder, 3 files and an index");
  ExpectFits(inspection);
  // One of its files by itself: each tensor has its place, and most parameters are elsewhere.
  const Inspection one = InspectOk(path + "/model-00002-of-00003.safetensors");
  EXPECT_EQ(one.form, "safetensors");
  EXPECT_EQ(one.layout.outcome, Outcome::kFits);
  EXPECT_EQ(one.layout.missing_parameters, 46u - one.tensors);
  EXPECT_THAT(one.layout.message, HasSubstr("of the model's 46 parameters are missing"));
  EXPECT_THAT(one.warnings, IsEmpty());
}

TEST(InspectHf, UnknownFamilyIsShownAndNotChecked) {
  const Scratch scratch;
  scratch.Write("model.safetensors",
                testing_util::SafetensorsOf({{"wte.weight", Dtype::kF32, {3, 5}}}));
  scratch.Write("config.json", R"({"model_type": "gpt2"})");
  const Inspection inspection = InspectOk(scratch.folder());
  EXPECT_EQ(inspection.artifact.config->model_type, "gpt2");
  EXPECT_EQ(inspection.layout.outcome, Outcome::kNotChecked);
  EXPECT_THAT(inspection.layout.message, HasSubstr("no parameter table for model_type \"gpt2\""));
  EXPECT_EQ(inspection.parameters, 15u);
  EXPECT_FALSE(inspection.parameters_are_logical);
  EXPECT_THAT(inspection.warnings, IsEmpty());
}

TEST(InspectHf, TensorThatTheFamilyLacksIsAWarning) {
  const Models models;
  models.scratch().Write("model/model.safetensors",
                         testing_util::SafetensorsOf({{"model.norm.weight", Dtype::kBF16, {64}},
                                                      {"model.extra", Dtype::kBF16, {2}}}));
  const Inspection inspection = InspectOk(models.path("model"));
  EXPECT_EQ(inspection.layout.outcome, Outcome::kDoesNotFit);
  EXPECT_THAT(inspection.layout.message, HasSubstr("model.extra"));
  EXPECT_THAT(inspection.warnings, ElementsAre(HasSubstr("the layout does not fit")));
  EXPECT_THAT(Names(inspection), ElementsAre("model.extra", "model.norm.weight"));
  EXPECT_EQ(inspection.parameters, 66u);
}

TEST(InspectHf, MissingParametersOfAWholeModelAreAWarning) {
  const Models models;
  models.scratch().Write("model/model.safetensors",
                         testing_util::SafetensorsOf({{"model.norm.weight", Dtype::kBF16, {64}}}));
  const Inspection inspection = InspectOk(models.path("model"));
  EXPECT_EQ(inspection.layout.outcome, Outcome::kFits);
  EXPECT_EQ(inspection.layout.missing_parameters, 45u);
  EXPECT_EQ(inspection.parameters, 64u);
  EXPECT_THAT(
      inspection.warnings,
      ElementsAre(
          "45 of the model's 46 parameters are missing, the first is model.embed_tokens.weight"));
}

TEST(InspectNxd, RootWithTags) {
  const Models models;
  models.Make("root/step_1", &ops::kNxd, [](OutputOptions& options) { options.Set("tp", 2); });
  models.Make("root/step_2", &ops::kNxd, [](OutputOptions& options) { options.Set("tp", 2); });
  models.Make("root/step_3", &ops::kNxd, [](OutputOptions& options) { options.Set("tp", 2); });
  fs::remove(models.path("root/step_3/done"));
  fs::last_write_time(models.path("root/step_2/done"),
                      fs::last_write_time(models.path("root/step_1/done")) + std::chrono::hours(1));
  const Inspection inspection = InspectOk(models.path("root"));
  EXPECT_EQ(inspection.form, "nxd");
  EXPECT_THAT(inspection.description, HasSubstr("NxD checkpoint folder of 3 tags; the tag step_2"));
  ExpectFits(inspection);
  const NxdFacts& facts = *FactsAs<NxdFacts>(inspection);
  EXPECT_EQ(facts.location.tag, "step_2");
  ASSERT_EQ(facts.tags.size(), 3u);
  EXPECT_TRUE(facts.tags[0].finished);
  EXPECT_TRUE(facts.tags[1].finished);
  EXPECT_FALSE(facts.tags[2].finished);
  EXPECT_TRUE(facts.location.finished);
  EXPECT_TRUE(facts.checkpoint);
  EXPECT_EQ(facts.hardware, HardwareSource::kIrrelevant);

  InputHints hints;
  hints.Set("tag", "step_3");
  const Inspection asked = InspectOk(models.path("root"), hints);
  EXPECT_EQ(FactsAs<NxdFacts>(asked)->location.tag, "step_3");
  EXPECT_FALSE(FactsAs<NxdFacts>(asked)->location.finished);
  EXPECT_THAT(asked.warnings, ElementsAre(HasSubstr("no `done` marker")));
}

TEST(InspectNxd, RootWithoutAFinishedTagListsThem) {
  const Models models;
  models.Make("root/step_1", &ops::kNxd, [](OutputOptions& options) { options.Set("tp", 2); });
  fs::remove(models.path("root/step_1/done"));
  const Inspection inspection = InspectOk(models.path("root"));
  EXPECT_EQ(inspection.form, "nxd_root");
  ASSERT_EQ(FactsAs<NxdFacts>(inspection)->tags.size(), 1u);
  EXPECT_EQ(FactsAs<NxdFacts>(inspection)->tags[0].name, "step_1");
  EXPECT_EQ(inspection.tensors, 0u);
  EXPECT_THAT(inspection.warnings,
              ElementsAre(HasSubstr("no finished tag; without a `done` marker: step_1")));
}

TEST(InspectNxd, HardwareByTheSidecarByOptionsAndByTheCopies) {
  const Models models;
  const std::string path = models.Make("set", &ops::kNxd, [](OutputOptions& options) {
    options.Set("tp", 8);
    options.Set("kv-multiplier", 2);
    options.Set("qkv", Word(nxd::QkvStyle::kFused));
    options.Set("hw", Word(models::Hardware::kTrn2));
  });
  const Inspection by_sidecar = InspectOk(path);
  ExpectFits(by_sidecar);
  EXPECT_EQ(FactsAs<NxdFacts>(by_sidecar)->hardware, HardwareSource::kSidecar);
  EXPECT_EQ(FactsAs<NxdFacts>(by_sidecar)->geometry->kv_multiplier, 2);
  EXPECT_EQ(FactsAs<NxdFacts>(by_sidecar)->geometry->qkv, nxd::QkvStyle::kFused);
  EXPECT_EQ(FactsAs<NxdFacts>(by_sidecar)->geometry->hardware, models::Hardware::kTrn2);
  EXPECT_EQ(FactsAs<NxdFacts>(by_sidecar)->location.tp, 8);

  fs::remove(path + "/nxdkit.json");
  EXPECT_EQ(FactsAs<NxdFacts>(InspectOk(path))->hardware, HardwareSource::kReplicas);
  InputHints hints;
  hints.Set("hw", Word(models::Hardware::kTrn2));
  EXPECT_EQ(FactsAs<NxdFacts>(InspectOk(path, hints))->hardware, HardwareSource::kOptions);

  const std::string tiled = models.Make("tiled", &ops::kNxd, [](OutputOptions& options) {
    options.Set("tp", 8);
    options.Set("kv-multiplier", 2);
    options.Set("hw", Word(models::Hardware::kTrn1));
  });
  fs::remove(tiled + "/nxdkit.json");
  const Inspection unknown = InspectOk(tiled);
  ExpectFits(unknown);
  EXPECT_EQ(FactsAs<NxdFacts>(unknown)->hardware, HardwareSource::kUnknown);
  EXPECT_EQ(FactsAs<NxdFacts>(unknown)->replicas, nxd::ReplicaOrder::kTiled);
}

TEST(InspectNxd, OptionThatContradictsIsAUsageError) {
  const Models models;
  const std::string path =
      models.Make("set", &ops::kNxd, [](OutputOptions& options) { options.Set("tp", 4); });
  InspectRequest request{path, {}};
  request.hints.origin = "the options";
  request.hints.Set("tp", 8);
  ExpectError(Inspect(request), Errc::kUsage, "tp is 4 by the set's names and shapes");
}

TEST(InspectNxd, XserSetAndItsMainFile) {
  const Models models;
  const std::string path = models.Make("set", &ops::kNxd, [](OutputOptions& options) {
    options.Set("tp", 2);
    options.Set("pp", 2);
    options.Set("xser", true);
  });
  const Inspection inspection = InspectOk(path);
  ExpectFits(inspection);
  EXPECT_TRUE(FactsAs<NxdFacts>(inspection)->xser);
  EXPECT_EQ(FactsAs<NxdFacts>(inspection)->location.style, nxd::SetStyle::kV2Xser);
  EXPECT_EQ(FactsAs<NxdFacts>(inspection)->location.pp, 2);
  EXPECT_EQ(inspection.files, 4u + inspection.tensors);
  EXPECT_EQ(FileOf(inspection, {0, 0}),
            "model/dp_rank_00_tp_rank_00_pp_rank_00.pt.tensors/tensor_0.pt");

  const std::string main = path + "/model/dp_rank_00_tp_rank_01_pp_rank_01.pt";
  const Inspection resolved = InspectOk(main);
  EXPECT_EQ(resolved.form, "nxd_shard");
  EXPECT_THAT(resolved.description, HasSubstr("xser"));
  EXPECT_EQ(resolved.rank->tp, 1);
  EXPECT_EQ(resolved.rank->pp, 1);
  EXPECT_EQ(resolved.tensors, 21u);
  EXPECT_THAT(resolved.references, IsEmpty());
  EXPECT_THAT(resolved.layout.message, HasSubstr("one rank's file"));

  fs::remove(main + ".tensors/tensor_3.pt");
  const Inspection broken = InspectOk(main);
  EXPECT_EQ(broken.tensors, 0u);
  ASSERT_EQ(broken.references.size(), 21u);
  EXPECT_EQ(broken.references[3].file, "tensor_3.pt");
  EXPECT_THAT(broken.warnings, ElementsAre(HasSubstr("tensor_3.pt is missing")));
}

TEST(InspectNxd, WhatLiesBesideTheModel) {
  const Models models;
  const std::string path =
      models.Make("set", &ops::kNxd, [](OutputOptions& options) { options.Set("tp", 2); });
  fs::create_directories(path + "/optim");
  models.scratch().Write("set/optim/dp_rank_00_tp_rank_00_pp_rank_00.pt", std::string(700, 'x'));
  models.scratch().Write("set/user_content.pt", "abc");
  const Inspection inspection = InspectOk(path);
  ASSERT_EQ(FactsAs<NxdFacts>(inspection)->beside.size(), 2u);
  EXPECT_EQ(FactsAs<NxdFacts>(inspection)->beside[0].name, "optim/");
  EXPECT_EQ(FactsAs<NxdFacts>(inspection)->beside[0].bytes, 700u);
  EXPECT_EQ(FactsAs<NxdFacts>(inspection)->beside[1].name, "user_content.pt");
  EXPECT_EQ(FactsAs<NxdFacts>(inspection)->beside[1].bytes, 3u);
}

TEST(InspectNxd, OneShard) {
  const Models models;
  const std::string path =
      models.Make("set", &ops::kNxd, [](OutputOptions& options) { options.Set("tp", 4); });
  const Inspection inspection = InspectOk(path + "/model/dp_rank_00_tp_rank_03_pp_rank_00.pt");
  EXPECT_EQ(inspection.form, "nxd_shard");
  EXPECT_EQ(inspection.description, "one shard of an NxD training set");
  EXPECT_EQ(inspection.rank->tp, 3);
  EXPECT_EQ(inspection.tensors, 42u);
  EXPECT_EQ(inspection.layout.outcome, Outcome::kNotChecked);
}

TEST(InspectNxd, WithoutAConfigTheGridIsShown) {
  const Models models;
  const std::string path =
      models.Make("set", &ops::kNxd, [](OutputOptions& options) { options.Set("tp", 2); });
  fs::remove(path + "/config.json");
  const Inspection inspection = InspectOk(path);
  EXPECT_EQ(FactsAs<NxdFacts>(inspection)->location.tp, 2);
  EXPECT_FALSE(FactsAs<NxdFacts>(inspection)->geometry.has_value());
  EXPECT_EQ(inspection.layout.outcome, Outcome::kNotChecked);
  EXPECT_THAT(inspection.layout.message, HasSubstr("--config"));
  InputHints hints;
  hints.config = models.path("model");
  ExpectFits(InspectOk(path, hints));
}

TEST(InspectRollout, BothFlavors) {
  const Models models;
  const std::string optimum =
      models.Make("optimum", &ops::kRollout, [](OutputOptions& options) { options.Set("tp", 8); });
  const std::string blob = testing_util::CompiledBlob();
  models.scratch().Write("optimum/model.pt", blob);
  const Inspection inspection = InspectOk(optimum);
  EXPECT_EQ(inspection.form, "rollout");
  EXPECT_EQ(inspection.description, "rollout bundle of optimum-neuron");
  ExpectFits(inspection);
  const RolloutFacts& facts = *FactsAs<RolloutFacts>(inspection);
  EXPECT_EQ(facts.ranks, 8);
  EXPECT_EQ(facts.config->batch_size, 4);
  EXPECT_EQ(facts.config->sequence_length, 128);
  EXPECT_TRUE(facts.config->fused_qkv);
  EXPECT_EQ(facts.heads->strategy, models::GqaStrategy::kReplicateToTpDegree);
  EXPECT_EQ(facts.heads->padded_query, 8);
  EXPECT_EQ(facts.heads->padded_kv, 8);
  ASSERT_EQ(facts.blobs.size(), 1u);
  EXPECT_EQ(facts.blobs[0].name, "model.pt");
  EXPECT_EQ(facts.blobs[0].bytes, blob.size());

  const std::string nxdi = models.Make("nxdi", &ops::kRollout, [](OutputOptions& options) {
    options.Set("tp", 2);
    options.Set("flavor", Word(rollout::Flavor::kNxdi));
  });
  const Inspection other = InspectOk(nxdi);
  EXPECT_EQ(other.description, "rollout bundle of NxD Inference");
  ExpectFits(other);
  EXPECT_FALSE(FactsAs<RolloutFacts>(other)->config->fused_qkv);
  EXPECT_THAT(FactsAs<RolloutFacts>(other)->blobs, IsEmpty());

  const Inspection rank = InspectOk(nxdi + "/weights/tp1_sharded_checkpoint.safetensors");
  EXPECT_EQ(rank.form, "rollout_shard");
  EXPECT_EQ(rank.rank->tp, 1);
  EXPECT_EQ(rank.layout.outcome, Outcome::kNotChecked);

  // The folder of the shards alone.
  const Inspection bare = InspectOk(nxdi + "/weights");
  EXPECT_FALSE(FactsAs<RolloutFacts>(bare)->config.has_value());
  EXPECT_THAT(bare.description, HasSubstr("without neuron_config.json"));
}

// The programs that made it: the configuration's versions, the headers of the blob's graphs, the
// refresh.
TEST(InspectRollout, ShowsWhatMadeIt) {
  const Models models;
  const std::string path =
      models.Make("bundle", &ops::kRollout, [](OutputOptions& options) { options.Set("tp", 2); });
  const std::string neff = ReadBytes(NXDKIT_TESTDATA "/neff/toy.neff");
  models.scratch().Write("bundle/model.pt", ZipOf({{"model/data.pkl", "\x80\x02X" + neff + "."},
                                                   {"model/constants.pkl", "\x80\x02)."},
                                                   {"model/version", "3\n"}}));
  models.scratch().Write("bundle/checkpoint/weights/version.json",
                         rollout::WriteVersion({3, "step_120", "shards"}));
  const Inspection inspection = InspectOk(path);
  EXPECT_THAT(FactsAs<RolloutFacts>(inspection)->config->versions,
              ::testing::Contains(std::pair<std::string, std::string>("neuronxcc_version",
                                                                      "2.21.33363.0+82129205")));
  ASSERT_TRUE(FactsAs<RolloutFacts>(inspection)->weights);
  EXPECT_EQ(FactsAs<RolloutFacts>(inspection)->weights->serial, 3);
  ASSERT_EQ(inspection.neffs.size(), 1u);
  EXPECT_EQ(inspection.neffs[0].record, "model.pt: model/data.pkl");
  EXPECT_FALSE(inspection.neffs[0].listed);
  EXPECT_THAT(tool::SummaryText(inspection),
              AllOf(HasSubstr("versions    neuronxcc_version 2.21.33363.0+82129205, "
                              "optimum_neuron_version 0.4.6.dev4"),
                    HasSubstr("weights     version 3, step_120"),
                    HasSubstr("uuid 00010203-0405-0607-0809-0a0b0c0d0e0f")));
}

// A blob of another kind than its name implies hides nothing else.
TEST(InspectRollout, ABlobOfOtherBytesIsScannedAllTheSame) {
  const Models models;
  const std::string path =
      models.Make("bundle", &ops::kRollout, [](OutputOptions& options) { options.Set("tp", 2); });
  models.scratch().Write("bundle/model.pt",
                         "not a zip" + ReadBytes(NXDKIT_TESTDATA "/neff/toy.neff"));
  const Inspection inspection = InspectOk(path);
  ASSERT_EQ(inspection.neffs.size(), 1u);
  EXPECT_EQ(inspection.neffs[0].record, "model.pt");
  EXPECT_EQ(inspection.neffs[0].neff.offset, 9u);
  EXPECT_THAT(inspection.warnings,
              ElementsAre(HasSubstr("model.pt: it is not a whole TorchScript archive: ")));
}

TEST(InspectRollout, WarnsOfABlobThatIsNone) {
  const Models models;
  const std::string path =
      models.Make("bundle", &ops::kRollout, [](OutputOptions& options) { options.Set("tp", 2); });
  const auto warnings = [&](const std::string& bytes) {
    models.scratch().Write("bundle/model.pt", bytes);
    return InspectOk(path).warnings;
  };
  const std::string good = testing_util::CompiledBlob();
  EXPECT_THAT(warnings(good), IsEmpty());
  EXPECT_THAT(warnings(""), ElementsAre(HasSubstr("model.pt: it is empty")));
  EXPECT_THAT(warnings(good.substr(0, 900)),
              ElementsAre(HasSubstr("it is not a whole TorchScript")));
  EXPECT_THAT(warnings(testing_util::CompiledBlob("nothing")),
              ElementsAre(HasSubstr("no NEFF was found in it")));
}

TEST(InspectRollout, WithoutShards) {
  const Models models;
  const std::string path =
      models.Make("bundle", &ops::kRollout, [](OutputOptions& options) { options.Set("tp", 8); });
  fs::remove_all(path + "/checkpoint");
  const Inspection inspection = InspectOk(path);
  EXPECT_EQ(FactsAs<RolloutFacts>(inspection)->ranks, 0);
  EXPECT_EQ(inspection.tensors, 0u);
  EXPECT_EQ(inspection.layout.outcome, Outcome::kNotChecked);
  EXPECT_EQ(inspection.layout.message, "no tensors here");
}

TEST(InspectTorch, StateDict) {
  const Models models;
  const Inspection inspection =
      InspectOk(models.Make("model/weights.pt", &ops::kTorch, [](OutputOptions&) {}));
  EXPECT_EQ(inspection.form, "torch");
  EXPECT_EQ(inspection.description, "torch state dict");
  ExpectFits(inspection);  // config.json is next to it
}

TEST(InspectTorch, OptimizerIsListedByPath) {
  const Scratch scratch;
  const auto state = [](size_t first) {
    return PickleValue::MakeDict({{Text("step"), Number(3)},
                                  {Text("exp_avg"), Tensor(first)},
                                  {Text("exp_avg_sq"), Tensor(first + 1)}});
  };
  const PickleValue root = PickleValue::MakeDict(
      {{Text("base_state"), PickleValue::MakeDict({{Number(0), state(0)}, {Number(7), state(2)}})},
       {Text("param_groups"),
        PickleValue::MakeList({PickleValue::MakeDict({{Text("lr"), Tensor(4)}})})},
       {Text("epoch"), Number(3)}});
  const std::string path =
      scratch.Write("optim.pt", testing_util::TorchOf(root, {{"", Dtype::kF32, {2, 2}},
                                                             {"", Dtype::kF32, {2, 2}},
                                                             {"", Dtype::kF32, {5}},
                                                             {"", Dtype::kF32, {5}},
                                                             {"", Dtype::kF64, {}}}));
  const Inspection inspection = InspectOk(path);
  EXPECT_EQ(inspection.form, "torch_tree");
  EXPECT_EQ(inspection.description, "torch archive of a ZeRO-1 optimizer's state");
  EXPECT_THAT(Names(inspection),
              ElementsAre("base_state.0.exp_avg", "base_state.0.exp_avg_sq", "base_state.7.exp_avg",
                          "base_state.7.exp_avg_sq", "param_groups[0].lr"));
  EXPECT_THAT(inspection.entries, ElementsAre("epoch"));
  EXPECT_EQ(inspection.parameters, 19u);
  EXPECT_THAT(inspection.layout.message, HasSubstr("not a state dict"));
}

TEST(InspectTorch, WrappedStateDictKeepsItsNames) {
  const Scratch scratch;
  const PickleValue root = PickleValue::MakeDict(
      {{Text("model"), PickleValue::MakeDict({{Text("a.weight"), Tensor(0)}})},
       {Text("epoch"), Number(3)}});
  const Inspection inspection =
      InspectOk(scratch.Write("wrapped.pt", testing_util::TorchOf(root, {{"", Dtype::kF32, {2}}})));
  EXPECT_EQ(inspection.form, "torch");
  EXPECT_THAT(Names(inspection), ElementsAre("a.weight"));
  EXPECT_THAT(inspection.entries, ElementsAre("epoch"));
}

TEST(InspectTorch, OneBareTensor) {
  const Scratch scratch;
  const Inspection inspection = InspectOk(
      scratch.Write("tensor_5.pt", testing_util::TorchOf(Tensor(0), {{"", Dtype::kI64, {3}}})));
  EXPECT_EQ(inspection.form, "torch_tree");
  EXPECT_EQ(inspection.description, "torch archive of one tensor");
  EXPECT_THAT(Names(inspection), ElementsAre(""));
}

TEST(InspectTorch, ReferencesOfALoneMainFile) {
  const Scratch scratch;
  const PickleValue root =
      PickleValue::MakeDict({{Text("a"), Reference(0)}, {Text("b"), Reference(1)}});
  const Inspection inspection = InspectOk(
      scratch.Write("dp_rank_00_tp_rank_00_pp_rank_00.pt", testing_util::TorchOf(root, {})));
  EXPECT_EQ(inspection.form, "nxd_shard");
  ASSERT_EQ(inspection.references.size(), 2u);
  EXPECT_EQ(inspection.references[1].name, "b");
  EXPECT_EQ(inspection.references[1].file, "tensor_1.pt");
  EXPECT_THAT(inspection.warnings, ElementsAre(HasSubstr("the tensors cannot be shown")));
}

TEST(InspectTorch, TorchScriptSaysWhatItIs) {
  const Scratch scratch;
  const std::string path = scratch.Write(
      "model.pt", testing_util::ZipOf({{"model/data.pkl", "\x80\x02N."},
                                       {"model/code/__torch__.py", "import os  # never run"},
                                       {"model/constants.pkl", "\x80\x02)."},
                                       {"model/version", "3\n"}}));
  const Inspection inspection = InspectOk(path);
  EXPECT_EQ(inspection.form, "torchscript");
  EXPECT_THAT(inspection.description, HasSubstr("TorchScript archive"));
  ASSERT_EQ(inspection.records.size(), 4u);
  EXPECT_EQ(inspection.records[0].name, "model/code/__torch__.py");
  EXPECT_EQ(inspection.records[0].bytes, 22u);
  EXPECT_EQ(inspection.tensors, 0u);
  EXPECT_EQ(inspection.bytes, fs::file_size(path));
}

TEST(InspectTorch, MissingCrcIsAWarning) {
  const Models models;
  const std::string path = models.Make("m.pt", &ops::kTorch, [](OutputOptions&) {});
  std::string bytes = testing_util::ReadBytes(path);
  // The first data record's entry of the central directory: signature, 12 bytes, CRC.
  const size_t entry = bytes.find("PK\1\2", bytes.find("PK\1\2") + 4);
  ASSERT_NE(entry, std::string::npos);
  bytes.replace(entry + 16, 4, std::string(4, '\0'));
  models.scratch().Write("m.pt", bytes);
  EXPECT_THAT(InspectOk(path).warnings, ElementsAre(HasSubstr("records have no checksum (CRC 0)")));
}

TEST(Inspect, WhatIsNoArtifact) {
  const Scratch scratch;
  ExpectError(Inspect({scratch.Path("none"), {}}), Errc::kNotFound, "no such file or folder");
  ExpectError(Inspect({scratch.Write("notes.txt", "hello"), {}}), Errc::kUnsupported,
              "neither a safetensors file nor a torch archive");
  ExpectError(Inspect({scratch.folder(), {}}), Errc::kUnsupported, "no artifact recognised");
}

TEST(InspectSelect, FiltersAndTheLargest) {
  const Scratch scratch;
  const std::string path = scratch.Write(
      "some.safetensors", testing_util::SafetensorsOf({{"a.big", Dtype::kF32, {9}},
                                                       {"a.small", Dtype::kF32, {1}},
                                                       {"b.big", Dtype::kF32, {9}},
                                                       {"b.small", Dtype::kU8, {5}}}));
  const Inspection inspection = InspectOk(path);
  EXPECT_THAT(Names(inspection), ElementsAre("a.big", "a.small", "b.big", "b.small"));
  EXPECT_THAT(Names(inspection, {{"a.*"}, std::nullopt}), ElementsAre("a.big", "a.small"));
  EXPECT_THAT(Names(inspection, {{"a.b*", "?.small"}, std::nullopt}),
              ElementsAre("a.big", "a.small", "b.small"));
  EXPECT_THAT(Names(inspection, {{}, 3}), ElementsAre("a.big", "b.big", "b.small"));
  EXPECT_THAT(Names(inspection, {{"*small"}, 1}), ElementsAre("b.small"));
  EXPECT_THAT(Names(inspection, {{}, 0}), IsEmpty());
  EXPECT_THAT(Names(inspection, {{"none"}, std::nullopt}), IsEmpty());
}

// A valid file must not be slow: this took minutes with a linear look-up.
TEST(Inspect, HundredThousandTensors) {
  std::vector<OutputTensor> tensors;
  for (int i = 0; i < 100'000; ++i)
    tensors.push_back({"layers." + std::to_string(i) + ".weight", Dtype::kBF16, {2}});
  const Scratch scratch;
  const Inspection one =
      InspectOk(scratch.Write("many.safetensors", testing_util::SafetensorsOf(tensors)));
  EXPECT_EQ(one.tensors, 100'000u);
  EXPECT_EQ(one.parameters, 200'000u);
  const auto encoder = torch::EncodeStateDict(tensors, "many");
  ASSERT_TRUE(encoder.ok());
  const Inspection other = InspectOk(scratch.Write("many.pt", testing_util::ZeroBytes(**encoder)));
  EXPECT_EQ(other.tensors, 100'000u);
  EXPECT_EQ(Names(other, {{"layers.99999.*"}, std::nullopt}).size(), 1u);
}

}  // namespace
}  // namespace nxdkit::ops
