// Damaged checkpoints of DeepSpeed and Megatron-Core.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "formats/kinds/open.h"
#include "formats/kinds/table.h"
#include "tests/formats/foreign/mutate.h"
#include "tests/formats/foreign/stored_runs.h"
#include "tests/formats/scratch.h"
#include "tests/lib/expect_error.h"

namespace nxdkit {
namespace {

namespace fs = std::filesystem;
using artifact::InputHints;
using testing_util::ExpectError;
using testing_util::MutatePickle;
using testing_util::ReadBytes;
using testing_util::ReplaceInPickle;
using testing_util::Scratch;
using testing_util::Unpacked;

const std::string kZeroRuns = NXDKIT_TESTDATA "/zero/fixtures.tar.zst";
const std::string kMegatronRuns = NXDKIT_TESTDATA "/megatron/fixtures.tar.zst";

InputHints WithState() {
  InputHints hints;
  hints.optimizer = true;
  return hints;
}

// A copy of a stored run, to be changed.
class Damaged : public ::testing::Test {
 protected:
  const std::string& Copy(const std::string& archive, const std::string& name) {
    path_ = scratch_.Path("run");
    fs::copy(Unpacked(archive) + "/" + name, path_, fs::copy_options::recursive);
    return path_;
  }
  const std::string& CopyZero(const std::string& name) { return Copy(kZeroRuns, name); }
  const std::string& CopyMegatron(const std::string& name) { return Copy(kMegatronRuns, name); }

  std::string In(const std::string& name) const { return path_ + "/" + name; }
  std::string InTag(const std::string& name) const { return In("global_step2/" + name); }
  static std::string Optimizer(int rank, const char* dtype = "bf16_") {
    return dtype + std::string("zero_pp_rank_") + std::to_string(rank) +
           "_mp_rank_00_optim_states.pt";
  }

  void Change(const std::string& name, std::string_view from, std::string_view to) {
    std::string bytes = ReadBytes(In(name));
    ReplaceInPickle(bytes, from, to);
    fs::permissions(In(name), fs::perms::owner_write, fs::perm_options::add);
    scratch_.Write("run/" + name, bytes);
  }

  static std::string Renamed(std::string bytes, std::string_view from, std::string_view to) {
    EXPECT_EQ(from.size(), to.size());
    for (size_t at = bytes.find(from); at != bytes.npos; at = bytes.find(from, at + to.size()))
      bytes.replace(at, to.size(), to);
    return bytes;
  }

  Result<artifact::BoundArtifact> Bind(const InputHints& hints = WithState()) const {
    return kinds::OpenAndBind(path_, nullptr, hints);
  }

