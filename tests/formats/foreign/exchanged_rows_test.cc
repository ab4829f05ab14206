// Rows that FSDP over tensor parallelism exchanged in the real transformers, on torch 2.9.1:
// testdata/new_stack/SOURCES.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "formats/artifact/exchanged_rows.h"
#include "formats/kinds/open.h"
#include "formats/kinds/table.h"
#include "formats/ops/diff/diff.h"
#include "formats/ops/verify/exchange.h"
#include "formats/ops/verify/verify.h"
#include "tests/formats/foreign/stored_runs.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/lib/expect_error.h"

namespace nxdkit {
namespace {

using artifact::InputHints;
using artifact::RowExchange;
using testing_util::ExpectError;
using testing_util::OpsWorkshop;
using testing_util::ReadBytes;
using testing_util::Unpacked;

struct Mesh {
  const char* name;
  RowExchange exchange;
  std::string option;

  std::string Path() const {
    return Unpacked(NXDKIT_TESTDATA "/new_stack/fixtures.tar.zst") + "/" + name + "/checkpoint-0";
  }
  nlohmann::json Expected() const {
    return nlohmann::json::parse(ReadBytes(Unpacked(NXDKIT_TESTDATA "/new_stack/fixtures.tar.zst") +
                                           "/expected.json"))[name];
  }
};

const Mesh kMeshes[] = {
    {"transformers-5.24-torch-2.9.1-permuted", {2, 2}, "fsdp=2,tp=2"},
    // Not its own inverse: the exchange of 2 over 3 undoes it.
    {"transformers-5.24-torch-2.9.1-fsdp3-tp2", {3, 2}, "fsdp=3,tp=2"},
};

class Exchanged : public ::testing::TestWithParam<Mesh> {
 protected:
  InputHints Undo() const {
    InputHints hints;
    hints.Set("exchanged", GetParam().option);
    return hints;
  }
  // The model that was loaded, as it was before.
  std::string Right() const {
    ops::ConvertRequest request =
        OpsWorkshop::Request(GetParam().Path(), &kinds::kDcp, shop_ / "right", &kinds::kHf);
    request.hints = Undo();
    const auto made = ops::Convert(request);
    EXPECT_TRUE(made.ok()) << made.error().ToString();
    return shop_ / "right";
  }

