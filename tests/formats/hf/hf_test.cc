// Folders of weights: the real ones of testdata/hf, and every way in which a folder can be wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "formats/hf/hf.h"
#include "formats/hf/index.h"
#include "formats/safetensors/safetensors.h"
#include "formats/torch/archive.h"
#include "lib/system/file.h"
#include "lib/system/paths.h"
#include "tests/formats/scratch.h"

namespace nxdkit::hf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_util::Scratch;

const std::string kData = NXDKIT_TESTDATA "/hf";

Result<TensorFile> OpenAny(const std::string& path) {
  if (path.ends_with(".safetensors")) return safetensors::Open(path);
  NXDKIT_ASSIGN(const torch::Archive archive, torch::ReadArchive(path));
  return torch::FlattenStateDict(archive);
}

// A file of tensors whose names are the file's contents, one per line.
Result<TensorFile> OpenText(const std::string& path) {
  NXDKIT_ASSIGN(const std::string text, ReadSmallFile(path, 1 << 20));
  TensorFile file;
  file.path = path;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    file.tensors.emplace_back().name = text.substr(begin, end - begin);
    begin = end + 1;
  }
  return file;
}

std::vector<std::string> FileNames(const Checkpoint& checkpoint) {
  std::vector<std::string> names;
  for (const TensorFile& file : checkpoint.files) names.push_back(BaseName(file.path));
  return names;
}

size_t TensorCount(const Checkpoint& checkpoint) {
  size_t count = 0;
  for (const TensorFile& file : checkpoint.files) count += file.tensors.size();
  return count;
}

TEST(OpenReal, ShardedByTransformers) {
  const Result<Checkpoint> checkpoint = Open(kData + "/sharded", OpenAny);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().ToString();
  EXPECT_TRUE(checkpoint->sharded);
  EXPECT_EQ(checkpoint->folder, kData + "/sharded");
  EXPECT_THAT(FileNames(*checkpoint),
              ElementsAre("model-00001-of-00004.safetensors", "model-00002-of-00004.safetensors",
                          "model-00003-of-00004.safetensors", "model-00004-of-00004.safetensors"));
  EXPECT_EQ(TensorCount(*checkpoint), 21u);
}

TEST(OpenReal, SingleByTransformers) {
  const Result<Checkpoint> checkpoint = Open(kData + "/single", OpenAny);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().ToString();
  EXPECT_FALSE(checkpoint->sharded);
  EXPECT_THAT(FileNames(*checkpoint), ElementsAre("model.safetensors"));
  EXPECT_EQ(TensorCount(*checkpoint), 21u);
}

TEST(OpenReal, ShardedByTorch) {
  const Result<Checkpoint> checkpoint = Open(kData + "/sharded_bin", OpenAny);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().ToString();
  EXPECT_TRUE(checkpoint->sharded);
  EXPECT_THAT(FileNames(*checkpoint),
              ElementsAre("pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"));
  EXPECT_EQ(TensorCount(*checkpoint), 21u);
}

TEST(OpenReal, FolderAsLinks) {  // as the hub's cache has it
  const Scratch scratch;
  for (const auto& entry : std::filesystem::directory_iterator(kData + "/sharded"))
    std::filesystem::create_symlink(entry.path(), scratch.Path(entry.path().filename().string()));
  const Result<Checkpoint> checkpoint = Open(scratch.folder(), OpenAny);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().ToString();
  EXPECT_EQ(TensorCount(*checkpoint), 21u);
}

// One form after the other, each alone.
TEST(Open, KnowsEveryForm) {
  const std::pair<const char*, const char*> rows[] = {
      {"pytorch_model.bin.index.json", "x.bin"},
      {"pytorch_model.bin", "pytorch_model.bin"},
      {"model.safetensors.index.json", "x.safetensors"},
      {"model.safetensors", "model.safetensors"}};
  for (const auto& [name, file] : rows) {
    const Scratch scratch;
    EXPECT_FALSE(*HasWeights(scratch.folder()));
    scratch.Write(file, "t\n");
    if (IsIndexName(name))
      scratch.Write(name, std::string("{\"weight_map\":{\"t\":\"") + file + "\"}}");
    EXPECT_TRUE(*HasWeights(scratch.folder())) << name;
    const Result<Checkpoint> checkpoint = Open(scratch.folder(), OpenText);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().ToString();
    EXPECT_THAT(FileNames(*checkpoint), ElementsAre(file));
    EXPECT_EQ(checkpoint->choice, std::nullopt);
  }
}

