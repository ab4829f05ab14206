// The captures of testdata/neuron_ls, and output that no neuron-ls should print.
#include "formats/hardware/neuron_ls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "tests/formats/hardware/captures.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::hardware {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing_util::ExpectError;

std::string CaptureText(const std::string& name) {
  std::ifstream file(testing_util::CapturePath(name));
  return {std::istreambuf_iterator<char>(file), {}};
}

NeuronLs Parsed(const std::string& text) {
  const auto listing = ParseNeuronLs(text);
  EXPECT_TRUE(listing.ok()) << listing.error().ToString();
  return listing.ok() ? *listing : NeuronLs();
}

TEST(NeuronLs, TellsDevicesCoresAndMemory) {
  const struct {
    const char* name;
    const char* type;
    size_t devices;
    int64_t cores, gib;
    std::optional<int64_t> lnc;
  } rows[] = {{"trn1.2xlarge", "trn1.2xlarge", 1, 2, 32, std::nullopt},
              {"trn1.32xlarge", "trn1.32xlarge", 16, 2, 32, std::nullopt},
              {"trn2.3xlarge", "trn2.3xlarge", 1, 4, 96, 2},
              {"trn2.48xlarge_lnc2", "trn2.48xlarge", 16, 4, 96, 2},
              {"trn2.48xlarge_lnc1", "trn2.48xlarge", 16, 8, 96, 1},
              {"trn3", "trn3.example", 4, 4, 144, 2},
              {"older_release", "", 16, 2, 32, std::nullopt}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    const NeuronLs listing = Parsed(CaptureText(row.name));
    EXPECT_EQ(listing.instance_type, row.type);
    EXPECT_THAT(listing.notes, IsEmpty());
    ASSERT_EQ(listing.devices.size(), row.devices);
    for (size_t i = 0; i < row.devices; ++i) {
      EXPECT_EQ(listing.devices[i].number, static_cast<int64_t>(i));
      EXPECT_EQ(listing.devices[i].cores, row.cores);
      EXPECT_EQ(listing.devices[i].memory_bytes, static_cast<uint64_t>(row.gib) << 30);
      EXPECT_EQ(listing.devices[i].lnc, row.lnc);
    }
  }
}

TEST(NeuronLs, TellsWhoHoldsADevice) {
  const NeuronLs listing = Parsed(CaptureText("trn1.32xlarge"));
  ASSERT_THAT(listing.devices, SizeIs(16));
  ASSERT_THAT(listing.devices[3].processes, SizeIs(1));
  EXPECT_EQ(listing.devices[3].processes[0].pid, 4711);
  EXPECT_THAT(listing.devices[3].processes[0].command, HasSubstr("train.py"));
  EXPECT_THAT(listing.devices[4].processes, IsEmpty());
}

TEST(NeuronLs, WhatIsOddIsUnknownAndNoted) {
  const NeuronLs listing = Parsed(CaptureText("odd_values"));
  ASSERT_THAT(listing.devices, SizeIs(4)) << "device 0 is listed twice";
  EXPECT_EQ(listing.devices[0].cores, 2);
  EXPECT_EQ(listing.devices[1].memory_bytes, std::nullopt);
  EXPECT_EQ(listing.devices[2].cores, std::nullopt);
  EXPECT_EQ(listing.devices[2].memory_bytes, std::nullopt);
  EXPECT_EQ(listing.devices[3].cores, std::nullopt);
  ASSERT_THAT(listing.devices[3].processes, SizeIs(2));
  EXPECT_EQ(listing.devices[3].processes[0].pid, 0);
  EXPECT_EQ(listing.devices[3].processes[1].pid, 4713);
  EXPECT_THAT(listing.notes, AllOf(Contains("device 0: listed more than once; it is counted once"),
                                   Contains("device 1: memory_size is missing"),
                                   Contains("device 2: nc_count is a string, expected an integer"),
                                   Contains("device 2: memory_size is 34000000000.0, expected 1 to "
                                            "1125899906842624"),
                                   Contains("device 3: nc_count is -1, expected 1 to 256"),
                                   Contains("device 3: a process is a string, expected an object"),
                                   Contains("device 3: pid is a string, expected an integer")));
}

TEST(NeuronLs, AnOddityOfAllDevicesIsOneNote) {
  std::string text = "[";
  for (int i = 0; i < 16; ++i)
    text += (i ? "," : "") + std::string("{\"neuron_device\":") + std::to_string(i) +
            ",\"nc_count\":2}";
  EXPECT_THAT(Parsed(text + "]").notes,
              ElementsAre("devices 0, 1, 2 and 13 more: memory_size is missing"));
}

TEST(NeuronLs, WhatIsNoListingIsRefused) {
  const std::string whole = CaptureText("trn1.2xlarge");
  EXPECT_TRUE(ExpectError(ParseNeuronLs(""), Errc::kCorrupt, "it is empty"));
  EXPECT_TRUE(ExpectError(ParseNeuronLs("\n \n"), Errc::kCorrupt, "it is empty"));
  EXPECT_TRUE(ExpectError(ParseNeuronLs("{}"), Errc::kCorrupt, "the JSON is an object"));
  EXPECT_TRUE(ExpectError(ParseNeuronLs("[1]"), Errc::kCorrupt, "entry 0 of the array is"));
  EXPECT_TRUE(ExpectError(ParseNeuronLs("instance-type: trn1.2xlarge"), Errc::kCorrupt, "line 1"));
  for (size_t bytes = 1; bytes < whole.size(); ++bytes)
    EXPECT_FALSE(ParseNeuronLs(whole.substr(0, bytes)).ok()) << bytes;
  EXPECT_TRUE(ExpectError(ParseNeuronLs(std::string(100'000, '[')), Errc::kCorrupt, "nesting"));
  EXPECT_TRUE(ExpectError(ParseNeuronLs(std::string(kMaxNeuronLsBytes + 1, ' ')), Errc::kCorrupt,
                          "over the limit"));
}

// Every byte changed once: it never crashes, and accepted values are within bounds.
TEST(NeuronLs, ChangedBytesDoNoHarm) {
  const std::string whole = CaptureText("odd_values");
  for (size_t at = 0; at < whole.size(); ++at)
    for (const char byte : {'9', '"', '[', '}', '-', 'e', '\0', '\xff'}) {
      std::string text = whole;
      text[at] = byte;
      const auto listing = ParseNeuronLs(text);
      if (!listing.ok()) continue;
      for (const NeuronDevice& device : listing->devices) EXPECT_LE(device.cores.value_or(1), 256);
      EXPECT_LE(listing->notes.size(), 20u);
    }
}

TEST(NeuronLs, ManyDevicesAndNotesAreBounded) {
  std::string text = "[";
  for (int i = 0; i < 3000; ++i)
    text += (i ? "," : "") + std::string("{\"neuron_device\":") + std::to_string(i) +
            ",\"nc_count\":" + std::to_string(1000 + i) + "}";
  const NeuronLs listing = Parsed(text + "]");
  EXPECT_THAT(listing.devices, SizeIs(1024));
  EXPECT_THAT(listing.notes, Contains("3000 devices are listed, the first 1024 are read"));
  EXPECT_LE(listing.notes.size(), 17u);
}

}  // namespace
}  // namespace nxdkit::hardware
