// Checkpoints of other kinds than dcp.save's (testdata/dcp/make_forms.py), by torch 2.15 and
// torch_checkpointing 0.1.1; and the refused ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "formats/artifact/artifact.h"
#include "formats/dcp/folder.h"
#include "formats/dcp/metadata_writer.h"
#include "formats/dtensor/sharding.h"
#include "formats/kinds/open.h"
#include "formats/ops/verify/checksums.h"
#include "formats/ops/verify/verify.h"
#include "lib/hash/digest.h"
#include "tests/formats/dcp/assemble.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/formats/scratch.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::dcp {
namespace {

namespace fs = std::filesystem;
using testing_util::Assemble;
using testing_util::ExpectError;
using testing_util::OpsWorkshop;
using testing_util::ReadBytes;
using testing_util::Scratch;

const std::string kForms = NXDKIT_TESTDATA "/dcp/forms/";

const nlohmann::json& Expected() {
  static const nlohmann::json json = nlohmann::json::parse(ReadBytes(kForms + "expected.json"));
  return json;
}

std::string DigestOf(const StoredEntry& entry) {
  Sha256 digest;
  const std::string bytes = Assemble(entry);
  digest.Update(std::as_bytes(std::span(bytes)));
  return HexText(digest.Finish());
}

class Form : public ::testing::TestWithParam<const char*> {
 protected:
  const std::string path_ = kForms + GetParam();
};

TEST_P(Form, HoldsTheTensorsThatTorchHad) {
  const auto folder = Open(path_);
  ASSERT_TRUE(folder.ok()) << folder.error().ToString();
  const nlohmann::json& expected = Expected()[GetParam()];
  EXPECT_EQ(folder->tensors.size(), expected.size());
  for (const StoredEntry& entry : folder->tensors) {
    SCOPED_TRACE(entry.key);
    ASSERT_TRUE(expected.contains(entry.key));
    EXPECT_EQ(entry.shape, expected[entry.key]["shape"].get<Shape>());
    EXPECT_EQ(TorchName(entry.dtype), expected[entry.key]["dtype"].get<std::string>());
    EXPECT_EQ(DigestOf(entry), expected[entry.key]["sha256"].get<std::string>());
  }
}

std::vector<ops::Finding> CheckSums(const std::string& path) {
  const auto artifact = ops::OpenArtifact(path, &ops::kDcp, {});
  EXPECT_TRUE(artifact.ok()) << artifact.error().ToString();
  const auto findings = ops::CheckChecksums(*artifact, {});
  EXPECT_TRUE(findings.ok()) << findings.error().ToString();
  return *findings;
}

TEST_P(Form, HasGoodChecksums) { EXPECT_TRUE(CheckSums(path_).empty()); }

TEST_P(Form, BecomesTheModelThatItIs) {
  OpsWorkshop shop;
  const auto made = ops::Convert(OpsWorkshop::Request(path_, &ops::kDcp, shop / "dcp", &ops::kDcp));
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  const auto folder = Open(shop / "dcp");
  ASSERT_TRUE(folder.ok()) << folder.error().ToString();
  EXPECT_EQ(folder->form, FolderForm::kCheckpoint);
  EXPECT_FALSE(folder->tensors.empty());
  for (const StoredEntry& entry : folder->tensors) {
    EXPECT_EQ(entry.chunks.size(), 1u) << entry.key;
    EXPECT_EQ(DigestOf(entry), Expected()[GetParam()][entry.key]["sha256"].get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(Dcp, Form,
                         ::testing::Values("local", "zstd", "shards", "ranks", "ranks_1", "own",
                                           "objects"),
                         [](const auto& row) { return std::string(row.param); });

TEST(Forms, AreRecognisedByWhatIsInThem) {
  for (const char* name : {"local", "zstd", "shards", "ranks", "ranks_1"}) {
    const auto kind = ops::Recognise(kForms + name);
    ASSERT_TRUE(kind.ok()) << name << kind.error().ToString();
    EXPECT_EQ(*kind, &ops::kDcp) << name;
  }
  // Files called model_0.pt alone may belong to any program: --from dcp requests this format.
  EXPECT_FALSE(ops::Recognise(kForms + "own").ok());
}

const torch::PickleValue* ValueOf(const Folder& folder, const std::string& key) {
  for (const ObjectEntry& object : folder.metadata.objects)
    if (object.key == key) return &*object.value;
  return nullptr;
}

TEST(Forms, ObjectsOfRanksAreReadOnce) {
  const auto folder = Open(kForms + "ranks");
  ASSERT_TRUE(folder.ok()) << folder.error().ToString();
  EXPECT_EQ(folder->metadata.objects.size(), 5u);
  const auto* lr = ValueOf(*folder, "optimizer.param_groups.0.lr");
  ASSERT_TRUE(lr);
  EXPECT_EQ(std::get<double>(lr->value), 0.5);
  EXPECT_EQ(*ValueOf(*folder, "train_state.step")->integer(), 3);
  EXPECT_EQ(*ValueOf(*folder, "train_state.rank")->integer(), 0);
  EXPECT_THAT(folder->warnings, ::testing::ElementsAre(::testing::HasSubstr(
                                    "train_state.rank: the ranks have different values")));
}

TEST(Forms, CompressedObjectsAreRead) {
  const auto folder = Open(kForms + "zstd");
  ASSERT_TRUE(folder.ok()) << folder.error().ToString();
  ASSERT_EQ(folder->metadata.objects.size(), 2u);
  const auto value = ReadObjectValue(*folder, folder->metadata.objects[0]);
  ASSERT_TRUE(value.ok()) << value.error().ToString();
  EXPECT_EQ(std::get<double>(value->value), 0.5);
  const auto bytes = ReadObject(*folder, folder->metadata.objects[0]);
  ASSERT_TRUE(bytes.ok());
  EXPECT_TRUE(bytes->starts_with("PK\3\4"));
}

// A copy of a form that can be damaged.
class FormFault : public ::testing::Test {
 protected:
  std::string Copy(const char* form) {
    fs::copy(kForms + form, scratch_.Path(form), fs::copy_options::recursive);
    return scratch_.Path(form);
  }
  static void Change(const std::string& path, const std::function<void(std::string&)>& change) {
    std::string bytes = ReadBytes(path);
    change(bytes);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
  Scratch scratch_;
};

TEST_F(FormFault, ARankWithoutItsMetadataIsNamed) {
  const std::string path = Copy("local");
  fs::remove(path + "/__1.metadata");
  const auto error = ExpectError(Open(path), Errc::kCorrupt,
                                 "there is no __1.metadata, and there is __3.metadata");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), path);
}

TEST_F(FormFault, ARankTheLastOfAllThatIsMissingLeavesAHole) {
  const std::string path = Copy("local");
  fs::remove(path + "/__3.metadata");
  const auto error =
      ExpectError(Open(path), Errc::kCorrupt, "the chunks hold 12 of the tensor's 15");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->tensor(), "w");
}

TEST_F(FormFault, RanksThatContradictEachOtherAreNamed) {
  const std::string path = Copy("local");
  Metadata metadata = *ParsePartOfMetadata(ReadBytes(path + "/__2.metadata"));
  for (TensorEntry& entry : metadata.tensors)
    if (entry.key == "r") entry.shape = {4};
  Change(path + "/__2.metadata", [&](std::string& text) { text = *WriteMetadata(metadata); });
  const auto error =
      ExpectError(Open(path), Errc::kCorrupt, "rank 2 says F32 [4], ranks before it F32 [3]");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), path + "/__2.metadata");
  EXPECT_EQ(error->tensor(), "r");
}

