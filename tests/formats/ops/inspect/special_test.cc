// ckpt-inspect on artifacts without a whole model: compiled graphs, caches, adapters, optimizers,
// the folders of a trainer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "formats/kinds/delta/facts_delta.h"
#include "formats/kinds/nxd/facts_nxd.h"
#include "tests/formats/ops/inspect/inputs.h"
#include "tools/inspect/report.h"

namespace nxdkit::ops {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing_util::InspectOk;
using testing_util::Models;
using testing_util::Number;
using testing_util::ReadBytes;
using testing_util::SafetensorsOf;
using testing_util::Scratch;
using testing_util::Tensor;
using testing_util::TorchOf;
using testing_util::ZipOf;

std::string Toy() { return ReadBytes(NXDKIT_TESTDATA "/neff/toy.neff"); }
std::string Plain() { return ReadBytes(NXDKIT_TESTDATA "/neff/plain.neff"); }

std::string ProgramOf(const std::string& data) {
  return ZipOf(
      {{"model/data.pkl", data}, {"model/constants.pkl", "\x80\x02)."}, {"model/version", "3\n"}});
}

TEST(InspectNeff, FindsAllOfThemInACompiledModel) {
  const Scratch scratch;
  const std::string path =
      scratch.Write("model.pt", ProgramOf("\x80\x02X" + Toy() + "between" + Plain() + "."));
  const Inspection inspection = InspectOk(path);
  EXPECT_EQ(inspection.form, "torchscript");
  ASSERT_EQ(inspection.neffs.size(), 2u);
  for (const NeffFacts& facts : inspection.neffs) {
    EXPECT_EQ(facts.record, "model/data.pkl");
    EXPECT_EQ(facts.listing.members.size(), 5u);
    EXPECT_EQ(ReadBytes(path).substr(facts.neff.offset + 40, 10), "2.21.33363");
  }
  EXPECT_EQ(inspection.neffs[0].neff.header.package, 2u);
  EXPECT_EQ(inspection.neffs[1].neff.header.package, 1u);
  EXPECT_THAT(tool::SummaryText(inspection),
              AllOf(HasSubstr("built by 2.21.33363.0+82129205"), HasSubstr("sg00/def.json (64 B)"),
                    HasSubstr("uuid 10111213-1415-1617-1819-1a1b1c1d1e1f")));
}

// How much changed, and between which models; the base is not needed.
TEST(InspectDelta, SaysWhatItMakesOfWhat) {
  const Inspection inspection = InspectOk(NXDKIT_TESTDATA "/delta/ulp.delta");
  EXPECT_EQ(inspection.form, "delta");
  ASSERT_NE(FactsAs<DeltaFacts>(inspection), nullptr);
  const DeltaFacts& facts = *FactsAs<DeltaFacts>(inspection);
  EXPECT_EQ(facts.coding, delta::Coding::kUlp);
  EXPECT_GT(facts.changed, 0u);
  EXPECT_LT(facts.changed, facts.elements);
  EXPECT_NE(facts.base, facts.result);
  EXPECT_THAT(tool::SummaryText(inspection),
              AllOf(HasSubstr("coding ulp"), HasSubstr(facts.result)));
  const Scratch scratch;
  const auto cut = Inspect(
      {scratch.Write("x.delta", ReadBytes(NXDKIT_TESTDATA "/delta/raw.delta").substr(0, 100)),
       {},
       false,
       {}});
  ASSERT_FALSE(cut.ok());
  EXPECT_EQ(cut.error().code(), Errc::kCorrupt);
}

TEST(InspectNeff, AFileOfItsOwn) {
  const Inspection inspection = InspectOk(NXDKIT_TESTDATA "/neff/toy.neff");
  EXPECT_EQ(inspection.form, "neff");
  ASSERT_EQ(inspection.neffs.size(), 1u);
  EXPECT_FALSE(inspection.neffs[0].hash_matches.has_value()) << "nobody asked";
  EXPECT_EQ(inspection.layout.message, "compiled graphs hold no weights");
}

TEST(InspectNeff, HashesAreComparedWhenAsked) {
  const Scratch scratch;
  std::string bytes = Toy();
  InspectRequest request{scratch.Write("x.neff", bytes), {}, true, {}};
  EXPECT_EQ(Inspect(request)->neffs[0].hash_matches, true);
  bytes[1100] = static_cast<char>(bytes[1100] ^ 1);
  scratch.Write("x.neff", bytes);
  const auto damaged = Inspect(request);
  ASSERT_TRUE(damaged.ok());
  EXPECT_EQ(damaged->neffs[0].hash_matches, false);
  EXPECT_THAT(damaged->warnings, Contains(HasSubstr("does not have the hash of the header")));
}

TEST(InspectNeff, ADamagedHeaderIsNamed) {
  const Scratch scratch;
  const auto inspection = Inspect({scratch.Write("x.neff", Toy().substr(0, 1300)), {}, false, {}});
  ASSERT_FALSE(inspection.ok());
  EXPECT_EQ(inspection.error().code(), Errc::kCorrupt);
  EXPECT_EQ(inspection.error().offset(), 16u);
  EXPECT_THAT(inspection.error().message(), HasSubstr("data size 343 is past the end"));
}

TEST(InspectNeff, TextsOfTheFileAreEscaped) {
  const Scratch scratch;
  std::string bytes = Toy();
  bytes.replace(40, 6, "\x1b[31m\xff");  // inside "2.21.33363.0+82129205"
  const Inspection inspection = InspectOk(scratch.Write("x.neff", bytes));
  EXPECT_THAT(tool::SummaryText(inspection),
              AllOf(HasSubstr("\\x1b[31m\\xff"), Not(HasSubstr("\x1b"))));
  EXPECT_EQ(tool::SummaryJson(inspection)["neffs"][0]["build"], "\\x1b[31m\\xff3363.0+82129205");
}

TEST(InspectCache, CountsItsStates) {
  const Scratch scratch;
  const std::string entry = "cache/neuronxcc-2/MODULE_1+d41d8cd9/";
  fs::create_directories(scratch.Path(entry));
  scratch.Write(entry + "model.neff", Toy());
  scratch.Write(entry + "model.done", "");
  const Inspection inspection = InspectOk(scratch.Path("cache"));
  EXPECT_EQ(inspection.form, "compile_cache");
  EXPECT_THAT(tool::SummaryText(inspection),
              AllOf(HasSubstr("entries     1 (1.37 kB)"), HasSubstr("done        1 (1.37 kB)")));
  EXPECT_EQ(tool::SummaryJson(inspection)["cache"]["entries"][0]["state"], "done");
}

// The trees of the engines, recognised by their contents; also below the folder in their variables.
TEST(InspectCache, KnowsTheTreesOfTheEngines) {
  const Scratch scratch;
  const std::string key(32, 'a');
  fs::create_directories(scratch.Path("lite/neuron/compile_cache/" + key));
  scratch.Write("lite/neuron/compile_cache/" + key + "/graph_" + key + ".neff", Toy());
  fs::create_directories(scratch.Path("native/aa/aa"));
  scratch.Write("native/aa/aa/" + key + ".neff", Toy());
  const Inspection lite = InspectOk(scratch.Path("lite"));
  EXPECT_THAT(lite.description, HasSubstr("compile cache of vllm-neuron"));
  EXPECT_EQ(tool::SummaryJson(lite)["cache"]["entries"][0]["state"], "empty");  // no marker
  const Inspection native = InspectOk(scratch.Path("native"));
  EXPECT_THAT(native.description, HasSubstr("compile cache of torch-neuronx"));
  EXPECT_EQ(tool::SummaryJson(native)["cache"]["entries"][0]["state"], "done");
}

class InspectAdapter : public ::testing::Test {
 protected:
  InspectAdapter() {
    WriteConfig(R"({"peft_type": "LORA", "r": 4, "lora_alpha": 16,
                    "base_model_name_or_path": "org/base",
                    "target_modules": ["q_proj", "v_proj"]})");
  }
  void WriteConfig(const std::string& text) const { scratch_.Write("adapter_config.json", text); }
  void WriteTensors(Shape a, Shape b) const {
    scratch_.Write("adapter_model.safetensors",
                   SafetensorsOf({{"m.q_proj.lora_A.weight", Dtype::kF32, std::move(a)},
                                  {"m.q_proj.lora_B.weight", Dtype::kF32, std::move(b)}}));
  }
  const Scratch scratch_;
};

