// Reading the structure of real sets (testdata/nxd), whole and damaged.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "formats/nxd/shard_set.h"
#include "tests/formats/scratch.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::nxd {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_util::ExpectError;

std::string Source(const std::string& name) {
  return std::string(NXDKIT_TESTDATA) + "/nxd/" + name;
}

// A copy of one of the sets, to be damaged.
class Copy {
 public:
  explicit Copy(const std::string& name) {
    fs::copy(Source(name), Path(""), fs::copy_options::recursive);
  }
  std::string Path(const std::string& name) const { return scratch_.Path("set") + "/" + name; }

 private:
  testing_util::Scratch scratch_;
};

Result<ShardSet> ReadAt(const std::string& path) {
  NXDKIT_ASSIGN(SetLocation location, Locate(path, std::nullopt));
  return Read(std::move(location));
}

ShardSet Good(const std::string& path) {
  Result<ShardSet> set = ReadAt(path);
  EXPECT_TRUE(set.ok()) << set.error().ToString();
  return set.ok() ? *std::move(set) : ShardSet();
}

std::vector<std::string> NamesOf(const Shard& shard) {
  std::vector<std::string> names;
  for (const StoredTensor& tensor : shard.tensors.tensors) names.push_back(tensor.name);
  return names;
}

std::string BytesOf(const StoredTensor& tensor) {
  std::string bytes(tensor.storage->bytes(), '\0');
  EXPECT_TRUE(tensor.storage->ReadAt(0, std::as_writable_bytes(std::span(bytes))).ok());
  return bytes;
}

const char* const kMain = "step_10/model/dp_rank_00_tp_rank_00_pp_rank_00.pt";

// xser is the same set with the tensors in files of their own.
TEST(Read, ReferencesGiveTheSameTensorsInTheSameOrder) {
  const ShardSet plain = Good(Source("v2"));
  const ShardSet xser = Good(Source("v2-xser"));
  EXPECT_EQ(SetStyleName(xser.location.style), "v2 xser");
  ASSERT_EQ(plain.shards.size(), 2u);
  ASSERT_EQ(xser.shards.size(), 2u);
  for (size_t s = 0; s < 2; ++s) {
    const auto& a = plain.shards[s].tensors.tensors;
    const auto& b = xser.shards[s].tensors.tensors;
    EXPECT_EQ(NamesOf(plain.shards[s]), NamesOf(xser.shards[s]));
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].shape, b[i].shape) << a[i].name;
      EXPECT_EQ(a[i].strides, b[i].strides) << a[i].name;
      EXPECT_EQ(BytesOf(a[i]), BytesOf(b[i])) << a[i].name;
    }
  }
}

TEST(Read, FileBytesCountTheTensorsFilesToo) {
  const ShardSet set = Good(Source("v2-xser"));
  uint64_t bytes = fs::file_size(Source("v2-xser/") + kMain);
  for (const auto& entry : fs::directory_iterator(Source("v2-xser/") + kMain + ".tensors"))
    bytes += entry.file_size();
  EXPECT_EQ(set.shards[0].tensors.file_bytes, bytes);
}

TEST(Read, ColumnMajorTensorsKeepTheirStrides) {
  const ShardSet set = Good(Source("v2"));
  for (const StoredTensor& tensor : set.shards.at(0).tensors.tensors) {
    if (!tensor.name.ends_with("o_proj.weight")) continue;
    EXPECT_EQ(tensor.shape, (Shape{8, 8}));
    EXPECT_EQ(tensor.strides, (Shape{1, 8}));
    return;
  }
  FAIL() << "no o_proj";
}

TEST(Read, WrappedStateDictsAreUnwrappedAndTheRestIsNamed) {
  const ShardSet v1 = Good(Source("v1"));
  EXPECT_EQ(NamesOf(v1.shards[0])[1], "model.layers.0.self_attn.q_proj.weight");
  EXPECT_THAT(v1.skipped, ElementsAre("epoch", "global_step", "scheduler"));
  const ShardSet lightning = Good(Source("v1-xser/epoch=0-step=10.ckpt"));
  EXPECT_EQ(SetStyleName(lightning.location.style), "v1 xser");
  EXPECT_EQ(NamesOf(lightning.shards[0])[1], "model.layers.0.self_attn.qkv_proj.weight_qkv");
  EXPECT_THAT(lightning.skipped, ElementsAre("epoch", "global_step", "pytorch-lightning_version"));
}