TEST_F(FormFault, ARankThatNamesFilesOfAnotherIsRefused) {
  const std::string path = Copy("local");
  fs::copy_file(path + "/__0.metadata", path + "/__1.metadata",
                fs::copy_options::overwrite_existing);
  const auto error = ExpectError(Open(path), Errc::kCorrupt,
                                 "the item is in __0_0.distcp, which is not a file of rank 1");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), path + "/__1.metadata");
}

TEST_F(FormFault, AChangedBitOfARanksFileIsFound) {
  const std::string path = Copy("ranks");
  const auto folder = Open(path);
  ASSERT_TRUE(folder.ok());
  const StoredTensor& stored = folder->tensors[0].chunks[0].stored;
  Change(path + "/model_0.pt", [&](std::string& bytes) {
    bytes[static_cast<size_t>(stored.storage->file_offset() + stored.offset)] ^= 1;
  });
  const auto findings = CheckSums(path);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].check, "checksum");
  EXPECT_EQ(findings[0].file, path + "/model_0.pt");
}

// Two ranks that each have all of a model, in files of their own.
TEST_F(FormFault, CopiesOfRanksThatDifferAreFound) {
  const std::string one = NXDKIT_TESTDATA "/dcp/one/";
  for (const std::string rank : {"0", "1"}) {
    Metadata metadata = *ParseMetadata(ReadBytes(one + ".metadata"));
    const std::string file = "__" + rank + "_0.distcp";
    for (TensorEntry& entry : metadata.tensors)
      for (Chunk& chunk : entry.chunks) chunk.place.file = file;
    for (ObjectEntry& entry : metadata.objects) entry.place.file = file;
    scratch_.Write("__" + rank + ".metadata", *WriteMetadata(metadata));
    scratch_.Write(file, ReadBytes(one + "__0_0.distcp"));
  }
  ops::VerifyRequest request;
  request.path = scratch_.folder();
  request.hints.config = NXDKIT_TESTDATA "/dcp/config.json";
  const auto good = ops::Verify(request);
  ASSERT_TRUE(good.ok()) << good.error().ToString();
  EXPECT_TRUE(good->findings.empty()) << good->findings.front().message;

  const auto folder = Open(scratch_.folder());
  ASSERT_TRUE(folder.ok());
  ASSERT_EQ(folder->tensors[0].chunks.size(), 2u);
  const StoredTensor& stored = folder->tensors[0].chunks[1].stored;
  Change(scratch_.Path("__1_0.distcp"), [&](std::string& bytes) {
    bytes[static_cast<size_t>(stored.storage->file_offset() + stored.offset)] ^= 1;
  });
  const auto report = ops::Verify(request);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  std::set<std::string> checks;
  for (const ops::Finding& finding : report->findings) checks.insert(finding.check);
  EXPECT_THAT(checks, ::testing::UnorderedElementsAre("replica", "checksum"));
}