  OpsWorkshop shop_;
};

TEST_P(Exchanged, ReadingUndoesIt) {
  const auto bound = kinds::OpenAndBind(GetParam().Path(), &kinds::kDcp, Undo());
  ASSERT_TRUE(bound.ok()) << bound.error().ToString();
  const auto found = testing_util::DigestsOf(*bound);
  ASSERT_TRUE(found.ok()) << found.error().ToString();
  const nlohmann::json expected = GetParam().Expected();
  ASSERT_FALSE(expected["hf"].empty());
  for (const auto& [name, tensor] : expected["hf"].items())
    EXPECT_EQ(found->at(name).digest, tensor["weight"].get<std::string>()) << name;
}

// Without the option the rows stay where they were stored.
TEST_P(Exchanged, NothingIsUndoneUnasked) {
  const auto bound = kinds::OpenAndBind(GetParam().Path(), &kinds::kDcp, {});
  ASSERT_TRUE(bound.ok());
  const auto found = testing_util::DigestsOf(*bound);
  ASSERT_TRUE(found.ok());
  const nlohmann::json expected = GetParam().Expected();
  size_t wrong = 0;
  for (const auto& [name, tensor] : expected["hf"].items())
    wrong += found->at(name).digest != tensor["weight"].get<std::string>();
  EXPECT_EQ(wrong, expected["wrong_rows"].size());
}

TEST_P(Exchanged, VerifyNamesItWhereABaseIsAtHand) {
  const auto report = testing_util::VerifyAgainst(GetParam().Path(), Right());
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  ASSERT_FALSE(report->findings.empty());
  for (const ops::Finding& finding : report->findings)
    EXPECT_THAT(finding.message,
                ::testing::HasSubstr("as exchanged by " + GetParam().exchange.Text()));
  EXPECT_THAT(report->warnings,
              ::testing::Contains(::testing::HasSubstr("--exchanged " + GetParam().option +
                                                       " reads them in their places")));
}

TEST_P(Exchanged, DiffNamesItAndItsInverse) {
  ops::DiffRequest request;
  request.a.path = GetParam().Path();
  request.b.path = Right();
  const auto report = ops::Diff(request);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  const RowExchange& exchange = GetParam().exchange;
  EXPECT_THAT(report->warnings,
              ::testing::Contains(::testing::HasSubstr(
                  "exchanged by " + exchange.Text() + " (or B's as those of A by " +
                  RowExchange{exchange.tp, exchange.fsdp}.Text() + ")")));
}

INSTANTIATE_TEST_SUITE_P(Meshes, Exchanged, ::testing::ValuesIn(kMeshes),
                         [](const ::testing::TestParamInfo<Mesh>& row) {
                           return "fsdp" + std::to_string(row.param.exchange.fsdp) + "tp" +
                                  std::to_string(row.param.exchange.tp);
                         });

// Two steps of one run, one of them exchanged: the rows are no longer the same.
TEST(FindExchange, SeesThroughAStepOfTraining) {
  const OpsWorkshop shop;
  const testing_util::TinyModel tiny;
  const std::string before = shop.MakeModel("before", tiny, Dtype::kF32);
  const std::string after = shop.MakeModel("after", tiny, Dtype::kBF16);  // nearly the same
  InputHints hints;
  const auto right = kinds::OpenAndBind(before, &kinds::kHf, {});
  hints.Set("exchanged", "fsdp=2,tp=4");
  const auto actual = kinds::OpenAndBind(after, &kinds::kHf, hints);
  ASSERT_TRUE(right.ok() && actual.ok());
  const auto found = ops::FindExchange(*right, *actual);
  ASSERT_TRUE(found.ok()) << found.error().ToString();
  // Reading undid an exchange that had not happened: the rows are exchanged in the other order.
  EXPECT_EQ(*found, (RowExchange{4, 2}));
}

TEST(FindExchange, IsNotFoundBetweenModelsThatJustDiffer) {
  const OpsWorkshop shop;
  testing_util::TinyModel tiny;
  const std::string one = shop.MakeModel("one", tiny, Dtype::kF32);
  const std::string rounded = shop.MakeModel("rounded", tiny, Dtype::kBF16);
  const auto a = kinds::OpenAndBind(one, &kinds::kHf, {});
  const auto b = kinds::OpenAndBind(rounded, &kinds::kHf, {});
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(*ops::FindExchange(*a, *b), std::nullopt);
  EXPECT_EQ(*ops::FindExchange(*a, *a), std::nullopt);
}

// Heads in another order, and their columns of o_proj with them: the same model, stored
// differently.
TEST(FindExchange, IsNotWhatReordersHeadsAlone) {
  const OpsWorkshop shop;
  testing_util::TinyModel tiny;
  const std::string path = shop.MakeModel("model", tiny, Dtype::kF32);
  InputHints hints;
  hints.Set("exchanged", "fsdp=2,tp=2");
  const auto right = kinds::OpenAndBind(path, &kinds::kHf, {});
  auto actual = kinds::OpenAndBind(path, &kinds::kHf, hints);
  ASSERT_TRUE(right.ok() && actual.ok());
  const auto found = ops::FindExchange(*right, *actual);
  ASSERT_TRUE(found.ok() && found->has_value());
  // The same with everything except q, k and v in its place.
  for (size_t t = 0; t < actual->bound.layout.tensors.size(); ++t) {
    TensorLayout& tensor = actual->bound.layout.tensors[t];
    const models::Role role = actual->model->params[tensor.pieces.front().param].role;
    if (role != models::Role::kQuery && role != models::Role::kKey && role != models::Role::kValue)
      tensor.pieces = right->bound.layout.tensors[t].pieces;
  }
  EXPECT_EQ(*ops::FindExchange(*right, *actual), std::nullopt);
}

// Moments are exchanged like their weights.
TEST(ExchangedRows, OfMomentsAreUndoneWithTheWeights) {
  const std::string folder = Unpacked(NXDKIT_TESTDATA "/new_stack/fixtures.tar.zst");
  const std::string name = "transformers-5.24-qwen3-fsdp2";
  const OpsWorkshop shop;
  ops::ConvertRequest request = OpsWorkshop::Request(folder + "/" + name + "/checkpoint-2",
                                                     &kinds::kDcp, shop / "moved", &kinds::kDcp);
  request.hints.optimizer = true;
  request.hints.Set("exchanged", "fsdp=4,tp=2");
  ASSERT_TRUE(ops::Convert(request).ok());
  InputHints hints;
  hints.optimizer = true;
  const auto moved = kinds::OpenAndBind(shop / "moved", &kinds::kDcp, hints);
  hints.Set("exchanged", "fsdp=2,tp=4");  // the way back
  const auto back = kinds::OpenAndBind(shop / "moved", &kinds::kDcp, hints);
  ASSERT_TRUE(moved.ok() && back.ok());
  const auto wrong = testing_util::DigestsOf(*moved);
  const auto found = testing_util::DigestsOf(*back);
  ASSERT_TRUE(wrong.ok() && found.ok());
  const nlohmann::json expected =
      nlohmann::json::parse(ReadBytes(folder + "/expected.json"))[name]["hf"];
  const std::string param = "model.layers.0.self_attn.q_proj.weight";
  for (const std::string what : {"weight", "exp_avg", "exp_avg_sq"}) {
    const std::string key = what == "weight" ? param : param + "/" + what;
    EXPECT_EQ(found->at(key).digest, expected[param][what].get<std::string>()) << what;
    EXPECT_NE(wrong->at(key).digest, expected[param][what].get<std::string>()) << what;
  }
}

TEST(ExchangedRows, OfAFamilyWhoseCutIsNotKnownAreRefused) {
  const OpsWorkshop shop;
  testing_util::TinyModel tiny;
  tiny.family = "gpt_neox";
  const std::string path = shop.MakeModel("model", tiny);
  InputHints hints;
  hints.Set("exchanged", "fsdp=2,tp=2");
  ExpectError(kinds::OpenAndBind(path, &kinds::kHf, hints), Errc::kUnsupported,
              "which rows of gpt_neox models transformers cuts is not known");
}

// TorchTitan exchanges nothing.
TEST(ExchangedRows, OfTensorsThatTransformersDidNotNameAreRefused) {
  const std::string folder = Unpacked(NXDKIT_TESTDATA "/new_stack/fixtures.tar.zst");
  InputHints hints;
  hints.config = folder + "/titan-0.3.0-qwen3/config.json";
  hints.Set("exchanged", "fsdp=2,tp=2");
  ExpectError(
      kinds::OpenAndBind(folder + "/titan-0.3.0-qwen3/checkpoint/step-2", &kinds::kDcp, hints),
      Errc::kUnsupported, "do not have the names of transformers");
}

TEST(ExchangedRows, OfAMeshThatDoesNotDivideThemAreRefused) {
  InputHints hints;
  hints.Set("exchanged", "fsdp=3,tp=5");
  ExpectError(kinds::OpenAndBind(kMeshes[0].Path(), &kinds::kDcp, hints), Errc::kUnsupported,
              "112 rows are not 15 parts of FSDP 3 over TP 5");
}

TEST(ExchangedRows, TheOptionNamesTwoOfEach) {
  for (const char* text : {"", "2", "fsdp=2", "fsdp=1,tp=2", "fsdp=2,tp=x", "tp=2,tp=2",
                           "fsdp=99999,tp=99999", "fsdp=2,tp=2,ep=2"})
    ExpectError(artifact::ParseRowExchange(text), Errc::kUsage, "expected fsdp=F,tp=T");
  EXPECT_EQ(*artifact::ParseRowExchange("tp=2,fsdp=3"), (RowExchange{3, 2}));
}

// Part f T + t lies at t F + f.
TEST(ExchangedRows, PartsOfThreeByTwo) {
  const RowExchange exchange{3, 2};
  std::vector<int> parts;
  for (int place = 0; place < 6; ++place) parts.push_back(exchange.PartAt(place));
  EXPECT_THAT(parts, ::testing::ElementsAre(0, 2, 4, 1, 3, 5));
}

}  // namespace
}  // namespace nxdkit
