#include "formats/artifact/finding.h"

#include <gtest/gtest.h>

namespace nxdkit::ops {
namespace {

TEST(Finding, NamesOfAMegabyteAreCut) {
  const std::string name(1 << 20, 'n');
  const std::string cut = std::string(200, 'n') + "... (1048576 bytes)";
  const Finding finding = Finding("missing", name + " is not there").in("a").on(name).of(name);
  EXPECT_EQ(finding.tensor, cut);
  EXPECT_EQ(finding.param, cut);
  EXPECT_EQ(finding.ToString(), "a: " + cut + ": " + cut + " is not there");
}

}  // namespace
}  // namespace nxdkit::ops