// The bytes of a chunk of this tensor, one of them changed.
void ChangeChunk(const std::string& path, const std::string& key, size_t chunk) {
  const auto folder = Open(path);
  ASSERT_TRUE(folder.ok()) << folder.error().ToString();
  for (const StoredEntry& entry : folder->tensors) {
    if (entry.key != key) continue;
    const StoredTensor& stored = entry.chunks.at(chunk).stored;
    std::fstream file(stored.storage->path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(stored.storage->file_offset() + stored.offset));
    file.put('\x7f');
    file.close();
    testing_util::MendChecksum(*stored.storage);
  }
}

TEST_F(FormFault, AConversionStopsAtCopiesThatDiffer) {
  OpsWorkshop shop;
  for (const auto& [form, key] : {std::pair{"local", "r"}, {"ranks", "model.r"}}) {
    const std::string path = Copy(form);
    ChangeChunk(path, key, 3);
    const auto made = ops::Convert(OpsWorkshop::Request(path, &ops::kDcp, shop / form, &ops::kDcp));
    const auto error = ExpectError(made, Errc::kCorrupt, "1 element differs from the other copy");
    EXPECT_EQ(error->tensor(), key);
  }
}

TEST_F(FormFault, CopiesOfANumberAreCompared) {
  const std::string path = Copy("ranks");
  ChangeChunk(path, "optimizer.state.w.step", 2);
  const auto error =
      ExpectError(Open(path), Errc::kCorrupt, "the number differs from that in optimizer_0.pt");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), path + "/optimizer_2.pt");
  EXPECT_EQ(error->tensor(), "optimizer.state.w.step");
}

TEST_F(FormFault, DamagedFramesOfZstdAreRefused) {
  for (const size_t at : {0, 4, 40, 200}) {
    fs::remove_all(scratch_.Path("zstd"));
    const std::string path = Copy("zstd");
    Change(path + "/__0_0.distcp", [&](std::string& bytes) { bytes[at] ^= 0x55; });
    const auto error = ExpectError(Open(path), Errc::kCorrupt, "");
    ASSERT_TRUE(error);
    EXPECT_EQ(error->file(), path + "/__0_0.distcp") << error->ToString();
  }
}

// Marks the items as compressed in the metadata.
Metadata Zstd(const std::string& path, const std::function<void(TensorEntry&)>& change) {
  Metadata metadata = *ParseMetadata(ReadBytes(path + "/.metadata"));
  for (TensorEntry& entry : metadata.tensors)
    if (entry.key == "w") change(entry);
  return metadata;
}

// A frame of `blocks` blocks, each 128 KiB of one byte.
std::string FrameOf(int blocks) {
  std::string frame("\x28\xb5\x2f\xfd\x00\x50", 6);
  for (int i = 0; i < blocks; ++i)
    frame += std::string(i + 1 < blocks ? "\x02\x00\x10\x00" : "\x03\x00\x10\x00", 4);
  return frame;
}

