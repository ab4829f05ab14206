// metadata.pkl of torch_checkpointing: the values read from it, and every fault by its code and
// place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "formats/dcp/rank_metadata.h"
#include "formats/torch/pickle_writer.h"
#include "tests/formats/scratch.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::dcp {
namespace {

using nlohmann::json;
using testing_util::ExpectError;
using testing_util::ReadBytes;
using torch::PickleValue;

PickleValue ToPickle(const json& value) {
  if (value.is_string()) return {value.get<std::string>()};
  if (value.is_number_float()) return {value.get<double>()};
  if (value.is_number()) return {value.get<int64_t>()};
  if (value.is_array()) {
    torch::PickleList list;
    for (const json& item : value) list.push_back(ToPickle(item));
    return PickleValue::MakeList(std::move(list));
  }
  if (!value.is_object()) return {};
  torch::PickleDict dict;
  for (const auto& [key, item] : value.items()) dict.push_back({{key}, ToPickle(item)});
  return PickleValue::MakeDict(std::move(dict));
}

std::string Pickled(const json& value) {
  const auto text = torch::WritePickle(ToPickle(value), {});
  EXPECT_TRUE(text.ok()) << text.error().ToString();
  return text.ok() ? *text : "";
}

// A tensor [4, 2] in rows over two ranks; the second rank's file has another name.
json SmallJson() {
  return json::parse(R"({
    "metadata": {"model": {
      "nested_path_to_metadata": {"[\"w\",1]": [{"ranks": [0, 1], "sharding_metadata": {
        "type": "DTensorShardingMetadata", "data": {
          "global_shape": [4, 2], "dtype": "torch.float32", "stride": [2, 1],
          "mesh_spec": {"device_type": "cpu", "mesh_shape": [2], "mesh_data": [1, 0]},
          "placements": [{"type": "Shard", "dim": 0}]}}}]},
      "rank_to_layout_info": {"0": null, "1": {"file_path": "b.safetensors",
        "serialization_format": {"type": "SafetensorsSerialization"}}}}},
    "world_size": 2, "version": "2.0"})");
}

constexpr char kItem[] = "/metadata/model";
const std::string kGroup = std::string(kItem) + "/nested_path_to_metadata/[\"w\",1]/0";
const std::string kData = kGroup + "/sharding_metadata/data";
const std::string kLayouts = std::string(kItem) + "/rank_to_layout_info";

json BoxesJson() {
  json out = SmallJson();
  out[json::json_pointer(kGroup + "/ranks")] = json::parse("[0]");
  out[json::json_pointer(kGroup + "/sharding_metadata")] = json::parse(R"({
    "type": "default_tensor_v1", "data": {"global_shape": [4, 2], "dtype": "torch.float32",
      "global_offsets": [[0, 0], [2, 0], [4, 0]], "local_offsets": [[2, 0], [0, 0], [0, 0]],
      "local_sizes": [[2, 2], [2, 2], [0, 2]]}})");
  return out;
}

TEST(RankMetadata, IsReadAsItWasWritten) {
  const auto metadata = ParseRankMetadata(Pickled(SmallJson()));
  ASSERT_TRUE(metadata.ok()) << metadata.error().ToString();
  EXPECT_EQ(metadata->world_size, 2);
  ASSERT_EQ(metadata->items.size(), 1u);
  const RankedItem& item = metadata->items[0];
  EXPECT_EQ(item.name, "model");
  ASSERT_EQ(item.files.size(), 1u);
  EXPECT_EQ(item.files.at(1).name, "b.safetensors");
  EXPECT_TRUE(item.files.at(1).safetensors);
  ASSERT_EQ(item.tensors.size(), 1u);
  EXPECT_EQ(item.tensors[0].path.Text(), "w.1");
  const ShardGroup& group = item.tensors[0].groups.at(0);
  EXPECT_EQ(group.shape, (Shape{4, 2}));
  // Rank 1 is the first in the mesh.
  const auto shard = group.Of(1);
  ASSERT_TRUE(shard.ok());
  EXPECT_EQ(shard->parts, (std::vector<Part>{{{{0, 0}, {2, 2}}, {0, 0}}}));
}

TEST(RankMetadata, BoxesAreTakenAsTheyAre) {
  const auto metadata = ParseRankMetadata(Pickled(BoxesJson()));
  ASSERT_TRUE(metadata.ok()) << metadata.error().ToString();
  const auto shard = metadata->items[0].tensors[0].groups.at(0).Of(0);
  ASSERT_TRUE(shard.ok());
  EXPECT_EQ(shard->parts,
            (std::vector<Part>{{{{0, 0}, {2, 2}}, {2, 0}}, {{{2, 0}, {2, 2}}, {0, 0}}}));
}

