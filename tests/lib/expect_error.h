// Checks of an Error: the code and a telling part of the text are always required.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "lib/base/error.h"

namespace nxdkit::testing_util {

template <typename Outcome>  // Result<T> or Status
std::optional<Error> ExpectError(const Outcome& outcome, Errc code, const std::string& part) {
  if (outcome.ok()) {
    ADD_FAILURE() << "succeeded, expected " << ErrcName(code) << " with: " << part;
    return std::nullopt;
  }
  EXPECT_EQ(ErrcName(outcome.error().code()), ErrcName(code)) << outcome.error().ToString();
  EXPECT_THAT(outcome.error().message(), ::testing::HasSubstr(part));
  return outcome.error();
}

template <typename Outcome>
void ExpectErrorAt(const Outcome& outcome, Errc code, const std::string& part,
                   const std::string& file, std::optional<uint64_t> offset) {
  const std::optional<Error> error = ExpectError(outcome, code, part);
  if (!error) return;
  EXPECT_EQ(error->file(), file);
  EXPECT_EQ(error->offset(), offset);
}

}  // namespace nxdkit::testing_util
