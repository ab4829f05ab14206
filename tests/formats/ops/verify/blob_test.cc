// The compiled blob of a bundle: whether it is a whole TorchScript archive with whole NEFFs.
#include "formats/ops/verify/blob.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/formats/compiled_blob.h"
#include "tests/formats/ops/inspect/inputs.h"

namespace nxdkit::ops {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing_util::CompiledBlob;
using testing_util::ReadBytes;
using testing_util::Scratch;
using testing_util::ToyNeff;
using testing_util::ZipOf;

std::vector<std::string> FaultsOf(const std::string& path, BlobDepth depth = BlobDepth::kContents) {
  const auto report = CheckBlob(path, depth, {});
  EXPECT_TRUE(report.ok()) << report.error().ToString();
  std::vector<std::string> messages;
  if (report.ok())
    for (const Finding& finding : report->findings) {
      EXPECT_EQ(finding.check, "blob");
      EXPECT_EQ(finding.file, path);
      messages.push_back(finding.message);
    }
  return messages;
}

TEST(Blobs, AreWhole) {
  const Scratch scratch;
  const auto report =
      CheckBlob(scratch.Write("model.pt", CompiledBlob(ToyNeff() + "between" + ToyNeff())),
                BlobDepth::kContents, {});
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(report->findings, IsEmpty());
  EXPECT_EQ(report->neffs, 2u);
}

// An archive of torch.jit.save of torch 1.13, without a NEFF in it.
TEST(Blobs, OfTorchItself) {
  const auto report =
      CheckBlob(NXDKIT_TESTDATA "/torch/torch-1.13/refused_script.pt", BlobDepth::kContents, {});
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(report->findings, IsEmpty());
  EXPECT_EQ(report->neffs, 0u);
}

struct Row {
  const char* name;
  std::string bytes;
  std::string message;
};

std::string Flipped(std::string bytes, size_t at) {
  bytes.at(at) = static_cast<char>(bytes.at(at) ^ 1);
  return bytes;
}

// A NEFF with a header size beyond the record.
std::string TooLong() {
  std::string neff = ToyNeff();
  neff[16 + 3] = 1;
  return neff;
}

std::vector<Row> FaultyForms() {
  return {
      {"Empty", "", "it is empty"},
      {"Text", "compiled", "it is not a whole TorchScript archive: "},
      {"CpuPlan", "{\"schema\": \"nxdkit-cpu-plan\"}\n", "it is not a whole TorchScript archive: "},
      {"Truncated", CompiledBlob().substr(0, 1500), "it is not a whole TorchScript archive: "},
      {"OneByteShort", CompiledBlob().substr(0, CompiledBlob().size() - 1),
       "it is not a whole TorchScript archive: "},
      {"StateDict", ZipOf({{"model/data.pkl", "\x80\x02}."}, {"model/version", "3\n"}}),
       "it is not a TorchScript archive: the record model/constants.pkl is missing"},
      {"EmptyRecord",
       ZipOf(
           {{"model/data.pkl", ""}, {"model/constants.pkl", "\x80\x02)."}, {"model/version", "3"}}),
       "it is not a TorchScript archive: the record model/data.pkl is empty"},
      {"NoRecords", ZipOf({}), "it is not a TorchScript archive: it has no records"},
  };
}

TEST(Blobs, FaultyFormsAreNamedAtBothDepths) {
  const Scratch scratch;
  for (const Row& row : FaultyForms()) {
    const std::string path = scratch.Write("model.pt", row.bytes);
    for (const BlobDepth depth : {BlobDepth::kForm, BlobDepth::kContents})
      EXPECT_THAT(FaultsOf(path, depth), ElementsAre(HasSubstr(row.message))) << row.name;
  }
}

TEST(Blobs, FaultyContentsAreNamed) {
  const Scratch scratch;
  const std::string good = CompiledBlob();
  const size_t neff = good.find(ToyNeff());
  for (const Row& row : std::vector<Row>{
           {"AByteOfTheArchive", Flipped(good, neff + 1100), "model/data.pkl: offset "},
           {"AByteOfTheNeff", CompiledBlob(Flipped(ToyNeff(), 1100)),
            "record model/data.pkl: the NEFF at offset "},
           {"AHeader", CompiledBlob(TooLong()), "record model/data.pkl: header of a NEFF: "}}) {
    const std::string path = scratch.Write("model.pt", row.bytes);
    EXPECT_THAT(FaultsOf(path), ElementsAre(HasSubstr(row.message))) << row.name;
    EXPECT_THAT(FaultsOf(path, BlobDepth::kForm), IsEmpty()) << row.name;
  }
  EXPECT_THAT(FaultsOf(scratch.Write("model.pt", CompiledBlob(TooLong()))),
              ElementsAre(AllOf(HasSubstr("data size 16777559 is past the end"),
                                HasSubstr("offset " + std::to_string(neff + 16)))));
}

TEST(Blobs, FoldersAreNone) {
  const Scratch scratch;
  EXPECT_THAT(FaultsOf(scratch.folder()), ElementsAre("it is not a file"));
}

// Wherever it is cut, and whichever byte is changed: the blob is bad.
TEST(Blobs, EveryCutAndEveryFlipOfThePayloadIsFound) {
  const Scratch scratch;
  const std::string good = CompiledBlob();
  for (size_t size = 0; size < good.size(); size += 37)
    EXPECT_THAT(FaultsOf(scratch.Write("model.pt", good.substr(0, size))), SizeIs(1)) << size;
  const size_t neff = good.find(ToyNeff());
  for (size_t at = neff; at < neff + ToyNeff().size(); at += 11)
    EXPECT_THAT(FaultsOf(scratch.Write("model.pt", Flipped(good, at))), SizeIs(1)) << at;
}

TEST(Blobs, AreStopped) {
  const Scratch scratch;
  const auto report = CheckBlob(scratch.Write("model.pt", CompiledBlob()), BlobDepth::kContents,
                                [] { return Status(Error(Errc::kInterrupted, "stop")); });
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code(), Errc::kInterrupted);
}

TEST(Blobs, OfABundleAreAllLookedAt) {
  const Scratch scratch;
  rollout::Bundle bundle;
  bundle.folder = scratch.folder();
  VerifyReport nothing;
  ASSERT_TRUE(CheckBlobs(bundle, {}, nothing).ok());
  EXPECT_THAT(nothing.checks, IsEmpty());
  EXPECT_TRUE(RequireBlobs(bundle, {}).ok());
  bundle.blobs = {"model.pt", "model_text.pt", "model_vision.pt"};
  scratch.Write("model.pt", CompiledBlob());
  scratch.Write("model_text.pt", CompiledBlob("no NEFF"));
  scratch.Write("model_vision.pt", "");
  VerifyReport report;
  ASSERT_TRUE(CheckBlobs(bundle, {}, report).ok());
  EXPECT_THAT(report.checks, ElementsAre(HasSubstr("model.pt: a whole TorchScript archive, 1 NEFF"),
                                         HasSubstr("model_text.pt: ")));
  EXPECT_THAT(report.warnings, ElementsAre(HasSubstr("model_text.pt: no NEFF was found in it")));
  ASSERT_THAT(report.findings, SizeIs(1));
  EXPECT_EQ(report.findings[0].file, scratch.Path("model_vision.pt"));
  const Status refused = RequireBlobs(bundle, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Errc::kCorrupt);
  EXPECT_EQ(refused.error().file(), scratch.Path("model_vision.pt"));
  EXPECT_EQ(refused.error().message(), "the compiled blob: it is empty");
}

}  // namespace
}  // namespace nxdkit::ops
