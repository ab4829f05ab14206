// neuron-cache compile: with a compiler of a few lines of shell, which fails, is killed and hangs.
#include <sys/file.h>

#include <atomic>
#include <optional>
#include <thread>

#include "tests/formats/compile_cache/cache_workshop.h"
#include "tests/tools/kill.h"
#include "tests/tools/precompile_workshop.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;
using testing_util::LiteWorkshop;
using testing_util::ToyNeff;

const std::string kTrn1 = "--target trn1";

TEST(Precompile, CompilesWhatHasAGraphAndNoResult) {
  PrecompileWorkshop shop;
  for (const char key : {'a', 'b', 'c'}) shop.AddGraph(key);
  shop.AddResult('c');
  const Json json = shop.CcJson(0, "compile", kTrn1);
  EXPECT_EQ(json["compiled"], 2);
  EXPECT_EQ(json["there"], 1);
  EXPECT_EQ(json["graphs"].size(), 2u);
  EXPECT_EQ(json["graphs"][0]["entry"], PrecompileWorkshop::Name('a'));
  EXPECT_EQ(json["graphs"][0]["tries"], 1);
  EXPECT_THAT(shop.Compiled(), ElementsAre(Pair('a', 1), Pair('b', 1)));
  for (const char key : {'a', 'b'}) {
    EXPECT_EQ(ReadFile(shop.Entry(key) + "/model.neff"), ToyNeff());
    EXPECT_EQ(ReadFile(shop.Entry(key) + "/model.done"), "");
  }
  EXPECT_THAT(shop.Ending(".lock"), IsEmpty());
  // Once more: nothing is left to do, and the saved time is known.
  const Json again = shop.CcJson(0, "compile", kTrn1);
  EXPECT_EQ(again["compiled"], 0);
  EXPECT_EQ(again["there"], 3);
  EXPECT_EQ(again["saved_noted"], 2);
  EXPECT_GT(again["saved_seconds"], 0.0);
  EXPECT_EQ(shop.CacheTool("verify").exit_code, 0);
}

TEST(Precompile, GivesTheCompilerTheWordsOfLibneuronxla) {
  PrecompileWorkshop shop;
  const std::string flags =
      R"(["--model-type=transformer", "--logfile=/elsewhere/log", "--optlevel", "2"])";
  shop.AddGraph('a', 0, "cache", flags);
  ASSERT_EQ(shop.Cc("compile " + kTrn1).exit_code, 0);
  const std::string words = ReadFile(shop / "words");
  const std::string stem = "model." + PrecompileWorkshop::Module('a', flags);
  EXPECT_THAT(words, HasSubstr("--target=trn1 "));
  EXPECT_THAT(words, HasSubstr("/" + stem + ".hlo_module.pb --output "));
  EXPECT_THAT(words, HasSubstr("/" + stem +
                               ".neff --framework=XLA --model-type=transformer --optlevel 2 "
                               "--verbose=35 --logfile "));
  EXPECT_THAT(words, Not(HasSubstr("/elsewhere/log")));
}

TEST(Precompile, NeedsATargetThatNobodySays) {
  PrecompileWorkshop shop;
  shop.AddGraph('a');
  const ProcessResult result = shop.Cc("compile", {"NEURON_PLATFORM_TARGET_OVERRIDE="});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("the flags of 1 graph do not name a target"),
                                HasSubstr("--target trn1")));
  EXPECT_THAT(shop.Begun(), IsEmpty());
  EXPECT_EQ(shop.Cc("compile", {"NEURON_PLATFORM_TARGET_OVERRIDE=trn2"}).exit_code, 0);
  EXPECT_THAT(ReadFile(shop / "words"), HasSubstr("--target=trn2 "));
  // A machine with devices determines it.
  fs::remove(shop / "words");
  shop.AddGraph('c');
  shop.Write("machine/sys/devices/virtual/dmi/id/product_name", "trn2.48xlarge\n");
  shop.Write("machine/proc/devices", "Character devices:\n245 neuron\n");
  for (int i = 0; i < 16; ++i) shop.Write("machine/dev/neuron" + std::to_string(i), "");
  EXPECT_EQ(shop.Cc("compile",
                    {"NEURON_PLATFORM_TARGET_OVERRIDE=", "NXDKIT_MACHINE_ROOT=" + shop / "machine"})
                .exit_code,
            0);
  EXPECT_THAT(ReadFile(shop / "words"), HasSubstr("--target=trn2 "));
  shop.AddGraph('b', 0, "cache", R"(["--target=inf2"])");
  EXPECT_EQ(shop.Cc("compile", {"NEURON_PLATFORM_TARGET_OVERRIDE="}).exit_code, 0);
}