// Saves of which one is older, and it is unknown which.
struct SetsRow {
  const char* name;
  std::vector<const char*> files;  // indices name "model-00001-of-00002" and their like, with t1
  std::vector<std::string> sets;
};

std::vector<SetsRow> SetsRows() {
  const char* const index = "model.safetensors.index.json";
  const char* const shard = "model-00001-of-00001.safetensors";
  const char* const stray = "model-00001-of-00003.safetensors";
  return {{"SafetensorsAndBin",
           {"model.safetensors", "pytorch_model.bin"},
           {"model.safetensors", "pytorch_model.bin"}},
          {"FileAndShards", {"model.safetensors", index, shard}, {"model.safetensors", index}},
          {"ShardsAndShards", {index, shard, stray}, {index, stray}},
          {"ShardsAndShardsOfBin",
           {index, shard, "pytorch_model-00002-of-00002.bin"},
           {index, "pytorch_model-00002-of-00002.bin"}},
          {"FileAndShardsWithoutIndex", {"model.safetensors", stray}, {"model.safetensors", stray}},
          {"Consolidated",
           {index, shard, "consolidated.safetensors"},
           {index, "consolidated.safetensors"}}};
}

class SeveralSets : public ::testing::TestWithParam<SetsRow> {
 protected:
  void SetUp() override {
    for (const char* file : GetParam().files)
      scratch_.Write(file, IsIndexName(file)
                               ? "{\"weight_map\":{\"t\":\"model-00001-of-00001.safetensors\"}}"
                               : "t\n");
  }
  const Scratch scratch_;
};

TEST_P(SeveralSets, AreRefusedByName) {
  const SetsRow& row = GetParam();
  EXPECT_EQ(*WeightSets(scratch_.folder()), row.sets);
  const Result<Checkpoint> checkpoint = Open(scratch_.folder(), OpenText);
  ASSERT_FALSE(checkpoint.ok());
  EXPECT_EQ(checkpoint.error().code(), Errc::kUsage);
  EXPECT_EQ(checkpoint.error().file(), scratch_.folder());
  EXPECT_EQ(checkpoint.error().message(),
            "2 sets of weights are in the folder, and nothing says which is the model: " +
                row.sets[0] + ", " + row.sets[1]);
}

TEST_P(SeveralSets, OneIsChosenByItsName) {
  for (const std::string& set : GetParam().sets) {
    for (const std::string& said : {set, scratch_.Path(set)}) {
      const Result<Checkpoint> checkpoint = Open(scratch_.folder(), OpenText, said);
      ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().ToString();
      EXPECT_EQ(checkpoint->sharded, IsIndexName(set));
      EXPECT_EQ(checkpoint->choice, (Choice{scratch_.Path(set), 2, "option"}));
    }
  }
  for (const char* other : {"no.safetensors", "/tmp/model.safetensors", "../model.safetensors"}) {
    const Result<Checkpoint> checkpoint = Open(scratch_.folder(), OpenText, other);
    ASSERT_FALSE(checkpoint.ok());
    EXPECT_EQ(checkpoint.error().code(), Errc::kUsage);
    EXPECT_EQ(checkpoint.error().message(), std::string(other) + " is not a file of this folder");
  }
}

TEST(Open, ANamedSetIsReadBesideABrokenOne) {
  const Scratch scratch;
  scratch.Write("model.safetensors", "t\n");
  scratch.Write("pytorch_model.bin.index.json", "{\"weight_m");
  EXPECT_FALSE(Open(scratch.folder(), OpenText).ok());
  const Result<Checkpoint> checkpoint = Open(scratch.folder(), OpenText, "model.safetensors");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().ToString();
  EXPECT_THAT(FileNames(*checkpoint), ElementsAre("model.safetensors"));
}

INSTANTIATE_TEST_SUITE_P(All, SeveralSets, ::testing::ValuesIn(SetsRows()),
                         [](const auto& row) { return std::string(row.param.name); });

