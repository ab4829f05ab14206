// The split rule, shard names and sizes, compared with huggingface_hub's own results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "formats/hf/split.h"
#include "lib/json/json.h"

namespace nxdkit::hf {
namespace {

using ::testing::HasSubstr;
using Shards = std::vector<std::vector<size_t>>;

TEST(Split, ReferenceVectors) {
  EXPECT_EQ(SplitShards({6, 10, 30, 2, 2}, 10), (Shards{{0}, {2}, {1}, {3, 4}}));
  EXPECT_EQ(SplitShards({6, 10, 30, 2, 2}, 100), (Shards{{0, 1, 2, 3, 4}}));
  EXPECT_EQ(SplitShards({6, 6, 2, 6, 2, 2}, 10), (Shards{{0}, {1, 2}, {3, 4, 5}}));
  EXPECT_EQ(SplitShards({}, 10), Shards{});
}

TEST(Split, Edges) {
  EXPECT_EQ(SplitShards({10}, 10), (Shards{{0}}));       // a tensor of exactly the limit fits
  EXPECT_EQ(SplitShards({4, 6}, 10), (Shards{{0, 1}}));  // and so does a shard
  EXPECT_EQ(SplitShards({4, 7}, 10), (Shards{{0}, {1}}));
  EXPECT_EQ(SplitShards({11}, 10), (Shards{{0}}));
  EXPECT_EQ(SplitShards({11, 12, 13}, 10), (Shards{{0}, {1}, {2}}));
  EXPECT_EQ(SplitShards({3, 11, 3}, 10), (Shards{{1}, {0, 2}}));  // the open shard stays open
  EXPECT_EQ(SplitShards({0, 0, 10, 0, 1}, 10), (Shards{{0, 1, 2, 3}, {4}}));
  const uint64_t max = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(SplitShards({max, max, 1}, max), (Shards{{0}, {1}, {2}}));
}

TEST(Split, TheRealModelAtManyLimits) {
  const Result<Json> expected = ReadJsonFile(NXDKIT_TESTDATA "/hf/expected.json", 1 << 20);
  ASSERT_TRUE(expected.ok()) << expected.error().ToString();
  std::vector<std::string> names;
  std::vector<uint64_t> bytes;
  for (const Json& tensor : (*expected)["tensors"]) {
    names.push_back(tensor["name"]);
    bytes.push_back(tensor["bytes"]);
  }
  EXPECT_EQ((*expected)["splits"].size(), 10u);
  for (const Json& row : (*expected)["splits"]) {
    const uint64_t limit = row["limit"];
    const Shards shards = SplitShards(bytes, limit);
    ASSERT_EQ(shards.size(), row["files"].size()) << limit;
    EXPECT_EQ(shards.size() > 1, row["is_sharded"].get<bool>()) << limit;
    for (size_t i = 0; i < shards.size(); ++i) {
      const std::string file = ShardName(i, shards.size());
      ASSERT_TRUE(row["files"].contains(file)) << limit << " " << file;
      std::vector<std::string> found;
      for (const size_t tensor : shards[i]) found.push_back(names[tensor]);
      EXPECT_EQ(found, row["files"][file].get<std::vector<std::string>>()) << limit << " " << file;
    }
  }
}

TEST(ShardName, CountsFromOne) {
  EXPECT_EQ(ShardName(0, 1), "model.safetensors");
  EXPECT_EQ(ShardName(0, 2), "model-00001-of-00002.safetensors");
  EXPECT_EQ(ShardName(1, 2), "model-00002-of-00002.safetensors");
  EXPECT_EQ(ShardName(99'999, 123'456), "model-100000-of-123456.safetensors");
}

TEST(ShardSize, Good) {
  const std::pair<std::string, uint64_t> kGood[] = {
      {"5GB", 5'000'000'000},
      {"500MB", 500'000'000},
      {"1.5 gb", 1'500'000'000},
      {"1000000", 1'000'000},
      {" 2kb ", 2000},
      {"1TB", 1'000'000'000'000},
      {"0.5KB", 500},
      {"1e3 Mb", 1'000'000'000},
      {"+2KB", 2000},
      {"1.0015KB", 1001},  // cut, not rounded
      {"18446744073709551615", std::numeric_limits<uint64_t>::max()},
  };
  for (const auto& [text, bytes] : kGood) {
    const Result<uint64_t> parsed = ParseShardSize(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.error().message();
    EXPECT_EQ(*parsed, bytes) << text;
  }
}

TEST(ShardSize, Bad) {
  const std::pair<std::string, std::string> kBad[] = {
      {"5GiB", "unit 'IB' is not known"},
      {"5G", "unit '5G' is not known"},
      {"", "not a size"},
      {"B", "not a size"},
      {"GB", "\"\" is not a number"},
      {"-1GB", "must be at least one byte"},
      {"-5", "unit '-5' is not known"},
      {"0", "must be at least one byte"},
      {"0GB", "must be at least one byte"},
      {"nanGB", "must be at least one byte"},
      {"infGB", "is over 2^63 bytes"},
      {"1e30TB", "is over 2^63 bytes"},
      {"+-1GB", "\"+-1\" is not a number"},
      {"1x2GB", "\"1x2\" is not a number"},
      {"1.5", "unit '.5' is not known"},
      {"18446744073709551616", "unit '16' is not known"},
  };
  for (const auto& [text, message] : kBad) {
    const Result<uint64_t> parsed = ParseShardSize(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().code(), Errc::kUsage) << text;
    EXPECT_THAT(parsed.error().message(), HasSubstr("\"" + text + "\": " + message)) << text;
    EXPECT_THAT(parsed.error().hint(), HasSubstr("5GB")) << text;
  }
}

}  // namespace
}  // namespace nxdkit::hf