TEST(Precompile, KeepsAFailureWithItsLogAndNamesTheCompilersLine) {
  PrecompileWorkshop shop;
  shop.AddGraph('a');
  shop.AddGraph('b');
  shop.Plan('a', "fail");
  const ProcessResult result = shop.Cc("compile " + kTrn1);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("failed: " + PrecompileWorkshop::Name('a') +
                              ": it exited with 1: 2026-11-26 ERROR [NCC_EVRF059] no such kernel"),
                    HasSubstr("log: " + shop.Entry('a') + "/model.log"),
                    HasSubstr("compiled 1 in "), HasSubstr(", 1 failed; 0 there before")));
  EXPECT_THAT(ReadFile(shop.Entry('a') + "/model.log"), HasSubstr("INFO: begin\n"));
  EXPECT_FALSE(shop.Has('a', "model.done"));
  // It is not remembered forever: the next run tries again.
  shop.Plan('a', "");
  const Json json = shop.CcJson(0, "compile", kTrn1);
  EXPECT_EQ(json["failed_before"], 1);
  EXPECT_EQ(json["compiled"], 1);
  EXPECT_FALSE(shop.Has('a', "model.log"));
}

TEST(Precompile, TriesAgainAloneWhatWasKilledOrEndedWith70) {
  PrecompileWorkshop shop;
  for (const char key : {'a', 'b', 'c', 'd', 'e'}) shop.AddGraph(key);
  shop.Plan('a', "70 once");
  shop.Plan('b', "kill once");
  shop.Plan('c', "70");
  shop.Plan('d', "kill");
  shop.Plan('e', "F137");
  const Json json = shop.CcJson(1, "compile", kTrn1 + " -j 3 --memory-per-job 1M");
  std::map<std::string, Json> items;
  for (const Json& item : json["graphs"]) items[item["entry"]] = item;
  const auto item = [&](char key) { return items[PrecompileWorkshop::Name(key)]; };
  EXPECT_EQ(json["compiled"], 2);
  EXPECT_EQ(json["failed"], 3);
  EXPECT_EQ(item('a')["message"], nullptr);
  EXPECT_EQ(item('a')["outcome"], "compiled");
  EXPECT_EQ(item('b')["outcome"], "compiled");
  EXPECT_EQ(item('c')["outcome"], "failed");
  EXPECT_EQ(item('d')["outcome"], "killed");
  EXPECT_EQ(item('e')["outcome"], "killed");
  for (const auto& [name, each] : items) EXPECT_EQ(each["tries"], 2) << name;
  EXPECT_EQ(item('c')["message"],
            "it exited with 70: 2026-11-26 ERROR: [NCC_IXTP002] too many instructions");
  EXPECT_EQ(item('d')["message"], "it was killed by signal 9");
  // A kill is not a failure to libneuronxla: it may succeed elsewhere.
  EXPECT_TRUE(shop.Has('c', "model.log"));
  EXPECT_FALSE(shop.Has('d', "model.log"));
  EXPECT_TRUE(shop.Has('d', "nxdkit-compile.log"));
  EXPECT_EQ(item('e')["log"], shop.Entry('e') + "/nxdkit-compile.log");
}

TEST(Precompile, SaysNothingOfTriesBeforeASuccess) {
  PrecompileWorkshop shop;
  shop.AddGraph('a');
  shop.Plan('a', "kill once");
  const Json json = shop.CcJson(0, "compile", kTrn1);
  EXPECT_EQ(json["compiled"], 1);
  EXPECT_EQ(json["failed"], 0);
  EXPECT_EQ(json["graphs"][0]["tries"], 2);
  EXPECT_TRUE(json["graphs"][0]["message"].is_null());
}

