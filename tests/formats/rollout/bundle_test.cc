// Finding a bundle's configuration and shards: places, missing ranks, ignored files.
#include "formats/rollout/bundle.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/formats/scratch.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::rollout {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_util::ExpectError;

// A file at this path without tensors; opens nothing.
Result<TensorFile> OpenEmpty(const std::string& path) {
  TensorFile file;
  file.path = path;
  file.format = "safetensors";
  return file;
}

constexpr char kOptimum[] =
    R"({"_serialized_key": "NxDNeuronConfig", "tp_degree": 2, "local_ranks_size": 2})";
constexpr char kNxdi[] =
    R"({"neuron_config": {"tp_degree": 2, "local_ranks_size": 2,
        "save_sharded_checkpoint": true}})";

class Folder {
 public:
  Folder& Add(const std::string& name, std::string_view contents = "") {
    fs::create_directories(fs::path(scratch_.Path(name)).parent_path());
    scratch_.Write(name, contents);
    return *this;
  }
  Folder& AddShards(const std::string& place, int from, int to) {
    for (int rank = from; rank < to; ++rank) Add(place + ShardFileName(rank));
    return *this;
  }
  std::string Path(const std::string& name = "") const {
    return name.empty() ? scratch_.folder() : scratch_.Path(name);
  }

 private:
  testing_util::Scratch scratch_;
};

Bundle Opened(const Folder& folder) {
  auto bundle = OpenBundle(folder.Path(), OpenEmpty);
  EXPECT_TRUE(bundle.ok()) << bundle.error().ToString();
  return bundle.ok() ? *std::move(bundle) : Bundle();
}

std::vector<std::string> ShardNames(const Bundle& bundle) {
  std::vector<std::string> names;
  for (const TensorFile& shard : bundle.shards) names.push_back(fs::path(shard.path).filename());
  return names;
}

TEST(Places, OfBothFlavorsAndOfABareFolder) {
  struct Row {
    const char* config;
    const char* place;
  };
  for (const Row& row : {Row{kOptimum, "checkpoint/weights/"}, Row{kNxdi, "weights/"},
                         Row{kOptimum, "weights/"}, Row{kNxdi, "checkpoint/weights/"},
                         Row{kOptimum, ""}, Row{nullptr, ""}, Row{nullptr, "weights/"}}) {
    SCOPED_TRACE(row.place);
    Folder folder;
    if (row.config) folder.Add("neuron_config.json", row.config);
    folder.AddShards(row.place, 0, 2);
    EXPECT_TRUE(*LooksLikeBundle(folder.Path()));
    const Bundle bundle = Opened(folder);
    EXPECT_THAT(ShardNames(bundle), ElementsAre("tp0_sharded_checkpoint.safetensors",
                                                "tp1_sharded_checkpoint.safetensors"));
    EXPECT_EQ(bundle.config.has_value(), row.config != nullptr);
    EXPECT_TRUE(fs::equivalent(bundle.weights_folder, folder.Path("") + "/" + row.place));
    EXPECT_THAT(bundle.warnings, IsEmpty());
  }
}

TEST(Places, OptimumsComesFirstAndTheOtherIsMentioned) {
  Folder folder;
  folder.Add("neuron_config.json", kOptimum);
  folder.AddShards("checkpoint/weights/", 0, 2).AddShards("weights/", 0, 2);
  const Bundle bundle = Opened(folder);
  EXPECT_EQ(bundle.weights_folder, folder.Path("checkpoint/weights"));
  EXPECT_THAT(bundle.warnings,
              ElementsAre(folder.Path("weights") + " holds shards too; they are ignored"));
}

TEST(Places, SubModelsOfAVisionModelAreRefused) {
  Folder folder;
  folder.Add("neuron_config.json", kOptimum).AddShards("checkpoint/text/weights/", 0, 2);
  const auto error = ExpectError(OpenBundle(folder.Path(), OpenEmpty), Errc::kUnsupported,
                                 "shards of one of several sub-models");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), folder.Path("checkpoint/text/weights"));
}

