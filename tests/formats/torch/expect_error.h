// Reads bytes as an archive, and checks the error.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>

#include "formats/torch/archive.h"
#include "tests/formats/torch/temp_folder.h"

namespace nxdkit::torch {

inline Result<Archive> ReadBytes(std::string_view bytes, const ReadOptions& options = {}) {
  const TempFolder folder;
  return ReadArchive(folder.File("t.pt", bytes), options);
}

struct Expected {
  Errc code;
  std::string member;
  std::optional<uint64_t> offset;
  std::string says;
};

inline void ExpectError(const Result<Archive>& archive, const Expected& expected) {
  ASSERT_FALSE(archive.ok()) << "expected: " << expected.says;
  const Error& error = archive.error();
  EXPECT_EQ(error.code(), expected.code) << error.ToString();
  EXPECT_EQ(error.member(), expected.member) << error.ToString();
  EXPECT_EQ(error.offset(), expected.offset) << error.ToString();
  EXPECT_THAT(error.message(), ::testing::HasSubstr(expected.says));
  EXPECT_THAT(error.file(), ::testing::EndsWith("/t.pt"));
}

}  // namespace nxdkit::torch