TEST(Precompile, TakesNoStatusAbove192ForASignal) {
  PrecompileWorkshop shop;
  shop.AddGraph('a');
  shop.Plan('a', "255");  // Python's sys.exit(-1)
  const Json json = shop.CcJson(1, "compile", kTrn1);
  EXPECT_EQ(json["graphs"][0]["outcome"], "failed");
  EXPECT_EQ(json["graphs"][0]["tries"], 1);
  EXPECT_TRUE(shop.Has('a', "model.log"));
}

TEST(Precompile, RemembersNoFailureOfAFullDisk) {
  PrecompileWorkshop shop;
  shop.AddGraph('a');
  shop.AddGraph('b');
  shop.Plan('a', "full");
  shop.Plan('b', "quota");
  const Json json = shop.CcJson(1, "compile", kTrn1);
  for (const Json& graph : json["graphs"]) EXPECT_EQ(graph["outcome"], "disk full") << graph;
  EXPECT_FALSE(shop.Has('a', "model.log"));
  EXPECT_FALSE(shop.Has('b', "model.log"));
}

TEST(Precompile, RetriesAsOftenAsTheOptionOrTheVariableSays) {
  PrecompileWorkshop shop;
  shop.AddGraph('a');
  shop.Plan('a', "fail");
  EXPECT_EQ(shop.CcJson(1, "compile", kTrn1 + " --retries 2")["graphs"][0]["tries"], 3);
  EXPECT_EQ(shop.CcJson(1, "compile", kTrn1,
                        {"NEURON_PARALLEL_COMPILE_MAX_RETRIES=1"})["graphs"][0]["tries"],
            2);
  EXPECT_THAT(shop.Cc("compile " + kTrn1, {"NEURON_PARALLEL_COMPILE_MAX_RETRIES=many"}).err,
              HasSubstr("NEURON_PARALLEL_COMPILE_MAX_RETRIES is \"many\""));
}

TEST(Precompile, EndsWhatRunsTooLong) {
  PrecompileWorkshop shop;
  shop.AddGraph('a');
  shop.AddGraph('b');
  shop.Plan('a', "hang");
  const ProcessResult result = shop.Cc("compile --job-timeout 1 " + kTrn1);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("too long: " + PrecompileWorkshop::Name('a') + ": it ran for"));
  EXPECT_FALSE(shop.Has('a', "model.log"));
  EXPECT_TRUE(shop.Has('b', "model.done"));
  EXPECT_THAT(shop.Ending(".lock"), IsEmpty());
}

TEST(Precompile, TakesNoResultThatIsNotWhole) {
  PrecompileWorkshop shop;
  shop.AddGraph('a');
  shop.AddGraph('b');
  shop.Plan('a', "cut");
  shop.Plan('b', "nothing");
  const ProcessResult result = shop.Cc("compile " + kTrn1);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("it ended with 0 but left no complete NEFF: "));
  for (const char key : {'a', 'b'}) {
    EXPECT_FALSE(shop.Has(key, "model.neff"));
    EXPECT_FALSE(shop.Has(key, "model.done"));
  }
}

TEST(Precompile, LeavesCutGraphsAndFlagsThatAreNotTheirs) {
  PrecompileWorkshop shop;
  shop.AddGraph('a');
  shop.Write("cache/" + PrecompileWorkshop::Name('a') + "/model.hlo_module.pb",
             PrecompileWorkshop::GraphText('a').substr(0, 20));
  shop.AddGraph('b');
  shop.Write("cache/" + PrecompileWorkshop::Name('b') + "/compile_flags.json", "[]");
  shop.AddGraph('c');
  const Json json = shop.CcJson(1, "compile", kTrn1);
  EXPECT_EQ(json["compiled"], 1);
  EXPECT_EQ(json["graphs"][0]["outcome"], "failed");
  EXPECT_THAT(json["graphs"][0]["message"].get<std::string>(), HasSubstr("offset"));
  EXPECT_EQ(json["left"][0]["entry"], PrecompileWorkshop::Name('b'));
  EXPECT_THAT(json["left"][0]["reason"].get<std::string>(),
              HasSubstr("the hash of the flags is d7517139"));
  EXPECT_THAT(shop.Begun(), ElementsAre(Pair('c', 1)));
}

