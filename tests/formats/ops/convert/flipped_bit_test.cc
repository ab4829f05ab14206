// One bit of a torch archive has changed on disk: a zip archive has a CRC-32 of every record, and a
// reader of a record must never pass on changed bytes, without being asked to check.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "formats/kinds/open.h"
#include "formats/ops/diff/diff.h"
#include "formats/ops/digest/digest.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/formats/words.h"

namespace nxdkit {
namespace {

using ops::Kind;
using ::testing::HasSubstr;
using testing_util::FlipFile;
using testing_util::OpsWorkshop;
using testing_util::ReadBytes;
using testing_util::Stored;
using testing_util::StoredTensors;

struct FlippedSource {
  const char* name;
  const Kind* kind;
  nxd::QkvStyle qkv = nxd::QkvStyle::kSeparate;
  bool xser = false;
};

class FlippedBit : public ::testing::TestWithParam<FlippedSource> {
 protected:
  // An artifact of the case's kind.
  std::string Make() const {
    ops::OutputOptions options;
    const FlippedSource& test = GetParam();
    if (test.kind == &ops::kNxd) {
      const bool copies_heads = test.qkv != nxd::QkvStyle::kSeparate;
      options.Set("tp", copies_heads ? 4 : 2);
      options.Set("kv-multiplier", copies_heads ? 2 : 1);
      options.Set("qkv", Word(test.qkv));
      options.Set("xser", test.xser);
      options.Set("hw", Word(models::Hardware::kTrn1));
    }
    return workshop_.Make("source", model_, &ops::kHf, test.kind, options);
  }
  Result<ops::ConvertReport> ToHf(const std::string& input) const {
    ops::ConvertRequest request =
        OpsWorkshop::Request(input, GetParam().kind, workshop_ / "out", &ops::kHf);
    request.force = true;
    return ops::Convert(request);
  }
  // A bit in the middle of the tensor's data, a different one for each.
  static void Flip(const Stored& stored, size_t number) {
    const uint64_t bytes = static_cast<uint64_t>(*ElementCount(stored.tensor.shape)) * 2;
    FlipFile(stored.file,
             stored.tensor.storage->file_offset() + stored.tensor.offset + number * 31 % bytes,
             static_cast<int>(number % 8));
  }

  const OpsWorkshop workshop_;
  const std::string model_ = workshop_.MakeModel(
      "model", {.family = "llama", .layers = 1, .heads = 8, .kv_heads = 2, .vocab = 96});
};

TEST_P(FlippedBit, IsNeverConverted) {
  const std::string source = Make();
  ASSERT_TRUE(ToHf(source).ok());
  const std::vector<Stored> tensors = StoredTensors(source, GetParam().kind);
  ASSERT_GE(tensors.size(), 10u);
  for (size_t i = 0; i < tensors.size(); ++i) {
    SCOPED_TRACE(tensors[i].tensor.name + " in " + tensors[i].file);
    Flip(tensors[i], i);
    const Result<ops::ConvertReport> report = ToHf(source);
    Flip(tensors[i], i);
    ASSERT_FALSE(report.ok());
    const Error& error = report.error();
    EXPECT_EQ(error.code(), Errc::kCorrupt);
    EXPECT_EQ(error.file(), tensors[i].file);
    EXPECT_EQ(error.tensor(), tensors[i].tensor.name);
    EXPECT_THAT(error.member(), HasSubstr("/data/"));
    EXPECT_THAT(error.message(), HasSubstr("the data has CRC-32"));
  }
  EXPECT_TRUE(ToHf(source).ok()) << "all bits are as they were";
}

// A digest of weights other than those written would be signed and believed.
TEST_P(FlippedBit, HasNoDigestUnlessItIsInACopy) {
  const std::string source = Make();
  const auto digest = [&]() -> Result<ops::ModelDigest> {
    NXDKIT_ASSIGN(const ops::BoundArtifact bound, ops::OpenAndBind(source, GetParam().kind, {}));
    return ops::DigestModel(bound, {});
  };
  const Result<ops::ModelDigest> clean = digest();
  ASSERT_TRUE(clean.ok()) << clean.error().ToString();
  const std::vector<Stored> tensors = StoredTensors(source, GetParam().kind);
  for (size_t i = 0; i < tensors.size(); ++i) {
    SCOPED_TRACE(tensors[i].tensor.name + " in " + tensors[i].file);
    Flip(tensors[i], i);
    const Result<ops::ModelDigest> found = digest();
    Flip(tensors[i], i);
    if (found.ok())
      EXPECT_EQ(found->digest, clean->digest);
    else
      EXPECT_THAT(found.error().message(), HasSubstr("the data has CRC-32"));
  }
}

constexpr FlippedSource kSources[] = {
    {"torch", &ops::kTorch},
    {"dcp", &ops::kDcp},
    {"nxd", &ops::kNxd},
    {"nxd_linear", &ops::kNxd, nxd::QkvStyle::kLinear},
    {"nxd_fused", &ops::kNxd, nxd::QkvStyle::kFused},
    {"nxd_xser", &ops::kNxd, nxd::QkvStyle::kSeparate, true},
};

INSTANTIATE_TEST_SUITE_P(Sources, FlippedBit, ::testing::ValuesIn(kSources),
                         [](const auto& source) { return std::string(source.param.name); });

}  // namespace
}  // namespace nxdkit
