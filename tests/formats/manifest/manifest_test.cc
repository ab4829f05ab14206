// Manifests: written, read back, and every fault named.
#include "formats/manifest/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/scratch.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::manifest {
namespace {

using testing_util::ExpectError;
using testing_util::ReadBytes;

Sha256Bytes Digest(unsigned char byte) {
  Sha256Bytes digest;
  digest.fill(static_cast<std::byte>(byte));
  return digest;
}

Manifest Sample() {
  Manifest manifest;
  manifest.model = MakeModelDigest({{"b \"quoted\" \xc3\xa9", Dtype::kBF16, {2, 3}, Digest(1)},
                                    {"a", Dtype::kF32, {}, Digest(2)},
                                    {"c", Dtype::kI64, {0, 4}, Digest(3)}});
  manifest.kind = "hf";
  manifest.files = {{"config.json", 13, Digest(4)}, {"sub/model.bin", 1ull << 40, Digest(5)}};
  return manifest;
}

std::string SampleText() {
  const Result<std::string> text = WriteManifest(Sample());
  EXPECT_TRUE(text.ok());
  return text.ok() ? *text : "";
}

TEST(Manifest, ReadsWhatItWrites) {
  const Manifest sample = Sample();
  const Result<Manifest> read = ReadManifest(SampleText());
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  EXPECT_EQ(read->model.digest, sample.model.digest);
  EXPECT_EQ(read->model.params, sample.model.params);
  EXPECT_EQ(read->kind, "hf");
  ASSERT_EQ(read->files.size(), 2u);
  EXPECT_EQ(read->files[1].path, "sub/model.bin");
  EXPECT_EQ(read->files[1].bytes, 1ull << 40);
  EXPECT_EQ(read->files[1].digest, Digest(5));
}

TEST(Manifest, OfNoParametersProvesNothing) {
  const Result<std::string> text = WriteManifest(Manifest());
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, ::testing::Not(::testing::HasSubstr("artifact")));
  const Result<Manifest> read = ReadManifest(*text);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code(), Errc::kCorrupt);
  EXPECT_EQ(read.error().message(), "it records no parameter");
}

// The file next to the samples was written by ckpt-digest: the written bytes stay the same.
TEST(Manifest, OfTheSampleIsStable) {
  const std::string text = ReadBytes(NXDKIT_TESTDATA "/manifest/qwen3.json");
  const Result<Manifest> read = ReadManifest(text);
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  EXPECT_EQ(read->kind, "hf");
  const Result<std::string> again = WriteManifest(*read);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, text);
}

TEST(Manifest, IgnoresKeysItDoesNotKnow) {
  std::string text = SampleText();
  text.insert(text.find("\"version\""), "\"made_by\": {\"who\": [1]}, ");
  EXPECT_TRUE(ReadManifest(text).ok());
}

