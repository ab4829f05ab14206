#include "trainer/report/console.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nxdkit::trainer {
namespace {

struct Screen {
  double now = 0;
  std::string text;
  ConsoleOptions Options(bool terminal) {
    ConsoleOptions options;
    options.write = [this](std::string_view piece) { text += piece; };
    options.terminal = terminal;
    options.total_steps = 10;
    options.clock = [this] { return now; };
    return options;
  }
  std::string Take() { return std::exchange(text, {}); }
};

TEST(Console, APipeGetsWholeLines) {
  Screen screen;
  Console console(screen.Options(false));
  console.BeginPhase(1, "gen");
  console.Progress(32, 64);
  console.Tick();
  console.EndPhase();
  console.BeginPhase(1, "old");
  console.EndPhase();
  screen.now = 20;
  console.StepDone(1, {{"actor/grad_norm", 0.25},
                       {"actor/lr", 1e-5},
                       {"perf/time_per_step", 20},
                       {"reward/overall", 0.5},
                       {"timing_s/step", 20}});
  EXPECT_EQ(screen.text,
            "   step  reward     grad    sec     left\n"
            "   1/10   0.500    0.250   20.0     3:00\n");
}

TEST(Console, ATerminalRedrawsOneLine) {
  Screen screen;
  Console console(screen.Options(true));
  console.BeginPhase(1, "gen");
  EXPECT_EQ(screen.Take(), "\r\x1b[Kstep 1/10  gen  0:00");
  screen.now = 0.05;
  console.Progress(1, 64);
  EXPECT_EQ(screen.Take(), "") << "too early to draw again";
  screen.now = 10;
  console.Progress(16, 64);
  EXPECT_EQ(screen.Take(), "\r\x1b[Kstep 1/10  gen 16/64  0:10 of 0:40");
  console.Line("a message");
  EXPECT_EQ(screen.Take(), "\r\x1b[Ka message\n\r\x1b[Kstep 1/10  gen 16/64  0:10 of 0:40");
  console.EndPhase();
  EXPECT_EQ(screen.Take(), "\r\x1b[K");
  console.StepDone(1, {{"timing_s/step", 10}});
  EXPECT_EQ(screen.Take(), "   step     left\n   1/10     1:30\n");
}

// In this phase only time passes.
TEST(Console, TimeGoesOnWithinAPhase) {
  Screen screen;
  Console console(screen.Options(true));
  screen.now = 20;
  console.StepDone(1, {{"timing_s/step", 20}});
  console.BeginPhase(2, "reward");
  EXPECT_TRUE(screen.Take().ends_with("step 2/10  reward  0:00  left 3:00"));
  screen.now = 20.2;
  console.Tick();
  EXPECT_EQ(screen.Take(), "") << "nothing to see yet";
  screen.now = 21;
  console.Tick();
  EXPECT_EQ(screen.Take(), "\r\x1b[Kstep 2/10  reward  0:01  left 2:59");
  screen.now = 100;  // the step takes longer than the first one: still eight more are left
  console.Tick();
  EXPECT_EQ(screen.Take(), "\r\x1b[Kstep 2/10  reward  1:20  left 2:40");
  screen.now = 110;
  console.StepDone(2, {{"timing_s/step", 90}});  // the first one was a warm-up
  EXPECT_EQ(screen.Take(), "\r\x1b[K   2/10    12:00\n");
}

TEST(Console, TheLogGetsLinesOfStepsAndLongPhases) {
  Screen screen;
  for (const bool terminal : {false, true}) {
    std::string log;
    ConsoleOptions options = screen.Options(terminal);
    options.log = [&](std::string_view line) { log += std::string(line) + "|"; };
    if (terminal) options.write = nullptr;  // nothing is shown, but the log has it
    Console console(options);
    console.BeginPhase(1, "gen");
    console.BeginPhase(1, "old");
    console.Line("for the screen");
    console.StepDone(1, {});
    console.Validation(1, {{"val/reward_score", 0.5}});
    EXPECT_EQ(log, "step 1/10  gen|step 1/10|step 1/10  validation  reward_score 0.5000|");
  }
}

TEST(Console, TheStatusLineFitsTheTerminal) {
  Screen screen;
  ConsoleOptions options = screen.Options(true);
  options.columns = 20;
  Console console(options);
  console.BeginPhase(1, "save_checkpoint");
  EXPECT_EQ(screen.Take(), "\r\x1b[Kstep 1/10  save_che");
}

TEST(Console, ErasesItsLineAtTheEnd) {
  Screen screen;
  { Console(screen.Options(true)).BeginPhase(1, "adv"); }
  EXPECT_TRUE(screen.text.ends_with("\r\x1b[K")) << screen.text;
}

// The steps before the resume do not count for the time of this run.
TEST(Console, TimeLeftCountsOwnSteps) {
  Screen screen;
  Console console(screen.Options(false));
  screen.now = 60;
  console.StepDone(6, {{"timing_s/step", 60}});
  EXPECT_EQ(screen.Take(), "   step     left\n   6/10     4:00\n");
  console.Validation(6, {{"val/accuracy_reward", 0.75}, {"val_response_length/mean", 7}});
  EXPECT_EQ(screen.Take(), "   6/10  validation  accuracy_reward 0.750\n");
}

// 360 s are 0.1 h, of two nodes.
TEST(Console, SaysTheTokensAndTheMoneyThatAreLeft) {
  Screen screen;
  ConsoleOptions options = screen.Options(true);
  options.terms.nodes = 2;
  options.terms.price_per_hour = 21.5;
  std::string log;
  options.log = [&](std::string_view line) { log += line; };
  Console console(options);
  console.StepDone(9, {{"perf/total_num_tokens", 12500}, {"timing_s/step", 360}});
  EXPECT_EQ(screen.Take(), "   step     left     cost\n   9/10     6:00     4.30\n");
  EXPECT_EQ(log, "step 9/10  left 6:00, 12.5 k tokens, cost 4.30");
  console.BeginPhase(10, "gen");
  EXPECT_EQ(screen.Take(), "\r\x1b[Kstep 10/10  gen  0:00  left 6:00");
}

// The first two steps take 100 s, 40 more take 10: the last ones count.
TEST(Console, TimeLeftFollowsTheLastSteps) {
  Screen screen;
  ConsoleOptions options = screen.Options(false);
  options.total_steps = 100;
  Console console(options);
  for (int step = 1; step <= 42; ++step)
    console.StepDone(step, {{"timing_s/step", step <= 2 ? 100 : 10}});
  EXPECT_TRUE(screen.Take().ends_with(" 42/100     9:40\n"));
}

TEST(Console, WithoutASinkNothingHappens) {
  Console console({});
  console.BeginPhase(1, "gen");
  console.Progress(1, 1);
  console.Tick();
  console.StepDone(1, {});
}

TEST(ConsoleText, Numbers) {
  EXPECT_EQ(CountText(950), "950");
  EXPECT_EQ(CountText(12500), "12.5 k");
  EXPECT_EQ(CountText(3.21e6), "3.21 M");
}

}  // namespace
}  // namespace nxdkit::trainer
