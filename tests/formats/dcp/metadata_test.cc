// The required contents of .metadata, and the refused ones; every fault with its code, place and
// message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <functional>
#include <string>

#include "formats/dcp/folder.h"
#include "formats/dcp/metadata_writer.h"
#include "tests/formats/scratch.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::dcp {
namespace {

using testing_util::ExpectError;
using testing_util::ReadBytes;
using testing_util::Scratch;

const std::string kOne = NXDKIT_TESTDATA "/dcp/one";

// Two chunks of rows, and an object.
Metadata Small() {
  Metadata out;
  out.tensors.push_back({"w",
                         Dtype::kBF16,
                         {4, 3},
                         {{{{0, 0}, {2, 3}}, {"__0_0.distcp", 100, 1500}},
                          {{{2, 0}, {2, 3}}, {"__1_0.distcp", 0, 1500}}}});
  out.objects.push_back({"o.lr", {"__0_0.distcp", 0, 100}});
  out.paths["w"] = torch::PickleValue::MakeTuple({{std::string("w")}});
  return out;
}

std::string Written(const Metadata& metadata) {
  Result<std::string> text = WriteMetadata(metadata);
  EXPECT_TRUE(text.ok()) << text.error().ToString();
  return text.ok() ? *text : "";
}

TEST(Metadata, IsReadAsItWasWritten) {
  const auto again = ParseMetadata(Written(Small()));
  ASSERT_TRUE(again.ok()) << again.error().ToString();
  EXPECT_EQ(Written(*again), Written(Small()));
  ASSERT_EQ(again->tensors.size(), 1u);
  EXPECT_EQ(again->tensors[0].chunks[1].place, (ItemPlace{"__1_0.distcp", 0, 1500}));
}

TEST(Metadata, SaysNothingOfWhoWroteIt) {
  const std::string text = Written(Small());
  for (const char* word : {"pathlib", "save_id", "\nStorageMeta\n"})
    EXPECT_EQ(text.find(word), std::string::npos) << word;
}

struct Fault {
  const char* name;
  std::function<void(Metadata&)> change;
  Errc code;
  const char* message;
};

class MetadataFault : public ::testing::TestWithParam<Fault> {};

TEST_P(MetadataFault, IsRefused) {
  Metadata metadata = Small();
  GetParam().change(metadata);
  const auto error =
      ExpectError(ParseMetadata(Written(metadata)), GetParam().code, GetParam().message);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->tensor(), "w");
}

INSTANTIATE_TEST_SUITE_P(
    Metadata, MetadataFault,
    ::testing::Values(
        Fault{"AGap", [](Metadata& m) { m.tensors[0].chunks.pop_back(); }, Errc::kCorrupt,
              "the chunks hold 6 of the tensor's 12 elements [4, 3]"},
        Fault{"AnOverlap",
              [](Metadata& m) {
                m.tensors[0].chunks[1].box = {{1, 0}, {3, 3}};
              },
              Errc::kCorrupt, "the chunks [0:2, 0:3] and [1:4, 0:3] overlap"},
        Fault{"OutsideOfTheTensor",
              [](Metadata& m) {
                m.tensors[0].chunks[1].box = {{3, 0}, {2, 3}};
              },
              Errc::kCorrupt,
              "the chunk of sizes [2, 3] at [3, 0] is outside the tensor's shape [4, 3]"},
        Fault{"AnotherRank",
              [](Metadata& m) {
                m.tensors[0].chunks[1].box = {{2}, {2}};
              },
              Errc::kCorrupt, "a chunk has 1 offsets and 1 sizes, the tensor 2 dimensions"},
        Fault{"NegativeSizes",
              [](Metadata& m) {
                m.tensors[0].chunks[0].box.extent = {-2, 3};
              },
              Errc::kCorrupt, "sizes is [-2, 3], which has a negative number"},
        Fault{"TooLarge",
              [](Metadata& m) {
                m.tensors[0].shape = {int64_t{1} << 62, 3};
              },
              Errc::kCorrupt, ""},
        Fault{"AParentFolder",
              [](Metadata& m) { m.tensors[0].chunks[0].place.file = "../w.distcp"; },
              Errc::kCorrupt, "relative_path \"../w.distcp\" is not a plain name"},
        Fault{"AnAbsolutePath",
              [](Metadata& m) { m.tensors[0].chunks[0].place.file = "/etc/passwd"; },
              Errc::kCorrupt, "relative_path \"/etc/passwd\" is not a plain name"},
        Fault{"AZeroByteInTheName",
              [](Metadata& m) { m.tensors[0].chunks[0].place.file = std::string("a\0b", 3); },
              Errc::kCorrupt, "is not a plain name"}),
    [](const auto& row) { return row.param.name; });