TEST(Precompile, ReadsTheFilesOfOlderReleases) {
  PrecompileWorkshop shop;
  const std::string flags = "--model-type=transformer --auto-cast=none";
  const std::string module = "MODULE_123+2c2d707e";
  const std::string folder = std::string("cache/neuron-compile-cache/neuronxcc-") +
                             PrecompileWorkshop::kVersion + "/" + module;
  shop.Write(folder + "/compile_flags.txt", flags);
  shop.Write(folder + "/model.hlo.pb", PrecompileWorkshop::GraphText('a'));
  ASSERT_EQ(shop.Cc("compile " + kTrn1).exit_code, 0);
  EXPECT_THAT(ReadFile(shop / "words"),
              HasSubstr("--framework=XLA --model-type=transformer --auto-cast=none --verbose=35"));
  EXPECT_EQ(ReadFile(shop / folder + "/model.neff"), ToyNeff());
  // A result without model.done is accepted.
  fs::remove(shop / folder + "/model.done");
  EXPECT_EQ(shop.CcJson(0, "compile", kTrn1)["there"], 1);
}

TEST(Precompile, FindsAnotherVersionBeforeAnythingRuns) {
  PrecompileWorkshop shop;
  shop.AddGraph('a', 0, "cache", PrecompileWorkshop::Flags(), "2.19.8089.0+8ab9f450");
  const ProcessResult result = shop.Cc("compile " + kTrn1);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("1 graph without a result and 0 finished are of another "
                                          "compiler than 2.21.33363.0+82129205, such as "
                                          "neuronxcc-2.19"),
                                HasSubstr("--compiler names another one")));
  EXPECT_THAT(shop.Begun(), IsEmpty());
  shop.AddGraph('b');
  const Json json = shop.CcJson(0, "compile", kTrn1);
  EXPECT_EQ(json["compiled"], 1);
  EXPECT_EQ(json["other_compiler"].size(), 1u);
  EXPECT_THAT(json["warnings"][0].get<std::string>(), HasSubstr("left as they are"));
}

TEST(Precompile, FindsAnotherVersionOfWhatIsFinished) {
  PrecompileWorkshop shop;
  const std::string folder = "cache/neuronxcc-2.19/" + PrecompileWorkshop::Module('a');
  shop.AddGraph('a', 0, "cache", PrecompileWorkshop::Flags(), "2.19");
  shop.Write(folder + "/model.neff", ToyNeff());
  shop.Write(folder + "/model.done", "");
  const ProcessResult result = shop.Cc("compile " + kTrn1);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("0 graphs without a result and 1 finished are of another"));
}

TEST(Precompile, DoesNotGuessTheVersionOfACompilerThatSaysNone) {
  PrecompileWorkshop shop;
  shop.Script("mute", "[ \"$1\" != --version ] || exit 1\nexec neuronx-cc \"$@\"\n");
  shop.AddGraph('a');
  EXPECT_THAT(shop.Cc("compile --compiler mute " + kTrn1).err,
              HasSubstr("does not report its version: assuming neuronxcc-2.21"));
  shop.AddGraph('b');
  shop.AddGraph('c', 0, "cache", PrecompileWorkshop::Flags(), "2.19");
  const ProcessResult two = shop.Cc("compile --compiler mute " + kTrn1);
  EXPECT_EQ(two.exit_code, 1);
  EXPECT_THAT(two.err, HasSubstr("the graphs are for neuronxcc-2.19, neuronxcc-2.21"));
}

TEST(Precompile, RemembersNoFailureThatIsNotTheGraphs) {
  PrecompileWorkshop shop;
  shop.AddGraph('a');
  for (const auto& [body, outcome] : std::map<std::string, std::string>{
           {"echo \"ModuleNotFoundError: No module named 'neuronxcc'\"; exit 1", "cannot run"},
           {"exec /no/such/program", "cannot run"},
           {"echo 'std::bad_alloc'; exit 1", "killed"},
           {"echo 'OSError: Disk quota exceeded'; exit 0", "disk full"}}) {
    shop.Script("broken",
                "if [ \"$1\" = --version ]; then exec neuronx-cc --version; fi\n" + body + "\n");
    const Json json = shop.CcJson(1, "compile", "--compiler broken " + kTrn1);
    EXPECT_EQ(json["graphs"][0]["outcome"], outcome) << body;
    EXPECT_FALSE(shop.Has('a', "model.log")) << body;
    EXPECT_TRUE(shop.Has('a', "nxdkit-compile.log")) << body;
  }
}

