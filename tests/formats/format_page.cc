#include "tests/formats/format_page.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "tests/formats/scratch.h"

namespace nxdkit::testing_util {
namespace {

struct DumpLine {
  size_t offset = 0;
  std::string bytes;
};

// Lines of four spaces, a hexadecimal offset, two spaces, bytes "7b 22", and any text after two
// more.
std::vector<DumpLine> DumpOf(const std::string& chapter) {
  static const std::regex line("    ([0-9a-f]+)  ((?:[0-9a-f]{2} )*[0-9a-f]{2})(?:  .*)?");
  std::vector<DumpLine> dump;
  std::istringstream in(chapter);
  for (std::string text; std::getline(in, text);) {
    std::smatch match;
    if (!std::regex_match(text, match, line)) continue;
    DumpLine row{std::stoul(match[1], nullptr, 16), ""};
    std::istringstream bytes(match[2]);
    for (std::string byte; bytes >> byte;)
      row.bytes += static_cast<char>(std::stoi(byte, nullptr, 16));
    dump.push_back(std::move(row));
  }
  return dump;
}

// The first `testdata/...` of the chapter.
std::string DumpedFile(const std::string& chapter) {
  const size_t begin = chapter.find("`testdata/") + 1;
  return chapter.substr(begin, chapter.find('`', begin) - begin);
}

// Those with titles that end with ", byte by byte".
std::vector<std::string> DumpChapters(const std::string& page) {
  std::vector<std::string> chapters;
  for (size_t at = page.find("\n## "); at != std::string::npos;) {
    const size_t next = page.find("\n## ", at + 1);
    const std::string chapter = page.substr(at, next - at);
    if (chapter.substr(0, chapter.find('\n', 1)).ends_with(", byte by byte"))
      chapters.push_back(chapter);
    at = next;
  }
  return chapters;
}

// "Suite.Test" in back quotes, up to a "/", "..." or "*".
std::set<std::string> NamedTests(const std::string& page) {
  static const std::regex name("`([A-Z][A-Za-z0-9]+)\\.([A-Z][A-Za-z0-9]+)[^`]*`");
  std::set<std::string> names;
  for (std::sregex_iterator it(page.begin(), page.end(), name), end; it != end; ++it)
    names.insert((*it)[1].str() + ", " + (*it)[2].str());
  return names;
}

std::string SourcesOf(const std::vector<std::string>& folders) {
  std::string text;
  for (const std::string& folder : folders)
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::string(NXDKIT_SOURCE_DIR "/") + folder))
      if (entry.path().string().ends_with("_test.cc")) text += ReadBytes(entry.path());
  return text;
}

}  // namespace

std::string PageOf(const std::string& format) {
  std::string path = NXDKIT_SOURCE_DIR "/formats/";
  path += format;
  path += "/FORMAT.md";
  return ReadBytes(path);
}

void ExpectNamesTests(const std::string& page, const std::vector<std::string>& folders) {
  const std::set<std::string> names = NamedTests(page);
  EXPECT_GE(names.size(), 5u) << "no tests are named";
  const std::string sources = SourcesOf(folders);
  for (const std::string& name : names) {
    // A test, or the beginning of its name: "Suite, TheName...".
    EXPECT_NE(sources.find("(" + name), std::string::npos) << name << " is no test";
  }
}

void ExpectPageHolds(const std::string& format, const std::vector<std::string>& folders) {
  const std::string page = PageOf(format);
  EXPECT_FALSE(DumpChapters(page).empty()) << "no dump was found";
  for (const std::string& chapter : DumpChapters(page)) {
    const std::string file = ReadBytes(std::string(NXDKIT_SOURCE_DIR) + "/" + DumpedFile(chapter));
    const std::vector<DumpLine> dump = DumpOf(chapter);
    EXPECT_GE(dump.size(), 5u) << "the dump was not found";
    for (const DumpLine& line : dump) {
      ASSERT_LE(line.offset + line.bytes.size(), file.size());
      EXPECT_EQ(file.substr(line.offset, line.bytes.size()), line.bytes) << "at " << line.offset;
    }
  }
  ExpectNamesTests(page, folders);
}

}  // namespace nxdkit::testing_util
