// The samples of formats/torch/FORMAT.md, and the names of the tests that it cites.
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "formats/torch/encoder.h"
#include "tests/formats/scratch.h"
#include "tests/formats/torch/archive_io.h"

namespace nxdkit::torch {
namespace {

std::string FormatMd() {
  return testing_util::ReadBytes(NXDKIT_SOURCE_DIR "/formats/torch/FORMAT.md");
}

TEST(FormatMd, TheDumpIsWhatWeWrite) {
  const auto encoder = EncodeStateDict({{"w", Dtype::kBF16, {2}}}, "x");
  ASSERT_TRUE(encoder.ok());
  const std::string file = EncodedFile(**encoder);

  const std::string text = FormatMd();
  const std::regex line(R"(\n    ([0-9a-f]{8})  ((?:[0-9a-f]{2} ?)+))");
  std::string dump(file.size(), 'Z');  // the bytes not shown are padding
  size_t lines = 0;
  for (std::sregex_iterator match(text.begin(), text.end(), line), end; match != end; ++match) {
    size_t at = std::stoul((*match)[1], nullptr, 16);
    std::istringstream bytes((*match)[2].str());
    for (std::string byte; bytes >> byte; ++at) {
      ASSERT_LT(at, dump.size());
      dump[at] = static_cast<char>(std::stoi(byte, nullptr, 16));
    }
    ++lines;
  }
  EXPECT_GE(lines, 60u);
  ASSERT_EQ(dump.size(), 0x2b6u);
  for (size_t i = 0; i < file.size(); ++i) EXPECT_EQ(dump[i], file[i]) << "at " << std::hex << i;
}

// "Suite.Name, Name, Name" in the last column of a table.
TEST(FormatMd, TheTestsItNamesExist) {
  std::set<std::string> tests;
  const auto* unit = testing::UnitTest::GetInstance();
  for (int s = 0; s < unit->total_test_suite_count(); ++s)
    for (int t = 0; t < unit->GetTestSuite(s)->total_test_count(); ++t) {
      const std::string suite = unit->GetTestSuite(s)->name();
      const std::string name = unit->GetTestSuite(s)->GetTestInfo(t)->name();
      tests.insert(suite.substr(suite.find('/') + 1) + "." + name.substr(0, name.find('/')));
    }
  const std::string text = FormatMd();
  const std::regex row(R"(\| ((?:[A-Z][A-Za-z0-9]+\.)[A-Za-z0-9., ]+) \|\n)");
  const std::regex word(R"((?:([A-Z][A-Za-z]+)\.)?([A-Z][A-Za-z0-9]+))");
  size_t found = 0;
  for (std::sregex_iterator match(text.begin(), text.end(), row), end; match != end; ++match) {
    const std::string names = (*match)[1];
    std::string suite;
    for (std::sregex_iterator name(names.begin(), names.end(), word); name != end; ++name) {
      if ((*name)[1].matched) suite = (*name)[1];
      const std::string test = suite + "." + (*name)[2].str();
      EXPECT_EQ(tests.count(test), 1u) << test;
      ++found;
    }
  }
  EXPECT_GE(found, 40u);
}

}  // namespace
}  // namespace nxdkit::torch
