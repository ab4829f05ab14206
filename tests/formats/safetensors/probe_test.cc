// Every row of the probe table: the reference's verdict, except for the deviations of FORMAT.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/formats/safetensors/probe_rows.h"
#include "tests/formats/scratch.h"

namespace nxdkit::safetensors {
namespace {

using ::testing::HasSubstr;
using testing::Ours;
using testing::Probe;
using ::testing::StartsWith;

TEST(ProbeTable, HasItsRows) {
  std::set<std::string> ids;
  std::map<std::string_view, int> counts;
  for (const Probe& probe : testing::Probes()) {
    EXPECT_TRUE(ids.insert(probe.id).second) << probe.id;
    ++counts[probe.reference];
  }
  EXPECT_EQ(ids.size(), 155u);
  EXPECT_EQ(counts[testing::kNone], 41);
  EXPECT_EQ(counts["HeaderTooSmall"], 2);
  EXPECT_EQ(counts["InvalidHeaderLength"], 3);
  EXPECT_EQ(counts["HeaderTooLarge"], 5);
  EXPECT_EQ(counts["InvalidHeader"], 4);
  EXPECT_EQ(counts["InvalidOffset"], 9);
  EXPECT_EQ(counts["TensorInvalidInfo"], 4);
  EXPECT_EQ(counts["ValidationOverflow"], 6);
  EXPECT_EQ(counts["MisalignedSlice"], 4);
  EXPECT_EQ(counts["MetadataIncompleteBuffer"], 8);
  EXPECT_EQ(counts["InvalidHeaderDeserialization"], 69);
}

class ProbeRow : public ::testing::TestWithParam<Probe> {};

TEST_P(ProbeRow, HasItsFault) {
  const Probe& probe = GetParam();
  const testing_util::Scratch scratch;
  const std::string path = scratch.Write("probe.safetensors", probe.bytes);
  const Result<TensorFile> file = Open(path);
  const std::string_view fault = testing::FaultOf(file);

  if (probe.ours == Ours::kUnsupported) {
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(fault, testing::kNone);
    EXPECT_EQ(file.error().code(), Errc::kUnsupported);
    EXPECT_EQ(file.error().tensor(), "t");
    EXPECT_THAT(file.error().message(), HasSubstr("dims over 2^63-1"));
    return;
  }
  const std::string_view expected =
      probe.ours == Ours::kStrict ? "InvalidHeaderDeserialization" : probe.reference;
  EXPECT_EQ(fault, expected);
  ASSERT_EQ(file.ok(), expected == testing::kNone)
      << (file.ok() ? "accepted" : file.error().ToString());
  if (file.ok()) return;
  EXPECT_EQ(file.error().code(), Errc::kCorrupt);
  EXPECT_EQ(file.error().file(), path);
  EXPECT_THAT(file.error().message(), StartsWith(std::string(expected) + ": "));
  ASSERT_TRUE(file.error().offset().has_value());
  EXPECT_LE(*file.error().offset(), probe.bytes.size());
}

INSTANTIATE_TEST_SUITE_P(All, ProbeRow, ::testing::ValuesIn(testing::Probes()),
                         [](const auto& row) { return row.param.id; });

}  // namespace
}  // namespace nxdkit::safetensors
