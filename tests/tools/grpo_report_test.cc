// grpo-train report, of one run and of several.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/convert_workshop.h"
#include "tests/tools/json_schema.h"
#include "tests/tools/process.h"

namespace nxdkit::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class GrpoReport : public ::testing::Test {
 protected:
  std::string MakeRun(const std::string& name, const std::string& reward) const {
    workshop_.Write(name + "/experiment_log.jsonl",
                    "{\"step\": 1, \"reward\": {\"overall\": " + reward + "}}\n");
    return workshop_ / name;
  }
  static ProcessResult Report(const Words& words) {
    Words command = {Workshop::Tool("grpo-train"), "--json", "report"};
    command.insert(command.end(), words.begin(), words.end());
    return RunProcess(command);
  }
  static void ExpectRefused(const Words& words, int exit_code, const std::string& message) {
    const ProcessResult result = Report(words);
    EXPECT_EQ(result.exit_code, exit_code) << result.out;
    EXPECT_THAT(JsonOf(result)["error"].dump(), HasSubstr(message));
  }
  const Workshop workshop_;
};

TEST_F(GrpoReport, ComparesRunsOnOnePage) {
  const std::string a = MakeRun("a", "0.25"), b = MakeRun("b", "0.75");
  const std::string page = workshop_ / "page.html";
  const ProcessResult result = Report({a, b, "--out", page, "--price-per-hour", "7"});
  ASSERT_EQ(result.exit_code, 0) << result.out;
  const Json json = JsonOf(result);
  EXPECT_THAT(SourceSchemas().Faults("grpo-train.json", json), IsEmpty());
  EXPECT_EQ(json["report"], page);
  EXPECT_EQ(json["runs"].size(), 2u);
  EXPECT_EQ(json["runs"][1]["run"], b);
  EXPECT_EQ(json["runs"][1]["bill"]["price_per_hour"], 7);
  const std::string html = ReadFile(page);
  EXPECT_EQ(json["bytes"], html.size());
  EXPECT_THAT(html, AllOf(HasSubstr("<h1>a and b</h1>"), HasSubstr("0.7500 <small>(+0.5000)")));
  EXPECT_EQ(Report({a, b, "--out", page}).exit_code, 2) << "it is there";
  EXPECT_EQ(Report({a, b, "--out", page, "--force"}).exit_code, 0);
}

TEST_F(GrpoReport, OfOneRunIsBelowIt) {
  const std::string a = MakeRun("a", "0.25");
  const Json json = JsonOf(Report({a}));
  EXPECT_THAT(SourceSchemas().Faults("grpo-train.json", json), IsEmpty());
  EXPECT_EQ(json["report"], a + "/report.html");
  EXPECT_FALSE(json.contains("runs"));
}

// The files that a resumed run needs are never replaced, nor is anything but a file.
TEST_F(GrpoReport, ReplacesNoPartOfARun) {
  const std::string a = MakeRun("a", "0.25"), b = MakeRun("b", "0.75");
  const std::string log = ReadFile(a + "/experiment_log.jsonl");
  for (const Words& words : {Words{a}, Words{b, a}})
    for (const std::string& out : {a + "/experiment_log.jsonl", a, std::string("/dev/null")}) {
      Words all = words;
      all.insert(all.end(), {"--force", "--out", out});
      EXPECT_EQ(Report(all).exit_code, 2) << out;
    }
  EXPECT_EQ(ReadFile(a + "/experiment_log.jsonl"), log);
  EXPECT_EQ(Report({a, "--out", a + "/report.html"}).exit_code, 0);
  EXPECT_EQ(Report({a, "--out", a + "/report.html"}).exit_code, 0) << "it is the run's report";
}

TEST_F(GrpoReport, StandardOutputGetsThePage) {
  const std::string a = MakeRun("a", "0.25");
  const Json json = JsonOf(Report({a, "--out", "-"}));
  EXPECT_THAT(SourceSchemas().Faults("grpo-train.json", json), IsEmpty());
  EXPECT_THAT(json["page"].get<std::string>(), HasSubstr("<!DOCTYPE html>"));
}

TEST_F(GrpoReport, OfSeveralRunsNeedsAPlace) {
  const std::string a = MakeRun("a", "0.25"), b = MakeRun("b", "0.75");
  ExpectRefused({a, b}, 2, "--out FILE");
  ExpectRefused({}, 2, "the folder of a run, or of several");
  Words nine(9, a);
  nine.insert(nine.end(), {"--out", workshop_ / "page.html"});
  ExpectRefused(nine, 2, "at most 8 runs, and there are 9");
}

// A run that is not there, or has nothing to read, is an error, and no page is written.
TEST_F(GrpoReport, EachRunMustBeOne) {
  const std::string a = MakeRun("a", "0.25");
  const std::string page = workshop_ / "page.html";
  ExpectRefused({a, workshop_ / "none", "--out", page}, 3, "/none");
  workshop_.Write("damaged/experiment_log.jsonl", "{\"step\": 1, \"rew");
  ExpectRefused({a, workshop_ / "damaged", "--out", page}, 3, "not a run");
  EXPECT_FALSE(std::filesystem::exists(page));
}

}  // namespace
}  // namespace nxdkit::test