// Names that no loader takes for the model's weights.
TEST(Open, WhatIsNoOtherSet) {
  const Scratch scratch;
  scratch.Write("model.safetensors", "t\n");
  for (const char* name : {"model.fp16.safetensors", "model-00001-of-0002.safetensors",
                           "my-model-00001-of-00002.safetensors", "training_args.bin",
                           "model-00001-of-00002.safetensors.bak", "tf_model.h5"})
    scratch.Write(name, "x");
  EXPECT_TRUE(Open(scratch.folder(), OpenText).ok());
  EXPECT_EQ(WeightSets(scratch.folder())->size(), 1u);
}

// A set that the reference does not find, and that cannot be confused with another.
TEST(Open, TakesShardsWithoutAnIndexThatAreAllThere) {
  const Scratch scratch;
  scratch.Write("model-00001-of-00002.safetensors", "a\n");
  EXPECT_FALSE(*HasWeights(scratch.folder())) << "the second is missing";
  scratch.Write("model-00002-of-00002.safetensors", "b\n");
  EXPECT_TRUE(*HasWeights(scratch.folder()));
  const Result<Checkpoint> checkpoint = Open(scratch.folder(), OpenText);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().ToString();
  EXPECT_EQ(TensorCount(*checkpoint), 2u);
  EXPECT_EQ(checkpoint->choice, std::nullopt);
  scratch.Write("model-00002-of-00002.safetensors", "b\na\n");
  const Result<Checkpoint> twice = Open(scratch.folder(), OpenText);
  ASSERT_FALSE(twice.ok());
  EXPECT_EQ(twice.error().tensor(), "a");
  EXPECT_THAT(twice.error().message(), HasSubstr("in model-00001-of-00002.safetensors too"));
}

TEST(Open, TakesAVariantThatIsAlone) {
  const Scratch scratch;
  scratch.Write("model.fp16.safetensors", "t\n");
  const Result<Checkpoint> checkpoint = Open(scratch.folder(), OpenText);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().ToString();
  EXPECT_THAT(FileNames(*checkpoint), ElementsAre("model.fp16.safetensors"));
  scratch.Write("model.bf16.safetensors", "t\n");
  const Result<Checkpoint> two = Open(scratch.folder(), OpenText);
  ASSERT_FALSE(two.ok());
  EXPECT_EQ(two.error().code(), Errc::kUsage);
  EXPECT_THAT(two.error().message(), HasSubstr("2 sets of weights"));
  EXPECT_TRUE(Open(scratch.folder(), OpenText, "model.bf16.safetensors").ok());
}

TEST(Open, NothingThere) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch.Path("model.safetensors"));  // not a file
  for (const std::string& folder : {scratch.folder(), scratch.Path("missing")}) {
    const Result<Checkpoint> checkpoint = Open(folder, OpenText);
    ASSERT_FALSE(checkpoint.ok());
    EXPECT_EQ(checkpoint.error().code(), Errc::kNotFound);
    EXPECT_EQ(checkpoint.error().file(), folder);
    EXPECT_THAT(checkpoint.error().message(), HasSubstr("model.safetensors.index.json"));
  }
}

TEST(Open, FilesComeSortedByName) {
  const Scratch scratch;
  scratch.Write("b.safetensors", "t1\n");
  scratch.Write("a.safetensors", "t2\n");
  scratch.Write("model.safetensors.index.json",
                "{\"weight_map\":{\"t1\":\"b.safetensors\",\"t2\":\"a.safetensors\"}}");
  const Result<Checkpoint> checkpoint = Open(scratch.folder(), OpenText);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().ToString();
  EXPECT_THAT(FileNames(*checkpoint), ElementsAre("a.safetensors", "b.safetensors"));
}

