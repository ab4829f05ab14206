// The index: its allowed contents, the refused file names, and the bytes we write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/hf/index.h"
#include "formats/hf/split.h"
#include "lib/json/json.h"
#include "tests/formats/memory_file.h"
#include "tests/formats/scratch.h"

namespace nxdkit::hf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_util::MemoryFile;
using testing_util::ReadBytes;
using testing_util::Scratch;

const std::string kIndexData = NXDKIT_TESTDATA "/hf";

TEST(ReadIndex, SortsAndFinds) {
  const Scratch scratch;
  // Metadata may hold anything; other keys of the root are skipped.
  const Result<Index> index = ReadIndex(
      scratch.Write(
          "i",
          "\n {\"metadata\":{\"total_size\":1e3,\"x\":[{\"weight_map\":{\"no\":1}}],\"weight_map\":"
          "{\"no\":2}},\"weight_map\":{\"b\":\"2.safetensors\",\"a\":\"1.safetensors\",\"c\":"
          "\"2.safetensors\"},\"note\":null} \n"),
      ".safetensors");
  ASSERT_TRUE(index.ok()) << index.error().ToString();
  EXPECT_THAT(index->files, ElementsAre("1.safetensors", "2.safetensors"));
  ASSERT_EQ(index->entries.size(), 3u);
  EXPECT_EQ(index->entries[0].tensor, "a");
  ASSERT_NE(Find(*index, "c"), nullptr);
  EXPECT_EQ(Find(*index, "c")->file, 1u);
  EXPECT_EQ(Find(*index, "no"), nullptr);
  EXPECT_EQ(Find(*index, "bb"), nullptr);
}

struct IndexRow {
  const char* name;
  std::string json;
  Errc code;
  std::string tensor;
  std::optional<uint64_t> offset;
  std::string message;
};

void PrintTo(const IndexRow& row, std::ostream* out) { *out << row.name; }

std::vector<IndexRow> IndexRows() {
  return {
      {"Empty", "", Errc::kCorrupt, "", 0, "JSON ends too early"},
      {"NoObject", "[]", Errc::kCorrupt, "", 0, "the index is an array instead of an object"},
      {"Null", "null", Errc::kCorrupt, "", 3, "the index is null instead of an object"},
      {"NoMap", "{\"metadata\":{}}", Errc::kCorrupt, "", {}, "the index has no weight_map"},
      {"MapInMetadataOnly",
       "{\"metadata\":{\"weight_map\":{}}}",
       Errc::kCorrupt,
       "",
       {},
       "the index has no weight_map"},
      {"MapIsArray", "{\"weight_map\":[]}", Errc::kCorrupt, "", 14,
       "found an array, but weight_map is"},
      {"MapIsString", "{\"weight_map\":\"a\"}", Errc::kCorrupt, "", 16,
       "found a string, but weight_map is"},
      {"MapIsNull", "{\"weight_map\":null}", Errc::kCorrupt, "", 17,
       "found null, but weight_map is"},
      {"MapTwice", "{\"weight_map\":{},\"weight_map\":{}}", Errc::kCorrupt, "", 28,
       "weight_map is there twice"},
      {"FileIsNumber", "{\"weight_map\":{\"t\":1}}", Errc::kCorrupt, "t", 20,
       "found an integer, but"},
      {"FileIsArray", "{\"weight_map\":{\"t\":[\"a\"]}}", Errc::kCorrupt, "t", 19,
       "found an array, but"},
      {"FileIsObject", "{\"weight_map\":{\"t\":{\"a\":\"b\"}}}", Errc::kCorrupt, "t", 19,
       "found an object, but"},
      {"TensorTwice",
       "{\"weight_map\":{\"t\":\"a.safetensors\",\"t\":\"b.safetensors\"}}",
       Errc::kCorrupt,
       "t",
       {},
       "the index names it twice, in a.safetensors and in b.safetensors"},
      {"Trailing", "{\"weight_map\":{}}x", Errc::kCorrupt, "", 17, "JSON error at byte 0x78"},
      {"Cut", "{\"weight_map\":{\"t\":\"a.safe", Errc::kCorrupt, "", 26, "JSON ends too early"},
      {"NotUtf8", "{\"weight_map\":{\"t\xff\":\"a.safetensors\"}}", Errc::kCorrupt, "", 17,
       "JSON error at byte 0xff"},
      {"Escape", "{\"weight_map\":{\"t\":\"../a.safetensors\"}}", Errc::kCorrupt, "t", 36,
       "file name \"../a.safetensors\" is refused: it has a /"},
  };
}