TEST(Read, AnEmptyRankOfAnExpertSetIsWhole) {
  const ShardSet set = Good(Source("ep"));
  ASSERT_EQ(set.shards.size(), 2u);
  EXPECT_GT(set.shards[0].tensors.tensors.size(), 5u);
  EXPECT_THAT(set.shards[1].tensors.tensors, IsEmpty());
}

TEST(Read, NnmNamesBecomeThoseOfNxdt) {
  const ShardSet set = Good(Source("nnm"));
  EXPECT_EQ(SetStyleName(set.location.style), "NeMo Megatron (NNM)");
  EXPECT_EQ(set.location.pp, 2);
  for (const Shard& shard : set.shards) {
    const std::vector<std::string> names = NamesOf(shard);
    const std::string layer = fmt::format("language_model.encoder.layers.{}.", shard.file.pp);
    EXPECT_THAT(names, ::testing::Contains(layer + "self_attention.key_value.weight"));
    for (const std::string& name : names) {
      if (name.find("layers.") == std::string::npos) continue;
      EXPECT_THAT(name, ::testing::StartsWith(layer)) << "pp " << shard.file.pp;
    }
  }
  EXPECT_THAT(NamesOf(set.shards[0]),
              ::testing::Contains("language_model.embedding.word_embeddings.weight"));
  EXPECT_THAT(NamesOf(set.shards[1]),
              ::testing::Contains("language_model.encoder.final_layernorm.weight"));
}

TEST(Inline, TensorsBesideAnEmptyFolder) {
  const Copy copy("v2");
  for (const char* rank : {"00", "01"})
    fs::create_directory(
        copy.Path(fmt::format("step_10/model/dp_rank_00_tp_rank_{}_pp_rank_00.pt.tensors", rank)));
  const ShardSet set = Good(copy.Path(""));
  EXPECT_EQ(SetStyleName(set.location.style), "v2 inline xser");
  EXPECT_EQ(NamesOf(set.shards[1]), NamesOf(Good(Source("v2")).shards[1]));
}

TEST(Xser, NeedsNoInfoFile) {
  const Copy copy("v2-xser");
  fs::remove(copy.Path(std::string(kMain) + ".info.pt"));
  EXPECT_EQ(NamesOf(Good(copy.Path("")).shards[0]), NamesOf(Good(Source("v2")).shards[0]));
}

TEST(Xser, AMissingTensorFileIsNamed) {
  const Copy copy("v2-xser");
  fs::remove(copy.Path(std::string(kMain) + ".tensors/tensor_3.pt"));
  const auto error =
      ExpectError(ReadAt(copy.Path("")), Errc::kCorrupt, "the tensor file tensor_3.pt is missing");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->tensor(), "model.layers.0.self_attn.qkv_proj.weight_v");
  EXPECT_TRUE(fs::equivalent(error->file(), copy.Path(std::string(kMain) + ".tensors")));
  EXPECT_EQ(error->rank(), 0);
}

TEST(Xser, AMissingFolderIsNamed) {
  const Copy copy("v1-xser");
  fs::remove_all(copy.Path("epoch=0-step=10.ckpt/tp_rank_01_pp_rank_00.tensors"));
  const auto error =
      ExpectError(ReadAt(copy.Path("epoch=0-step=10.ckpt")), Errc::kCorrupt,
                  "the tensors are in a folder tp_rank_01_pp_rank_00.tensors next to this file, "
                  "which is missing");
  ASSERT_TRUE(error);
  EXPECT_TRUE(
      fs::equivalent(error->file(), copy.Path("epoch=0-step=10.ckpt/tp_rank_01_pp_rank_00")));
  EXPECT_EQ(error->rank(), 1);
}

TEST(Xser, WeightsThatWereLeftOutAreSaidToBeInTheOptimizer) {
  for (const bool with_info : {true, false}) {
    const Copy copy("v2-xser");
    for (const char* rank : {"00", "01"}) {
      const std::string main =
          copy.Path(fmt::format("step_10/model/dp_rank_00_tp_rank_{}_pp_rank_00.pt", rank));
      fs::remove_all(main + ".tensors");
      fs::create_directory(main + ".tensors");
      if (!with_info) fs::remove(main + ".info.pt");
    }
    const auto error = ExpectError(ReadAt(copy.Path("")), Errc::kUnsupported,
                                   "avoid_saving_lower_precision_weights");
    ASSERT_TRUE(error);
    EXPECT_THAT(error->hint(), HasSubstr("sharded_master_weights"));
  }
}

