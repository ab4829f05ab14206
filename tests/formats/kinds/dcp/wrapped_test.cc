// Keys with the wrappers of programs: they are the same model and the same state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <set>
#include <string>

#include "tests/formats/dcp/folder_draft.h"
#include "tests/formats/kinds/dcp/state_hints.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/formats/words.h"

namespace nxdkit {
namespace {

using ops::Kind;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_util::DcpDraft;
using testing_util::OpsWorkshop;

constexpr std::string_view kOptimizer = "optimizer.";

struct Wrapping {
  const char* name;
  std::string weights;                               // before the name of a weight
  std::string optimizer;                             // for "optimizer."
  std::function<std::string(std::string)> inside{};  // changes the name of a parameter
  std::string said{};
};

class Wrapped : public ::testing::TestWithParam<Wrapping> {
 protected:
  Result<ops::ConvertReport> ToHf(const DcpDraft& draft, const std::string& name) {
    draft.Write(shop_ / (name + "-in"));
    ops::OutputOptions options;
    options.Set("style", Word(dcp::Style::kHf));
    ops::ConvertRequest request =
        OpsWorkshop::Request(shop_ / (name + "-in"), &ops::kDcp, shop_ / name, &ops::kDcp, options);
    request.hints = testing_util::StateHints();
    return ops::Convert(request);
  }

  static std::string Rename(const std::string& key, bool is_weight) {
    const Wrapping& by = GetParam();
    const auto inside = [&](std::string name) { return by.inside ? by.inside(name) : name; };
    if (is_weight && !key.starts_with(kOptimizer)) return by.weights + inside(key);
    if (!key.starts_with(kOptimizer)) return key;
    return by.optimizer + inside(key.substr(kOptimizer.size()));
  }