class BadIndex : public ::testing::TestWithParam<IndexRow> {};

TEST_P(BadIndex, NamesPlaceAndReason) {
  const IndexRow& row = GetParam();
  const Scratch scratch;
  const std::string path = scratch.Write("i", row.json);
  const Result<Index> index = ReadIndex(path, ".safetensors");
  ASSERT_FALSE(index.ok());
  EXPECT_EQ(index.error().code(), row.code);
  EXPECT_EQ(index.error().file(), path);
  EXPECT_EQ(index.error().tensor(), row.tensor);
  EXPECT_EQ(index.error().offset(), row.offset);
  EXPECT_THAT(index.error().message(), HasSubstr(row.message));
}

INSTANTIATE_TEST_SUITE_P(All, BadIndex, ::testing::ValuesIn(IndexRows()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(ReadIndex, TooManyFiles) {
  const Scratch scratch;
  const auto read = [&](size_t files) {
    std::string json = "{\"weight_map\":{";
    for (size_t i = 0; i < files; ++i) {
      const std::string n = std::to_string(i);
      json += (i == 0 ? "\"t" : ",\"t") + n + "\":\"" + n + ".safetensors\"";
    }
    return ReadIndex(scratch.Write("i", json + "}}"), ".safetensors");
  };
  const Result<Index> most = read(kMaxShards);
  ASSERT_TRUE(most.ok()) << most.error().ToString();
  // Files are sorted as names, 10 before 2, and the entries follow them.
  EXPECT_EQ(most->files[Find(*most, "t10")->file], "10.safetensors");
  const Result<Index> over = read(kMaxShards + 1);
  ASSERT_FALSE(over.ok());
  EXPECT_EQ(over.error().code(), Errc::kLimit);
  EXPECT_THAT(over.error().message(), HasSubstr("more than 10000 files"));
}

TEST(ShardFileName, GoodOnes) {
  for (const char* name :
       {"model-00001-of-00002.safetensors", "model_00001-of-00072.safetensors", "a.safetensors",
        "..safetensors", "a..b.safetensors", "%.safetensors", "100%.safetensors", "%zz.safetensors",
        "%41.safetensors", "\xc3\xa9.safetensors"})
    EXPECT_EQ(ShardFileNameFault(name, ".safetensors"), "") << name;
  EXPECT_EQ(ShardFileNameFault("pytorch_model-00001-of-00002.bin", ".bin"), "");
}

TEST(ShardFileName, BadOnes) {
  const std::pair<std::string, std::string> kBad[] = {
      {"", "it is empty"},
      {".", "it names a folder"},
      {"..", "it names a folder"},
      {"/etc/x.safetensors", "it has a /"},
      {"../x.safetensors", "it has a /"},
      {"a/../x.safetensors", "it has a /"},
      {"a/x.safetensors", "it has a /"},
      {"..\\x.safetensors", "it has a backslash"},
      {"\\\\host\\share\\x.safetensors", "it has a backslash"},
      {"C:x.safetensors", "it starts with a drive letter"},
      {"c:\\x.safetensors", "it has a backslash"},
      {"a\nb.safetensors", "it has a control character"},
      {std::string("a\0.safetensors", 14), "it has a control character"},
      {"%2e%2e%2fx.safetensors", "it has a / once percent-encoding is undone"},
      {"%2E%2E%5Cx.safetensors", "it has a backslash once percent-encoding is undone"},
      {"%252e%252e%252fx.safetensors", "it has a / once percent-encoding is undone"},
      {"%25252fx.safetensors", "it has a / once percent-encoding is undone"},
      {"a%00.safetensors", "it has a control character once percent-encoding is undone"},
      {"model.bin", "it does not end in .safetensors"},
      {".safetensors", "it does not end in .safetensors"},
      {"x.SAFETENSORS", "it does not end in .safetensors"},
      {"x.safetensors.py", "it does not end in .safetensors"},
      {std::string(300, 'a') + ".safetensors", "it has 312 bytes"},
  };
  for (const auto& [name, fault] : kBad)
    EXPECT_EQ(ShardFileNameFault(name, ".safetensors"), fault) << name;
  EXPECT_EQ(ShardFileNameFault("x.safetensors", ".bin"), "it does not end in .bin");
}

// Every prefix and every flipped bit of a real index: read or refused, never anything worse.
TEST(RealIndex, Damaged) {
  const std::string bytes = ReadBytes(kIndexData + "/sharded/model.safetensors.index.json");
  MemoryFile memory;
  const auto read_or_refused = [&](const std::string& what) {
    const Result<Index> index = ReadIndex(memory.path(), ".safetensors");
    if (index.ok()) {
      for (const std::string& file : index->files)
        EXPECT_EQ(ShardFileNameFault(file, ".safetensors"), "") << what;
    } else {
      EXPECT_EQ(index.error().code(), Errc::kCorrupt) << what << index.error().ToString();
    }
    return index.ok();
  };
  memory.Set(bytes);
  EXPECT_TRUE(read_or_refused("whole"));
  for (size_t length = bytes.size() - 1; length-- > 0;) {  // without the last line feed it is whole
    memory.Truncate(length);
    EXPECT_FALSE(read_or_refused("cut")) << length;
  }
  memory.Set(bytes);
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      memory.Write(i, std::string(1, static_cast<char>(bytes[i] ^ (1 << bit))));
      read_or_refused("byte " + std::to_string(i) + " bit " + std::to_string(bit));
    }
    memory.Write(i, bytes.substr(i, 1));
  }
}

