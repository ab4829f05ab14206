// neuron-cache collect, warm, check and pack: with a program that writes graphs like libneuronxla's
// mode.
#include <fstream>
#include <optional>

#include "tests/formats/compile_cache/cache_workshop.h"
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

const std::string kTrn1 = "--target trn1";

class CollectShop : public PrecompileWorkshop {
 public:
  // Graphs that the program may write.
  explicit CollectShop(const std::string& keys, const std::string& flags = Flags(),
                       const std::string& version = kVersion) {
    for (const char key : keys) AddGraph(key, 0, "graphs", flags, version);
  }
  std::map<std::string, std::string> States(const Json& json) const {
    std::map<std::string, std::string> states;
    for (const Json& entry : json["entries"]) states[entry["entry"]] = entry["state"];
    return states;
  }
};

TEST(Collects, WhatIsNewAndSaysWhatWasThere) {
  CollectShop shop("abcd");
  shop.AddGraph('b');
  shop.AddResult('b');
  shop.AddGraph('c');
  shop.AddGraph('d');
  shop.Write("cache/" + PrecompileWorkshop::Name('d') + "/model.log", "it failed");
  const Json json = shop.CcJson(0, "collect", "-- trace a b c d");
  EXPECT_THAT(shop.States(json), ElementsAre(Pair(PrecompileWorkshop::Name('a'), "new"),
                                             Pair(PrecompileWorkshop::Name('b'), "there"),
                                             Pair(PrecompileWorkshop::Name('c'), "waiting"),
                                             Pair(PrecompileWorkshop::Name('d'), "failed")));
  EXPECT_EQ(json["program"]["exit_code"], 0);
  EXPECT_EQ(ReadFile(shop.Entry('a') + "/model.hlo_module.pb"), PrecompileWorkshop::GraphText('a'));
  EXPECT_THAT(shop.Ending(".lock"), IsEmpty());
  EXPECT_THAT(shop.Begun(), IsEmpty());
  // Nothing is left of the program's cache.
  EXPECT_THAT(shop.CcJson(0, "ls")["strangers"], IsEmpty());
}

TEST(Collects, WhereTheProgramsFlagsNameTheCache) {
  CollectShop shop("a");
  const Json json = shop.CcJson(0, "collect", "-- trace a",
                                {"NEURON_CC_FLAGS=--cache_dir=" + shop.Cache() + " -O1"});
  EXPECT_EQ(json["entries"][0]["state"], "new");
  EXPECT_THAT(json["warnings"], IsEmpty());
  EXPECT_THAT(shop.Cc("collect -- trace a", {"NEURON_CC_FLAGS=--no_cache"}).err,
              HasSubstr("NEURON_CC_FLAGS says --no_cache"));
}

TEST(Collects, WhatACrashLeftWholeAndNothingThatIsCut) {
  CollectShop shop("ab");
  const ProcessResult result = shop.Cc("collect -- trace a b cut crash");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("Traceback: it crashed"),
                                HasSubstr(PrecompileWorkshop::Name('a') + " was not collected: ")));
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("1 graph: 1 new"),
                    HasSubstr("the command exited with 3; the graphs traced by then are in")));
  EXPECT_FALSE(fs::exists(shop.Entry('a')));
  EXPECT_TRUE(shop.Has('b', "model.hlo_module.pb"));
  EXPECT_EQ(shop.Cc("collect --ignore-error -- trace b crash").exit_code, 0);
  EXPECT_EQ(
      shop.Cc("collect -- trace b kill", {"NEURON_IGNORE_TRAINING_SCRIPT_ERROR_AND_COMPILE=1"})
          .exit_code,
      0);
}

TEST(Collects, NothingOfAProgramThatTracesNone) {
  CollectShop shop("a");
  EXPECT_THAT(shop.Cc("collect -- true").out, HasSubstr("no graph was collected"));
  EXPECT_EQ(shop.Cc("collect -- true").exit_code, 1);
  EXPECT_EQ(shop.Cc("collect").exit_code, 2);
  const ProcessResult none = shop.Cc("collect -- no-such-program");
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("no-such-program: no such program"));
}

TEST(Warms, CollectsAndCompilesWhatTheRunUses) {
  CollectShop shop("abc");
  shop.AddGraph('f');  // another run's
  shop.AddGraph('b');
  shop.AddResult('b');
  const Json json = shop.CcJson(0, "warm", kTrn1 + " -- trace a b c");
  EXPECT_EQ(json["compiled"], 2);
  EXPECT_EQ(json["there"], 1);
  EXPECT_EQ(json["entries"].size(), 3u);
  EXPECT_THAT(shop.Compiled(), ElementsAre(Pair('a', 1), Pair('c', 1)));
  const ProcessResult again = shop.Cc("warm " + kTrn1 + " -- trace a b c");
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_THAT(again.out, HasSubstr(": compiled 0 in "));
}

