// version.json: the version of the weights in a slot.
#include "formats/rollout/weights_version.h"

#include <gtest/gtest.h>

#include "tests/formats/scratch.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::rollout {
namespace {

using testing_util::ExpectError;
using testing_util::Scratch;

TEST(WeightsVersion, ComesBack) {
  const WeightsVersion version{7, "step_\"120\"\n", "shards/step_120"};
  const Result<WeightsVersion> again = ParseVersion(WriteVersion(version), "version.json");
  ASSERT_TRUE(again.ok()) << again.error().ToString();
  EXPECT_EQ(*again, version);
}

TEST(WeightsVersion, KeepsTheDigest) {
  const WeightsVersion version{1, "a", "b", "sha256:00"};
  const Result<WeightsVersion> again = ParseVersion(WriteVersion(version), "version.json");
  ASSERT_TRUE(again.ok()) << again.error().ToString();
  EXPECT_EQ(*again, version);
}

TEST(WeightsVersion, IsThisText) {
  EXPECT_EQ(WriteVersion({3, "step_120", "shards"}),
            "{\n  \"label\": \"step_120\",\n  \"schema_version\": 1,\n  \"serial\": 3,\n"
            "  \"source\": \"shards\"\n}\n");
}

TEST(WeightsVersion, OfAFolderWithoutOneIsNone) {
  const Scratch scratch;
  const auto version = ReadVersion(scratch.folder());
  ASSERT_TRUE(version.ok());
  EXPECT_FALSE(version->has_value());
}

struct BadVersion {
  const char* name;
  const char* text;
  Errc code;
  const char* member;
  const char* part;
};
class FaultyVersion : public ::testing::TestWithParam<BadVersion> {};

TEST_P(FaultyVersion, NamesTheKey) {
  const auto error = ExpectError(ParseVersion(GetParam().text, "v/version.json"), GetParam().code,
                                 GetParam().part);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), "v/version.json");
  EXPECT_EQ(error->member(), GetParam().member);
}

const BadVersion kBadVersions[] = {
    {"NotJson", "{", Errc::kCorrupt, "", "line 1"},
    {"Newer", R"({"schema_version": 2})", Errc::kUnsupported, "schema_version", "found version 2"},
    {"NoSerial", R"({"schema_version": 1})", Errc::kCorrupt, "serial", "missing"},
    {"SerialZero", R"({"schema_version": 1, "serial": 0, "label": "", "source": ""})",
     Errc::kCorrupt, "serial", "found 0, expected 1 or more"},
    {"SerialAtTheEnd",
     R"({"schema_version": 1, "serial": 9223372036854775807, "label": "", "source": ""})",
     Errc::kCorrupt, "serial", "found 9223372036854775807"},
    {"LabelOfANumber", R"({"schema_version": 1, "serial": 1, "label": 3, "source": ""})",
     Errc::kCorrupt, "label", "string"},
    {"DigestOfANumber",
     R"({"schema_version": 1, "serial": 1, "label": "", "source": "", "digest": 3})",
     Errc::kCorrupt, "digest", "string"},
};
INSTANTIATE_TEST_SUITE_P(All, FaultyVersion, ::testing::ValuesIn(kBadVersions),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace nxdkit::rollout