// The fixtures, which the package's own classes made: versions 2.0 and 1.0 say the same.
TEST(RankMetadata, BothVersionsAreRead) {
  const std::string forms = NXDKIT_TESTDATA "/dcp/forms/";
  const auto two = ParseRankMetadata(ReadBytes(forms + "ranks/metadata.pkl"));
  const auto one = ParseRankMetadata(ReadBytes(forms + "ranks_1/metadata.pkl"));
  ASSERT_TRUE(two.ok()) << two.error().ToString();
  ASSERT_TRUE(one.ok()) << one.error().ToString();
  ASSERT_EQ(two->items.size(), 2u);
  ASSERT_EQ(one->items.size(), 1u);
  const RankedItem& a = two->items[0];
  const RankedItem& b = one->items[0];
  EXPECT_EQ(a.name, "model");
  EXPECT_EQ(b.name, "model");
  ASSERT_EQ(a.tensors.size(), 5u);
  ASSERT_EQ(b.tensors.size(), 5u);
  for (const RankedTensor& tensor : a.tensors) {
    const auto same = std::ranges::find_if(b.tensors, [&](const RankedTensor& other) {
      return other.path.Unique() == tensor.path.Unique();
    });
    ASSERT_NE(same, b.tensors.end());
    for (int64_t rank = 0; rank < 4; ++rank)
      EXPECT_EQ(tensor.groups.at(0).Of(rank)->parts, same->groups.at(0).Of(rank)->parts);
  }
  EXPECT_TRUE(a.files.empty());
  EXPECT_EQ(b.files.at(2).name, "m_2.safetensors");
}

struct JsonFault {
  const char* name;
  std::string place;  // JSON pointer
  const char* value;  // null: the key is removed
  Errc code;
  const char* message;
  json (*base)() = SmallJson;
};

class RankMetadataFault : public ::testing::TestWithParam<JsonFault> {};

TEST_P(RankMetadataFault, IsRefused) {
  const JsonFault& fault = GetParam();
  json metadata = fault.base();
  const json::json_pointer place(fault.place);
  ASSERT_TRUE(metadata.contains(place)) << fault.place;
  if (fault.value)
    metadata[place] = json::parse(fault.value);
  else
    metadata[place.parent_pointer()].erase(place.back());
  ExpectError(ParseRankMetadata(Pickled(metadata)), fault.code, fault.message);
}

constexpr char kBadPath[] = R"({"x": []})";

