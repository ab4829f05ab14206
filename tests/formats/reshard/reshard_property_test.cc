// Random models and geometries: a resharded tag equals, byte for byte, the one that training would
// have left in the new geometry; and resharded back it is the first one again.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <rapidcheck/gtest.h>  // needs declarations of gtest.h

#include "tests/formats/reshard/reshard_workshop.h"

namespace nxdkit {
namespace {

using testing_util::ReshardWorkshop;
using testing_util::TrainingTag;

int Number(int least, int most) { return *rc::gen::inRange(least, most + 1); }
bool Coin() { return *rc::gen::arbitrary<bool>(); }
template <typename T>
T OneOf(std::vector<T> values) {
  return *rc::gen::elementOf(values);
}

nlohmann::json AnyConfig() {
  const int kv_heads = OneOf<int>({1, 2, 4, 8});
  return {{"model_type", OneOf<std::string>({"llama", "qwen2", "qwen3"})},
          {"hidden_size", Number(1, 13)},
          {"intermediate_size", 8 * Number(1, 3)},
          {"num_hidden_layers", Number(1, 5)},
          {"num_attention_heads", 8},
          {"num_key_value_heads", kv_heads},
          {"head_dim", Number(1, 3)},
          {"vocab_size", 8 * Number(1, 3)},
          {"torch_dtype", "bfloat16"},
          {"tie_word_embeddings", Coin()}};
}

// `stages`: 0 for any number of pipeline ranks, else 1, or 2 for more than one.
TrainingTag AnyTag(const nlohmann::json& config, int stages) {
  const int layers = config["num_hidden_layers"];
  const int kv_heads = config["num_key_value_heads"];
  TrainingTag tag;
  tag.config = config;
  nxd::Geometry& out = tag.geometry;
  out.tp = OneOf<int>({1, 2, 4, 8});
  out.pp = stages == 1 ? 1 : Number(stages == 2 ? 2 : 1, layers);
  out.vpp = Number(1, layers / out.pp);
  std::vector<int> multipliers;
  for (const int m : {1, 2, 4, 8})
    if (kv_heads * m % out.tp == 0 && 8 % (kv_heads * m) == 0) multipliers.push_back(m);
  out.kv_multiplier = OneOf(multipliers);
  std::vector<nxd::QkvStyle> styles = {nxd::QkvStyle::kLinear, nxd::QkvStyle::kFused};
  if (out.kv_multiplier == 1) styles.push_back(nxd::QkvStyle::kSeparate);
  if (kv_heads == 8 && out.kv_multiplier == 1) styles.push_back(nxd::QkvStyle::kCoalesced);
  out.qkv = OneOf(styles);
  out.hardware = Coin() ? models::Hardware::kTrn1 : models::Hardware::kTrn2;
  tag.dp = Number(1, 9);
  tag.xser = Number(0, 3) == 0;
  return tag;
}

struct Case {
  TrainingTag a, b;
};

Case AnyCase() {
  const nlohmann::json config = AnyConfig();
  const bool tied = config["tie_word_embeddings"];
  const int layers = config["num_hidden_layers"];
  const int stages = !tied ? 0 : layers > 1 ? Number(1, 2) : 1;
  Case c{AnyTag(config, stages), AnyTag(config, stages)};
  c.a.form = c.b.form = OneOf<std::string>({"zero1", "zero1", "zero1", "merged", "replicated"});
  c.a.groups = c.b.groups = OneOf<std::string>({"norms", "biases", "one"});
  c.a.int_step = c.b.int_step = Coin();
  c.a.shape_info = c.b.shape_info = Number(0, 3) > 0;
  c.a.master_weights = c.b.master_weights = Coin();
  return c;
}

std::string TextOf(const TrainingTag& tag) {
  return fmt::format(
      "tp {} pp {} vpp {} dp {} m {} {} trn{} {}", tag.geometry.tp, tag.geometry.pp,
      tag.geometry.vpp, tag.dp, tag.geometry.kv_multiplier, nxd::QkvStyleName(tag.geometry.qkv),
      tag.geometry.hardware == models::Hardware::kTrn1 ? 1 : 2, tag.xser ? "xser" : "plain");
}

void showValue(const Case& c, std::ostream& out) {
  out << c.a.config.dump() << "\n"
      << c.a.form << " " << c.a.groups << (c.a.int_step ? " int step" : "")
      << (c.a.shape_info ? "" : " no shape_info") << (c.a.master_weights ? " masters" : "")
      << "\nfrom " << TextOf(c.a) << "\nto   " << TextOf(c.b);
}

RC_GTEST_PROP(RandomTags, ReshardToWhatTrainingWouldHaveLeftAndBack, ()) {
  const Case c = *rc::gen::exec(AnyCase);
  const ReshardWorkshop shop;
  const std::string a = shop.Make("a", c.a);
  const std::string b = shop.Make("b", c.b);
  const std::string there = shop.Reshard(a, "there", c.b, true);
  RC_ASSERT(!::testing::Test::HasFailure());
  RC_ASSERT(testing_util::TagDifference(b, there) == "");
  const std::string back = shop.Reshard(there, "back", c.a);
  RC_ASSERT(!::testing::Test::HasFailure());
  RC_ASSERT(testing_util::TagDifference(a, back) == "");
}

}  // namespace
}  // namespace nxdkit
