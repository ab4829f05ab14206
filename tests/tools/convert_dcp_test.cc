// nxd-convert to and from distributed checkpoints: its options, and the refused ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/tools/convert_workshop.h"

namespace nxdkit::test {
namespace {

struct DcpRefusal {
  const char* options;
  const char* message;
};

TEST(ConvertDcp, RefusesOptionsWithoutMeaning) {
  Workshop workshop;
  const std::string model = workshop.MakeModel("model", {});
  for (const DcpRefusal& refused :
       {DcpRefusal{"--from hf --to dcp --mesh dp=0", "--mesh: found \"dp=0\""},
        DcpRefusal{"--from hf --to dcp --mesh tp=2,tp=2", "expected dp=N, tp=N or both"},
        DcpRefusal{"--from hf --to dcp --chunks 2 --mesh dp=2", "give one of them"},
        DcpRefusal{"--from hf --to dcp --style megatron",
                   "--style megatron names the parameters of an NxD set, the output is dcp"},
        DcpRefusal{"--from hf --to nxd --tp 2 --style torchtitan",
                   "--style torchtitan names the parameters of a torch distributed checkpoint"},
        DcpRefusal{"--from hf --to nxd --tp 2 --style hf-fused",
                   "--style hf-fused names the parameters of a torch distributed checkpoint"},
        DcpRefusal{"--from hf --to nxd --tp 2 --chunks 2", "--chunks does not apply"},
        DcpRefusal{"--from hf --to dcp --no-optimizer",
                   "from a format with an optimizer's state, found hf to dcp"}}) {
    ExpectRefused(refused.options, model, workshop / "out", 2, refused.message);
  }
}

TEST(ConvertDcp, IsRecognisedAndMadeInParts) {
  Workshop workshop;
  const std::string model = workshop.MakeModel("model", {});
  const std::string options = "--from hf --to dcp --style torchtitan --chunks 3 ";
  ExpectConverts(options, model, workshop / "whole");
  for (const char* part : {"0/2", "1/2"})
    ExpectConverts(options + "--part " + part, model, workshop / "parts");
  ExpectSameTree(workshop / "whole", workshop / "parts");
  ExpectConverts("--to hf", workshop / "parts", workshop / "back");
  ExpectSameTree(model, workshop / "back");
  EXPECT_FALSE(std::filesystem::exists(workshop / "parts.parts"));
}

}  // namespace
}  // namespace nxdkit::test