INSTANTIATE_TEST_SUITE_P(
    Dcp, RankMetadataFault,
    ::testing::Values(
        JsonFault{"Version", "/version", R"("3.0")", Errc::kUnsupported,
                  "version \"3.0\", expected 1.0 or 2.0"},
        JsonFault{"NoVersion", "/version", nullptr, Errc::kCorrupt, "the path model is not a list"},
        JsonFault{"WorldZero", "/world_size", "0", Errc::kUnsupported, "a world_size of 0"},
        JsonFault{"WorldHuge", "/world_size", "1000000000000", Errc::kUnsupported,
                  "a world_size of 1000000000000, expected 1 to 100000"},
        JsonFault{"WorldLarger", "/world_size", "3", Errc::kCorrupt,
                  "2 ranks have a layout, the world has 3"},
        JsonFault{"WorldSmaller", "/world_size", "1", Errc::kCorrupt,
                  "ranks has rank 1, the world has 1"},
        JsonFault{"NoMetadata", "/metadata", nullptr, Errc::kCorrupt, "metadata is missing"},
        JsonFault{"PathIsNoList", std::string(kItem) + "/nested_path_to_metadata", kBadPath,
                  Errc::kCorrupt, "the path x is not a list"},
        JsonFault{"RankTwice", kGroup + "/ranks", "[1, 1]", Errc::kCorrupt,
                  "ranks has a rank twice"},
        JsonFault{"RankNegative", kGroup + "/ranks", "[-1]", Errc::kCorrupt,
                  "ranks is not a list of numbers from 0 on"},
        JsonFault{"ShardingType", kGroup + "/sharding_metadata/type", R"("os.system")",
                  Errc::kUnsupported, "sharding_metadata of type os.system, expected DTensor"},
        JsonFault{"Dtype", kData + "/dtype", R"("torch.quint8")", Errc::kUnsupported,
                  "elements of torch.quint8"},
        JsonFault{"ShapeHuge", kData + "/global_shape", "[4611686018427387904, 4]", Errc::kCorrupt,
                  ""},
        JsonFault{"ShapeNegative", kData + "/global_shape", "[4, -2]", Errc::kCorrupt,
                  "global_shape is not a list of numbers"},
        JsonFault{"MeshData", kData + "/mesh_spec/mesh_data", "[0, 0]", Errc::kCorrupt,
                  "mesh_data has rank 0 twice"},
        JsonFault{"MeshShape", kData + "/mesh_spec/mesh_shape", "[3]", Errc::kCorrupt,
                  "a mesh of shape [3] with 2 ranks"},
        JsonFault{"Placement", kData + "/placements/0/type", R"("Partial")", Errc::kUnsupported,
                  "a placement Partial, expected Shard, StridedShard or Replicate"},
        JsonFault{"PlacementDim", kData + "/placements/0/dim", "2", Errc::kCorrupt,
                  "a placement cuts dimension 2 of the shape [4, 2]"},
        JsonFault{"Placements", kData + "/placements", "[]", Errc::kCorrupt,
                  "a mesh of 1 dimensions with 0 placements"},
        JsonFault{"Json", kLayouts + "/1/serialization_format",
                  R"({"type": "JsonSerialization", "cls": "os.system"})", Errc::kUnsupported,
                  "the file b.safetensors is in JsonSerialization"},
        JsonFault{"Raw", kLayouts + "/1/serialization_format/type", R"("RawSerialization")",
                  Errc::kUnsupported, "is in RawSerialization"},
        JsonFault{"ParentFolder", kLayouts + "/1/file_path", R"("../b.pt")", Errc::kCorrupt,
                  "file_path \"../b.pt\" is not a plain name"},
        JsonFault{"AbsolutePath", kLayouts + "/1/file_path", R"("/etc/passwd")", Errc::kCorrupt,
                  "file_path \"/etc/passwd\" is not a plain name"},
        JsonFault{"SharedFile", kLayouts + "/0",
                  R"({"file_path": "b.safetensors", "serialization_format":
                  {"type": "SafetensorsSerialization"}})",
                  Errc::kCorrupt, "which is that of rank 0"},
        JsonFault{"RankOutside", kLayouts, R"({"0": null, "7": null})", Errc::kCorrupt,
                  "a rank that is not one of the 2"},
        JsonFault{"BoxOutside", kData + "/global_offsets/0", "[3, 0]", Errc::kCorrupt,
                  "the chunk of sizes [2, 2] at [3, 0] is outside the tensor's shape [4, 2]",
                  BoxesJson},
        JsonFault{"BoxCounts", kData + "/local_sizes", "[]", Errc::kCorrupt,
                  "3 global_offsets, 3 local_offsets and 0 local_sizes", BoxesJson},
        JsonFault{"BoxDims", kData + "/local_offsets/0", "[0]", Errc::kCorrupt,
                  "a shard has 1 dimensions, the tensor 2", BoxesJson}),
    [](const auto& row) { return row.param.name; });

PickleValue ListOf(size_t times, const PickleValue& value) {
  return PickleValue::MakeList(torch::PickleList(times, value));
}

// `paths` tensors that all share the same boxes.
std::string Sharing(int64_t paths, size_t boxes, bool shapes_differ) {
  const PickleValue offsets = ListOf(boxes, ListOf(1, {int64_t{0}}));
  const PickleValue sizes = ListOf(boxes, ListOf(1, {int64_t{1}}));
  const auto group = [&](int64_t rows) {
    const PickleValue data = PickleValue::MakeDict({{{"global_shape"}, ListOf(1, {rows})},
                                                    {{"dtype"}, {"torch.float32"}},
                                                    {{"global_offsets"}, offsets},
                                                    {{"local_offsets"}, offsets},
                                                    {{"local_sizes"}, sizes}});
    const PickleValue sharding =
        PickleValue::MakeDict({{{"type"}, {"default_tensor_v1"}}, {{"data"}, data}});
    return ListOf(1, PickleValue::MakeDict({{{"ranks"}, ListOf(1, {int64_t{0}})},
                                            {{"sharding_metadata"}, sharding}}));
  };
  torch::PickleDict tensors;
  const PickleValue shared = group(1);
  for (int64_t i = 0; i < paths; ++i)
    tensors.push_back({{"[" + std::to_string(i) + "]"}, shapes_differ ? group(i + 1) : shared});
  const PickleValue item = PickleValue::MakeDict(
      {{{"nested_path_to_metadata"}, PickleValue::MakeDict(std::move(tensors))},
       {{"rank_to_layout_info"}, PickleValue::MakeDict({{{int64_t{0}}, {}}})}});
  const auto text = torch::WritePickle(
      PickleValue::MakeDict({{{"metadata"}, PickleValue::MakeDict({{{"m"}, item}})},
                             {{"world_size"}, {int64_t{1}}},
                             {{"version"}, {"2.0"}}}),
      {});
  EXPECT_TRUE(text.ok()) << text.error().ToString();
  return *text;
}

