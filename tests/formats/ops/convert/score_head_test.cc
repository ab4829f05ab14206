// Models with a score head in place of the lm_head: converted and read back, cut or not; never into
// a rollout bundle.
#include "formats/kinds/open.h"
#include "formats/ops/digest/digest.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/formats/words.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::ops {
namespace {

using testing_util::OpsWorkshop;

class ScoreHead : public ::testing::Test {
 protected:
  static std::string DigestOf(const std::string& path, const Kind* kind) {
    const auto opened = OpenAndBind(path, kind, {});
    EXPECT_TRUE(opened.ok()) << opened.error().ToString();
    const auto digest = DigestModel(*opened, {});
    EXPECT_TRUE(digest.ok()) << digest.error().ToString();
    return HexText(digest->digest);
  }
  const OpsWorkshop shop_;
  const std::string model_ = shop_.MakeModel("model", testing_util::TinyScore());
};

TEST_F(ScoreHead, IsWholeOnEveryRankAndOnTheLastStage) {
  const std::string digest = DigestOf(model_, &ops::kHf);
  for (const auto& [tp, pp] : {std::pair(1, 1), {2, 1}, {2, 2}}) {
    OutputOptions options;
    options.Set("tp", tp);
    options.Set("pp", pp);
    options.Set("hw", Word(models::Hardware::kTrn1));
    const std::string name = "nxd" + std::to_string(tp) + std::to_string(pp);
    const std::string set = shop_.Make(name, model_, &ops::kHf, &ops::kNxd, options);
    EXPECT_EQ(DigestOf(set, &ops::kNxd), digest) << name;
    EXPECT_TRUE(testing_util::FindingsOf(set, model_).empty()) << name;
    const auto bound = OpenAndBind(set, &ops::kNxd, {});
    ASSERT_TRUE(bound.ok());
    int places = 0;
    for (const TensorLayout& tensor : bound->bound.layout.tensors) {
      EXPECT_NE(tensor.name, "lm_head.weight");
      if (tensor.name != "score.weight") continue;
      ++places;
      EXPECT_EQ(tensor.shape, (Shape{1, 32}));
      EXPECT_EQ(bound->artifact.ranks[tensor.file].pp_rank, pp - 1);
    }
    EXPECT_EQ(places, tp) << name;
    const std::string back = shop_.Make("hf" + name, set, &ops::kNxd, &ops::kHf);
    EXPECT_EQ(DigestOf(back, &ops::kHf), digest) << name;
  }
}

TEST_F(ScoreHead, IsRefusedByRolloutBundlesAndMegatronSets) {
  OutputOptions options;
  options.Set("tp", 2);
  options.Set("bs", 1);
  options.Set("seq", 16);
  testing_util::ExpectError(
      Convert(OpsWorkshop::Request(model_, &ops::kHf, shop_ / "bundle", &ops::kRollout, options)),
      Errc::kUnsupported,
      "a Qwen3ForTokenClassification has a score head and no lm_head: no engine generates with it");
  OutputOptions megatron;
  megatron.Set("tp", 2);
  megatron.Set("style", Word(nxd::NameStyle::kMegatron));
  testing_util::ExpectError(
      Convert(OpsWorkshop::Request(model_, &ops::kHf, shop_ / "megatron", &ops::kNxd, megatron)),
      Errc::kUnsupported, "how NxDT's Megatron models name a score head is not known");
}

}  // namespace
}  // namespace nxdkit::ops