TEST(Places, WeightsFolders) {
  EXPECT_EQ(WeightsFolder(Flavor::kOptimum), "checkpoint/weights");
  EXPECT_EQ(WeightsFolder(Flavor::kNxdi), "weights");
}

TEST(Places, NothingIsNoBundle) {
  Folder folder;
  folder.Add("model.safetensors").Add("weights/readme.txt");
  EXPECT_FALSE(*LooksLikeBundle(folder.Path()));
  EXPECT_FALSE(*LooksLikeBundle(folder.Path("absent")));
  ExpectError(OpenBundle(folder.Path(), OpenEmpty), Errc::kNotFound,
              "neither neuron_config.json nor rank shards");
  ExpectError(OpenBundle(folder.Path("absent"), OpenEmpty), Errc::kNotFound, "no such file");
  ExpectError(OpenBundle(folder.Path("model.safetensors"), OpenEmpty), Errc::kUnsupported,
              "a rollout bundle is a folder");
}

TEST(Ranks, AreSortedAsNumbers) {
  Folder folder;
  folder.AddShards("", 0, 12);
  const std::vector<std::string> names = ShardNames(Opened(folder));
  ASSERT_EQ(names.size(), 12u);
  EXPECT_EQ(names[2], ShardFileName(2));
  EXPECT_EQ(names[11], ShardFileName(11));
}

TEST(Ranks, OtherNamesArePassedOver) {
  Folder folder;
  folder.AddShards("weights/", 0, 2).Add("neuron_config.json", kNxdi);
  for (const char* name :
       {"tp00_sharded_checkpoint.safetensors", "tp02_sharded_checkpoint.safetensors",
        "tp-1_sharded_checkpoint.safetensors", "tp_sharded_checkpoint.safetensors",
        "tp2_sharded_checkpoint.safetensors.bak", "tp2x_sharded_checkpoint.safetensors",
        "tp9999999999_sharded_checkpoint.safetensors", "lora_adapter.safetensors"})
    folder.Add(std::string("weights/") + name);
  EXPECT_EQ(Opened(folder).shards.size(), 2u);
}

TEST(Ranks, AHoleIsNamed) {
  Folder folder;
  folder.AddShards("weights/", 0, 3).AddShards("weights/", 4, 6);
  const auto error =
      ExpectError(OpenBundle(folder.Path(), OpenEmpty), Errc::kCorrupt,
                  "incomplete bundle: tp3_sharded_checkpoint.safetensors is missing, "
                  "ranks 2 to 4 found around it");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), folder.Path("weights"));
}

TEST(Ranks, TheFirstOneMayNotBeMissing) {
  Folder folder;
  folder.AddShards("weights/", 1, 3);
  ExpectError(OpenBundle(folder.Path(), OpenEmpty), Errc::kCorrupt,
              "tp0_sharded_checkpoint.safetensors is missing, the first one found is of rank 1");
}

TEST(Ranks, MustBeThoseOfTheConfiguration) {
  struct Row {
    int from, to;
    const char* message;
  };
  for (const Row& row : {Row{0, 1, "ranks 0 to 0 found, neuron_config.json says 0 to 1"},
                         Row{0, 3, "ranks 0 to 2 found, neuron_config.json says 0 to 1"},
                         Row{1, 3, "ranks 1 to 2 found, neuron_config.json says 0 to 1"}}) {
    Folder folder;
    folder.Add("neuron_config.json", kNxdi).AddShards("weights/", row.from, row.to);
    const auto error =
        ExpectError(OpenBundle(folder.Path(), OpenEmpty), Errc::kCorrupt, row.message);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->file(), folder.Path("weights"));
  }
}

TEST(Ranks, OfOneNodeOfTwo) {
  Folder folder;
  folder.Add("neuron_config.json",
             R"({"neuron_config": {"tp_degree": 4, "start_rank_id": 2, "local_ranks_size": 2}})");
  folder.AddShards("weights/", 2, 4);
  const Bundle bundle = Opened(folder);
  EXPECT_EQ(bundle.first_rank, 2);
  EXPECT_EQ(bundle.shards.size(), 2u);
}