// A pickle of protocol 2 that calls a global.
std::string Calling(const std::string& module, const std::string& name) {
  return "\x80\x02"
         "c" +
         module + "\n" + name + "\n)R.";
}

// The pickle with one text replaced by another.
std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Metadata, OfAnotherMajorVersionIsRefused) {
  const std::string text = Written(Small());
  EXPECT_TRUE(ParseMetadata(Replaced(text, "1.0.0", "1.1.0")).ok());
  ExpectError(ParseMetadata(Replaced(text, "1.0.0", "2.0.0")), Errc::kUnsupported,
              "version \"2.0.0\", expected 1.0.0");
}

// Pickles may hold what Python calls surrogates, which are not UTF-8.
TEST(Metadata, KeysThatAreNotUtf8AreRefused) {
  Metadata metadata = Small();
  metadata.objects[0].key = "abc";
  const auto error = ExpectError(ParseMetadata(Replaced(Written(metadata), "abc", "\xed\xa0\x80")),
                                 Errc::kCorrupt, "a string of 3 bytes is not UTF-8 at its byte 0");
  ASSERT_TRUE(error);
  EXPECT_TRUE(error->offset());
}

TEST(Metadata, KnowsOneTransformation) {
  Metadata metadata = Small();
  metadata.tensors[0].chunks[0].place.zstd = true;
  const std::string text = Written(metadata);
  const auto again = ParseMetadata(text);
  ASSERT_TRUE(again.ok()) << again.error().ToString();
  EXPECT_TRUE(again->tensors[0].chunks[0].place.zstd);
  EXPECT_FALSE(again->tensors[0].chunks[1].place.zstd);
  for (const char* other : {"stream.zstd/2", "stream.lz4//1", "stream.zstd@1"}) {
    const auto error = ExpectError(
        ParseMetadata(Replaced(text, "stream.zstd/1", std::string(other).substr(0, 13))),
        Errc::kUnsupported, "the item is transformed by " + std::string(other).substr(0, 13));
    EXPECT_EQ(error->tensor(), "w");
  }
}

TEST(Metadata, RefusesEveryOtherGlobalByNameAndOffset) {
  for (const auto& [module, name] : {std::pair{"os", "system"},
                                     {"builtins", "eval"},
                                     {"torch.storage", "_load_from_bytes"},
                                     {"torch._utils", "_rebuild_tensor_v2"},
                                     {"megatron.core", "Planner"}}) {
    const auto error = ExpectError(ParseMetadata(Calling(module, name)), Errc::kUnsupported,
                                   std::string("the global ") + module + "." + name);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->offset(), 2u);
  }
  ExpectError(ParseMetadata(Calling("torch.distributed.checkpoint.hf_storage", "_HFStorageInfo")),
              Errc::kUnsupported, "_HFStorageInfo, which is not supported");
}

TEST(Metadata, IsWholeAndNothingElse) {
  ExpectError(ParseMetadata(Written(Small()) + "x"), Errc::kCorrupt, "1 bytes after the end");
  ExpectError(ParseMetadata(""), Errc::kCorrupt, "the pickle ends after 0 bytes");
  ExpectError(ParseMetadata("\x80\x02N."), Errc::kCorrupt, "a value is no record");
}

