#include "formats/ops/verify/one_layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/model_layouts.h"

namespace nxdkit::ops {
namespace {

using testing_util::ModelOf;
using testing_util::SmallConfig;
using testing_util::SmallMoeConfig;

TEST(OneLayer, StandsForLayersThatAreAlike) {
  for (const auto& config : {SmallConfig(), SmallMoeConfig("qwen3_moe")}) {
    const models::Model whole = ModelOf(config);
    const OneLayer one = FirstOfLayers(whole);
    EXPECT_EQ(one.layers, 2);
    EXPECT_EQ(one.Times("model.layers.0.mlp.down_proj_weight"), 2);
    EXPECT_EQ(one.Times("model.norm.weight"), 1);
    ASSERT_EQ(one.of.size(), whole.params.size());
    for (uint32_t i = 0; i < whole.params.size(); ++i) {
      const models::Param& stands = one.model.params.at(one.of[i]);
      EXPECT_LE(stands.layer, 0);
      EXPECT_EQ(InLayer(stands.name, whole.params[i].layer), whole.params[i].name);
      EXPECT_EQ(stands.shape, whole.params[i].shape);
    }
  }
}

TEST(OneLayer, StandsForNoneThatIsNot) {
  const models::Model model = ModelOf(SmallConfig());
  const auto last = static_cast<uint32_t>(model.params.size()) - 3;  // in layer 1
  ASSERT_EQ(model.params[last].layer, 1);
  models::Model longer = model, renamed = model, fewer = model, beyond = model;
  longer.params[last].shape[0] += 1;
  renamed.params[last].name += "s";
  fewer.params.erase(fewer.params.begin() + last);
  beyond.params[last].layer = 7;
  for (const models::Model& whole : {longer, renamed, fewer, beyond}) {
    const OneLayer one = FirstOfLayers(whole);
    EXPECT_EQ(one.layers, 1);
    EXPECT_EQ(one.model.params.size(), whole.params.size());
    for (uint32_t i = 0; i < whole.params.size(); ++i) EXPECT_EQ(one.of[i], i);
  }
}

}  // namespace
}  // namespace nxdkit::ops
