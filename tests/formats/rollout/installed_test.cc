#include "formats/rollout/installed.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/formats/scratch.h"

namespace nxdkit::rollout {
namespace {

namespace fs = std::filesystem;
using testing_util::Scratch;

class InstalledTest : public ::testing::Test {
 protected:
  // Installations as pip leaves them.
  void Install(const std::string& environment, const std::string& package,
               const std::string& python = "lib/python3.10/site-packages") const {
    fs::create_directories(
        scratch_.Path(environment + "/" + python + "/" + package + ".dist-info"));
  }
  void Command(const std::string& path) const {
    fs::create_directories(fs::path(scratch_.Path(path)).parent_path());
    scratch_.Write(path, "#!/bin/sh\n");
  }
  std::vector<Installation> Find(InstalledAt at) const {
    at.opt = scratch_.Path("opt");
    return FindInstallations(at);
  }
  const Scratch scratch_;
};

TEST_F(InstalledTest, ReadsBothVersionsOfAnEnvironment) {
  Install("venv", "optimum_neuron-0.4.5");
  Install("venv", "neuronx_cc-2.22.12471.0+b4a00d10");
  Install("venv", "neuronx_cc_stubs-1.0");
  Install("venv", "optimum-1.2");
  const auto found = Find({.virtual_env = scratch_.Path("venv")});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].folder, scratch_.Path("venv"));
  EXPECT_EQ(found[0].optimum, "0.4.5");
  EXPECT_EQ(found[0].compiler, "2.22.12471.0+b4a00d10");
}

TEST_F(InstalledTest, ComeInTheOrderOfTheShell) {
  for (const char* environment : {"venv", "conda", "tools", "opt/aws_neuronx_venv_a"})
    Install(environment, std::string("neuronx_cc-2.0+") + environment[0]);
  Command("tools/bin/neuronx-cc");
  Command("nothing/bin/optimum-cli");
  const auto found = Find(
      {.virtual_env = scratch_.Path("venv"),
       .conda_prefix = scratch_.Path("conda"),
       .path = "/usr/bin:" + scratch_.Path("nothing/bin") + "::" + scratch_.Path("tools/bin")});
  std::string order;
  for (const Installation& one : found) order += one.compiler.back();
  EXPECT_EQ(order, "vcto");
}

TEST_F(InstalledTest, FindsWhatTheVendorsImagesHave) {
  Install("opt/aws_neuronx_venv_pytorch_2_8", "optimum_neuron-0.4.6.dev4",
          "lib64/python3.12/site-packages");
  Install("opt/another", "optimum_neuron-9");
  const auto found = Find({});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].optimum, "0.4.6.dev4");
  EXPECT_EQ(found[0].compiler, "");
}

TEST_F(InstalledTest, AnEditableOneHasNoVersion) {
  Install("venv", "optimum_neuron-0.4.5");  // an earlier installation
  Command("venv/lib/python3.10/site-packages/__editable__.optimum_neuron-0.4.5.pth");
  Install("old", "neuronx_cc-2.22.12471.0+b4a00d10");
  Command("old/lib/python3.10/site-packages/optimum-neuron.egg-link");
  const auto found =
      Find({.virtual_env = scratch_.Path("venv"), .conda_prefix = scratch_.Path("old")});
  ASSERT_EQ(found.size(), 2u);
  for (const Installation& at : found) {
    EXPECT_TRUE(at.editable);
    EXPECT_EQ(at.optimum, "");
  }
}

TEST_F(InstalledTest, NothingIsNothing) {
  fs::create_directories(scratch_.Path("venv/lib/python3.10/site-packages"));
  EXPECT_TRUE(Find({.virtual_env = scratch_.Path("venv"), .conda_prefix = "/nowhere"}).empty());
}

}  // namespace
}  // namespace nxdkit::rollout