struct Row {
  const char* name;
  std::string a;           // contents of a.safetensors, "-": not there
  std::string b;           // of b.safetensors
  std::string weight_map;  // of the index
  Errc code;
  std::string file;  // named by the error
  std::string tensor;
  std::string message;
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

const char* const kMap = "{\"t1\":\"a.safetensors\",\"t2\":\"b.safetensors\"}";
const char* const kIndex = "model.safetensors.index.json";

std::vector<Row> Rows() {
  return {
      {"MissingShard", "t1\n", "-", kMap, Errc::kNotFound, kIndex, "",
       "the file is missing (1 of the 2 that the index names are)"},
      {"AllMissing", "-", "-", kMap, Errc::kNotFound, kIndex, "",
       "the file is missing (2 of the 2 that the index names are)"},
      {"Ghost", "t1\n", "", kMap, Errc::kCorrupt, kIndex, "t2",
       "the index puts this tensor into b.safetensors, which lacks it"},
      {"NotInTheIndex", "t1\n", "t2\nt3\n", kMap, Errc::kCorrupt, "b.safetensors", "t3",
       "the index model.safetensors.index.json does not name this tensor"},
      {"InTheOtherFile", "t1\nt2\n", "t2\n", kMap, Errc::kCorrupt, "a.safetensors", "t2",
       "the index puts this tensor into b.safetensors"},
  };
}

class Inconsistent : public ::testing::TestWithParam<Row> {};

TEST_P(Inconsistent, NamesFileAndTensor) {
  const Row& row = GetParam();
  const Scratch scratch;
  if (row.a != "-") scratch.Write("a.safetensors", row.a);
  if (row.b != "-") scratch.Write("b.safetensors", row.b);
  scratch.Write(kIndex, "{\"weight_map\":" + row.weight_map + "}");
  const Result<Checkpoint> checkpoint = Open(scratch.folder(), OpenText);
  ASSERT_FALSE(checkpoint.ok());
  EXPECT_EQ(checkpoint.error().code(), row.code);
  EXPECT_EQ(checkpoint.error().file(), scratch.Path(row.file));
  EXPECT_EQ(checkpoint.error().tensor(), row.tensor);
  EXPECT_THAT(checkpoint.error().message(), HasSubstr(row.message));
}

INSTANTIATE_TEST_SUITE_P(All, Inconsistent, ::testing::ValuesIn(Rows()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Open, ABrokenShardNamesItself) {
  const Scratch scratch;
  scratch.Write("a.safetensors", "short");
  scratch.Write(kIndex, "{\"weight_map\":{\"t\":\"a.safetensors\"}}");
  const Result<Checkpoint> checkpoint = Open(scratch.folder(), OpenAny);
  ASSERT_FALSE(checkpoint.ok());
  EXPECT_EQ(checkpoint.error().file(), scratch.Path("a.safetensors"));
  EXPECT_THAT(checkpoint.error().message(), HasSubstr("HeaderTooSmall"));
}

TEST(SideFiles, SettingsAreAnObject) {
  const Scratch scratch;
  for (const char* text : {"", " \n", "[]", "\"text\"", "null"}) {
    const auto status = ReadSettings(scratch.Write("generation_config.json", text));
    ASSERT_FALSE(status.ok()) << text;
    EXPECT_EQ(status.error().code(), Errc::kCorrupt);
    EXPECT_EQ(status.error().file(), scratch.Path("generation_config.json"));
    EXPECT_THAT(status.error().message(), HasSubstr("expected a JSON object"));
    EXPECT_TRUE(ReadSettings(scratch.Write("merges.txt", text)).ok());
  }
  EXPECT_TRUE(ReadSettings(scratch.Write("tokenizer_config.json", "\n{}")).ok());
}

TEST(SideFiles, ThoseThatAreThereSorted) {
  EXPECT_THAT(*SideFiles(kData + "/sharded"), ElementsAre("config.json", "generation_config.json"));
  const Scratch scratch;
  for (const char* name :
       {"vocab.json", "README.md", "merges.txt", "model.safetensors", "tokenizer.json",
        "added_tokens.json", "chat_template.jinja", "spiece.model", "modeling_x.py"})
    scratch.Write(name, "x");
  std::filesystem::create_directory(scratch.Path("tokenizer.model"));  // not a file
  EXPECT_THAT(*SideFiles(scratch.folder()),
              ElementsAre("added_tokens.json", "chat_template.jinja", "merges.txt", "spiece.model",
                          "tokenizer.json", "vocab.json"));
  EXPECT_THAT(*SideFiles(scratch.Path("missing")), ElementsAre());
}

}  // namespace
}  // namespace nxdkit::hf
