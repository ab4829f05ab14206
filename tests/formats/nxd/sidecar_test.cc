// nxdkit.json: files that we write can be read, and a wrong one is refused with the key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "formats/nxd/sidecar.h"
#include "tests/formats/scratch.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::nxd {
namespace {

using nlohmann::json;
using testing_util::ExpectError;

Geometry AnyGeometry() {
  Geometry geometry;
  geometry.tp = 8;
  geometry.pp = 2;
  geometry.vpp = 3;
  geometry.kv_multiplier = 4;
  geometry.qkv = QkvStyle::kFused;
  geometry.hardware = models::Hardware::kTrn2;
  geometry.names = NameStyle::kMegatron;
  return geometry;
}

json Written() {
  return json::parse(WriteSidecar(AnyGeometry(), "qwen3", "3f", "bfloat16", "0.1.0"));
}

TEST(Sidecar, IsWrittenSortedWithALineFeed) {
  EXPECT_EQ(WriteSidecar(AnyGeometry(), "qwen3", "3f", "bfloat16", "0.1.0"), R"({
  "dtype": "bfloat16",
  "ep": 1,
  "family": "qwen3",
  "family_sha256": "3f",
  "hw": "trn2",
  "kv_multiplier": 4,
  "pp": 2,
  "qkv": "fused",
  "schema_version": 1,
  "style": "megatron",
  "tool_version": "0.1.0",
  "tp": 8,
  "vpp": 3
}
)");
}

TEST(Sidecar, MayNameItsSource) {
  const std::string digest = "sha256:" + std::string(64, 'a');
  const std::string text = WriteSidecar(AnyGeometry(), "qwen3", "3f", "bfloat16", "0.1.0", digest);
  EXPECT_EQ(json::parse(text)["source_digest"], digest);
  const auto sidecar = ParseSidecar(text, "nxdkit.json");
  ASSERT_TRUE(sidecar.ok()) << sidecar.error().ToString();
  EXPECT_EQ(sidecar->source_digest, digest);
  EXPECT_EQ(ParseSidecar(Written().dump(), "nxdkit.json")->source_digest, "");
  for (const std::string& wrong :
       {std::string("sha256:"), "sha256:" + std::string(64, 'A'), digest + "a", "md5:" + digest}) {
    json written = Written();
    written["source_digest"] = wrong;
    const auto error = ExpectError(ParseSidecar(written.dump(), "nxdkit.json"), Errc::kCorrupt,
                                   "expected sha256: and 64 hexadecimal digits");
    EXPECT_EQ(error->member(), "source_digest");
  }
}

TEST(Sidecar, ReadsWhatWasWritten) {
  const testing_util::Scratch scratch;
  scratch.Write("nxdkit.json", WriteSidecar(AnyGeometry(), "qwen3", "3f", "bfloat16", "0.1.0"));
  const auto sidecar = ReadSidecar(scratch.folder());
  ASSERT_TRUE(sidecar.ok()) << sidecar.error().ToString();
  ASSERT_TRUE(sidecar->has_value());
  const Claims& claims = (*sidecar)->claims;
  EXPECT_EQ(claims.origin, "nxdkit.json");
  EXPECT_EQ(claims.tp, 8);
  EXPECT_EQ(claims.pp, 2);
  EXPECT_EQ(claims.vpp, 3);
  EXPECT_EQ(claims.ep, 1);
  EXPECT_EQ(claims.kv_multiplier, 4);
  EXPECT_EQ(claims.qkv, QkvStyle::kFused);
  EXPECT_EQ(claims.hardware, models::Hardware::kTrn2);
  EXPECT_EQ(claims.names, NameStyle::kMegatron);
  EXPECT_EQ((*sidecar)->family, "qwen3");
  EXPECT_EQ((*sidecar)->dtype, "bfloat16");
}