TEST(IndexJson, IsWhatTransformersWrites) {
  for (const char* folder : {"/sharded"}) {
    const std::string expected = ReadBytes(kIndexData + folder + "/model.safetensors.index.json");
    const Result<Json> json = ParseJson(expected);
    ASSERT_TRUE(json.ok());
    std::vector<std::pair<std::string, std::string>> map;
    for (const auto& [tensor, file] : (*json)["weight_map"].items()) map.emplace_back(tensor, file);
    std::reverse(map.begin(), map.end());  // the order given does not matter
    EXPECT_EQ(
        IndexJson(map, (*json)["metadata"]["total_size"], (*json)["metadata"]["total_parameters"]),
        expected);
  }
}

TEST(IndexJson, EscapesAsPythonDoes) {
  EXPECT_EQ(IndexJson({{"\xc3\xa9\"\n\x7f\xf0\x9f\x98\x80", "a.safetensors"}}, 1, 2),
            "{\n  \"metadata\": {\n    \"total_parameters\": 2,\n    \"total_size\": 1\n  },\n"
            "  \"weight_map\": {\n    \"\\u00e9\\\"\\n\\u007f\\ud83d\\ude00\": \"a.safetensors\"\n "
            " }\n}\n");
  EXPECT_EQ(IndexJson({}, 0, 0),
            "{\n  \"metadata\": {\n    \"total_parameters\": 0,\n    \"total_size\": 0\n  },\n"
            "  \"weight_map\": {}\n}\n");
}

TEST(IndexJson, IsReadBack) {
  const Scratch scratch;
  const Result<Index> index = ReadIndex(
      scratch.Write("i", IndexJson({{"b\xc3\xa9", "2.safetensors"}, {"a", "1.safetensors"}}, 5, 6)),
      ".safetensors");
  ASSERT_TRUE(index.ok()) << index.error().ToString();
  ASSERT_NE(Find(*index, "b\xc3\xa9"), nullptr);
  EXPECT_EQ(index->files[Find(*index, "b\xc3\xa9")->file], "2.safetensors");
}

}  // namespace
}  // namespace nxdkit::hf