TEST_F(InspectAdapter, ShowsWhatItIs) {
  WriteTensors({4, 64}, {32, 4});
  const Inspection inspection = InspectOk(scratch_.folder());
  EXPECT_EQ(inspection.form, "lora_adapter");
  EXPECT_EQ(inspection.tensors, 2u);
  EXPECT_EQ(inspection.adapter->pairs, 1u);
  EXPECT_EQ(inspection.adapter->rank, 4);
  EXPECT_THAT(inspection.warnings, IsEmpty());
  EXPECT_THAT(tool::SummaryText(inspection),
              AllOf(HasSubstr("adapter     LORA, rank 4, alpha 16, 1 pair of A and B"),
                    HasSubstr("base model  org/base"), HasSubstr("targets     q_proj, v_proj")));
}

TEST_F(InspectAdapter, NamesPairsThatDoNotFit) {
  WriteTensors({4, 64}, {32, 8});
  EXPECT_THAT(InspectOk(scratch_.folder()).warnings,
              ElementsAre("m.q_proj.lora_A.weight [4, 64] and m.q_proj.lora_B.weight [32, 8] do "
                          "not multiply"));
  WriteTensors({8, 64}, {32, 8});
  EXPECT_THAT(InspectOk(scratch_.folder()).warnings,
              ElementsAre("m.q_proj.lora_A.weight has rank 8, adapter_config.json says 4"));
  scratch_.Write("adapter_model.safetensors",
                 SafetensorsOf({{"m.q_proj.lora_A.weight", Dtype::kF32, {4, 64}}}));
  EXPECT_THAT(InspectOk(scratch_.folder()).warnings,
              ElementsAre("m.q_proj.lora_A.weight has no m.q_proj.lora_B.weight"));
}

