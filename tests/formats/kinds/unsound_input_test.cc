// Inputs that open and have the right shapes, and still must not pass: damage that no replica
// shows, copies in two dtypes, weights that are not floats, missing ranks, unfinished outputs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lib/sinks/write_sink.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/lib/temp_folder.h"

namespace nxdkit {
namespace {

namespace fs = std::filesystem;
using ops::Kind;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing_util::DamageElement;
using testing_util::FindStored;
using testing_util::OpsWorkshop;
using testing_util::VerifyAgainst;

class UnsoundInput : public ::testing::Test {
 protected:
  std::string MakeSet(const std::string& name, const std::string& model,
                      std::optional<Dtype> dtype = std::nullopt) const {
    ops::OutputOptions options;
    options.Set("tp", 2);
    options.dtype = dtype;
    return workshop_.Make(name, model, &ops::kHf, &ops::kNxd, options);
  }
  Result<ops::ConvertReport> ToHf(const std::string& input, const Kind* from,
                                  bool verify = false) const {
    ops::ConvertRequest request =
        OpsWorkshop::Request(input, from, workshop_ / "out", &ops::kHf, {});
    request.verify = verify;
    return ops::Convert(request);
  }
  static std::string Rank1(const std::string& set) {
    return set + "/model/dp_rank_00_tp_rank_01_pp_rank_00.pt";
  }
  const OpsWorkshop workshop_;
  const std::string model_ = workshop_.MakeModel("model", testing_util::TinyLlama());
};

TEST_F(UnsoundInput, AnElementThatIsStoredOnceHasOnlyItsChecksum) {
  const std::string set = MakeSet("set", model_);
  const std::string name = "model.layers.0.self_attn.q_proj.weight";
  DamageElement(FindStored(set, &ops::kNxd, name, 1), 3);
  const auto report = VerifyAgainst(set);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  ASSERT_EQ(report->findings.size(), 1u);
  EXPECT_EQ(report->findings[0].check, "checksum");
  EXPECT_EQ(report->findings[0].file, Rank1(set));
  EXPECT_THAT(report->findings[0].message, HasSubstr("the data has CRC-32"));
  // The conversion reads in slices; with --verify it checks the source first.
  const auto converted = ToHf(set, &ops::kNxd, true);
  ASSERT_FALSE(converted.ok());
  EXPECT_EQ(converted.error().code(), Errc::kCorrupt);
  EXPECT_EQ(converted.error().file(), Rank1(set));
}

// The comparison's own reads make the checksums; the remaining bytes are read for them.
TEST_F(UnsoundInput, AComparisonChecksTheChecksumsToo) {
  const std::string set = MakeSet("set", model_);
  const auto good = VerifyAgainst(set, model_);
  ASSERT_TRUE(good.ok()) << good.error().ToString();
  EXPECT_TRUE(good->findings.empty());
  EXPECT_THAT(good->checks, Contains("the checksums of 2 torch archives hold"));
  EXPECT_THAT(good->checks, Contains("every element equals " + model_));
  DamageElement(FindStored(set, &ops::kNxd, "model.layers.0.self_attn.q_proj.weight", 1), 3);
  const auto report = VerifyAgainst(set, model_);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  ASSERT_EQ(report->findings.size(), 2u);
  EXPECT_EQ(report->findings[0].check, "checksum");
  EXPECT_EQ(report->findings[0].file, Rank1(set));
  EXPECT_THAT(report->findings[0].message, HasSubstr("the data has CRC-32"));
  EXPECT_EQ(report->findings[1].check, "value");
  EXPECT_EQ(report->findings[1].count, 1);
}

TEST_F(UnsoundInput, TheChecksumsOfAGoodSetAreNamed) {
  const auto report = VerifyAgainst(MakeSet("set", model_));
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_TRUE(report->findings.empty());
  EXPECT_THAT(report->checks, Contains("the checksums of 2 torch archives hold"));
}

TEST_F(UnsoundInput, WithoutAConfigNothingIsCalledGood) {
  const std::string copy = workshop_ / "copy";
  fs::copy(model_, copy);
  fs::remove(copy + "/config.json");
  const auto alone = VerifyAgainst(copy);
  ASSERT_FALSE(alone.ok());
  EXPECT_EQ(alone.error().code(), Errc::kNotFound);
  EXPECT_EQ(alone.error().file(), copy);
  const auto compared = VerifyAgainst(copy, model_);
  ASSERT_TRUE(compared.ok()) << compared.error().ToString();
  EXPECT_TRUE(compared->findings.empty());
  EXPECT_THAT(compared->warnings, Contains(HasSubstr("no parameter table")));
}

TEST_F(UnsoundInput, CopiesInTwoDtypesAreNotRounded) {
  const std::string set = MakeSet("set", model_, Dtype::kF32);
  fs::copy_file(Rank1(MakeSet("narrow", model_)), Rank1(set), fs::copy_options::overwrite_existing);
  ops::OutputOptions options;
  options.dtype = Dtype::kBF16;
  const auto converted =
      ops::Convert(OpsWorkshop::Request(set, &ops::kNxd, workshop_ / "out", &ops::kHf, options));
  ASSERT_FALSE(converted.ok());
  EXPECT_EQ(converted.error().code(), Errc::kCorrupt);
  EXPECT_EQ(converted.error().file(), Rank1(set));
  EXPECT_EQ(converted.error().rank(), 1);
  EXPECT_THAT(converted.error().message(),
              HasSubstr("dtype BF16 here, F32 in another part or copy of the parameter"));
}

TEST_F(UnsoundInput, WeightsThatAreNoFloatsAreRefused) {
  const std::string path = model_ + "/model.safetensors";
  std::string bytes = testing_util::ReadBytes(path);
  bytes.replace(bytes.find("\"BF16\""), 6, "\"I16\" ");
  std::ofstream(path, std::ios::binary) << bytes;
  const auto converted = ToHf(model_, &ops::kHf);
  ASSERT_FALSE(converted.ok());
  EXPECT_EQ(converted.error().code(), Errc::kUnsupported);
  EXPECT_EQ(converted.error().file(), path);
  EXPECT_THAT(converted.error().message(), HasSubstr("dtype I16 found"));
  EXPECT_FALSE(converted.error().tensor().empty());
}

TEST_F(UnsoundInput, TheLastRankThatIsMissingIsNamedByTheRecord) {
  const std::string set = MakeSet("set", model_);
  fs::remove(Rank1(set));
  const auto converted = ToHf(set, &ops::kNxd);
  ASSERT_FALSE(converted.ok());
  EXPECT_EQ(converted.error().code(), Errc::kCorrupt);
  EXPECT_THAT(converted.error().message(),
              HasSubstr("1 shard files found, 2 expected for tp 2 pp 1 by nxdkit.json; missing "
                        "tp_rank_01_pp_rank_00"));
}

TEST_F(UnsoundInput, TheLastPipelineRankThatIsMissingIsNamed) {
  ops::OutputOptions options;
  options.Set("tp", 1);
  options.Set("pp", 4);
  const std::string set = workshop_.Make("set", model_, &ops::kHf, &ops::kNxd, options);
  fs::remove(set + "/nxdkit.json");
  fs::remove(set + "/model/dp_rank_00_tp_rank_00_pp_rank_03.pt");
  const auto converted = ToHf(set, &ops::kNxd);
  ASSERT_FALSE(converted.ok());
  EXPECT_EQ(converted.error().code(), Errc::kCorrupt);
  EXPECT_THAT(converted.error().message(),
              HasSubstr("pipeline ranks 0 to 2 are here, and layers 0 to 2 of 4: the last pipeline "
                        "rank is missing"));
}

TEST_F(UnsoundInput, WhatDoesNotFitANarrowerDtypeIsCounted) {
  const testing_util::Stored norm = FindStored(model_, &ops::kHf, "model.norm.weight", -1);
  std::fstream file(norm.file, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(norm.tensor.storage->file_offset() + norm.tensor.offset));
  file.write("\x00\x7f", 2);  // 2 to the power of 127 in bf16
  file.close();
  ops::OutputOptions options;
  options.dtype = Dtype::kF16;
  const auto converted =
      ops::Convert(OpsWorkshop::Request(model_, &ops::kHf, workshop_ / "out", &ops::kHf, options));
  ASSERT_TRUE(converted.ok()) << converted.error().ToString();
  EXPECT_THAT(converted->warnings, Contains("model.norm.weight: 1 element is infinite as F16"));
  std::string config = testing_util::ReadText(model_ + "/config.json");
  config.replace(config.find("bfloat16"), 8, "float16");
  EXPECT_EQ(testing_util::ReadText(workshop_ / "out" + "/config.json"), config);
  auto in_parts = OpsWorkshop::Request(model_, &ops::kHf, workshop_ / "parts", &ops::kHf, options);
  in_parts.place = ops::Part{0, 1};
  const auto part = ops::Convert(in_parts);
  ASSERT_TRUE(part.ok()) << part.error().ToString();
  EXPECT_EQ(part->warnings, converted->warnings);
}

TEST_F(UnsoundInput, AnUnfinishedOutputIsNoArtifact) {
  const std::string set = MakeSet("set", model_);
  std::ofstream(set + "/" + WriteSink::kJournalName) << "x";
  const auto converted = ToHf(set, &ops::kNxd);
  ASSERT_FALSE(converted.ok());
  EXPECT_EQ(converted.error().code(), Errc::kCorrupt);
  EXPECT_THAT(converted.error().message(), HasSubstr("an unfinished output of nxd-convert"));
}

TEST_F(UnsoundInput, ADryRunSeesThatTheOutputCannotBeBuilt) {
  std::ofstream(workshop_ / "out.partial") << "mine";
  const auto report =
      ops::DryRun(OpsWorkshop::Request(model_, &ops::kHf, workshop_ / "out", &ops::kHf, {}));
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code(), Errc::kIo);
  EXPECT_EQ(report.error().file(), workshop_ / "out.partial");
}

}  // namespace
}  // namespace nxdkit
