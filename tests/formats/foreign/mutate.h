// PRIVATE to tests: changes bytes of a checkpoint's pickles, and keeps the checksums valid.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>

namespace nxdkit::testing_util {

// Changes some bytes of one data.pkl of a torch archive, whose CRC-32 in the directory is updated.
// In any other file: some of its bytes.
void MutatePickle(std::string& file, std::mt19937& random);

// Changes the first `from` in the pickle of a torch archive to `to`, of the same length.
void ReplaceInPickle(std::string& file, std::string_view from, std::string_view to);

}  // namespace nxdkit::testing_util