TEST(Xser, ATensorFileThatHoldsSomethingElseIsRefused) {
  const Copy copy("v2-xser");
  const std::string path = copy.Path(std::string(kMain) + ".tensors/tensor_0.pt");
  fs::copy_file(copy.Path(kMain), path, fs::copy_options::overwrite_existing);
  const auto error = ExpectError(ReadAt(copy.Path("")), Errc::kCorrupt,
                                 "the archive does not hold exactly one tensor");
  ASSERT_TRUE(error);
  EXPECT_TRUE(fs::equivalent(error->file(), path));
  EXPECT_EQ(error->tensor(), "model.embed_tokens.weight");
}

TEST(Xser, ADamagedTensorFileIsNamed) {
  const Copy copy("v2-xser");
  const std::string path = copy.Path(std::string(kMain) + ".tensors/tensor_1.pt");
  fs::resize_file(path, 100);
  const Result<ShardSet> set = ReadAt(copy.Path(""));
  ASSERT_FALSE(set.ok());
  EXPECT_EQ(set.error().code(), Errc::kCorrupt) << set.error().ToString();
  EXPECT_TRUE(fs::equivalent(set.error().file(), path)) << set.error().ToString();
}

// Expert parallel ranks above 0 have the references of all tensors and the files of their experts.
TEST(Xser, TensorsOfOtherExpertRanksAreFoundInRank0) {
  const Copy copy("v2-xser");
  const std::string model = copy.Path("step_10/model/");
  const std::string rank0 = model + "dp_rank_00_ep_rank_00_tp_rank_00_pp_rank_00.pt";
  const std::string rank1 = model + "dp_rank_00_ep_rank_01_tp_rank_00_pp_rank_00.pt";
  fs::rename(copy.Path(kMain), rank0);
  fs::rename(copy.Path(std::string(kMain) + ".tensors"), rank0 + ".tensors");
  fs::rename(copy.Path(std::string(kMain) + ".info.pt"), rank0 + ".info.pt");
  fs::copy_file(rank0, rank1);
  fs::create_directory(rank1 + ".tensors");
  for (const auto& entry : std::set<fs::path>(fs::directory_iterator(model), {}))
    if (entry.string().find("tp_rank_01") != std::string::npos) fs::remove_all(entry);
  const ShardSet set = Good(copy.Path(""));
  EXPECT_EQ(set.location.ep, 2);
  ASSERT_EQ(set.shards.size(), 2u);
  EXPECT_EQ(NamesOf(set.shards[0]), NamesOf(set.shards[1]));
  EXPECT_EQ(BytesOf(set.shards[0].tensors.tensors[0]), BytesOf(set.shards[1].tensors.tensors[0]));
}

TEST(Optimizer, IsRefusedByItsContentsToo) {
  const Copy copy("v2");
  fs::remove_all(copy.Path("step_10/model"));
  fs::rename(copy.Path("step_10/optim"), copy.Path("step_10/model"));
  const auto error = ExpectError(ReadAt(copy.Path("")), Errc::kUnsupported,
                                 "the archive holds the state of an optimizer (param_groups)");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->member(), "data.pkl");
  EXPECT_EQ(error->rank(), 0);
}

TEST(Read, AnArchiveWithoutTensorsIsRefused) {
  const Copy copy("v2");
  fs::copy_file(copy.Path("step_10/scheduler.pt"), copy.Path(kMain),
                fs::copy_options::overwrite_existing);
  const auto error = ExpectError(ReadAt(copy.Path("")), Errc::kCorrupt,
                                 "the archive holds no dictionary of tensors");
  ASSERT_TRUE(error);
  EXPECT_TRUE(fs::equivalent(error->file(), copy.Path(kMain)));
}

// More ranks than a process may keep open: the shards are reopened when they are read.
TEST(Read, HundredsOfRanksAreReadWithFewFilesOpen) {
  const testing_util::Scratch scratch;
  // Links do not go over file systems.
  const Copy copy("v2");
  for (int t = 0; t < 600; ++t)
    fs::create_hard_link(copy.Path(kMain),
                         scratch.Path(fmt::format("dp_rank_00_tp_rank_{:02d}_pp_rank_00.pt", t)));
  const ShardSet set = Good(scratch.folder());
  ASSERT_EQ(set.shards.size(), 600u);
  const auto open_files = std::distance(fs::directory_iterator("/proc/self/fd"), {});
  EXPECT_LT(open_files, 100);
  EXPECT_EQ(BytesOf(set.shards[599].tensors.tensors[0]), BytesOf(set.shards[0].tensors.tensors[0]));
}

}  // namespace
}  // namespace nxdkit::nxd
