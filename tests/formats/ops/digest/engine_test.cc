// The weights on vLLM's ranks, predicted: equal to those that its own classes and loader made
// (testdata/goldens/vllm.json), from every layout of a model.
#include "formats/ops/digest/engine.h"
#include "formats/kinds/open.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "formats/kinds/open.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::ops {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing_util::ExpectError;
using testing_util::OpsWorkshop;

const json& Goldens() {
  static const json goldens = [] {
    std::ifstream in(std::string(NXDKIT_TESTDATA) + "/goldens/vllm.json");
    return json::parse(in);
  }();
  return goldens;
}

// "tp1 model.norm.weight" -> "[256] 8b7c..."
using Digests = std::map<std::string, std::string>;

Digests Expected(const json& ranks) {
  Digests out;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (const auto& [name, row] : ranks[rank].items())
      out[fmt::format("tp{} {}", rank, name)] = row[0].dump() + " " + row[2].get<std::string>();
  return out;
}

class EngineDigest : public ::testing::Test {
 protected:
  std::string Model(const json& golden) const {
    MakeModelRequest request;
    const std::string config = workshop_ / "config.json";
    std::ofstream(config) << golden.at("config").dump();
    request.config = config;
    request.output = workshop_ / "model";
    request.dtype = golden.at("config").at("torch_dtype") == "float32" ? Dtype::kF32 : Dtype::kBF16;
    request.seed = Goldens().at("seed");
    const auto made = MakeModel(request);
    EXPECT_TRUE(made.ok()) << made.error().ToString();
    return request.output;
  }
  static Digests Found(const std::string& path, const Kind* kind, int tp, bool experts = false,
                       int jobs = 1) {
    RunOptions run;
    run.jobs = jobs;
    const auto source = OpenAndBind(path, kind, {});
    EXPECT_TRUE(source.ok()) << source.error().ToString();
    if (!source.ok()) return {};
    const auto found =
        DigestForEngine(*source, {tp, experts}, vllm::EngineDtype(source->model->config), run);
    EXPECT_TRUE(found.ok()) << found.error().ToString();
    Digests out;
    if (!found.ok()) return out;
    for (const EngineParam& param : *found)
      out[fmt::format("tp{} {}", param.rank, param.name)] =
          json(param.shape).dump() + " " + HexText(param.digest).substr(0, 24);
    return out;
  }
  const OpsWorkshop workshop_;
};

class EngineGoldens : public EngineDigest, public ::testing::WithParamInterface<size_t> {};

TEST_P(EngineGoldens, AreSaidBeforehandFromEveryLayout) {
  const json& golden = Goldens().at("cases")[GetParam()];
  SCOPED_TRACE(golden.at("case"));
  const bool experts = golden.at("options").value("enable_expert_parallel", false);
  const std::string model = Model(golden);
  OutputOptions two;
  two.Set("tp", 2);
  const std::string set = workshop_.Make("set", model, &ops::kHf, &ops::kNxd, two);
  const std::string bundle = workshop_.Make("bundle", model, &ops::kHf, &ops::kRollout, two);
  size_t digests = 0;
  for (const auto& [tp_text, ranks] : golden.at("tp").items()) {
    const int tp = std::stoi(tp_text);
    SCOPED_TRACE("tp " + tp_text);
    const Digests expected = Expected(ranks);
    digests += expected.size();
    EXPECT_THAT(Found(model, &ops::kHf, tp, experts), ::testing::ContainerEq(expected));
    EXPECT_THAT(Found(model, &ops::kHf, tp, experts, 3), ::testing::ContainerEq(expected));
    EXPECT_THAT(Found(set, &ops::kNxd, tp, experts), ::testing::ContainerEq(expected));
    EXPECT_THAT(Found(bundle, &ops::kRollout, tp, experts), ::testing::ContainerEq(expected));
  }
  EXPECT_GT(digests, 100u);
}
INSTANTIATE_TEST_SUITE_P(All, EngineGoldens,
                         ::testing::Range(size_t{0}, Goldens().at("cases").size()));

class EngineRefusals : public EngineDigest {
 protected:
  void ExpectRefused(const testing_util::TinyModel& model, const vllm::Geometry& geometry,
                     const std::string& message) const {
    const std::string path = workshop_.MakeModel("model" + std::to_string(made_++), model);
    const auto source = OpenAndBind(path, &ops::kHf, {});
    ASSERT_TRUE(source.ok()) << source.error().ToString();
    EXPECT_TRUE(ExpectError(DigestForEngine(*source, geometry, Dtype::kBF16, {}),
                            Errc::kUnsupported, message));
  }
  mutable int made_ = 0;
};

TEST_F(EngineRefusals, AreThoseOfVllm) {
  testing_util::TinyModel llama = testing_util::TinyLlama();  // 8 query heads, 2 key heads
  ExpectRefused(llama, {3, false}, "query heads: 8 cannot be split over tp 3");
  ExpectRefused(llama, {2, true}, "no experts to spread");
  llama.heads = 12;
  llama.kv_heads = 3;
  ExpectRefused(llama, {2, false}, "key heads: 3 and tp 2");
}

// An engine that lacks a tensor silently keeps the old one.
TEST_F(EngineRefusals, AMissingTensorIsNotPassedOver) {
  const std::string path = workshop_.MakeModel("model", testing_util::TinyLlama());
  const auto source = OpenAndBind(path, &ops::kHf, {});
  ASSERT_TRUE(source.ok());
  BoundArtifact lacking = *source;
  lacking.bound.layout.tensors.pop_back();
  lacking.bound.stored.pop_back();
  EXPECT_TRUE(
      ExpectError(DigestForEngine(lacking, {1, false}, Dtype::kBF16, {}), Errc::kCorrupt, ""));
}

}  // namespace
}  // namespace nxdkit::ops
