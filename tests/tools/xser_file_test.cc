// One file of torch_xla's serialization.save, model.pt next to model.pt.tensors/: read by every
// command as a file of its own, and never taken for a model when it is one rank of several.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/convert_workshop.h"

namespace nxdkit::test {
namespace {

using ::testing::HasSubstr;

class XserFile : public ::testing::Test {
 protected:
  XserFile() {
    const std::string set = workshop_ / "set";
    ExpectConverts("--from hf --to nxd --tp 1 --xser", model_, set);
    std::filesystem::create_directory(workshop_ / "plain");
    for (const char* ending : {"", ".tensors"})
      std::filesystem::copy(set + kMain + ending, file_ + ending,
                            std::filesystem::copy_options::recursive);
    std::filesystem::copy(model_ + "/config.json", workshop_ / "plain/config.json");
  }
  static std::string OutOf(const Words& words) {
    const ProcessResult result = RunProcess(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }

  static constexpr char kMain[] = "/model/dp_rank_00_tp_rank_00_pp_rank_00.pt";
  const Workshop workshop_;
  const std::string model_ = workshop_.MakeModel("bert", testing_util::TinyBert());
  const std::string file_ = workshop_ / "plain/model.pt";
};

TEST_F(XserFile, IsReadByEveryCommand) {
  const std::string digest = Workshop::Tool("ckpt-digest");
  EXPECT_EQ(OutOf({digest, "--quiet", file_}), OutOf({digest, "--quiet", model_}));
  EXPECT_EQ(Workshop::Verify(file_).exit_code, 0);
  EXPECT_EQ(RunProcess({Workshop::Tool("ckpt-diff"), file_, model_}).exit_code, 0);
  EXPECT_THAT(OutOf({Workshop::Tool("ckpt-inspect"), file_}),
              HasSubstr("torch_xla's serialization (xser)"));
  ExpectConverts("--from hf --to hf", file_, workshop_ / "back");
  EXPECT_EQ(OutOf({digest, "--quiet", workshop_ / "back"}), OutOf({digest, "--quiet", model_}));
}

TEST_F(XserFile, NamesTheFileThatIsMissing) {
  std::filesystem::remove(file_ + ".tensors/tensor_3.pt");
  ExpectRefused("--from hf --to hf", file_, workshop_ / "back", 3, "tensor_3.pt is missing");
}

// Packed alone it used to leave its tensors behind, with exit code 0.
TEST_F(XserFile, IsPackedWithItsTensorsOrNotAtAll) {
  const std::string pack = Workshop::Tool("ckpt-pack");
  const ProcessResult alone = RunProcess({pack, file_, workshop_ / "alone.tar"});
  EXPECT_EQ(alone.exit_code, 2) << alone.err;
  EXPECT_THAT(alone.err, HasSubstr("pack the folder that holds both"));
  EXPECT_FALSE(Traces(workshop_ / "alone.tar"));
  OutOf({pack, workshop_ / "plain", workshop_ / "plain.tar"});
  OutOf({pack, "--unpack", workshop_ / "plain.tar", workshop_ / "again"});
  ExpectSameTree(workshop_ / "plain", workshop_ / "again");
}

TEST_F(XserFile, OneRankIsNotAModel) {
  ExpectRefused("--from hf --to hf", workshop_ / "set" + kMain, workshop_ / "back", 4,
                "name the checkpoint's folder instead");
}

}  // namespace
}  // namespace nxdkit::test
