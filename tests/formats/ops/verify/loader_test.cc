// Which installation of optimum-neuron loads a bundle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/formats/ops/ops_workshop.h"

namespace nxdkit::ops {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using testing_util::OpsWorkshop;

class Loader : public ::testing::Test {
 protected:
  VerifyReport Verified(const std::vector<rollout::Installation>& installations) const {
    VerifyRequest request;
    request.path = bundle_;
    request.installations = installations;
    const auto report = Verify(request);
    EXPECT_TRUE(report.ok()) << report.error().ToString();
    return report.ok() ? *report : VerifyReport();
  }
  static OutputOptions Options() {
    OutputOptions options;
    options.Set("tp", 2);
    options.Set("optimum-version", "0.4.5");
    options.Set("compiler-version", "2.22+b");
    return options;
  }
  const OpsWorkshop workshop_;
  const std::string model_ = workshop_.MakeModel("model", testing_util::TinyLlama());
  const std::string bundle_ =
      workshop_.Make("bundle", model_, &ops::kHf, &ops::kRollout, Options());
};

TEST_F(Loader, IsNamedByItsVersions) {
  const VerifyReport report = Verified({});
  EXPECT_THAT(report.checks, Contains("only optimum-neuron 0.4.5 with neuronx-cc 2.22+b loads it"));
  EXPECT_THAT(report.warnings, IsEmpty());
}

TEST_F(Loader, InstallationsAcceptOrRefuse) {
  const VerifyReport report = Verified({{"/good", "0.4.5", "2.22+b"},
                                        {"/old", "0.4.4", "2.22+b"},
                                        {"/other", "0.4.5", "2.22+c"},
                                        {"/bare", "", "2.22+b"},
                                        {"/half", "0.4.5", ""},
                                        {"/work", "", "2.22+b", true}});
  ASSERT_EQ(report.loaders.size(), 6u);
  EXPECT_EQ(report.loaders[0].refusal, "");
  EXPECT_EQ(report.loaders[4].refusal, "has no neuronx-cc");
  EXPECT_EQ(report.stamp.compiler, "2.22+b");
  EXPECT_THAT(report.checks, Contains("the installation in /good accepts it"));
  EXPECT_THAT(report.warnings,
              ElementsAre("the installation in /old refuses it: it has optimum-neuron 0.4.4",
                          "the installation in /other refuses it: it has neuronx-cc 2.22+c",
                          "the installation in /bare refuses it: it has no optimum-neuron",
                          "the installation in /half refuses it: it has no neuronx-cc",
                          "the installation in /work refuses it: it has an editable "
                          "optimum-neuron, with an unknown version"));
  EXPECT_THAT(report.findings, IsEmpty()) << "the bundle is right, elsewhere";
}

// Lost in copying, or removed by hand.
TEST_F(Loader, ABundleWithoutItsLinkIsNamed) {
  std::filesystem::remove(bundle_ + "/checkpoint/weights");
  const VerifyReport report = Verified({});
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].file, bundle_ + "/checkpoint/.weights.0");
  EXPECT_EQ(report.findings[0].message.find("holds the weights, but the link to them"), 0u);
}

TEST_F(Loader, ABundleWithoutVersionsIsLoadedByNobody) {
  const std::string path = bundle_ + "/neuron_config.json";
  std::string text = testing_util::ReadBytes(path);
  const size_t at = text.find("  \"optimum_neuron_version\"");
  ASSERT_NE(at, std::string::npos);
  text.erase(at, text.find('\n', at) + 1 - at);
  std::ofstream(path) << text;
  const VerifyReport report = Verified({});
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].check, "config");
  EXPECT_EQ(report.findings[0].message,
            "optimum-neuron does not load it: there is no optimum_neuron_version");
}

}  // namespace
}  // namespace nxdkit::ops