TEST(Precompile, RunsTheCompilerWithTheUsersEnvironment) {
  PrecompileWorkshop shop;
  shop.AddGraph('a');
  shop.Script("asks",
              "[ \"$PYTHONPATH\" = /opt/x ]\n[ -z \"${AWS_SECRET_ACCESS_KEY:-}\" ]\n"
              "exec neuronx-cc \"$@\"\n");
  EXPECT_EQ(shop.Cc("compile --compiler asks " + kTrn1,
                    {"PYTHONPATH=/opt/x", "AWS_SECRET_ACCESS_KEY=secret"})
                .exit_code,
            0);
}

TEST(Precompile, TakesRelativePaths) {
  PrecompileWorkshop shop;
  shop.AddGraph('a');
  const ProcessResult result = shop.Cc(
      "compile --cache-dir cache --work-dir work --compiler bin/neuronx-cc " + kTrn1, {}, true);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(shop.Has('a', "model.done"));
}

TEST(Precompile, GoesOnBesideAnEntryThatCannotBeWritten) {
  PrecompileWorkshop shop;
  for (const char key : {'a', 'b'}) shop.AddGraph(key);
  // A dangling lock cannot be taken.
  fs::create_symlink("nowhere", shop.Entry('a') + "/model.hlo_module.pb.lock");
  const Json json = shop.CcJson(1, "compile", "--job-timeout 60 " + kTrn1);
  EXPECT_EQ(json["compiled"], 1);
  EXPECT_EQ(json["graphs"][0]["outcome"], "failed");
  EXPECT_THAT(json["graphs"][0]["message"].get<std::string>(), HasSubstr("cannot open the lock"));
  EXPECT_TRUE(shop.Has('b', "model.done"));
}

TEST(Precompile, LetsNoFlagsSayWhereTheResultGoes) {
  PrecompileWorkshop shop;
  shop.AddGraph('a', 0, "cache", R"(["--output=/etc/x", "-o", "/etc/y"])");
  ASSERT_EQ(shop.Cc("compile " + kTrn1).exit_code, 0);
  EXPECT_THAT(ReadFile(shop / "words"), Not(HasSubstr("/etc/")));
}

TEST(Precompile, ShowsAShortLineOfALongLog) {
  PrecompileWorkshop shop;
  shop.AddGraph('a');
  shop.Script("long",
              "if [ \"$1\" = --version ]; then exec neuronx-cc --version; fi\n"
              "printf 'ERROR: here\\r'; head -c 100000 /dev/zero | tr '\\0' .\nexit 1\n");
  const Json json = shop.CcJson(1, "compile", "--compiler long " + kTrn1);
  EXPECT_EQ(json["graphs"][0]["message"], "it exited with 1: ERROR: here");
}

TEST(Precompile, SaysWhomItWaitsFor) {
  PrecompileWorkshop shop;
  shop.AddGraph('a');
  const std::string lock = "cache/" + PrecompileWorkshop::Name('a') + "/model.hlo_module.pb.lock";
  shop.Write(lock, "");
  const testing_util::Held held(shop / lock, LOCK_EX);
  const ProcessResult result = shop.Cc("compile --job-timeout 1 " + kTrn1);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("waiting for 1 that another process compiles (" +
                                    PrecompileWorkshop::Name('a') + ")"));
  EXPECT_THAT(result.out, HasSubstr("locked: " + PrecompileWorkshop::Name('a')));
}

TEST(Precompile, SaysWhereTheCompilerIsLookedFor) {
  PrecompileWorkshop shop;
  fs::remove(shop / "bin/neuronx-cc");
  shop.AddGraph('a');
  const ProcessResult none = shop.Cc("compile " + kTrn1);
  EXPECT_EQ(none.exit_code, 3);
  EXPECT_THAT(none.err, AllOf(HasSubstr("neuronx-cc: no such program"), HasSubstr("--compiler")));
  EXPECT_EQ(shop.Cc("compile -n " + kTrn1).exit_code, 0);
  // The version of a missing compiler is not reported.
  shop.AddGraph('b', 0, "cache", PrecompileWorkshop::Flags(), "2.19");
  EXPECT_EQ(shop.CcJson(0, "compile -n", kTrn1)["graphs"].size(), 2u);
  fs::remove_all(shop.Cache() + "/neuronxcc-2.19");
  shop.AddResult('a');
  EXPECT_EQ(shop.Cc("compile " + kTrn1).exit_code, 0);
}