TEST(Warms, StopsWhereTheProgramFailed) {
  CollectShop shop("a");
  const ProcessResult result = shop.Cc("warm " + kTrn1 + " -- trace a crash");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("the command exited with 3; the graphs traced by then are in"),
                    HasSubstr("nothing was compiled; "), HasSubstr("--ignore-error continues")));
  EXPECT_EQ(shop.CcJson(1, "warm", kTrn1 + " -- trace a crash")["entries"].size(), 1u);
  EXPECT_THAT(shop.Begun(), IsEmpty());
  EXPECT_EQ(shop.Cc("warm --ignore-error " + kTrn1 + " -- trace a crash").exit_code, 0);
  EXPECT_TRUE(shop.Has('a', "model.done"));
}

TEST(Warms, FindsOutWhatItLacksBeforeTheProgramRuns) {
  CollectShop shop("a");
  const Words none = {"NEURON_PLATFORM_TARGET_OVERRIDE="};
  EXPECT_THAT(shop.Cc("warm -- trace a", none).err, HasSubstr("do not name a target"));
  EXPECT_EQ(shop.Cc("warm --compiler none " + kTrn1 + " -- trace a").exit_code, 3);
  EXPECT_EQ(shop.Cc("warm --memory-per-job much " + kTrn1 + " -- trace a").exit_code, 2);
  EXPECT_FALSE(fs::exists(shop.Cache()));
}

TEST(Warms, SaysWhichGraphsOfTheRunAreOfAnotherCompiler) {
  CollectShop shop("ab", PrecompileWorkshop::Flags(), "2.19");
  shop.AddGraph('c', 0, "graphs");
  const Json json = shop.CcJson(1, "warm", kTrn1 + " -- trace a b c");
  EXPECT_EQ(json["compiled"], 1);
  EXPECT_EQ(json["other_compiler"].size(), 2u);
}

TEST(Warms, MendsAGraphThatIsCutInTheCache) {
  CollectShop shop("ab");
  shop.Write("cache/" + PrecompileWorkshop::Name('a') + "/compile_flags.json",
             PrecompileWorkshop::Flags());
  shop.Write("cache/" + PrecompileWorkshop::Name('a') + "/model.hlo_module.pb", "abc");
  shop.AddGraph('b');
  shop.Write("cache/" + PrecompileWorkshop::Name('b') + "/compile_flags.json", "");
  const Json json = shop.CcJson(0, "warm", kTrn1 + " -- trace a b");
  EXPECT_EQ(json["compiled"], 2);
  EXPECT_EQ(json["entries"][0]["state"], "new");
  EXPECT_EQ(json["entries"][1]["state"], "new");
}

TEST(Collects, WhatAnInterruptedProgramHadTraced) {
  CollectShop shop("a");
  const pid_t child = shop.Start("collect -- trace a hang");
  ASSERT_TRUE(WaitFor(shop / "hangs"));
  kill(child, SIGTERM);
  EXPECT_EQ(WaitProcess(child), 143);
  EXPECT_TRUE(shop.Has('a', "model.hlo_module.pb"));
  EXPECT_THAT(shop.CcJson(0, "ls")["strangers"], IsEmpty());
}

TEST(Collects, AndLeavesTheOtherFlagsAsTheyStand) {
  CollectShop shop("a");
  shop.Script("print", "printf '%s' \"$NEURON_CC_FLAGS\" >$NEURON_STANDIN/flags\n");
  const std::string flags = "--opts=\\\"--foo\\\" --x=a\\ b '--y=c d'";
  shop.Cc("collect -- print",
          {"NEURON_CC_FLAGS=" + flags + " --cache_dir " + shop.Cache() + " -O1"});
  EXPECT_THAT(ReadFile(shop / "flags"),
              AllOf(::testing::StartsWith(flags + " --cache_dir=" + shop.Cache() + "/.nxdkit-"),
                    ::testing::EndsWith(" -O1")));
}