TEST_F(FormFault, AnItemThatDecompressesToFarMoreIsStopped) {
  const std::string path = Copy("zstd");
  const std::string frame = FrameOf(64);  // 8 MiB in 262 bytes
  scratch_.Write("zstd/bomb", frame);
  const Metadata metadata = Zstd(path, [&](TensorEntry& entry) {
    entry.chunks[0].place = {"bomb", 0, frame.size(), true};
  });
  Change(path + "/.metadata", [&](std::string& text) { text = *WriteMetadata(metadata); });
  const auto error = ExpectError(Open(path), Errc::kCorrupt,
                                 "the item decompresses to more than the 1048600 bytes");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), path + "/bomb");
  EXPECT_EQ(error->tensor(), "w");
}

// Writes only the compressed tensor `w` with these bytes; the shape may claim more.
void WriteOneTensor(const Scratch& scratch, const std::string& bytes, const Shape& shape) {
  Metadata metadata;
  metadata.tensors.push_back(
      {"w", Dtype::kF32, shape, {{WholeBox(shape), {"bomb", 0, bytes.size(), true}}}});
  scratch.Write("bomb", bytes);
  scratch.Write(".metadata", *WriteMetadata(metadata));
}

TEST_F(FormFault, TensorsThatAreToDecompressToFarMoreAreNotBegun) {
  const std::string frame = FrameOf(16384);  // 2 GiB in 65,542 bytes
  WriteOneTensor(scratch_, frame, {int64_t{1} << 29});
  const auto error =
      ExpectError(Open(scratch_.folder()), Errc::kUnsupported,
                  "have 65542 bytes stored and more than the limit of 268460032 decompressed");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), scratch_.folder());
  EXPECT_EQ(error->tensor(), "w");
}

// It claims to be small, and an archive may have 1 MiB besides its tensor.
TEST_F(FormFault, ATensorThatDecompressesToMoreThanTheFolderMayHaveIsStopped) {
  WriteOneTensor(scratch_, FrameOf(8), {4});  // 1 MiB in 38 bytes
  const auto error = ExpectError(Open(scratch_.folder()), Errc::kCorrupt,
                                 "the item decompresses to more than the 155648 bytes");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), scratch_.Path("bomb"));
  EXPECT_EQ(error->tensor(), "w");
}

TEST_F(FormFault, AFrameThatIsCutOffIsRefused) {
  const std::string path = Copy("zstd");
  const Metadata metadata =
      Zstd(path, [](TensorEntry& entry) { entry.chunks[0].place.bytes -= 1; });
  Change(path + "/.metadata", [&](std::string& text) { text = *WriteMetadata(metadata); });
  ExpectError(Open(path), Errc::kCorrupt, "the zstd stream is cut off");
}

// Elements that two shards both have are copies, as in the files of ranks.
TEST_F(FormFault, CopiesInShardsAreCompared) {
  const std::string path = Copy("shards");
  const std::string copy = path + "/shard-00009-model-00001-of-00001.safetensors";
  fs::copy_file(path + "/shard-00001-model-00001-of-00001.safetensors", copy);
  OpsWorkshop shop;
  const auto convert = [&](const char* name) {
    return ops::Convert(OpsWorkshop::Request(path, &ops::kDcp, shop / name, &ops::kDcp));
  };
  const auto made = convert("same");
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  const auto folder = Open(shop / "same");
  ASSERT_TRUE(folder.ok());
  EXPECT_EQ(DigestOf(folder->tensors[0]),
            Expected()["shards"][folder->tensors[0].key]["sha256"].get<std::string>());
  ChangeChunk(path, "w", 4);  // the fifth is that of the copy
  const auto error =
      ExpectError(convert("other"), Errc::kCorrupt, "1 element differs from the other copy of w");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), copy);
  EXPECT_EQ(error->tensor(), "w");
}

TEST_F(FormFault, AShardOfAnOlderSaveIsNamed) {
  const std::string path = Copy("shards");
  const std::string other = path + "/shard-00009-model-00001-of-00001.safetensors";
  fs::copy_file(path + "/shard-00001-model-00001-of-00001.safetensors", other);
  Change(other, [](std::string& bytes) {
    bytes.replace(bytes.find("[0, 0]"), 6, "[1, 0]");  // rows 1 and 2 instead of 0 and 1
  });
  const auto error = ExpectError(Open(path), Errc::kCorrupt,
                                 "in shard-00001-model-00001-of-00001.safetensors and the chunk");
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), ::testing::HasSubstr("shard-00009-model-00001-of-00001"));
  ASSERT_TRUE(error);
  EXPECT_THAT(error->hint(), ::testing::HasSubstr("of an older save"));
}