// Every prefix of a real one, and every byte of it changed: refused, or read as something whole.
TEST(Metadata, EveryTruncationIsRefused) {
  const std::string text = ReadBytes(kOne + "/.metadata");
  for (size_t size = 0; size < text.size(); size += 7)
    EXPECT_FALSE(ParseMetadata(text.substr(0, size)).ok()) << size;
}

TEST(Metadata, NoFlippedByteIsTrusted) {
  const std::string text = ReadBytes(kOne + "/.metadata");
  size_t refused = 0;
  for (size_t at = 0; at < text.size(); at += 5) {
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ (1 << (at % 8)));
    const auto metadata = ParseMetadata(changed);
    if (!metadata.ok()) {
      EXPECT_NE(metadata.error().code(), Errc::kInternal) << at;
      ++refused;
      continue;
    }
    for (const TensorEntry& entry : metadata->tensors) EXPECT_TRUE(CheckCover(entry).ok()) << at;
  }
  EXPECT_GT(refused, text.size() / 10);
}

class FolderFault : public ::testing::Test {
 protected:
  FolderFault() {
    for (const char* name : {".metadata", "__0_0.distcp"})
      scratch_.Write(name, ReadBytes(kOne + "/" + name));
  }
  void Change(const std::function<void(std::string&)>& change) const {
    std::string bytes = ReadBytes(scratch_.Path("__0_0.distcp"));
    change(bytes);
    scratch_.Write("__0_0.distcp", bytes);
  }
  Scratch scratch_;
};

TEST_F(FolderFault, NoMetadataIsAnUnfinishedSave) {
  std::filesystem::remove(scratch_.Path(".metadata"));
  EXPECT_TRUE(*LooksLikeFolder(scratch_.folder()));
  const auto error =
      ExpectError(Open(scratch_.folder()), Errc::kCorrupt, "the save was not completed");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), scratch_.folder());
}

TEST_F(FolderFault, AMissingFileIsNamed) {
  std::filesystem::remove(scratch_.Path("__0_0.distcp"));
  const auto error = ExpectError(Open(scratch_.folder()), Errc::kCorrupt, "the file is missing");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), scratch_.Path("__0_0.distcp"));
}

TEST_F(FolderFault, ALinkOutOfTheFolderIsRefused) {
  std::filesystem::remove(scratch_.Path("__0_0.distcp"));
  std::filesystem::create_symlink(kOne + "/__0_0.distcp", scratch_.Path("__0_0.distcp"));
  ExpectError(Open(scratch_.folder()), Errc::kCorrupt, "a link that leads out of the folder");
}

TEST_F(FolderFault, MetadataThatIsALinkOutOfTheFolderIsRefused) {
  std::filesystem::remove(scratch_.Path(".metadata"));
  std::filesystem::create_symlink(kOne + "/.metadata", scratch_.Path(".metadata"));
  const auto error =
      ExpectError(Open(scratch_.folder()), Errc::kCorrupt, "a link that leads out of the folder");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), scratch_.Path(".metadata"));
}

// One item under many names: a small file with a large layout.
TEST_F(FolderFault, TensorsThatShareOneItemAreBounded) {
  Metadata metadata = *ParseMetadata(ReadBytes(scratch_.Path(".metadata")));
  const TensorEntry first = metadata.tensors[0];
  for (int i = 0; i < 100; ++i) {
    metadata.tensors.push_back(first);
    metadata.tensors.back().key += std::to_string(i);
  }
  scratch_.Write(".metadata", Written(metadata));
  const auto error = ExpectError(Open(scratch_.folder()), Errc::kUnsupported,
                                 "the tensors up to here have more than 4 times the");
  ASSERT_TRUE(error);
  EXPECT_TRUE(error->tensor().starts_with(first.key));
}

// A fault of the file that contains the name, not of the system.
TEST_F(FolderFault, ANameThatIsTooLongForTheFileSystem) {
  Metadata metadata = *ParseMetadata(ReadBytes(scratch_.Path(".metadata")));
  const std::string name(300, 'n');
  for (TensorEntry& tensor : metadata.tensors)
    for (Chunk& chunk : tensor.chunks) chunk.place.file = name;
  scratch_.Write(".metadata", Written(metadata));
  const auto error = ExpectError(Open(scratch_.folder()), Errc::kCorrupt, "File name too long");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), scratch_.Path(name));
}