TEST_F(InspectAdapter, RanksFollowThePatterns) {
  WriteTensors({8, 64}, {32, 8});
  WriteConfig(R"({"peft_type": "LORA", "r": 4, "lora_alpha": 16, "target_modules": ["q_proj"],
                  "rank_pattern": {"(q|k)_proj": 8}})");
  const Inspection inspection = InspectOk(scratch_.folder());
  EXPECT_EQ(inspection.adapter->pairs, 1u);
  EXPECT_THAT(inspection.warnings, IsEmpty());
}

TEST_F(InspectAdapter, OtherKindsAreNamed) {
  scratch_.Write("adapter_model.safetensors",
                 SafetensorsOf({{"m.q_proj.ia3_l", Dtype::kF32, {32, 1}}}));
  WriteConfig(R"({"peft_type": "IA3", "target_modules": ["q_proj"], "feedforward_modules": []})");
  const Inspection inspection = InspectOk(scratch_.folder());
  EXPECT_EQ(inspection.form, "peft_adapter");
  EXPECT_EQ(inspection.description,
            "an adapter of PEFT of the kind IA3, which is not a LoRA adapter");
  ASSERT_EQ(inspection.warnings.size(), 1u);
  EXPECT_THAT(inspection.warnings.front(), HasSubstr("it cannot be merged"));
  EXPECT_THAT(inspection.warnings.front(), HasSubstr("merge_and_unload"));
}

TEST_F(InspectAdapter, OddValuesOfTheConfigAreNoFacts) {
  WriteTensors({4, 64}, {32, 4});
  WriteConfig(
      R"({"r": "four", "lora_alpha": null, "target_modules": "all-linear", "peft_type": 3})");
  const Inspection inspection = InspectOk(scratch_.folder());
  EXPECT_FALSE(inspection.adapter->rank.has_value());
  EXPECT_EQ(inspection.adapter->type, "");
  EXPECT_THAT(inspection.adapter->targets, ElementsAre("all-linear"));
  WriteConfig("{");
  const auto damaged = Inspect({scratch_.folder(), {}, false, {}});
  ASSERT_FALSE(damaged.ok());
  EXPECT_EQ(damaged.error().code(), Errc::kCorrupt);
  EXPECT_EQ(damaged.error().file(), scratch_.Path("adapter_config.json"));
}