TEST(RankMetadata, BoxesThatTensorsShareAreKeptOnce) {
  const auto metadata = ParseRankMetadata(Sharing(20, 40'000, false));
  ASSERT_TRUE(metadata.ok()) << metadata.error().ToString();
  const std::vector<RankedTensor>& tensors = metadata->items[0].tensors;
  ASSERT_EQ(tensors.size(), 20u);
  EXPECT_EQ(tensors[0].groups[0].Of(0)->parts.size(), 40'000u);
  EXPECT_EQ(tensors[0].groups[0].parts, tensors[19].groups[0].parts);
}

// 160 kB would become 6 million numbers.
TEST(RankMetadata, FarMoreThanTheFileHasRoomForIsRefused) {
  const std::string text = Sharing(40, 40'000, true);
  const auto error =
      ExpectError(ParseRankMetadata(text), Errc::kUnsupported,
                  "numbers and letters, which is more than the " + std::to_string(text.size()) +
                      " bytes have room for: lists are shared");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->tensor(), "2");  // each has 160,000, and the first two have room
}

TEST(RankMetadata, FilesOfItemsThatShareThemAreCounted) {
  json metadata = SmallJson();
  metadata[json::json_pointer(kLayouts + "/1/file_path")] = std::string(4000, 'f');
  PickleValue root = ToPickle(metadata);
  const PickleValue item = root.Find("metadata")->dict()->front().second;
  torch::PickleDict items;
  for (int i = 0; i < 1000; ++i) items.push_back({{"i" + std::to_string(i)}, item});
  const PickleValue shared = PickleValue::MakeDict({{{"metadata"}, PickleValue::MakeDict(items)},
                                                    {{"world_size"}, {int64_t{2}}},
                                                    {{"version"}, {"2.0"}}});
  const auto error = ExpectError(ParseRankMetadata(*torch::WritePickle(shared, {})),
                                 Errc::kUnsupported, "which is more than the");
  ASSERT_TRUE(error);
}

// The list of allowed globals is empty: each is refused, by name, at its place.
TEST(RankMetadata, RefusesEveryGlobalByNameAndOffset) {
  for (const auto& [module, name] : {std::pair{"os", "system"},
                                     {"builtins", "eval"},
                                     {"collections", "OrderedDict"},
                                     {"torch", "Size"},
                                     {"torch_checkpointing.dtensor_metadata", "ShardSpec"}}) {
    const std::string pickle = std::string("\x80\x02}c") + module + "\n" + name + "\n)R.";
    const auto error = ExpectError(ParseRankMetadata(pickle), Errc::kUnsupported,
                                   std::string("the global ") + module + "." + name);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->offset(), 3u);
  }
}

TEST(RankMetadata, EveryTruncationIsRefused) {
  const std::string text = ReadBytes(NXDKIT_TESTDATA "/dcp/forms/ranks/metadata.pkl");
  for (size_t size = 0; size < text.size(); ++size)
    EXPECT_FALSE(ParseRankMetadata(text.substr(0, size)).ok()) << size;
  ExpectError(ParseRankMetadata(text + "x"), Errc::kCorrupt, "1 bytes after the end");
}

TEST(RankMetadata, NoFlippedByteIsTrusted) {
  const std::string text = ReadBytes(NXDKIT_TESTDATA "/dcp/forms/ranks/metadata.pkl");
  size_t refused = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ (1 << (at % 8)));
    const auto metadata = ParseRankMetadata(changed);
    if (metadata.ok()) continue;
    EXPECT_NE(metadata.error().code(), Errc::kInternal) << at;
    ++refused;
  }
  EXPECT_GT(refused, text.size() / 4);
}

}  // namespace
}  // namespace nxdkit::dcp