  Scratch scratch_;
  std::string path_;
};

using ZeroDamaged = Damaged;
using MegatronDamaged = Damaged;

TEST_F(ZeroDamaged, ARankThatIsMissingIsNamed) {
  CopyZero("stage2-bf16-3");
  fs::remove(InTag(Optimizer(1)));
  ExpectError(Bind(), Errc::kNotFound, "1 of 3 ranks has no optimizer's file: 1");
  // The weights are whole in the model's file.
  const auto weights = Bind({});
  ASSERT_TRUE(weights.ok()) << weights.error().ToString();
  EXPECT_THAT(weights->artifact.warnings,
              ::testing::Contains(::testing::HasSubstr("1 of 3 ranks has no optimizer's file")));
}

TEST_F(ZeroDamaged, WithoutOneOfItsRanksThereIsNoModelInStage3) {
  CopyZero("stage3-bf16-3");
  fs::remove(InTag(Optimizer(2)));
  ExpectError(Bind({}), Errc::kNotFound, "1 of 3 ranks has no optimizer's file: 2");
}

TEST_F(ZeroDamaged, ARankThatIsThereTwiceIsFound) {
  CopyZero("stage2-bf16-3");
  fs::copy_file(InTag(Optimizer(0)), InTag(Optimizer(1)), fs::copy_options::overwrite_existing);
  const auto error = ExpectError(Bind(), Errc::kCorrupt,
                                 "saved as bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->rank(), 1);
}

// Its archive claims to be the other rank's; the values show the difference.
TEST_F(ZeroDamaged, ARankThatWasSavedAnewAsAnotherIsFound) {
  for (const char* name : {"stage2-bf16-3", "stage3-bf16-3"}) {
    CopyZero(name);
    const std::string bytes = Renamed(ReadBytes(InTag(Optimizer(0))), "rank_0_mp", "rank_1_mp");
    fs::permissions(InTag(Optimizer(1)), fs::perms::owner_write, fs::perm_options::add);
    scratch_.Write("run/global_step2/" + Optimizer(1), bytes);
    ExpectError(Bind(), Errc::kCorrupt, "ranks 0 and 1 have the same master weights");
    fs::remove_all(path_);
  }
}

TEST_F(ZeroDamaged, AParameterWithoutItsFolderIsNamed) {
  CopyZero("stage2-bf16-3-universal");
  fs::remove_all(In("global_step2_universal/zero/model.norm.weight"));
  const auto error = ExpectError(Bind({}), Errc::kCorrupt, "there is no folder for it in zero");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->tensor(), "model.norm.weight");
}

TEST_F(ZeroDamaged, APartOfTheStateThatIsLostIsNamed) {
  CopyZero("stage2-bf16-3-universal");
  fs::remove(In("global_step2_universal/zero/model.norm.weight/exp_avg_sq.pt"));
  const auto error = ExpectError(Bind(), Errc::kCorrupt, "the optimizer has no exp_avg_sq");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->tensor(), "model.norm.weight");
}

TEST_F(ZeroDamaged, OneFileOfSeveralRanksIsNoModel) {
  CopyZero("stage3-bf16-3");
  const auto error = ExpectError(
      kinds::OpenAndBind(InTag("zero_pp_rank_0_mp_rank_00_model_states.pt"), nullptr, {}),
      Errc::kUnsupported, "one file of several ranks of a DeepSpeed checkpoint");
  ASSERT_TRUE(error);
  EXPECT_THAT(error->hint(), ::testing::HasSubstr("global_step2"));
}

TEST_F(ZeroDamaged, AFileOfAnotherRunsWorldIsPassedOverWithAWord) {
  CopyZero("stage2-bf16-3");
  fs::copy_file(InTag(Optimizer(0)), InTag(Optimizer(7)));
  const auto bound = Bind();
  ASSERT_TRUE(bound.ok()) << bound.error().ToString();
  EXPECT_THAT(bound->artifact.warnings, ::testing::Contains(::testing::HasSubstr(
                                            "bf16_zero_pp_rank_7_mp_rank_00_optim_states.pt is "
                                            "not read: the others are of a run of 3 ranks")));
}

TEST_F(ZeroDamaged, RanksOfAnotherModelDoNotAddUp) {
  CopyZero("stage2-bf16-3");
  for (int rank = 0; rank < 3; ++rank)
    fs::copy_file(Unpacked(kZeroRuns) + "/stage2-bf16-3-odd/global_step2/" + Optimizer(rank),
                  InTag(Optimizer(rank)), fs::copy_options::overwrite_existing);
  ExpectError(Bind(), Errc::kCorrupt, "param_alignment_paddings has 2 numbers for the 14");
}

TEST_F(ZeroDamaged, WithoutParamShapesNothingIsGuessed) {
  CopyZero("stage2-bf16-3");
  Change("global_step2/mp_rank_00_model_states.pt", "param_shapes", "param_shapez");
  const auto error = ExpectError(Bind(), Errc::kCorrupt, "there is no param_shapes");
  ASSERT_TRUE(error);
  EXPECT_THAT(error->file(), ::testing::HasSubstr("mp_rank_00_model_states.pt"));
}

TEST_F(ZeroDamaged, ATagThatIsNotThereIsNamedWithThoseThatAre) {
  CopyZero("stage2-bf16-3");
  fs::permissions(In("latest"), fs::perms::owner_write, fs::perm_options::add);
  scratch_.Write("run/latest", "global_step9");
  const auto error = ExpectError(Bind(), Errc::kNotFound, "latest names the tag global_step9");
  ASSERT_TRUE(error);
  EXPECT_THAT(error->hint(), ::testing::HasSubstr("global_step2"));
  InputHints hints;
  hints.Set("tag", std::string("2"));
  EXPECT_TRUE(Bind(hints).ok());
}

TEST_F(ZeroDamaged, AFunctionThatRunsCodeIsRefusedByName) {
  CopyZero("stage2-bf16-3-odd");
  Change("global_step2/mp_rank_00_model_states.pt", "cargparse\nNamespace\n",
         "csubprocess\nPopenXX\n");
  const auto error = ExpectError(Bind({}), Errc::kUnsupported,
                                 "asks for subprocess.PopenXX, with which loading it would run");
  ASSERT_TRUE(error);
  EXPECT_TRUE(error->offset());
}

TEST_F(ZeroDamaged, ExpertsAndPipelinesAreRefusedByName) {
  CopyZero("stage2-bf16-3");
  scratch_.Write("run/global_step2/layer_0_expert_3_mp_rank_00_model_states.pt", "x");
  ExpectError(Bind({}), Errc::kUnsupported, "experts of DeepSpeed-MoE");
  fs::remove(InTag("layer_0_expert_3_mp_rank_00_model_states.pt"));
  scratch_.Write("run/global_step2/layer_03-model_00-model_states.pt", "x");
  ExpectError(Bind({}), Errc::kUnsupported, "a pipeline of DeepSpeed");
}

TEST_F(MegatronDamaged, AConfigurationThatTheRunContradictsIsNamedWithBothNumbers) {
  CopyMegatron("llama-tp2-pp2");
  std::string config = ReadBytes(In("config.json"));
  const size_t at = config.find("\"num_hidden_layers\": 4");
  ASSERT_NE(at, std::string::npos);
  config.replace(at, 22, "\"num_hidden_layers\": 2");
  InputHints hints;
  hints.config = scratch_.Write("other.json", config);
  const auto error = ExpectError(Bind(hints), Errc::kCorrupt, "num_layers of the run is 4, but ");
  ASSERT_TRUE(error);
  EXPECT_THAT(error->file(), ::testing::EndsWith("common.pt"));
  EXPECT_THAT(error->message(), ::testing::HasSubstr("other.json says 2"));
}

TEST_F(MegatronDamaged, ASaveThatDidNotEndIsPassedOver) {
  CopyMegatron("llama-tp1");
  fs::copy(In("iter_0000002"), In("iter_0000004"), fs::copy_options::recursive);
  fs::remove(In("iter_0000004/metadata.json"));
  fs::permissions(In("latest_checkpointed_iteration.txt"), fs::perms::owner_write,
                  fs::perm_options::add);
  scratch_.Write("run/latest_checkpointed_iteration.txt", "4");
  const auto bound = Bind({});
  ASSERT_TRUE(bound.ok()) << bound.error().ToString();
  EXPECT_THAT(bound->artifact.warnings,
              ::testing::Contains(::testing::HasSubstr(
                  "names 4, which is not whole; iter_0000002, the newest that is whole")));
}

TEST_F(MegatronDamaged, AFileOfARankThatIsMissingIsNamed) {
  CopyMegatron("llama-tp2-pp2");
  fs::remove(In("iter_0000002/__2_0.distcp"));
  const auto error = ExpectError(Bind({}), Errc::kCorrupt, "");
  ASSERT_TRUE(error);
  EXPECT_THAT(error->ToString(), ::testing::HasSubstr("__2_0.distcp"));
}

TEST_F(MegatronDamaged, AnOptimizerOfAnotherFormIsNotLeftOutUnseen) {
  CopyMegatron("qwen3-dp2-plain");
  const std::string metadata = "iter_0000002/.metadata";
  fs::permissions(In(metadata), fs::perms::owner_write, fs::perm_options::add);
  scratch_.Write("run/" + metadata,
                 Renamed(ReadBytes(In(metadata)), "optimizer.state.", "optimizer.stale."));
  ExpectError(Bind(), Errc::kUnsupported, "the optimizer's state has a form that is not supported");
  EXPECT_TRUE(Bind({}).ok());
}

TEST_F(MegatronDamaged, AVocabularyThatIsTooSmallIsNamedWithBothNumbers) {
  CopyMegatron("llama-tp1");
  std::string config = ReadBytes(In("config.json"));
  const size_t at = config.find("\"vocab_size\": 101");
  ASSERT_NE(at, std::string::npos);
  config.replace(at, 17, "\"vocab_size\": 90 ");
  InputHints hints;
  hints.config = scratch_.Write("other.json", config);
  ExpectError(Bind(hints), Errc::kCorrupt, "vocab_size of the run is 101, but ");
}

TEST_F(MegatronDamaged, OtherFormsAreRefusedByName) {
  CopyMegatron("llama-tp1");
  fs::permissions(In("iter_0000002/metadata.json"), fs::perms::owner_write, fs::perm_options::add);
  scratch_.Write("run/iter_0000002/metadata.json", R"({"sharded_backend": "zarr"})");
  ExpectError(Bind({}), Errc::kUnsupported, "Megatron's form \"zarr\", expected torch_dist");
}

// Weights with other masters than their own: the buckets' order is not trusted.
TEST_F(MegatronDamaged, BucketsOfOtherWeightsAreNotGuessed) {
  CopyMegatron("qwen3-pp2-dp2-buckets");
  InputHints hints = WithState();
  auto sound = Bind(hints);
  ASSERT_TRUE(sound.ok()) << sound.error().ToString();
  const auto master = std::ranges::find_if(sound->bound.stored, [](const StoredTensor& stored) {
    return stored.name == "optimizer.state.model.norm.weight.sharded_master_weights";
  });
  ASSERT_NE(master, sound->bound.stored.end());
  // Inside the archive of the chunk: its checksum is not compared when a few elements are read.
  const std::string path = master->storage->path();
  const uint64_t at = master->storage->file_offset() + master->offset;
  std::string bytes = ReadBytes(path);
  bytes[at + 3] = static_cast<char>(bytes[at + 3] ^ 0x40);
  fs::permissions(path, fs::perms::owner_write, fs::perm_options::add);
  std::ofstream(path, std::ios::binary) << bytes;
  ExpectError(
      Bind(hints), Errc::kUnsupported,
      "by their values, the optimizer's flat buckets are not the parameters in any known order");
}

// --- mutations

struct MutationCount {
  int read = 0;
  int refused = 0;
};

// Every file of a run is changed in turn; it must be refused, or read to its end.
MutationCount MutateRun(const std::string& archive, const std::string& name, int count,
                        uint32_t seed, std::string_view end) {
  const Scratch scratch;
  const std::string run = scratch.Path("run");
  fs::copy(Unpacked(archive) + "/" + name, run, fs::copy_options::recursive);
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(run))
    if (entry.is_regular_file() && entry.path().string().ends_with(end))
      files.push_back(entry.path());
  std::ranges::sort(files);
  std::mt19937 random(seed);
  MutationCount counted;
  for (int i = 0; i < count; ++i) {
    const std::string& file = files[random() % files.size()];
    fs::permissions(file, fs::perms::owner_write, fs::perm_options::add);
    const std::string sound = ReadBytes(file);
    std::string changed = sound;
    MutatePickle(changed, random);
    std::ofstream(file, std::ios::binary) << changed;
    const auto bound =
        kinds::OpenAndBind(run, nullptr, random() % 4 == 0 ? InputHints() : WithState());
    const bool read = bound.ok() && testing_util::DigestsOf(*bound).ok();
    ++(read ? counted.read : counted.refused);
    if (!bound.ok()) {
      EXPECT_NE(bound.error().code(), Errc::kInternal) << bound.error().ToString();
    }
    std::ofstream(file, std::ios::binary) << sound;
  }
  return counted;
}

TEST(ZeroMutations, AThousandAreReadOrRefused) {
  for (const char* name : {"stage2-bf16-3-odd", "stage3-f32-3-odd", "stage1-f32-2"}) {
    const MutationCount counted = MutateRun(kZeroRuns, name, 350, 36, ".pt");
    EXPECT_GT(counted.refused, 100) << name;
    EXPECT_GT(counted.read, 10) << name;
  }
}

TEST(MegatronMutations, AThousandAreReadOrRefused) {
  for (const char* end : {".metadata", ".pt", ".distcp"}) {
    const MutationCount counted = MutateRun(kMegatronRuns, "qwen3-pp2-dp2-buckets", 200, 36, end);
    EXPECT_GT(counted.refused, 20) << end;
    MutateRun(kMegatronRuns, "qwen3-tp2-dp2-flat-0.13", 200, 37, end);
  }
}

}  // namespace
}  // namespace nxdkit
