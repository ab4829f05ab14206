// ckpt-pack as a user meets it: files, pipes, wrong options.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/convert_workshop.h"

namespace nxdkit::test {
namespace {

using ::testing::HasSubstr;

class PackTool : public ::testing::Test {
 protected:
  ProcessResult Pack(const std::string& options) const {
    Words words = {Workshop::Tool("ckpt-pack")};
    for (const std::string& word : Split(options))
      words.push_back(word.starts_with("@") ? workshop_ / word.substr(1) : word);
    return RunProcess(words);
  }
  void ExpectError(const std::string& options, int code, const std::string& part) const {
    const ProcessResult result = Pack(options);
    EXPECT_EQ(result.exit_code, code) << result.err;
    EXPECT_THAT(result.err, HasSubstr(part));
  }
  const Workshop workshop_;
  const std::string model_ = workshop_.MakeModel("model", testing_util::TinyLlama());
};

TEST_F(PackTool, ThereAndBack) {
  ASSERT_EQ(Pack("@model @model.tar.zst").exit_code, 0);
  const Json json = JsonOf(Pack("--json --unpack @model.tar.zst @back"));
  EXPECT_EQ(json["exit_code"], 0);
  EXPECT_EQ(json["files"], 2);
  EXPECT_EQ(json["has_checksum"], true);
  EXPECT_EQ(json["warnings"], Json::array());
  ExpectSameTree(model_, workshop_ / "back");
}

TEST_F(PackTool, ThroughAPipe) {
  const std::string tool = Workshop::Tool("ckpt-pack");
  const ProcessResult result = RunProcess({"sh", "-c",
                                           tool + " --format tar.gz " + model_ + " - | " + tool +
                                               " --unpack - " + (workshop_ / "back")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  ExpectSameTree(model_, workshop_ / "back");
}

TEST_F(PackTool, AFileThereAndBack) {
  for (const std::string file : {"model.safetensors", "config.json"}) {
    const std::string given = model_ + "/" + file;
    const Json packed = JsonOf(Pack("--json " + given + " @a.tar.gz --force"));
    EXPECT_EQ(packed["kind"], "file");
    EXPECT_EQ(packed["files"], 1);
    const Json json = JsonOf(Pack("--json --unpack @a.tar.gz @" + file));
    EXPECT_EQ(json["kind"], "file");
    EXPECT_TRUE(ReadFile(workshop_ / file) == ReadFile(given));
    const std::string tool = Workshop::Tool("ckpt-pack");
    const ProcessResult piped =
        RunProcess({"bash", "-c",
                    "set -o pipefail; " + tool + " --format tar.zst " + given + " - | " + tool +
                        " --unpack - " + (workshop_ / ("piped." + file))});
    EXPECT_EQ(piped.exit_code, 0) << piped.err;
    EXPECT_TRUE(ReadFile(workshop_ / ("piped." + file)) == ReadFile(given));
  }
  EXPECT_EQ(JsonOf(Pack("--json @model @model.tar"))["kind"], "folder");
}

// No input may be replaced, not even with --force.
TEST_F(PackTool, RefusesAnOutputThatIsTheInput) {
  const std::string weights = model_ + "/model.safetensors";
  const std::string before = ReadFile(weights);
  const std::string force = "--force --format tar ";
  ExpectError(force + weights + " " + weights, 2, "the output is the input itself");
  ExpectError(force + "@model " + weights, 2, "model.safetensors");
  ASSERT_EQ(Pack("@model @model/inside.tar").exit_code, 0);
  ExpectError("--unpack --force @model/inside.tar @model/inside.tar", 2, "the input itself");
  ExpectError("--unpack --force @model/inside.tar @model", 2, "would replace the folder");
  EXPECT_TRUE(ReadFile(weights) == before);
}

// The archive's reader is slow, and the bundle is refreshed three times before it continues.
TEST_F(PackTool, HasOneVersionOfABundleThatIsRefreshedMeanwhile) {
  const std::string tuned = workshop_.MakeModel("tuned", testing_util::TinyLlama(), "--seed 9");
  const std::string bundle = workshop_ / "bundle";
  ExpectConverts("--from hf --to rollout --tp 4", model_, bundle);
  workshop_.Write("bundle/before", std::string(1 << 20, 'x'));  // more than a pipe holds
  const std::string tool = Workshop::Tool("ckpt-pack");
  const std::string refresh = Workshop::Tool("nxd-convert") +
                              " -q --from hf --to rollout --into --no-sync " + tuned + " " +
                              bundle + " >&2 && ";
  for (const std::string& against : {model_, tuned}) {  // a plain folder, then the link
    const std::string out = against + ".out";
    const ProcessResult result = RunProcess(
        {"bash", "-c",
         "set -o pipefail; " + tool + " --format tar " + bundle + " - | (head -c 1000 && " +
             refresh + refresh + refresh + "cat) | " + tool + " --unpack - " + out});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const ProcessResult verified = Workshop::Verify(out, "--against " + against);
    EXPECT_EQ(verified.exit_code, 0) << against << verified.out << verified.err;
    // Like every bundle that we make: its first refresh has nothing to rename.
    EXPECT_EQ(std::filesystem::read_symlink(out + "/checkpoint/weights"), ".weights.0");
  }
}

TEST_F(PackTool, RefusesWhatMakesNoSense) {
  ExpectError("@model @model.zip", 2, "the name does not end in .tar, .tar.zst or .tar.gz");
  ExpectError("--strip 1 @model @model.tar", 2, "--strip is for --unpack");
  ExpectError("--unpack --level 3 @model.tar @back", 2, "--format and --level are for packing");
  ExpectError("--level 20 @model @model.tar.gz", 2, "tar.gz has no level 20");
  ExpectError("@nowhere @model.tar", 3, "no such file or folder");
  ExpectError("--unpack @nowhere.tar @back", 3, "nowhere.tar");
  EXPECT_FALSE(Traces(workshop_ / "model.tar.gz"));
  EXPECT_FALSE(Traces(workshop_ / "back"));
}

TEST_F(PackTool, AnArchiveWithoutAChecksumIsAWarning) {
  ASSERT_EQ(RunProcess({"tar", "-C", model_, "-cf", workshop_ / "other.tar", "."}).exit_code, 0);
  const Json json = JsonOf(Pack("--json --unpack @other.tar @back"));
  EXPECT_EQ(json["exit_code"], 0);
  EXPECT_EQ(json["has_checksum"], false);
  EXPECT_THAT(json["warnings"].dump(), HasSubstr("the archive has no checksum over its bytes"));
}

TEST_F(PackTool, AFlippedBitIsAnErrorOfTheInput) {
  for (const std::string name : {"m.tar", "m.tar.gz", "m.tar.zst"}) {
    ASSERT_EQ(Pack("@model @" + name).exit_code, 0);
    std::string bytes = ReadFile(workshop_ / name);
    bytes[bytes.size() / 2] ^= 16;
    workshop_.Write(name, bytes);
    ExpectError("--unpack @" + name + " @back", 3, "offset ");
    EXPECT_FALSE(Traces(workshop_ / "back")) << name;
  }
}

TEST_F(PackTool, MoreThanWasSaidIsNotUnpacked) {
  ASSERT_EQ(Pack("@model @model.tar.zst").exit_code, 0);
  ExpectError("--unpack --max-unpacked 1k @model.tar.zst @back", 6, "over the limit of 1000");
  ExpectError("--unpack --max-unpacked 1k @model.tar.zst @back", 6, "--max-unpacked allows more");
  EXPECT_FALSE(Traces(workshop_ / "back"));
  EXPECT_EQ(Pack("--unpack --max-unpacked 1G @model.tar.zst @back").exit_code, 0);
  ExpectError("--max-unpacked 1G @model @model.tar", 2, "--max-unpacked is for --unpack");
}

TEST_F(PackTool, RefusesAnOutputThatIsThere) {
  workshop_.Write("model.tar", "mine");
  ExpectError("@model @model.tar", 2, "the output exists");
  EXPECT_EQ(ReadFile(workshop_ / "model.tar"), "mine");
  EXPECT_EQ(Pack("--force @model @model.tar").exit_code, 0);
}

TEST_F(PackTool, ACutOffArchiveLeavesNothing) {
  ASSERT_EQ(Pack("@model @model.tar").exit_code, 0);
  std::filesystem::resize_file(workshop_ / "model.tar", 4096);
  ExpectError("--unpack @model.tar @back", 3, "model.tar");
  EXPECT_FALSE(Traces(workshop_ / "back"));
}

}  // namespace
}  // namespace nxdkit::test
