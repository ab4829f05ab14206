// PRIVATE to tests: bytes of a checkpoint's pickles that somebody has changed, with checksums that
// hold.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>

namespace nxdkit::testing_util {

// Changes some bytes of the pickles of a torch archive: of one of its data.pkl, whose CRC-32 is
// made anew in the directory. Of another file: some of its bytes.
void MutatePickle(std::string& file, std::mt19937& random);

// Changes the first `from` in the pickle of a torch archive to `to`, of the same length.
void ReplaceInPickle(std::string& file, std::string_view from, std::string_view to);

}  // namespace nxdkit::testing_util
