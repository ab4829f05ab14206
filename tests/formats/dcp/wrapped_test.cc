// Keys as programs wrap them: they are the same model and the same state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/formats/dcp/folder_draft.h"
#include "tests/formats/dcp/state_hints.h"
#include "tests/formats/ops/ops_workshop.h"

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
  std::function<std::string(std::string)> inside{};  // changes what is a parameter's name
  std::string said{};
};

class Wrapped : public ::testing::TestWithParam<Wrapping> {
 protected:
  Result<ops::ConvertReport> ToHf(const DcpDraft& draft, const std::string& name) {
    draft.Write(shop_ / (name + "-in"));
    ops::OutputOptions options;
    options.dcp_style = dcp::Style::kHf;
    ops::ConvertRequest request =
        OpsWorkshop::Request(shop_ / (name + "-in"), Kind::kDcp, shop_ / name, Kind::kDcp, options);
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

}  // namespace
}  // namespace nxdkit