TEST(Checks, SayWhetherTheRunWouldCompile) {
  CollectShop shop("ab");
  shop.AddGraph('a');
  shop.AddResult('a');
  const Json miss = shop.CcJson(1, "check", "-- trace a b");
  ASSERT_EQ(miss["misses"].size(), 1u);
  EXPECT_EQ(miss["misses"][0]["entry"], PrecompileWorkshop::Name('b'));
  EXPECT_EQ(miss["misses"][0]["reason"], "absent");
  // The user's cache is not touched.
  EXPECT_FALSE(fs::exists(shop.Entry('b')));
  EXPECT_TRUE(fs::is_empty(shop / "work"));
  const ProcessResult hit = shop.Cc("check -- trace a");
  EXPECT_EQ(hit.exit_code, 0);
  EXPECT_THAT(hit.out, HasSubstr("1 of 1 graph has a result\n"));
  // A folder of graphs, in place of a program.
  EXPECT_THAT(shop.Cc("check " + shop / "plan").out,
              HasSubstr("no whole graph is in " + shop / "plan"));
  EXPECT_EQ(shop.Cc("check " + shop / "graphs").exit_code, 1);
}

TEST(Checks, SayWhyEntriesMiss) {
  CollectShop shop("abcdef0");
  const std::string other = R"(["--auto-cast=all"])";
  const std::string a = "cache/neuronxcc-" + std::string(PrecompileWorkshop::kVersion) + "/" +
                        PrecompileWorkshop::Module('a', other);
  shop.AddGraph('a', 0, "cache", other);
  shop.Write(a + "/model.neff", testing_util::ToyNeff());
  shop.Write(a + "/model.done", "");
  const std::string b = "cache/neuronxcc-2.19/" + PrecompileWorkshop::Module('b');
  shop.AddGraph('b', 0, "cache", PrecompileWorkshop::Flags(), "2.19");
  shop.Write(b + "/model.neff", testing_util::ToyNeff());
  shop.Write(b + "/model.done", "");
  for (const char key : {'c', 'd', 'e', 'f'}) shop.AddGraph(key);
  shop.Write("cache/" + PrecompileWorkshop::Name('c') + "/model.log",
             "x\nERROR [NCC_EVRF059] no such kernel\nbye\n");
  shop.Write("cache/" + PrecompileWorkshop::Name('d') + "/model.hlo_module.pb.lock", "");
  shop.Write("cache/" + PrecompileWorkshop::Name('e') + "/model.hlo_module.pb.lock", "");
  const testing_util::Held held(shop.Entry('e') + "/model.hlo_module.pb.lock", LOCK_EX);
  const Json json = shop.CcJson(1, "check", shop / "graphs");
  std::map<std::string, Json> misses;
  for (const Json& miss : json["misses"]) misses[miss["entry"]] = miss;
  const auto miss = [&](char key) { return misses[PrecompileWorkshop::Name(key)]; };
  EXPECT_EQ(miss('a')["reason"], "flags");
  EXPECT_EQ(miss('a')["flags_only_here"][0], "--auto-cast=none");
  EXPECT_EQ(miss('a')["flags_only_there"][0], "--auto-cast=all");
  EXPECT_EQ(miss('b')["reason"], "version");
  EXPECT_EQ(miss('b')["other"], "neuronxcc-2.19/" + PrecompileWorkshop::Module('b'));
  EXPECT_EQ(miss('c')["reason"], "failed");
  EXPECT_EQ(miss('c')["message"], "it failed before: ERROR [NCC_EVRF059] no such kernel");
  EXPECT_EQ(miss('d')["reason"], "locked");
  EXPECT_EQ(miss('e')["reason"], "being compiled");
  EXPECT_EQ(miss('f')["reason"], "not compiled");
  EXPECT_EQ(miss('0')["reason"], "absent");
}

TEST(Checks, FindAGraphThatIsCut) {
  CollectShop shop("ab");
  for (const char key : {'a', 'b'}) {
    shop.AddGraph(key);
    shop.AddResult(key);
  }
  EXPECT_EQ(shop.Cc("check " + shop / "graphs").exit_code, 0);
  shop.Write("graphs/" + PrecompileWorkshop::Name('a') + "/model.hlo_module.pb",
             PrecompileWorkshop::GraphText('a').substr(0, 20));
  const ProcessResult result = shop.Cc("check " + shop / "graphs");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr(PrecompileWorkshop::Name('a') + " was not collected: "));
}