TEST(Sidecar, EveryWordComesBack) {
  for (const QkvStyle qkv :
       {QkvStyle::kSeparate, QkvStyle::kLinear, QkvStyle::kFused, QkvStyle::kCoalesced}) {
    Geometry geometry;
    geometry.qkv = qkv;
    const auto sidecar =
        ParseSidecar(WriteSidecar(geometry, "llama", "", "", "0.1.0"), "nxdkit.json");
    ASSERT_TRUE(sidecar.ok()) << sidecar.error().ToString();
    EXPECT_EQ(sidecar->claims.qkv, qkv);
    EXPECT_EQ(sidecar->claims.hardware, models::Hardware::kTrn1);
    EXPECT_EQ(sidecar->claims.names, NameStyle::kHf);
  }
}

TEST(Sidecar, AFolderWithoutOneClaimsNothing) {
  const testing_util::Scratch scratch;
  const auto sidecar = ReadSidecar(scratch.folder());
  ASSERT_TRUE(sidecar.ok()) << sidecar.error().ToString();
  EXPECT_FALSE(sidecar->has_value());
}

TEST(Sidecar, UnknownKeysAreForLaterWriters) {
  json sidecar = Written();
  sidecar["made_by"] = "somebody";
  EXPECT_TRUE(ParseSidecar(sidecar.dump(), "nxdkit.json").ok());
}

TEST(Sidecar, ANewerVersionIsRefused) {
  json sidecar = Written();
  sidecar["schema_version"] = 2;
  sidecar.erase("tp");
  const auto error = ExpectError(ParseSidecar(sidecar.dump(), "tag/nxdkit.json"),
                                 Errc::kUnsupported, "found version 2, this program knows 1");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->member(), "schema_version");
  EXPECT_EQ(error->file(), "tag/nxdkit.json");
}

struct SidecarFault {
  const char* key;
  json value;  // null: the key is missing
  const char* message;
};

class FaultySidecar : public ::testing::TestWithParam<SidecarFault> {};
TEST_P(FaultySidecar, NamesTheKeyWithFoundAndExpected) {
  json sidecar = Written();
  if (GetParam().value.is_null())
    sidecar.erase(GetParam().key);
  else
    sidecar[GetParam().key] = GetParam().value;
  const testing_util::Scratch scratch;
  const std::string path = scratch.Write("nxdkit.json", sidecar.dump());
  const auto error = ExpectError(ReadSidecar(scratch.folder()), Errc::kCorrupt, GetParam().message);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->member(), GetParam().key);
  EXPECT_EQ(error->file(), path);
}
INSTANTIATE_TEST_SUITE_P(
    Keys, FaultySidecar,
    ::testing::Values(
        SidecarFault{"schema_version", nullptr, "expected an integer"},
        SidecarFault{"tp", nullptr, "expected an integer"},
        SidecarFault{"tp", "8", "found a string, expected an integer"},
        SidecarFault{"tp", 0, "found 0, expected 1 to 1000000"},
        SidecarFault{"pp", -2, "found -2, expected 1 to 1000000"},
        SidecarFault{"vpp", 1000001, "found 1000001, expected 1 to 1000000"},
        SidecarFault{"ep", 1.5, "expected an integer"},
        SidecarFault{"kv_multiplier", true, "found true, expected an integer"},
        SidecarFault{"qkv", "both",
                     "found \"both\", expected one of separate, linear, fused, coalesced"},
        SidecarFault{"hw", "trn3", "found \"trn3\", expected one of trn1, trn2"},
        SidecarFault{"style", "gpt", "found \"gpt\", expected one of hf, nxdt, megatron"},
        SidecarFault{"style", 7, "found an integer, expected a string"},
        SidecarFault{"family", nullptr, "expected a string"},
        SidecarFault{"dtype", 16, "found an integer, expected a string"}));

TEST(Sidecar, BrokenJsonIsRefusedAtItsPlace) {
  const auto error =
      ExpectError(ParseSidecar("{\"tp\": 8", "nxdkit.json"), Errc::kCorrupt, "JSON line 1");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->offset(), 8u);
}

TEST(Sidecar, AHugeFileIsNotRead) {
  const testing_util::Scratch scratch;
  const std::string path = scratch.Write("nxdkit.json", std::string((1 << 20) + 1, ' '));
  const auto error = ExpectError(ReadSidecar(scratch.folder()), Errc::kCorrupt,
                                 "file of 1048577 bytes is over the limit of 1048576");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), path);
}

}  // namespace
}  // namespace nxdkit::nxd