struct Fault {
  const char* name;
  const char* find;
  const char* replace;
  Errc code;
  const char* part;
  const char* member = "";
  const char* tensor = "";
};
constexpr Fault kFaults[] = {
    {"AnotherFormat", "nxdkit-manifest", "other", Errc::kCorrupt,
     "found \"other\", expected \"nxdkit-manifest\"", "format"},
    {"ANewerVersion", "\"version\": 1", "\"version\": 2", Errc::kUnsupported,
     "version 2 found, this program reads 1", "version"},
    {"NoModel", "\"model\"", "\"modell\"", Errc::kCorrupt, "the key is missing, expected an object",
     "model"},
    {"OtherLeaves", "1048576", "4096", Errc::kUnsupported, "leaves of 4096 bytes found",
     "leaf_bytes"},
    {"ChangedDigestOfAParameter", "sha256:02", "sha256:03", Errc::kCorrupt,
     "but the parameters give sha256:", "digest"},
    {"ChangedShape", "[2,3]", "[3,2]", Errc::kCorrupt, "but the parameters give", "digest"},
    {"ChangedName", "\"name\":\"a\"", "\"name\":\"aa\"", Errc::kCorrupt, "but the parameters give",
     "digest"},
    {"WrongOrder", "\"name\":\"a\"", "\"name\":\"d\"", Errc::kCorrupt,
     "parameters are not in order: \"d\" comes before it", "", "b \"quoted\" \xc3\xa9"},
    {"UnknownDtype", "\"BF16\"", "\"BF17\"", Errc::kCorrupt, "\"BF17\" is not a dtype", "dtype",
     "b \"quoted\" \xc3\xa9"},
    {"WrongBytes", "\"bytes\":4,", "\"bytes\":5,", Errc::kCorrupt, "found 5, but F32 [] takes 4",
     "bytes", "a"},
    {"NegativeDim", "[0,4]", "[0,-4]", Errc::kCorrupt, "found -4, expected an integer from 0 on",
     "shape", "c"},
    {"HugeShape", "[2,3]", "[4294967296,4294967296]", Errc::kCorrupt, "", "",
     "b \"quoted\" \xc3\xa9"},
    {"ShapeIsNoArray", "[2,3]", "6", Errc::kCorrupt, "found an integer, expected an array", "shape",
     "b \"quoted\" \xc3\xa9"},
    {"UpperCaseDigest", "sha256:04", "sha256:0A", Errc::kCorrupt, "found \"sha256:0A04", "digest"},
    {"FileTwice", "sub/model.bin", "config.json", Errc::kCorrupt,
     "files are not in order: \"config.json\" after \"config.json\"", "path"},
    {"NegativeBytes", "\"bytes\":13,", "\"bytes\":-1,", Errc::kCorrupt, "found -1", "bytes"},
    {"KeyTwice", "\"version\"", "\"format\": \"x\", \"version\"", Errc::kCorrupt, "format"},
};

TEST(BadManifest, IsNamed) {
  for (const Fault& fault : kFaults) {
    SCOPED_TRACE(fault.name);
    std::string text = SampleText();
    const size_t at = text.find(fault.find);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, std::string(fault.find).size(), fault.replace);
    const std::optional<Error> error = ExpectError(ReadManifest(text), fault.code, fault.part);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->member(), fault.member);
    EXPECT_EQ(error->tensor(), fault.tensor);
  }
}

TEST(BadManifest, IsRefusedWhereverItIsCut) {
  const std::string text = SampleText();
  for (size_t size = 0; size + 2 < text.size(); ++size)
    EXPECT_FALSE(ReadManifest(text.substr(0, size)).ok()) << size;
}

TEST(BadManifest, IsNeverBelievedAfterAFlippedBit) {
  const std::string text = SampleText();
  const Manifest sample = Sample();
  for (size_t at = 0; at < text.size(); ++at) {
    std::string bad = text;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    const Result<Manifest> read = ReadManifest(bad);
    if (!read.ok()) continue;
    // Keys that are unknown here, and files, which only a signature protects.
    EXPECT_EQ(read->model.digest, sample.model.digest) << "byte " << at;
    EXPECT_EQ(read->model.params, sample.model.params) << "byte " << at;
  }
}

TEST(WriteManifest, RefusesWhatJsonCannotHold) {
  Manifest manifest = Sample();
  manifest.files[0].path = "conf\xff.json";
  const auto file = ExpectError(WriteManifest(manifest), Errc::kUnsupported, "byte 4 of the name");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->file(), "conf\xff.json");
  manifest = Sample();
  manifest.model = MakeModelDigest({{"\xff", Dtype::kF32, {}, Digest(1)}});
  const auto tensor =
      ExpectError(WriteManifest(manifest), Errc::kUnsupported, "byte 0 of the name is not UTF-8");
  ASSERT_TRUE(tensor);
  EXPECT_EQ(tensor->tensor(), "\xff");
}

}  // namespace
}  // namespace nxdkit::manifest
