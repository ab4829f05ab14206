// The bill of grpo-train, before a run, at its end, and in its report.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/grpo_workshop.h"
#include "tests/tools/json_schema.h"

namespace nxdkit::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class GrpoBill : public GrpoTrain {
 protected:
  // The bill in the document of one command, which must match the schema.
  Json BillOf(const Words& command) const {
    const ProcessResult result = RunProcess(command);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    const Json json = JsonOf(result);
    EXPECT_THAT(SourceSchemas().Faults("grpo-train.json", json), IsEmpty());
    return json["bill"];
  }
  Words Report(const Words& words) const {
    Words command = {Workshop::Tool("grpo-train"), "report", workshop_ / "run"};
    command.insert(command.end(), words.begin(), words.end());
    return command;
  }
};

// 32 prompts x 16 responses of at most 4 + 3 tokens, as in the example's configuration.
TEST_F(GrpoBill, IsKnownOnceAStepWasMeasured) {
  const auto dry = [&](const std::string& steps, const Words& more) {
    Words words = {"--dry-run", "trainer.save_freq=1", "trainer.max_steps=" + steps};
    words.insert(words.end(), more.begin(), more.end());
    return Command("run", words);
  };
  const Json before = BillOf(dry("4", {"--price-per-hour", "21.5"}));
  EXPECT_EQ(before["steps_left"], 4);
  EXPECT_EQ(before["prompts_left"], 4 * 32);
  EXPECT_EQ(before["responses_left"], 4 * 32 * 16);
  EXPECT_EQ(before["most_tokens_left"], 4 * 32 * 16 * 7);
  EXPECT_EQ(before["measured_steps"], 0);
  EXPECT_EQ(before["price_per_hour"], 21.5);
  for (const char* key : {"step_seconds", "hours_left", "tokens_left", "cost_left"})
    EXPECT_EQ(before[key], Json()) << key;
  Words spoken = dry("4", {});
  std::erase(spoken, "--json");
  EXPECT_THAT(RunProcess(spoken).out,
              AllOf(HasSubstr("to the end: 4 of 4 steps, 128 prompts, 2,048 responses, at most "),
                    HasSubstr("\nhours: not known until a step was measured\n")));

  const ProcessResult trained =
      Train("run", {"trainer.max_steps=2", "trainer.save_freq=1", "--price-per-hour", "7"});
  ASSERT_EQ(trained.exit_code, 0) << trained.out << trained.err;
  EXPECT_THAT(trained.err, testing::ContainsRegex(" left +cost\n +1/2 .* [0-9:]+ +"
                                                  "[0-9]+\\.[0-9][0-9]\n"));
  EXPECT_THAT(ReadFile(workshop_ / "run/running_log/trainer.log"),
              testing::ContainsRegex("step 1/2  .*  left [0-9:]+, [0-9.]+ k tokens, cost "
                                     "[0-9]+\\.[0-9][0-9]\n"));
  const Json end = JsonOf(trained)["bill"];
  EXPECT_THAT(SourceSchemas().Faults("grpo-train.json", JsonOf(trained)), IsEmpty());
  EXPECT_EQ(end["steps_left"], 0);
  EXPECT_EQ(end["cost_left"], 0);
  EXPECT_GT(end["tokens_so_far"].get<int64_t>(), 0);
  EXPECT_GT(end["hours_so_far"].get<double>(), 0);
  EXPECT_DOUBLE_EQ(end["cost_so_far"].get<double>(), end["hours_so_far"].get<double>() * 7);

  const Json after = BillOf(dry("4", {"--price-per-hour=0"}));
  EXPECT_EQ(after["steps_done"], 2);
  EXPECT_EQ(after["steps_left"], 2);
  EXPECT_EQ(after["measured_steps"], 1) << "the first one warms up";
  EXPECT_EQ(after["cost_left"], 0);
  EXPECT_EQ(after["uncounted_saves"], 0);
  EXPECT_DOUBLE_EQ(
      after["hours_left"].get<double>() * 3600,
      2 * after["step_seconds"].get<double>() + 2 * after["save_seconds"].get<double>());
  EXPECT_EQ(after["tokens_left"].get<int64_t>(), 2 * after["step_tokens"].get<int64_t>());

  const Json page = BillOf(Report({"--json", "--price-per-hour", "1e3"}));
  EXPECT_EQ(page["steps_left"], 0);
  EXPECT_EQ(page["attempts"], 1);
  EXPECT_EQ(page["tokens_so_far"], end["tokens_so_far"]);
  EXPECT_THAT(ReadFile(workshop_ / "run/report.html"),
              AllOf(HasSubstr("<h2>Cost</h2>"), HasSubstr(" at 1000 an hour x 1 node")));
  ASSERT_EQ(RunProcess(Report({})).exit_code, 0);
  EXPECT_THAT(ReadFile(workshop_ / "run/report.html"),
              AllOf(HasSubstr("<h2>Cost</h2>"), Not(HasSubstr("an hour"))));
}

TEST_F(GrpoBill, OfARunThatOnlyValidatesIsOneValidation) {
  const Words only = {"trainer.max_steps=4", "trainer.val_only=true"};
  Words dry = {"--dry-run"};
  dry.insert(dry.end(), only.begin(), only.end());
  const Json before = BillOf(Command("run", dry));
  EXPECT_EQ(before["steps_left"], 0);
  EXPECT_EQ(before["validations_left"], 1);
  EXPECT_EQ(before["saves_left"], 0);
  EXPECT_EQ(before["hours_left"], Json());
  const Json after = BillOf(Command("run", only));
  EXPECT_EQ(after["validations_left"], 0);
  EXPECT_GT(after["validation_seconds"].get<double>(), 0) << "it is in the log";
}

TEST_F(GrpoBill, APriceIsANumber) {
  for (const char* price : {"-1", "nan", "inf", "21,5", "2e12"})
    for (const Words& command :
         {Report({"--json", std::string("--price-per-hour=") + price}),
          Command("run", {"--dry-run", std::string("--price-per-hour=") + price})}) {
      const ProcessResult result = RunProcess(command);
      EXPECT_EQ(result.exit_code, 2) << price;
      EXPECT_THAT(JsonOf(result)["error"]["message"].get<std::string>(),
                  HasSubstr(std::string("--price-per-hour ") + price + ": expected a number"));
    }
}

}  // namespace
}  // namespace nxdkit::test
