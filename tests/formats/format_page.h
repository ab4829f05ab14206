// Checks a FORMAT.md against its subject: the bytes of its dump, the names of its tests.
#pragma once

#include <string>
#include <vector>

namespace nxdkit::testing_util {

std::string PageOf(const std::string& format);

// Every test that the page names is in one of the folders.
void ExpectNamesTests(const std::string& page, const std::vector<std::string>& folders);

// Also checks that the bytes of its dumps are those of the files.
void ExpectPageHolds(const std::string& format, const std::vector<std::string>& folders);

}  // namespace nxdkit::testing_util
