// ckpt-diff from outside: text, JSON, limits, exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/tools/convert_workshop.h"
#include "tests/tools/man_page.h"

namespace nxdkit::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DiffTool : public ::testing::Test {
 protected:
  static ProcessResult Diff(const std::string& options, const std::string& a,
                            const std::string& b) {
    Words words = {Workshop::Tool("ckpt-diff")};
    for (const std::string& word : Split(options)) words.push_back(word);
    words.push_back(a);
    words.push_back(b);
    return RunProcess(words);
  }
  // Runs, expects the code, and checks the JSON against the man page.
  static Json DiffJson(int exit_code, const std::string& options, const std::string& a,
                       const std::string& b) {
    const ProcessResult result = Diff(options + " --json", a, b);
    EXPECT_EQ(result.exit_code, exit_code) << options << result.out << result.err;
    const Json json = JsonOf(result);
    const Names documented = ManJsonPaths(ReadFile(NXDKIT_SOURCE_DIR "/man/ckpt-diff.1"));
    EXPECT_THAT(UndocumentedPaths(json, documented), IsEmpty()) << options;
    return json;
  }
  // Changes the lowest bit of the last element of the file, in a one-file model's last tensor.
  static void NudgeLast(const std::string& model) {
    std::fstream file(model + "/model.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-2, std::ios::end);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(-2, std::ios::end);
    file.put(byte);
  }

  const Workshop workshop_;
  const std::string a_ = workshop_.MakeModel("a", testing_util::TinyLlama());
  const std::string b_ = workshop_.MakeModel("b", testing_util::TinyLlama());
};

TEST_F(DiffTool, SaysEqualAcrossLayouts) {
  ExpectConverts("--from hf --to nxd --tp 8 --hw trn2", b_, workshop_ / "set");
  const ProcessResult result = Diff("", a_, workshop_ / "set");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, ::testing::StartsWith("equal: 39 parameters, "));
  const Json json = DiffJson(0, "", a_, workshop_ / "set");
  EXPECT_EQ(json["b_kind"], "nxd");
  EXPECT_EQ(json["compared"], 39);
  EXPECT_EQ(json["total"]["changed"], 0);
  EXPECT_TRUE(json["tensors"].empty());
}

TEST_F(DiffTool, ShowsOneChangedElement) {
  NudgeLast(b_);
  const ProcessResult result = Diff("", a_, b_);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.out, HasSubstr("worst at ["));
  EXPECT_THAT(result.out, HasSubstr("in all (1 of 39 parameters)"));
  EXPECT_THAT(result.out, HasSubstr("1 elements differ by 1 ulp\n"));
  const Json json = DiffJson(1, "", a_, b_);
  EXPECT_EQ(json["total"]["changed"], 1);
  EXPECT_EQ(json["total"]["ulps"][0]["max_ulp"], 1);
  ASSERT_EQ(json["tensors"].size(), 1u);
  EXPECT_EQ(json["tensors"][0]["changed"], 1);
  EXPECT_EQ(json["tensors"][0]["a_dtype"], "BF16");
  EXPECT_NE(json["tensors"][0]["worst"]["a"], json["tensors"][0]["worst"]["b"]);
}

TEST_F(DiffTool, LimitsDecideTheExitCode) {
  NudgeLast(b_);
  EXPECT_EQ(Diff("--max-ulp 0", a_, b_).exit_code, 1);
  EXPECT_EQ(Diff("--max-ulp 1", a_, b_).exit_code, 0);
  EXPECT_EQ(Diff("--rtol 1e-5", a_, b_).exit_code, 1);
  EXPECT_EQ(Diff("--rtol 1e-2", a_, b_).exit_code, 0);
  EXPECT_EQ(Diff("--atol 1", a_, b_).exit_code, 0);
  EXPECT_EQ(Diff("--atol 1 --max-ulp 0", a_, b_).exit_code, 1) << "every limit has to hold";
  const ProcessResult result = Diff("--max-ulp 1", a_, b_);
  EXPECT_THAT(result.out, HasSubstr("elements differ, 0 beyond the limits\n"));
}

TEST_F(DiffTool, TopLimitsTheList) {
  const std::string other = workshop_.MakeModel("c", testing_util::TinyLlama(), "--seed 9");
  const ProcessResult result = Diff("--top 2", a_, other);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("... and 37 more (--top N lists more)\n"));
  EXPECT_EQ(DiffJson(1, "--top 3", a_, other)["tensors"].size(), 3u);
  EXPECT_EQ(DiffJson(1, "--top 0", a_, other)["tensors"].size(), 0u);
  const Json all = DiffJson(1, "", a_, other);
  double before = INFINITY;
  for (const Json& tensor : all["tensors"]) {
    EXPECT_LE(tensor["max_abs"].get<double>(), before) << "worst first";
    before = tensor["max_abs"].get<double>();
  }
}

TEST_F(DiffTool, NamesWhatOnlyOneHas) {
  const std::string other = workshop_.MakeModel("c", testing_util::TinyQwen3());
  const Json json = DiffJson(1, "", a_, other);
  EXPECT_THAT(Diff("", a_, other).out, HasSubstr("lm_head.weight: the parameter is only in A\n"));
  bool named = false;
  for (const Json& finding : json["findings"])
    named |= finding["parameter"] == "lm_head.weight" && finding["check"] == "only in a";
  EXPECT_TRUE(named);
}

TEST_F(DiffTool, TakesTheLayoutOfEachSide) {
  ExpectConverts("--from hf --to nxd --tp 2", b_, workshop_ / "set");
  for (const char* name : {"/nxdkit.json", "/config.json"})
    std::filesystem::remove(workshop_ / "set" + name);
  const std::string set = workshop_ / "set";
  EXPECT_EQ(Diff("", a_, set).exit_code, 3);
  const std::string config = "config " + a_ + "/config.json";
  EXPECT_EQ(Diff("--b-" + config, a_, set).exit_code, 0);
  EXPECT_EQ(Diff("--a-" + config + " --a-from nxd --b-from hf", set, a_).exit_code, 0);
  EXPECT_EQ(Diff("--a-" + config + " --a-tp 4", set, a_).exit_code, 2);
}

TEST_F(DiffTool, SaysWhatIsWrongWithALimit) {
  for (const char* bad : {"x", "-1", "1e-3x", "nan", "inf", "1e999"}) {
    const ProcessResult result = Diff(std::string("--atol=") + bad, a_, b_);
    EXPECT_EQ(result.exit_code, 2) << bad;
    EXPECT_THAT(result.err, HasSubstr(std::string("--atol: found \"") + bad +
                                      "\", expected a number from 0 on"));
  }
  EXPECT_EQ(Diff("--max-ulp -1", a_, b_).exit_code, 2);
  EXPECT_EQ(Diff("", a_, workshop_ / "nothing").exit_code, 3);
}

}  // namespace
}  // namespace nxdkit::test