  OpsWorkshop shop_;
};

TEST_P(Wrapped, IsTheSameModelAndState) {
  const DcpDraft plain = DcpDraft::Read(NXDKIT_TESTDATA "/dcp/one");
  DcpDraft wrapped = plain;
  for (DcpDraft::Tensor& tensor : wrapped.tensors) tensor.key = Rename(tensor.key, true);
  for (DcpDraft::Object& object : wrapped.objects) object.key = Rename(object.key, false);
  const auto first = ToHf(plain, "plain");
  ASSERT_TRUE(first.ok()) << first.error().ToString();
  const auto second = ToHf(wrapped, "wrapped");
  ASSERT_TRUE(second.ok()) << second.error().ToString();
  for (const char* file : {"/.metadata", "/__0_0.distcp"})
    EXPECT_TRUE(testing_util::ReadBytes(shop_ / ("plain" + std::string(file))) ==
                testing_util::ReadBytes(shop_ / ("wrapped" + std::string(file))))
        << file;
  EXPECT_THAT(first->warnings, IsEmpty());
  if (GetParam().said.empty())
    EXPECT_THAT(second->warnings, IsEmpty());
  else
    EXPECT_THAT(second->warnings, Contains(HasSubstr(GetParam().said)));
}

std::string InLayers(std::string name, const std::string& part) {
  const size_t at = name.find("layers.0.");
  return at == std::string::npos ? name : name.insert(at + 9, part);
}

INSTANTIATE_TEST_SUITE_P(
    Dcp, Wrapped,
    ::testing::Values(
        Wrapping{"Model", "model.", "optimizer."},
        Wrapping{"App", "app.model.", "app.optim.", {}, "\"app.\"; \"optim.\" is the optimizer"},
        Wrapping{"AppOptimizer", "app.model.", "app.optimizer.", {}, "\"app.\""},
        Wrapping{"ModelAndOptim", "model.", "optim.", {}, "\"optim.\" is the optimizer"},
        Wrapping{"StateDict", "state_dict.", "optimizer_states.0.", {}, "\"state_dict.\""},
        Wrapping{"StateOfAnother",
                 "state.model.",
                 "state.opt.",
                 {},
                 "\"state.\"; \"opt.\" is the optimizer"},
        Wrapping{"Flattened", "model.", "", {}, "\"\" is the optimizer"},
        Wrapping{"Parallel", "module.", "optimizer.", {}, "without what is around"},
        Wrapping{"Compiled", "", "optimizer.",
                 [](std::string name) { return InLayers(std::move(name), "_orig_mod."); },
                 "without what is around"},
        Wrapping{"Recomputed", "app.model.", "app.optim.",
                 [](std::string name) {
                   return InLayers(std::move(name), "_checkpoint_wrapped_module.");
                 },
                 "\"app.\""}),
    [](const auto& row) { return row.param.name; });

// Keys and paths of a checkpoint, as stored.
std::set<std::string> KeysOf(const std::string& path) {
  std::set<std::string> keys;
  const auto folder = dcp::Open(path);
  EXPECT_TRUE(folder.ok()) << folder.error().ToString();
  if (!folder.ok()) return keys;
  for (const dcp::StoredEntry& entry : folder->tensors) keys.insert(entry.key);
  for (const dcp::ObjectEntry& object : folder->metadata.objects) keys.insert(object.key);
  return keys;
}

// From checkpoint to checkpoint without another style: the program that wrote it finds its keys.
TEST_P(Wrapped, ItsKeysStay) {
  DcpDraft wrapped = DcpDraft::Read(NXDKIT_TESTDATA "/dcp/one");
  for (DcpDraft::Tensor& tensor : wrapped.tensors) tensor.key = Rename(tensor.key, true);
  for (DcpDraft::Object& object : wrapped.objects) object.key = Rename(object.key, false);
  wrapped.Write(shop_ / "in");
  ops::ConvertRequest request =
      OpsWorkshop::Request(shop_ / "in", &ops::kDcp, shop_ / "out", &ops::kDcp);
  request.hints = testing_util::StateHints();
  const auto report = ops::Convert(request);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_EQ(KeysOf(shop_ / "out"), KeysOf(shop_ / "in"));
}

// The run's own entries: everything except the weights and a known optimizer's state.
class OfTheRun : public ::testing::TestWithParam<const char*> {
 protected:
  OfTheRun() {
    draft_.Remove("optimizer.");
    for (DcpDraft::Tensor& tensor : draft_.tensors) tensor.key = "model." + tensor.key;
    draft_.tensors.push_back({GetParam(), Dtype::kF32, {4}, std::string(16, 'r')});
    draft_.Write(shop_ / "in");
  }
  ops::ConvertRequest Request(const Kind* to, bool with_state) const {
    ops::ConvertRequest request = OpsWorkshop::Request(shop_ / "in", &ops::kDcp, shop_ / "out", to);
    request.hints = testing_util::StateHints();
    request.hints.optimizer = with_state;
    return request;
  }
  OpsWorkshop shop_;
  DcpDraft draft_ = DcpDraft::Read(NXDKIT_TESTDATA "/dcp/one");
};

TEST_P(OfTheRun, IsLeftOutOfAModel) {
  ops::VerifyRequest verify;
  verify.path = shop_ / "in";
  verify.hints.config = testing_util::kQwenConfig;
  const auto verified = ops::Verify(verify);
  ASSERT_TRUE(verified.ok()) << verified.error().ToString();
  EXPECT_THAT(verified->findings, IsEmpty());
  for (const Kind* to : {&ops::kHf, &ops::kNxd}) {
    ops::ConvertRequest request = Request(to, false);
    request.options.Set("tp", 1);
    request.force = true;
    const auto made = ops::Convert(request);
    ASSERT_TRUE(made.ok()) << made.error().ToString();
    EXPECT_THAT(made->notes,
                Contains(std::string(GetParam()) + " is not a parameter and is left out"));
  }
}

TEST_P(OfTheRun, GoesAlongToACheckpoint) {
  const auto made = ops::Convert(Request(&ops::kDcp, true));
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_TRUE(KeysOf(shop_ / "out").contains(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Dcp, OfTheRun,
                         ::testing::Values("rng", "app.rng.cuda", "rng_state_0",
                                           "state.opt.step_size", "opt.flat.exp_avg",
                                           "state.opt.model.layers.0.mlp.gate_proj.weight.exp_avg",
                                           "extra.model.embed_tokens.weight.exp_avg_sq",
                                           "lr_schedulers.0.last"),
                         [](const auto& row) {
                           std::string name = row.param;
                           std::ranges::replace_if(
                               name, [](char c) { return !std::isalnum(c); }, '_');
                           return name;
                         });

// An unknown tensor inside the model does not belong to the run.
TEST(OfTheModel, AnUnknownTensorIsAnError) {
  for (const std::string key :
       {"model.layers.0.mlp.other_proj.weight", "model.rng.weight", "critic.weight"}) {
    OpsWorkshop shop;
    DcpDraft draft = DcpDraft::Read(NXDKIT_TESTDATA "/dcp/one");
    draft.Remove("optimizer.");
    for (DcpDraft::Tensor& tensor : draft.tensors) tensor.key = "model." + tensor.key;
    draft.tensors.push_back({key, Dtype::kF32, {4}, std::string(16, 'r')});
    draft.Write(shop / "in");
    ops::ConvertRequest request =
        OpsWorkshop::Request(shop / "in", &ops::kDcp, shop / "out", &ops::kHf);
    request.hints.config = testing_util::kQwenConfig;
    const auto made = ops::Convert(request);
    ASSERT_FALSE(made.ok()) << key;
    EXPECT_EQ(made.error().code(), Errc::kUnsupported) << key;
    EXPECT_THAT(made.error().message(), HasSubstr("it would be lost")) << key;
    EXPECT_EQ(made.error().tensor(), key);
  }
}

}  // namespace
}  // namespace nxdkit
