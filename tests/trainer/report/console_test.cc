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
  console.BeginPhase(1, "gen", 64);
  console.Advance(32);
  console.EndPhase();
  console.BeginPhase(1, "old", 8);
  console.EndPhase();
  screen.now = 20;
  console.StepDone(1, {{"actor/grad_norm", 0.25},
                       {"actor/lr", 1e-5},
                       {"perf/time_per_step", 20},
                       {"reward/overall", 0.5}});
  EXPECT_EQ(screen.text,
            "step 1/10  gen of 64\n"
            "step 1/10  reward 0.5000  grad 0.2500  lr 1.0e-05  20.0 s  left 3:00\n");
}

TEST(Console, ATerminalRedrawsOneLine) {
  Screen screen;
  Console console(screen.Options(true));
  console.BeginPhase(1, "gen", 64);
  EXPECT_EQ(screen.Take(), "\r\x1b[Kstep 1/10  gen 0/64  0:00");
  screen.now = 0.05;
  console.Advance(1);
  EXPECT_EQ(screen.Take(), "") << "too early to draw again";
  screen.now = 10;
  console.Advance(15);
  EXPECT_EQ(screen.Take(), "\r\x1b[Kstep 1/10  gen 16/64  0:10 of 0:40");
  console.Line("a message");
  EXPECT_EQ(screen.Take(), "\r\x1b[Ka message\n\r\x1b[Kstep 1/10  gen 16/64  0:10 of 0:40");
  console.EndPhase();
  EXPECT_EQ(screen.Take(), "\r\x1b[K");
  console.StepDone(1, {});
  EXPECT_EQ(screen.Take(), "step 1/10  left 1:30\n");
}

TEST(Console, ErasesItsLineAtTheEnd) {
  Screen screen;
  { Console(screen.Options(true)).BeginPhase(1, "adv", 0); }
  EXPECT_TRUE(screen.text.ends_with("\r\x1b[K")) << screen.text;
}

// The steps before the resume say nothing about the time of this run.
TEST(Console, TimeLeftCountsOwnSteps) {
  Screen screen;
  ConsoleOptions options = screen.Options(false);
  options.first_step = 5;
  Console console(options);
  screen.now = 60;
  console.StepDone(6, {});
  EXPECT_EQ(screen.Take(), "step 6/10  left 4:00\n");
  console.Validation(6, {{"val/accuracy_reward", 0.75}, {"val_response_length/mean", 7}});
  EXPECT_EQ(screen.Take(), "step 6/10  validation  accuracy_reward 0.7500\n");
}

TEST(Console, WithoutASinkNothingHappens) {
  Console console({});
  console.BeginPhase(1, "gen", 1);
  console.Advance(1);
  console.StepDone(1, {});
  EXPECT_EQ(DurationText(0), "0:00");
}

TEST(ConsoleText, Numbers) {
  EXPECT_EQ(DurationText(7), "0:07");
  EXPECT_EQ(DurationText(3723), "1:02:03");
  EXPECT_EQ(DurationText(-1), "-");
  EXPECT_EQ(ShortNumber(0), "0");
  EXPECT_EQ(ShortNumber(1.23456e-5), "1.2e-05");
  EXPECT_EQ(ShortNumber(0.51234), "0.5123");
  EXPECT_EQ(ShortNumber(412.26), "412.3");
  EXPECT_EQ(ShortNumber(-4), "-4");
  EXPECT_EQ(ShortNumber(12345), "12345");
  EXPECT_EQ(ShortNumber(1.5e9), "1.5e+09");
}

}  // namespace
}  // namespace nxdkit::trainer
