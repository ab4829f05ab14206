// Every row of the probe table: what the reference says, less the deviations of FORMAT.md.
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
  std::map<Fault, int> counts;
  for (const Probe& probe : testing::Probes()) {
    EXPECT_TRUE(ids.insert(probe.id).second) << probe.id;
    ++counts[probe.reference];
  }
  EXPECT_EQ(ids.size(), 155u);
  EXPECT_EQ(counts[Fault::kNone], 41);
  EXPECT_EQ(counts[Fault::kHeaderTooSmall], 2);
  EXPECT_EQ(counts[Fault::kInvalidHeaderLength], 3);
  EXPECT_EQ(counts[Fault::kHeaderTooLarge], 5);
  EXPECT_EQ(counts[Fault::kInvalidHeader], 4);
  EXPECT_EQ(counts[Fault::kInvalidOffset], 9);
  EXPECT_EQ(counts[Fault::kTensorInvalidInfo], 4);
  EXPECT_EQ(counts[Fault::kValidationOverflow], 6);
  EXPECT_EQ(counts[Fault::kMisalignedSlice], 4);
  EXPECT_EQ(counts[Fault::kMetadataIncompleteBuffer], 8);
  EXPECT_EQ(counts[Fault::kInvalidHeaderDeserialization], 69);
}

class ProbeRow : public ::testing::TestWithParam<Probe> {};

TEST_P(ProbeRow, HasItsFault) {
  const Probe& probe = GetParam();
  const testing_util::Scratch scratch;
  const std::string path = scratch.Write("probe.safetensors", probe.bytes);
  Fault fault = Fault::kNone;
  const Result<TensorFile> file = Open(path, &fault);

  if (probe.ours == Ours::kUnsupported) {
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(fault, Fault::kNone);
    EXPECT_EQ(file.error().code(), Errc::kUnsupported);
    EXPECT_EQ(file.error().tensor(), "t");
    EXPECT_THAT(file.error().message(), HasSubstr("dims over 2^63-1"));
    return;
  }
  const Fault expected =
      probe.ours == Ours::kStrict ? Fault::kInvalidHeaderDeserialization : probe.reference;
  EXPECT_EQ(FaultName(fault), FaultName(expected));
  ASSERT_EQ(file.ok(), expected == Fault::kNone)
      << (file.ok() ? "accepted" : file.error().ToString());
  if (file.ok()) return;
  EXPECT_EQ(file.error().code(), Errc::kCorrupt);
  EXPECT_EQ(file.error().file(), path);
  EXPECT_THAT(file.error().message(), StartsWith(std::string(FaultName(expected)) + ": "));
  ASSERT_TRUE(file.error().offset().has_value());
  EXPECT_LE(*file.error().offset(), probe.bytes.size());
}

INSTANTIATE_TEST_SUITE_P(All, ProbeRow, ::testing::ValuesIn(testing::Probes()),
                         [](const auto& row) { return row.param.id; });

}  // namespace
}  // namespace nxdkit::safetensors