TEST(Precompile, WaitsForWhoeverCompilesTheSameGraph) {
  PrecompileWorkshop shop;
  shop.AddGraph('a');
  shop.AddGraph('b');
  const std::string lock = shop.Entry('a') + "/model.hlo_module.pb.lock";
  shop.Write("cache/" + PrecompileWorkshop::Name('a') + "/model.hlo_module.pb.lock", "");
  std::optional<testing_util::Held> held(std::in_place, lock, LOCK_EX);
  // libneuronxla's process finishes after we have compiled the other graph.
  std::jthread other([&] {
    WaitFor(shop.Entry('b') + "/model.done");
    shop.AddResult('a');
    held.reset();
  });
  const Json json = shop.CcJson(0, "compile", kTrn1);
  EXPECT_EQ(json["elsewhere"], 1);
  EXPECT_EQ(json["compiled"], 1);
  EXPECT_THAT(shop.Begun(), ElementsAre(Pair('b', 1)));
}

TEST(Precompile, TakesALockThatWasLeftAndRemovesIt) {
  PrecompileWorkshop shop;
  shop.AddGraph('a');
  shop.Write("cache/" + PrecompileWorkshop::Name('a') + "/model.hlo_module.pb.lock", "");
  ASSERT_EQ(shop.Cc("compile " + kTrn1).exit_code, 0);
  EXPECT_TRUE(shop.Has('a', "model.done"));
  EXPECT_THAT(shop.Ending(".lock"), IsEmpty());
}

TEST(Precompile, RemovesTheLockOfAFinishedEntryThatNobodyHolds) {
  PrecompileWorkshop shop;
  for (const char key : {'a', 'b'}) {
    shop.AddGraph(key);
    shop.AddResult(key);
    shop.Write("cache/" + PrecompileWorkshop::Name(key) + "/model.hlo_module.pb.lock", "");
  }
  const testing_util::Held held(shop.Entry('b') + "/model.hlo_module.pb.lock", LOCK_EX);
  EXPECT_EQ(shop.Cc("compile -n " + kTrn1).exit_code, 0);
  EXPECT_TRUE(shop.Has('a', "model.hlo_module.pb.lock"));
  EXPECT_EQ(shop.Cc("compile " + kTrn1).exit_code, 0);
  EXPECT_FALSE(shop.Has('a', "model.hlo_module.pb.lock"));
  EXPECT_TRUE(shop.Has('b', "model.hlo_module.pb.lock"));
}

TEST(Precompile, SeveralProcessesCompileEachGraphOnce) {
  PrecompileWorkshop shop;
  const std::string keys = "0123456789abcdef";
  for (const char key : keys) {
    shop.AddGraph(key, 1000 * static_cast<size_t>(key));
    shop.Plan(key, "slow");
  }
  std::vector<std::jthread> others;
  std::atomic<int> compiled = 0;
  for (int i = 0; i < 3; ++i)
    others.emplace_back([&] {
      const Json json = JsonOf(shop.Cc("compile --json -j 2 --memory-per-job 1M " + kTrn1));
      compiled += json["compiled"].get<int>();
    });
  others.clear();
  EXPECT_EQ(compiled, static_cast<int>(keys.size()));
  for (const auto& [key, count] : shop.Compiled()) EXPECT_EQ(count, 1) << key;
  for (const char key : keys) EXPECT_TRUE(shop.Has(key, "model.done")) << key;
  EXPECT_THAT(shop.Ending(".lock"), IsEmpty());
}

TEST(Precompile, EndsTheCompilersWhenItIsInterrupted) {
  PrecompileWorkshop shop;
  shop.AddGraph('a');
  shop.Plan('a', "hang");
  const pid_t child = shop.Start("compile " + kTrn1);
  ASSERT_TRUE(WaitFor(shop / "begun"));
  kill(child, SIGINT);
  EXPECT_EQ(WaitProcess(child), 130);
  EXPECT_FALSE(shop.Has('a', "model.log"));
  EXPECT_THAT(shop.Ending(".lock"), IsEmpty());
  EXPECT_TRUE(fs::is_empty(shop / "work"));
}