// ModelBuilder's keys change with the flags: the same bytes have another key.
TEST(Checks, KnowAGraphByItsBytes) {
  CollectShop shop("ab");
  const std::string other = R"(["--auto-cast=all"])";
  shop.AddGraph('c', 0, "cache", other);
  const std::string c = std::string("neuronxcc-") + PrecompileWorkshop::kVersion + "/" +
                        PrecompileWorkshop::Module('c', other);
  shop.Write("cache/" + c + "/model.hlo_module.pb", PrecompileWorkshop::GraphText('a'));
  shop.Write("cache/" + c + "/model.neff", testing_util::ToyNeff());
  shop.Write("cache/" + c + "/model.done", "");
  const Json json = shop.CcJson(1, "check", shop / "graphs");
  ASSERT_EQ(json["misses"].size(), 2u);
  EXPECT_EQ(json["misses"][0]["reason"], "flags");
  EXPECT_EQ(json["misses"][0]["other"], c);
  EXPECT_EQ(json["misses"][0]["flags_only_there"][0], "--auto-cast=all");
  EXPECT_EQ(json["misses"][1]["reason"], "absent");
}

TEST(Packs, TheSmallestCacheOfARun) {
  CollectShop shop("abc");
  for (const char key : {'a', 'b', 'f'}) {
    shop.AddGraph(key);
    shop.AddResult(key);
  }
  const std::string used = shop.Write("used.json", shop.Cc("check --json -- trace a b").out);
  const Json json = shop.CcJson(0, "pack", shop / "small --used-by " + used);
  EXPECT_EQ(json["copied"].size(), 2u);
  EXPECT_THAT(json["missing"], IsEmpty());
  EXPECT_EQ(JsonOf(shop.Cc("ls --json --cache-dir " + shop / "small"))["entries"].size(), 2u);
  // The same file shows without a program whether the run would compile.
  EXPECT_EQ(shop.Cc("check --used-by " + used).exit_code, 0);
  EXPECT_EQ(
      shop.CcJson(1, "check",
                  "--used-by " + used + " --cache-dir " + shop / "graphs")["misses"][0]["reason"],
      "not compiled");
  EXPECT_THAT(shop.Cc("pack --used-by " + used + " " + shop / "small").err,
              HasSubstr("it exists and is not empty"));
  // The log of a run names entries by their paths, and c only by its module.
  const std::string log =
      shop.Write("run.log", "INFO: Using a cached neff at " + shop.Entry('a') +
                                "/model.neff\nINFO: compiled " + PrecompileWorkshop::Module('c') +
                                ".\nneuronx-cc compile /tmp/model." +
                                PrecompileWorkshop::Module('b') + ".hlo_module.pb\n");
  const Json by_log = shop.CcJson(1, "pack", shop / "other --used-by " + log);
  EXPECT_EQ(by_log["copied"][0]["entry"], PrecompileWorkshop::Name('a'));
  EXPECT_EQ(by_log["copied"][1]["entry"], PrecompileWorkshop::Name('b'));
  EXPECT_EQ(by_log["missing"][0], PrecompileWorkshop::Module('c'));
}

// A log names an entry by its place in the cache, and in the compiler's command without it.
TEST(Packs, TakeTwoNamesOfOneEntryForOne) {
  CollectShop shop("a");
  shop.AddGraph('a');
  shop.AddResult('a');
  const std::string log = shop.Write(
      "run.log", "neuronx-cc compile /tmp/model." + PrecompileWorkshop::Module('a') +
                     ".hlo_module.pb\nUsing a cached neff at " + shop.Entry('a') + "/model.neff\n");
  const Json json = shop.CcJson(0, "pack", shop / "small --used-by " + log);
  EXPECT_EQ(json["copied"].size(), 1u);
  EXPECT_THAT(json["missing"], IsEmpty());
}

TEST(OldSpellings, AreAnsweredWithOurs) {
  const PrecompileWorkshop shop;
  EXPECT_THAT(shop.Cc("--command collect torchrun train.py").err,
              AllOf(HasSubstr("unknown option --command; here it is a word: neuron-cache collect"),
                    HasSubstr("warm")));
  EXPECT_THAT(shop.Cc("clean").err, HasSubstr("clean is here `neuron-cache clear`"));
  EXPECT_THAT(shop.Cc("clear-locks").err, HasSubstr("`neuron-cache prune"));
  EXPECT_THAT(shop.Cc("analyze").err, HasSubstr("is not analyzed"));
  EXPECT_THAT(shop.Cc("trace a").err, HasSubstr("`neuron-cache warm -- trace ...`"));
  EXPECT_THAT(shop.Cc("collect torchrun --nproc_per_node=32 train.py").err,
              HasSubstr("said behind --: neuron-cache collect -- torchrun"));
}

}  // namespace
}  // namespace nxdkit::test
