// The lines that -q leaves out, those that -v adds, and the last lines of a run left alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/tools/convert_workshop.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class Verbosity : public ::testing::Test {
 protected:
  const Workshop workshop_;
  const std::string model_ = workshop_.MakeModel("model", testing_util::TinyLlama());
};

TEST_F(Verbosity, QuietConversionsPrintNothing) {
  const ProcessResult result =
      Workshop::Convert("-q --to nxd --tp 2", model_, workshop_ / "shards/step_0");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "");
  // A dry run is asked for its answer.
  EXPECT_THAT(Workshop::Convert("-q -n --to nxd --tp 2", model_, workshop_ / "other").out,
              HasSubstr("would write"));
}

TEST_F(Verbosity, VerboseSaysWhatWasChosenAndWhy) {
  const ProcessResult result =
      Workshop::Convert("-v -j 2 --to nxd --tp 2", model_, workshop_ / "shards/step_0");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("model is recognised as hf; --from says otherwise\n"));
  EXPECT_THAT(result.err, HasSubstr("the model is llama ("));
  EXPECT_THAT(result.err, HasSubstr("by " + model_ + "/config.json\n"));
  EXPECT_THAT(result.err, HasSubstr("q/k/v style: separate (--qkv changes it)\n"));
  EXPECT_THAT(result.err, HasSubstr("step_0 becomes an NxD set: "));
  EXPECT_THAT(result.err, HasSubstr(" on 2 threads; "));
  EXPECT_THAT(result.err, HasSubstr("under a limit of 537 MB\n"));
}

TEST_F(Verbosity, QuietVerificationIsTheVerdict) {
  const ProcessResult good = RunProcess({NXDKIT_TOOLS "/ckpt-verify", "-q", model_});
  EXPECT_EQ(good.out, model_ + ": good\n");
  const std::string other = workshop_.MakeModel("other", testing_util::TinyQwen3());
  const ProcessResult bad =
      RunProcess({NXDKIT_TOOLS "/ckpt-verify", "-q", model_, "--against", other});
  EXPECT_THAT(bad.out + bad.err, ::testing::Not(HasSubstr("ok: ")));
}

TEST_F(Verbosity, VerboseReadersSayWhatAPathIs) {
  EXPECT_THAT(RunProcess({NXDKIT_TOOLS "/ckpt-verify", "-v", model_}).err,
              HasSubstr(model_ + " is a Hugging Face model, recognised by its files\n"));
  EXPECT_THAT(RunProcess({NXDKIT_TOOLS "/ckpt-digest", "-v", "--from", "hf", model_}).err,
              HasSubstr(", as asked\n"));
}

TEST_F(Verbosity, FollowedRunsEndWithWhatWasDone) {
  fs::create_directories(workshop_ / "run");
  fs::copy(model_, workshop_ / "run/step_1", fs::copy_options::recursive);
  fs::copy(model_, workshop_ / "run/step_2", fs::copy_options::recursive);
  const ProcessResult result = Workshop::Convert("--follow --settle 1 --until 2 --to hf",
                                                 workshop_ / "run", workshop_ / "models");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, MatchesRegex("followed .*/run for .*: 2 steps converted, the last is "
                                       "step_2\n"
                                       "wrote .* to .*/models, .*/s on average\n"
                                       "ended: step_2 has come \\(--until 2\\)\n"));
}

TEST_F(Verbosity, FollowedRunsThatFailSayHowFarTheyCame) {
  fs::create_directories(workshop_ / "run");
  fs::copy(model_, workshop_ / "run/step_1", fs::copy_options::recursive);
  const ProcessResult result = Workshop::Convert("--follow --settle 1 --idle 1 --until 2 --to hf",
                                                 workshop_ / "run", workshop_ / "models");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("1 step converted, the last is step_1\n"));
  EXPECT_THAT(result.err, HasSubstr("error: "));
}

}  // namespace
}  // namespace nxdkit::test