TEST(Shards, MayBeAbsent) {
  Folder optimum;
  optimum.Add("neuron_config.json", kOptimum).Add("model.pt");
  EXPECT_THAT(Opened(optimum).shards, IsEmpty());
  Folder nxdi;
  nxdi.Add("neuron_config.json", R"({"neuron_config": {"save_sharded_checkpoint": false}})");
  EXPECT_EQ(Opened(nxdi).weights_folder, "");
  Folder promised;
  promised.Add("neuron_config.json", kNxdi);
  const auto error =
      ExpectError(OpenBundle(promised.Path(), OpenEmpty), Errc::kCorrupt,
                  "save_sharded_checkpoint is true, but there is no weights/ folder with shards");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), promised.Path());
}

TEST(Shards, ThatCannotBeOpenedCarryTheirRank) {
  Folder folder;
  folder.AddShards("weights/", 0, 2).Add("neuron_config.json", kNxdi);
  const auto error = ExpectError(
      OpenBundle(folder.Path(),
                 [](const std::string& path) -> Result<TensorFile> {
                   if (path.find("tp1") == std::string::npos) return OpenEmpty(path);
                   return Error(Errc::kCorrupt, "header length 9 is over the file's 4 bytes");
                 }),
      Errc::kCorrupt, "header length 9");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->rank(), 1);
  EXPECT_EQ(error->file(), folder.Path("weights/tp1_sharded_checkpoint.safetensors"));
}

TEST(Shards, MetadataIsMentioned) {
  Folder folder;
  folder.AddShards("", 0, 1);
  const auto bundle = OpenBundle(folder.Path(), [](const std::string& path) {
    Result<TensorFile> file = OpenEmpty(path);
    file->metadata.push_back({"format", "pt"});
    return file;
  });
  ASSERT_TRUE(bundle.ok()) << bundle.error().ToString();
  EXPECT_THAT(bundle->warnings, ElementsAre(HasSubstr("has __metadata__; rank shards have none")));
}

TEST(Blobs, AreFoundByName) {
  Folder folder;
  folder.Add("neuron_config.json", kOptimum);
  folder.Add("model.pt").Add("model_text.pt").Add("modelx.pt").Add("model.safetensors");
  EXPECT_THAT(Opened(folder).blobs, ElementsAre("model.pt", "model_text.pt"));
}

TEST(Configuration, AFaultNamesItsFile) {
  Folder folder;
  folder.Add("neuron_config.json", R"({"_serialized_key": "NxDNeuronConfig", "tp_degree": "two"})");
  const auto error = ExpectError(OpenBundle(folder.Path(), OpenEmpty), Errc::kCorrupt,
                                 "found \"two\", expected an integer");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), folder.Path("neuron_config.json"));
  EXPECT_EQ(error->member(), "tp_degree");
}

// The view of an NFS client with a link older than the folder next to it.
TEST(OpenBundle, WaitsForALinkThatLeadsToNothing) {
  Folder files;
  files.Add("neuron_config.json", kOptimum);
  files.Add("checkpoint/.weights.1/tp0_sharded_checkpoint.safetensors");
  files.Add("checkpoint/.weights.1/tp1_sharded_checkpoint.safetensors");
  const std::string link = files.Path("checkpoint/weights");
  fs::create_symlink(".weights.0", link);
  std::thread client([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    fs::create_symlink(".weights.1", link + "-new");
    fs::rename(link + "-new", link);
  });
  const auto bundle = OpenBundle(files.Path(), OpenEmpty);
  client.join();
  ASSERT_TRUE(bundle.ok()) << bundle.error().ToString();
  EXPECT_EQ(bundle->shards.size(), 2u);
}

}  // namespace
}  // namespace nxdkit::rollout
