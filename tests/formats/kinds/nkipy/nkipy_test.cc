// NKIPy's rank files as an artifact: written, recognised, read again, and checked for faults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "formats/ops/digest/digest.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::ops {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;
using testing_util::ExpectError;
using testing_util::FindingsOf;
using testing_util::TinyLlama;

class Nkipy : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, int tp, const char* embedding = "columns") const {
    OutputOptions options;
    options.Set("tp", tp);
    options.Set("tok-embedding", std::string(embedding));
    return workshop_.Make(name, model_, &kHf, &kNkipy, options);
  }

  const testing_util::OpsWorkshop workshop_;
  const std::string model_ = workshop_.MakeModel("model", TinyLlama());
};

TEST_F(Nkipy, IsRecognisedAndHoldsTheModel) {
  for (const char* embedding : {"columns", "whole"}) {
    const std::string files = Write(std::string("files-") + embedding, 4, embedding);
    const auto kind = Recognise(files);
    ASSERT_TRUE(kind.ok()) << kind.error().ToString();
    EXPECT_EQ((*kind)->name, "nkipy");
    EXPECT_THAT(FindingsOf(files, model_), IsEmpty()) << embedding;
    EXPECT_TRUE(fs::exists(files + "/nxdkit.json"));
  }
}

TEST_F(Nkipy, AMissingRankIsNamed) {
  const std::string files = Write("files", 4);
  fs::remove(files + "/shard_2.safetensors");
  EXPECT_TRUE(ExpectError(OpenArtifact(files, nullptr, {}), Errc::kNotFound,
                          "shard_2.safetensors is missing; the last rank is 3"));
}

TEST_F(Nkipy, ATpThatTheFilesAreNotOfIsRefused) {
  InputHints hints;
  hints.Set("tp", 2);
  hints.origin = "the command line";
  EXPECT_TRUE(ExpectError(OpenArtifact(Write("files", 4), nullptr, hints), Errc::kUsage,
                          "tp is 4 by the rank files, but 2 by the command line"));
}

// The numbers alone do not show that the last rank is missing.
TEST_F(Nkipy, FilesThatAreNotThoseOfTheRecordAreRefused) {
  const std::string files = Write("files", 4), other = Write("other", 2);
  fs::rename(files + "/shard_3.safetensors", workshop_ / "kept");
  EXPECT_TRUE(ExpectError(OpenArtifact(files, nullptr, {}), Errc::kCorrupt,
                          "the record has shard_3.safetensors, and 3 rank files are here, expected "
                          "4"));
  fs::copy(other + "/shard_1.safetensors", files + "/shard_3.safetensors");
  const uint64_t found = fs::file_size(files + "/shard_3.safetensors");
  EXPECT_TRUE(ExpectError(OpenArtifact(files, nullptr, {}), Errc::kCorrupt,
                          "shard_3.safetensors has " + std::to_string(found) + " bytes, expected " +
                              std::to_string(fs::file_size(workshop_ / "kept")) +
                              " by the record"));
  fs::remove(files + "/shard_3.safetensors");
  fs::rename(workshop_ / "kept", files + "/shard_3.safetensors");
  fs::copy(files + "/shard_3.safetensors", files + "/shard_4.safetensors");
  EXPECT_TRUE(ExpectError(OpenArtifact(files, nullptr, {}), Errc::kCorrupt,
                          "shard_4.safetensors is not in the record: 5 rank files are here, "
                          "expected 4"));
  fs::remove(files + "/nxdkit.json");  // like the vendor's script
  fs::remove(files + "/shard_4.safetensors");
  EXPECT_TRUE(OpenArtifact(files, nullptr, {}).ok());
}

TEST_F(Nkipy, ADamagedRecordIsNamed) {
  const std::string files = Write("files", 2);
  for (const auto& [text, code, message] :
       {std::tuple{"{", Errc::kCorrupt, "nxdkit.json"},
        std::tuple{R"({"format": "nkipy"})", Errc::kCorrupt, "schema_version"},
        std::tuple{R"({"format": "nkipy", "schema_version": 2})", Errc::kUnsupported, "version 2"},
        std::tuple{R"({"format": "nkipy", "schema_version": 1, "files": ["a"]})", Errc::kCorrupt,
                   "name"},
        std::tuple{
            R"({"format": "nkipy", "schema_version": 1, "files": [{"name": "a", "bytes": -1}]})",
            Errc::kCorrupt, "found -1"}}) {
    std::ofstream(files + "/nxdkit.json") << text;
    const auto opened = OpenArtifact(files, nullptr, {});
    ASSERT_FALSE(opened.ok()) << text;
    EXPECT_EQ(opened.error().code(), code) << text;
    EXPECT_THAT(opened.error().ToString(), ::testing::HasSubstr(message)) << text;
  }
  std::ofstream(files + "/nxdkit.json") << R"({"format": "another"})";
  EXPECT_TRUE(OpenArtifact(files, nullptr, {}).ok());
}

// The norm of rank 3 no longer equals that of the other ranks.
TEST_F(Nkipy, CopiesThatDifferAreFound) {
  const std::string files = Write("files", 4);
  const testing_util::Stored norm = testing_util::FindStored(files, &kNkipy, "norm_weight", 3);
  std::fstream file(norm.file, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(norm.tensor.storage->file_offset() + norm.tensor.offset));
  file.put('\x55');
  file.close();
  const std::vector<Finding> findings = FindingsOf(files);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].check, "replica");
  EXPECT_EQ(findings[0].tensor, "norm_weight");
  EXPECT_EQ(findings[0].rank, 3);
}

TEST_F(Nkipy, IsRefusedWhereTpDoesNotDivide) {
  const std::string odd = workshop_.MakeModel("odd", {.vocab = 66});
  OutputOptions options;
  options.Set("tp", 4);
  const auto refused =
      Convert(testing_util::OpsWorkshop::Request(odd, &kHf, workshop_ / "out", &kNkipy, options));
  const std::optional<Error> error = ExpectError(
      refused, Errc::kUnsupported, "dimension 0 has 66 elements, which tp 4 does not divide");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->tensor(), "lm_head.weight");
  EXPECT_FALSE(fs::exists(workshop_ / "out"));
}

}  // namespace
}  // namespace nxdkit::ops