TEST_F(FolderFault, ATruncatedFileIsRefused) {
  Change([](std::string& bytes) { bytes.resize(bytes.size() - 1); });
  const auto error = ExpectError(Open(scratch_.folder()), Errc::kCorrupt, "is not inside the file");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), scratch_.Path("__0_0.distcp"));
  EXPECT_FALSE(error->tensor().empty());
}

TEST_F(FolderFault, AnItemThatIsNotAnArchiveIsRefused) {
  Change([](std::string& bytes) { std::fill(bytes.begin(), bytes.end(), '\0'); });
  ExpectError(Open(scratch_.folder()), Errc::kCorrupt, "in the archive of");
}

TEST_F(FolderFault, ATensorOfAnotherShapeIsRefused) {
  Metadata metadata = *ParseMetadata(ReadBytes(scratch_.Path(".metadata")));
  for (TensorEntry& entry : metadata.tensors)
    if (entry.key == "norm.weight") entry.shape = entry.chunks[0].box.extent = {32};
  scratch_.Write(".metadata", Written(metadata));
  const auto error = ExpectError(Open(scratch_.folder()), Errc::kCorrupt,
                                 "holds a tensor of shape [64], .metadata says [32]");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->tensor(), "norm.weight");
  EXPECT_TRUE(error->offset().has_value());
}

TEST_F(FolderFault, ATensorOfAnotherTypeIsRefused) {
  Metadata metadata = *ParseMetadata(ReadBytes(scratch_.Path(".metadata")));
  metadata.tensors[0].dtype = Dtype::kBF16;
  scratch_.Write(".metadata", Written(metadata));
  ExpectError(Open(scratch_.folder()), Errc::kCorrupt, "elements of F32, .metadata says BF16");
}

TEST_F(FolderFault, ObjectsInOnePlaceAreRefused) {
  Metadata metadata = *ParseMetadata(ReadBytes(scratch_.Path(".metadata")));
  ASSERT_FALSE(metadata.objects.empty());
  metadata.objects.push_back({"again", metadata.objects[0].place});
  scratch_.Write(".metadata", Written(metadata));
  ExpectError(Open(scratch_.folder()), Errc::kCorrupt,
              "the object is in the place of another item");
}

TEST_F(FolderFault, ItemsInsideEachOtherAreRefused) {
  Metadata metadata = *ParseMetadata(ReadBytes(scratch_.Path(".metadata")));
  metadata.tensors[0].chunks[0].place.offset += 1;
  scratch_.Write(".metadata", Written(metadata));
  EXPECT_FALSE(Open(scratch_.folder()).ok());
}

// 32,000 columns and as many rows, each of which intersects each: the file has seven megabytes. The
// time is processor time.
TEST(Metadata, ChunksThatAllOverlapAreRefusedAtOnce) {
  constexpr int64_t kSlabs = 32'000;
  Metadata metadata;
  TensorEntry entry{"w", Dtype::kBF16, {kSlabs, kSlabs}, {}};
  for (int64_t i = 0; i < kSlabs; ++i)
    entry.chunks.push_back({{{0, i}, {kSlabs, 1}}, {"__0_0.distcp", 0, 100}});
  for (int64_t i = 1; i < kSlabs; ++i)
    entry.chunks.push_back({{{i, 0}, {1, kSlabs}}, {"__0_0.distcp", 0, 100}});
  metadata.tensors.push_back(std::move(entry));
  const std::string text = Written(metadata);
  const std::clock_t before = std::clock();
  const auto error = ExpectError(ParseMetadata(text), Errc::kCorrupt,
                                 "the chunks [0:32000, 0:1] and [1:2, 0:32000] overlap");
  EXPECT_LT(std::clock() - before, 20 * CLOCKS_PER_SEC);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->tensor(), "w");
}

}  // namespace
}  // namespace nxdkit::dcp
