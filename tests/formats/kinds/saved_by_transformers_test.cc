// Models of every family as transformers 4 and 5 save them: testdata/transformers, where folders of
// the same name hold the same weights.
#include <gtest/gtest.h>

#include <string>

#include "formats/artifact/bound.h"
#include "formats/kinds/open.h"
#include "formats/kinds/table.h"
#include "formats/ops/digest/digest.h"
#include "lib/hash/digest.h"

namespace nxdkit::ops {
namespace {

std::string DigestOf(const std::string& name) {
  const std::string folder = NXDKIT_TESTDATA "/transformers/" + name;
  const auto bound = OpenAndBind(folder, &ops::kHf, {});
  EXPECT_TRUE(bound.ok()) << bound.error().ToString();
  if (!bound.ok()) return name;
  const auto digest = DigestModel(*bound, {});
  EXPECT_TRUE(digest.ok()) << digest.error().ToString();
  return digest.ok() ? HexText(digest->digest) : name;
}

class SavedByTransformers : public ::testing::TestWithParam<const char*> {};

TEST_P(SavedByTransformers, IsOneModelWhateverTheVersion) {
  const std::string name = GetParam();
  const std::string five = DigestOf(name + "_5");
  EXPECT_EQ(DigestOf(name + "_4"), five);
  if (name == "mixtral" || name == "qwen3_moe") {
    EXPECT_EQ(DigestOf(name + "_5_fused"), five);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, SavedByTransformers,
                         ::testing::Values("llama", "qwen2", "qwen3", "mixtral", "qwen3_moe"),
                         [](const auto& row) { return std::string(row.param); });

}  // namespace
}  // namespace nxdkit::ops