TEST(InspectOptimizer, ShowsTheGridOfRanks) {
  const Inspection inspection = InspectOk(NXDKIT_TESTDATA "/nxd/v2/step_10/optim");
  EXPECT_EQ(inspection.form, "nxd_optimizer");
  EXPECT_EQ(inspection.optimizer->tp, 2);
  EXPECT_EQ(inspection.optimizer->dp, 1);
  EXPECT_EQ(inspection.optimizer->missing, 0u);
  EXPECT_TRUE(inspection.optimizer->zero1);
  EXPECT_EQ(inspection.tensors, 6u);
  EXPECT_EQ(inspection.artifact.ranks[1].tp_rank, 1);
}

TEST(InspectOptimizer, CountsMissingFiles) {
  const Scratch scratch;
  const std::string state =
      TorchOf(torch::PickleValue::MakeDict({{{std::string("step")}, Number(1)}}), {});
  fs::create_directory(scratch.Path("optim"));
  for (const char* name :
       {"dp_rank_00_tp_rank_00_pp_rank_00.pt", "dp_rank_03_tp_rank_01_pp_rank_00.pt"})
    scratch.Write(std::string("optim/") + name, state);
  const Inspection inspection = InspectOk(scratch.Path("optim"));
  EXPECT_EQ(inspection.optimizer->dp, 4);
  EXPECT_EQ(inspection.optimizer->missing, 6u);
  EXPECT_THAT(inspection.warnings, Contains("6 of the 8 files of dp 4, tp 2, pp 1 are missing"));
  scratch.Write("optim/dp_rank_1000000_tp_rank_1000000_pp_rank_1000000.pt", state);
  EXPECT_GT(InspectOk(scratch.Path("optim")).optimizer->missing, 1'000'000'000'000u);
}

TEST(InspectTrainer, AFolderOfOptimumNeuron) {
  const Models models;
  const std::string folder = models.path("checkpoint-20");
  fs::create_directory(folder);
  models.Make("checkpoint-20/shards", &ops::kNxd, [](OutputOptions& options) {
    options = OutputOptions();
    options.Set("tp", 2);
  });
  const auto write = [&](const std::string& name, const std::string& text) {
    models.scratch().Write("checkpoint-20/" + name, text);
  };
  write("trn_config.json", R"({"tensor_parallel_size": 2, "use_xser": false})");
  write("trainer_state.json", R"({"global_step": 20, "epoch": 0.5})");
  write("shards/mp_metadata_pp_rank_0.json",
        R"({"parameters": {}, "model_weight_transformation_specs": []})");
  const Inspection inspection = InspectOk(folder);
  EXPECT_EQ(inspection.form, "nxd");
  EXPECT_EQ(FactsAs<NxdFacts>(inspection)->location.tag, "shards");
  EXPECT_EQ(inspection.layout.outcome, LayoutCheck::Outcome::kFits);
  ASSERT_TRUE(inspection.trainer.has_value());
  EXPECT_EQ(inspection.trainer->step, 20);
  EXPECT_THAT(inspection.trainer->metadata, ElementsAre("mp_metadata_pp_rank_0.json"));
  EXPECT_THAT(tool::SummaryText(inspection),
              AllOf(HasSubstr("trainer     step 20, epoch 0.5"),
                    HasSubstr("trn_config  tensor_parallel_size 2, use_xser false")));
  write("trainer_state.json", "[");
  EXPECT_THAT(InspectOk(folder).warnings, Contains(HasSubstr("trainer_state.json")));
}

TEST(InspectEpoch, CheckpointsOfATrainingLoop) {
  const Scratch scratch;
  const std::string bytes =
      TorchOf(torch::PickleValue::MakeDict(
                  {{{std::string("epoch")}, Number(3)},
                   {{std::string("model")},
                    torch::PickleValue::MakeDict({{{std::string("w")}, Tensor(0)}})}}),
              {{"w", Dtype::kF32, {2, 2}}});
  const Inspection inspection = InspectOk(scratch.Write("checkpoint_epoch_3.pt", bytes));
  EXPECT_THAT(inspection.description, HasSubstr("checkpoint of epoch 3"));
  EXPECT_EQ(inspection.tensors, 1u);
  for (const char* name :
       {"checkpoint_epoch_.pt", "checkpoint_epoch_3x.pt", "checkpoint_epoch_-1.pt"})
    EXPECT_THAT(InspectOk(scratch.Write(name, bytes)).description, Not(HasSubstr("epoch")));
}

}  // namespace
}  // namespace nxdkit::ops