TEST_F(FormFault, AMissingShardLeavesAHole) {
  const std::string path = Copy("shards");
  fs::remove(path + "/shard-00001-model-00001-of-00001.safetensors");
  ExpectError(Open(path), Errc::kCorrupt, "the chunks hold");
}

TEST_F(FormFault, ShardsOfSavesOfOtherSizesAreNamed) {
  const std::string path = Copy("shards");
  fs::rename(path + "/shard-00004-model-00001-of-00001.safetensors",
             path + "/shard-00004-model-00001-of-00002.safetensors");
  ExpectError(Open(path), Errc::kCorrupt, "are of different saves");
}

TEST_F(FormFault, AFileThatIsNoShardIsNamed) {
  const std::string path = Copy("shards");
  fs::copy_file(kForms + "ranks_1/m_0.safetensors", path + "/zz-of-00001.safetensors");
  const auto error = ExpectError(Open(path), Errc::kCorrupt, "the file has no DCP_SHARDING_INFO");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), path + "/zz-of-00001.safetensors");
}

TEST_F(FormFault, AFolderThatWasNotRenamedIsUnfinished) {
  fs::copy(kForms + "ranks", scratch_.Path("tmp_step"), fs::copy_options::recursive);
  ExpectError(Open(scratch_.Path("tmp_step")), Errc::kCorrupt, "the save was not completed");
}

TEST_F(FormFault, AMissingFileOfARankIsNamed) {
  const std::string path = Copy("ranks");
  fs::remove(path + "/model_2.pt");
  const auto error =
      ExpectError(Open(path), Errc::kCorrupt, "the file is missing, but metadata.pkl names it");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), path + "/model_2.pt");
}

TEST_F(FormFault, AMissingFileWithoutMetadataIsNamed) {
  const std::string path = Copy("own");
  fs::remove(path + "/model_2.pt");
  ExpectError(Open(path), Errc::kCorrupt, "there is no model_2.pt, and there is model_3.pt");
}

TEST_F(FormFault, AFileOfAnotherRankIsNamed) {
  const std::string path = Copy("ranks");
  fs::copy_file(path + "/model_0.pt", path + "/model_1.pt", fs::copy_options::overwrite_existing);
  const auto error = ExpectError(Open(path), Errc::kCorrupt, "records another place");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), path + "/model_1.pt");
  EXPECT_EQ(error->tensor(), "model.e");  // the first whose parts differ between the ranks
}

TEST_F(FormFault, AFileOfALargerSaveIsNamed) {
  const std::string path = Copy("ranks");
  fs::copy_file(path + "/model_0.pt", path + "/model_4.pt");
  const auto error =
      ExpectError(Open(path), Errc::kCorrupt, "the file is of rank 4, metadata.pkl is of 4 ranks");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), path + "/model_4.pt");
}

TEST_F(FormFault, PlainTensorsOfRanksWithoutMetadataAreRefused) {
  const std::string path = Copy("ranks");
  fs::remove(path + "/metadata.pkl");
  const auto error = ExpectError(Open(path), Errc::kUnsupported,
                                 "a plain tensor of one of 4 ranks: without metadata.pkl");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->tensor(), "model.r");
}

TEST_F(FormFault, TwoNamesOfOneFileAreRefused) {
  const std::string path = Copy("ranks");
  fs::remove(path + "/model_1.pt");
  fs::create_symlink("model_0.pt", path + "/model_1.pt");
  ExpectError(Open(path), Errc::kCorrupt, "the files model_0.pt and model_1.pt are the same one");
}

TEST_F(FormFault, LinksOutOfTheFolderAreRefused) {
  for (const auto& [form, name] : {std::pair{"ranks", "model_1.pt"},
                                   {"ranks", "metadata.pkl"},
                                   {"ranks_1", "m_3.safetensors"},
                                   {"own", "optimizer_0.pt"},
                                   {"local", "__2.metadata"},
                                   {"local", "__2_0.distcp"},
                                   {"zstd", ".metadata"},
                                   {"shards", "shard-00002-model-00001-of-00001.safetensors"}}) {
    SCOPED_TRACE(std::string(form) + "/" + name);
    fs::remove_all(scratch_.Path(form));
    const std::string path = Copy(form);
    fs::remove(path + "/" + name);
    fs::create_symlink(kForms + form + "/" + name, path + "/" + name);
    ExpectError(Open(path), Errc::kCorrupt, "a link that leads out of the folder");
  }
}