TEST(Precompile, TellsHowManyAreLeft) {
  PrecompileWorkshop shop;
  for (const char key : {'a', 'b', 'c'}) shop.AddGraph(key);
  const ProcessResult result = shop.Cc("compile -j 1 " + kTrn1);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("3 graphs to compile for trn1 (--target), 0 there; neuronx-cc "
                              "2.21.33363.0+82129205, at most 1 at once in "),
                    HasSubstr("; 1 of 3 done, 2 left, about "), HasSubstr("; 3 of 3 done\n")));
  EXPECT_THAT(shop.Cc("compile -q " + kTrn1).err, IsEmpty());
}

TEST(PrecompileLite, CompilesAsTheCommandSays) {
  PrecompileWorkshop shop;
  const LiteWorkshop lite;
  const std::string key = lite.Whole('a');
  fs::remove(lite.In(key + "/graph_" + key + ".neff"));
  fs::remove(lite.In(key + "/.compilation_complete"));
  const std::string dir = " --cache-dir " + lite.root();
  const Json json = shop.CcJson(0, "compile", dir);
  EXPECT_EQ(json["tree"], "vllm-neuron");
  EXPECT_EQ(json["compiled"], 1);
  const std::string words = ReadFile(shop / "words");
  EXPECT_THAT(words, AllOf(HasSubstr("--framework XLA --target trn2 --lnc=1 --logfile "),
                           Not(HasSubstr("/x/"))));
  EXPECT_EQ(ReadFile(lite.In(key + "/graph_" + key + ".neff")), ToyNeff());
  EXPECT_THAT(ReadFile(lite.In(key + "/.compilation_complete")),
              HasSubstr("\nneff_size:" + std::to_string(ToyNeff().size()) + "\n"));
  EXPECT_THAT(lite.Faults(), IsEmpty());
  EXPECT_FALSE(fs::exists(lite.In("." + key + ".compilation_metadata")));
  EXPECT_FALSE(fs::exists(lite.In("." + key + ".compilation_metadata.lock")));
}

TEST(PrecompileLite, SaysThatFinishedEntriesAreOfAnotherCompiler) {
  PrecompileWorkshop shop;
  shop.Write("version", "2.19.8089.0+8ab9f450");
  const LiteWorkshop lite;
  lite.Whole('a');
  const Json json = shop.CcJson(0, "compile", " --cache-dir " + lite.root());
  EXPECT_THAT(json["warnings"][0].get<std::string>(),
              HasSubstr("finished entries are from compiler 2.21.33363.0+82129205, this one is "
                        "2.19.8089.0+8ab9f450"));
}

TEST(Precompile, OfACacheThatIsNotThereYetIsNothing) {
  PrecompileWorkshop shop;
  EXPECT_EQ(shop.CcJson(0, "compile", kTrn1)["there"], 0);
  EXPECT_EQ(shop.Cc("compile --cache-dir " + shop / "none").exit_code, 3);
}

TEST(PrecompileLite, LeavesWhatNothingSaysHowToComplete) {
  PrecompileWorkshop shop;
  const LiteWorkshop lite;
  const std::string a = lite.Whole('a');
  const std::string b = lite.Whole('b');
  for (const std::string& key : {a, b}) fs::remove(lite.In(key + "/.compilation_complete"));
  fs::remove(lite.In(a + "/command.txt"));
  fs::remove(lite.In(b + "/.artifact_metadata_v0.json"));
  const Json json = shop.CcJson(1, "compile", " --cache-dir " + lite.root());
  EXPECT_THAT(json["left"][0]["reason"].get<std::string>(), HasSubstr("command.txt: missing"));
  EXPECT_THAT(json["left"][1]["reason"].get<std::string>(),
              HasSubstr(".artifact_metadata_v0.json: missing: only the engine can write it"));
  EXPECT_THAT(shop.Begun(), IsEmpty());
}

}  // namespace
}  // namespace nxdkit::test