TEST_F(FormFault, AFileOfTwoRanksIsNamed) {
  const std::string path = Copy("ranks_1");
  Change(path + "/metadata.pkl", [](std::string& text) {
    const size_t at = text.find("m_2.safetensors");
    ASSERT_NE(at, std::string::npos);
    text[at + 2] = '1';
  });
  const auto error = ExpectError(Open(path), Errc::kCorrupt,
                                 "rank 2 has the file m_1.safetensors, which is that of rank 1");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), path + "/metadata.pkl");
}

using dtensor::Part;
using dtensor::Placement;
using dtensor::ShardAt;
using dtensor::Sharding;

TEST(Sharding, IsThatOfTorch) {
  using Kind = Placement::Kind;
  const auto cases = nlohmann::json::parse(ReadBytes(kForms + "shardings.json"));
  ASSERT_GT(cases.size(), 30u);
  for (const nlohmann::json& row : cases) {
    SCOPED_TRACE(row.dump());
    Sharding sharding{row["shape"].get<Shape>(), row["mesh"].get<Shape>(), {}};
    for (const nlohmann::json& each : row["placements"]) {
      const auto type = each[0].get<std::string>();
      if (type == "Replicate") sharding.placements.push_back({});
      if (type == "Shard") sharding.placements.push_back({Kind::kShard, each[1], 1});
      if (type == "StridedShard")
        sharding.placements.push_back({Kind::kStridedShard, each[1], each[2]});
    }
    const auto shard = ShardAt(sharding, row["place"].get<Shape>());
    ASSERT_TRUE(shard.ok()) << shard.error().ToString();
    const nlohmann::json& indices = row["indices"];
    Shape shape;
    for (const nlohmann::json& dim : indices) shape.push_back(static_cast<int64_t>(dim.size()));
    EXPECT_EQ(shard->shape, shape);
    int64_t elements = 0;
    for (const Part& part : shard->parts) {
      elements += part.box.Volume();
      for (size_t d = 0; d < shape.size(); ++d)
        for (int64_t i = 0; i < part.box.extent[d]; ++i)
          EXPECT_EQ(indices[d][static_cast<size_t>(part.local_lo[d] + i)], part.box.lo[d] + i);
    }
    EXPECT_EQ(elements, WholeBox(shape).Volume());
  }
}

TEST(Sharding, RefusesWhatDoesNotFit) {
  using Kind = Placement::Kind;
  const auto at = [](Shape shape, Shape mesh, std::vector<Placement> placements, Shape place) {
    return ShardAt({std::move(shape), std::move(mesh), std::move(placements)}, place);
  };
  ExpectError(at({4}, {2}, {}, {0}), Errc::kCorrupt, "a mesh of 1 dimensions with 0 placements");
  ExpectError(at({4}, {0}, {{}}, {0}), Errc::kCorrupt, "a mesh of the shape [0]");
  ExpectError(at({4}, {2}, {{}}, {2}), Errc::kCorrupt, "the place [2] in a mesh of shape [2]");
  ExpectError(at({4}, {2}, {{Kind::kShard, 1, 1}}, {0}), Errc::kCorrupt,
              "a placement cuts dimension 1 of the shape [4]");
  ExpectError(at({4}, {2}, {{Kind::kShard, -1, 1}}, {0}), Errc::kCorrupt, "cuts dimension -1");
  ExpectError(at({4}, {2}, {{Kind::kStridedShard, 0, 0}}, {0}), Errc::kCorrupt,
              "a split factor of 0");
  ExpectError(at({4}, {2}, {{Kind::kStridedShard, 0, int64_t{1} << 60}}, {0}), Errc::kUnsupported,
              "the limit is 1024");
  ExpectError(at({4096, 4096}, {2, 2}, {{Kind::kStridedShard, 0, 40}, {Kind::kStridedShard, 1, 40}},
                 {0, 0}),
              Errc::kUnsupported, "more than 1024 parts");
  ExpectError(at({int64_t{1} << 62, 4}, {2}, {{}}, {0}), Errc::kCorrupt, "is not one");
}

}  // namespace
}  // namespace nxdkit::dcp
