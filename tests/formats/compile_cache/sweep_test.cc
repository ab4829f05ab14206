#include "formats/compile_cache/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/compile_cache/lite_owner.h"
#include "tests/formats/compile_cache/cache_workshop.h"
#include "tests/formats/compile_cache/lite_workshop.h"
#include "tests/formats/neff/neff_bytes.h"

namespace nxdkit::neff {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing_util::GraphOf;
using testing_util::Held;
using testing_util::KernelConfig;
using testing_util::KernelFile;
using testing_util::LiteWorkshop;
using testing_util::ToyNeff;

constexpr int64_t kDay = 24 * 3600;

std::vector<std::string> ShowPruned(const std::vector<Pruned>& list) {
  std::vector<std::string> lines;
  for (const Pruned& pruned : list)
    lines.push_back(pruned.entry.substr(0, pruned.entry.starts_with("nki/") ? 6 : 2) + " " +
                    pruned.reason);
  return lines;
}

PruneReport SweepTree(const LiteWorkshop& shop, PruneOptions options = {},
                      const std::string& locks = "") {
  const auto tree = FindTree(shop.root());
  EXPECT_TRUE(tree.ok());
  const auto report = Sweep(*tree, options, locks);
  EXPECT_TRUE(report.ok()) << report.error().ToString();
  return report.ok() ? *report : PruneReport();
}

TEST(Sweeps, KeepWhatIsWholeOrYoungOrOwned) {
  const LiteWorkshop shop;
  shop.Whole('a');
  const std::string b = shop.Whole('b');
  const std::string c = shop.Whole('c');
  fs::remove(shop.In(b + "/.compilation_complete"));
  fs::remove(shop.In(c + "/.compilation_complete"));
  LiteWorkshop::Age(shop.In(c), 1000);
  shop.Write(OwnerLockName(c), "");
  shop.Write(c + ".tmp.1099511627776/x", "young");
  {
    const Held held(shop.In(OwnerLockName(c)), LOCK_EX);
    EXPECT_THAT(SweepTree(shop).removed, IsEmpty());
    EXPECT_THAT(ShowPruned(SweepTree(shop, {.everything = true, .dry_run = true}).in_use),
                ElementsAre("cc clear"));
  }
  EXPECT_THAT(ShowPruned(SweepTree(shop).removed), ElementsAre("cc unfinished"));
  EXPECT_TRUE(fs::exists(shop.In(OwnerLockName(c)))) << "another may wait for it";
  EXPECT_THAT(ShowPruned(SweepTree(shop, {.empty = true}).removed), ElementsAre("bb unfinished"));
}

TEST(Sweeps, TakeLeftoversAndDeadOwners) {
  const LiteWorkshop shop;
  const std::string key = shop.Whole('a');
  const std::string pid = ".1099511627776";
  const std::string names[] = {LiteWorkshop::Key('b') + ".tmp", LiteWorkshop::Key('c') + ".trash",
                               LiteWorkshop::Key('d') + ".capture", "nki.tmp.h"};
  for (const std::string& name : names) {
    shop.Write(name + pid + "/x", "x");
    LiteWorkshop::Age(shop.In(name + pid), 2 * kDay);
  }
  for (const std::string& name :
       {key + "/graph.hlo.tmp.h~0123abcd.1", "nki/" + LiteWorkshop::Key('e') + ".json.tmp.h.1",
        std::string("nki/binaries/k.klir.tmp.h~0123abcd.1")}) {
    shop.Write(name, "x");
    LiteWorkshop::Age(shop.In(name), 2 * kDay);
  }
  shop.Write(OwnerFileName(LiteWorkshop::Key('f')), "pid: 1099511627776\n");
  EXPECT_THAT(ShowPruned(SweepTree(shop, {.dry_run = true}).removed),
              ElementsAre(".f dead owner", "bb leftover", "cc leftover", "dd leftover",
                          "nk leftover", "nki/ee leftover", "nki/bi leftover", "aa leftover"));
  EXPECT_TRUE(fs::exists(shop.In(names[0] + pid)));
  EXPECT_EQ(shop.Faults().size(), 8u) << "verify names the same";
  SweepTree(shop);
  EXPECT_THAT(shop.Faults("tree", (::time(nullptr) + 2 * kDay) * 1'000'000'000), IsEmpty());
  EXPECT_EQ(SweepTree(shop).removed.size(), 0u);
  EXPECT_TRUE(fs::exists(shop.In(key)));
}

// Names that end like those of leftovers, but belong to nothing here.
TEST(Sweeps, LeaveStrangersThatAreNamedLikeLeftovers) {
  const LiteWorkshop shop;
  const std::string key = shop.Whole('a');
  const std::string names[] = {"data.tmp.1",       "photos.trash.7",  "x.capture.h.3",
                               key + "/x.tmp.h.1", "nki/notes.tmp.1", "nki/binaries/k.tmp.h.1"};
  for (const std::string& name : names) {
    shop.Write(name + "/mine", "mine");
    LiteWorkshop::Age(shop.In(name), 90 * kDay);
  }
  EXPECT_THAT(ShowPruned(SweepTree(shop, {.damaged = true}).removed), IsEmpty());
  for (const std::string& name : names) EXPECT_TRUE(fs::exists(shop.In(name + "/mine"))) << name;
  EXPECT_THAT(shop.Faults(), IsEmpty());
}

// A relocate is writing there, or was killed a moment ago.
TEST(Sweeps, DoNotTakeAnEntryForDamagedBecauseOfALeftover) {
  const LiteWorkshop shop;
  const std::string key = shop.Whole('a');
  shop.Write(key + "/" + AsideName("graph.hlo"), "half");
  shop.Write(key + "/graph.hlo.tmp.h~0123abcd.1099511627776", "half");
  for (const bool dry_run : {true, false})
    EXPECT_THAT(ShowPruned(SweepTree(shop, {.damaged = true, .dry_run = dry_run}).removed),
                IsEmpty());
  EXPECT_TRUE(fs::exists(shop.In(key)));
  EXPECT_THAT(shop.Faults(), IsEmpty()) << "they are young";
}

// The engine itself accepts all of these.
TEST(Sweeps, DoNotTakeAnEntryForDamagedBecauseOfARemark) {
  const LiteWorkshop shop;
  const std::string key = shop.Whole('a');
  shop.Write(key + "/command.txt", "neuronx-cc 'compile");
  shop.Write(key + "/.artifact_metadata_v1.json", "{}");
  shop.Write(key + "/graph_0.neff", "x");
  shop.Write(key + "/graph.hlo", GraphOf({}) + testing_util::PutField(40, KernelConfig("/a/b")));
  EXPECT_THAT(ShowPruned(SweepTree(shop, {.damaged = true}).removed), IsEmpty());
  EXPECT_THAT(shop.Faults(), IsEmpty());
}

TEST(Sweeps, TakeBinariesThatNothingNames) {
  const LiteWorkshop shop;
  shop.Whole('a', GraphOf({KernelConfig("/mnt/other/nki/binaries/g.klir")}));
  shop.Write("nki/" + LiteWorkshop::Key('b') + ".json",
             KernelFile(KernelConfig(shop.In("nki/binaries/k.klir"))));
  shop.Write("nki/" + LiteWorkshop::Key('c') + ".json",
             KernelFile(KernelConfig("/x/y"), "\"kernel_binary\":\"binaries/7\","));
  for (const char* name : {"g.klir", "k.klir", "7", "orphan", "young"}) {
    shop.Write(std::string("nki/binaries/") + name, "12345");
    if (name != std::string("young"))
      LiteWorkshop::Age(shop.In(std::string("nki/binaries/") + name), 2 * kDay);
  }
  const uint64_t entry = ListLiteTree(shop.root(), MomentOf(shop.root()))->bytes;
  const PruneReport dry = SweepTree(shop, {.dry_run = true});
  EXPECT_EQ(dry.bytes_before, entry + 25);
  EXPECT_EQ(dry.bytes_after, entry + 20);
  const PruneReport report = SweepTree(shop);
  ASSERT_EQ(report.removed.size(), 1u);
  EXPECT_EQ(report.removed[0].entry, "nki/binaries/orphan");
  EXPECT_EQ(report.removed[0].bytes, 5u);
  EXPECT_FALSE(fs::exists(shop.In("nki/binaries/orphan")));
  // An unreadable file may name anything.
  LiteWorkshop::Age(shop.In("nki/binaries/young"), 2 * kDay);
  shop.Write("nki/" + LiteWorkshop::Key('d') + ".json", "{");
  EXPECT_THAT(ShowPruned(SweepTree(shop).removed), IsEmpty());
}

// A merge holds a shared lock on the folder while it runs.
TEST(Sweeps, LeaveBinariesUnderAMerge) {
  const LiteWorkshop shop;
  shop.Whole('a');
  shop.Write("nki/binaries/k", "klir");
  LiteWorkshop::Age(shop.In("nki/binaries/k"), 2 * kDay);
  {
    const Held held(shop.In("nki/binaries"), LOCK_SH);
    EXPECT_THAT(ShowPruned(SweepTree(shop).removed), IsEmpty());
    const PruneReport report = SweepTree(shop, {.everything = true});
    EXPECT_THAT(ShowPruned(report.removed), ElementsAre("aa clear"));
    EXPECT_THAT(ShowPruned(report.in_use), ElementsAre("nki/bi clear"));
    EXPECT_TRUE(fs::exists(shop.In("nki/binaries/k")));
  }
  shop.Whole('b');
  EXPECT_THAT(ShowPruned(SweepTree(shop, {.everything = true}).removed),
              ElementsAre("bb clear", "nki/bi clear"));
  EXPECT_FALSE(fs::exists(shop.In("nki/binaries")));
}

// Locks that a killed prune or merge made for entries that do not exist.
TEST(Sweeps, TakeLocksOfNothing) {
  const LiteWorkshop shop;
  const std::string a = shop.Whole('a');
  const std::string names[] = {OwnerLockName(a), OwnerLockName(LiteWorkshop::Key('b')),
                               "nki/" + LiteWorkshop::Key('c') + ".lock",
                               OwnerLockName(LiteWorkshop::Key('d')),
                               OwnerLockName(LiteWorkshop::Key('e'))};
  for (const std::string& name : names) {
    shop.Write(name, "");
    if (name != names[3]) LiteWorkshop::Age(shop.In(name), 2 * kDay);
  }
  {
    const Held held(shop.In(names[4]), LOCK_EX);
    EXPECT_THAT(ShowPruned(SweepTree(shop).removed), ElementsAre(".b leftover", "nki/cc leftover"));
  }
  EXPECT_TRUE(fs::exists(shop.In(names[0]))) << "of an entry that is there";
  EXPECT_TRUE(fs::exists(shop.In(names[3]))) << "young";
  EXPECT_TRUE(fs::exists(shop.In(names[4]))) << "held";
}

TEST(Sweeps, EvictWhatTheEngineUsedLeastRecently) {
  const LiteWorkshop shop;
  const auto used = [&](char digit, int64_t days) {
    const std::string key = shop.Whole(digit);
    shop.Write(key + "/.cache_accessed", std::to_string(::time(nullptr) - days * kDay));
  };
  used('a', 50);
  used('b', 70);
  used('c', 60);
  used('d', 3);
  const uint64_t each = SweepTree(shop).bytes_before / 4;
  EXPECT_THAT(ShowPruned(SweepTree(shop, {.max_bytes = 2 * each + 20}).removed),
              ElementsAre("bb least recently used", "cc least recently used"));
  const PruneReport report = SweepTree(shop, {.max_bytes = 0});
  EXPECT_THAT(ShowPruned(report.removed), ElementsAre("aa least recently used"));
  EXPECT_GT(report.over_limit_bytes, 0u);
  EXPECT_TRUE(fs::exists(shop.In(LiteWorkshop::Key('d'))));
}

TEST(Sweeps, DamagedEntriesWhenAsked) {
  const LiteWorkshop shop;
  const std::string a = shop.Whole('a');
  shop.Whole('b', GraphOf({KernelConfig("/no/k.klir")}));
  shop.Write("nki/" + LiteWorkshop::Key('c') + ".json", KernelFile(KernelConfig("/no/k.klir")));
  shop.Write(a + "/" + LiteNeffName(a), ToyNeff().substr(0, 1200));
  EXPECT_THAT(SweepTree(shop).removed, IsEmpty());
  EXPECT_THAT(ShowPruned(SweepTree(shop, {.damaged = true}).removed),
              ElementsAre("nki/cc damaged", "aa damaged"));
  EXPECT_TRUE(fs::exists(shop.In(LiteWorkshop::Key('b')))) << "it is a hit without its binary";
}

TEST(Sweeps, ClearAll) {
  const LiteWorkshop shop;
  shop.Whole('a');
  shop.Write("nki/" + LiteWorkshop::Key('c') + ".json", "{}");
  shop.Write("nki/binaries/k", "klir");
  shop.Write("readme", "mine");
  EXPECT_THAT(ShowPruned(SweepTree(shop, {.everything = true}).removed),
              ElementsAre("nki/cc clear", "aa clear", "nki/bi clear"));
  EXPECT_EQ(LiteWorkshop::Contents(shop.root()).size(), 1u) << "the stranger stays";
}

TEST(Sweeps, NativeTrees) {
  const LiteWorkshop shop;
  const auto name = [](char digit) { return "ab/cd/abcd" + std::string(28, digit) + ".neff"; };
  for (const char digit : {'1', '2', '3'}) shop.Write(name(digit), ToyNeff());
  shop.Write(name('2'), "");
  shop.Write("ab/cd/.tmp.Xy12Zz", "half");
  for (const std::string& each : {name('1'), name('2'), std::string("ab/cd/.tmp.Xy12Zz")})
    LiteWorkshop::Age(shop.In(each), 40 * kDay);
  shop.Write("abcd" + std::string(28, '1') + ".lock", "", "locks");
  {
    const Held held(shop.In("abcd" + std::string(28, '1') + ".lock", "locks"), LOCK_EX);
    const PruneReport report =
        SweepTree(shop, {.max_bytes = 0, .dry_run = true}, shop.Path("locks"));
    EXPECT_THAT(ShowPruned(report.removed), ElementsAre("ab leftover", "ab unfinished"));
    EXPECT_THAT(ShowPruned(report.in_use), ElementsAre("ab least recently used"));
  }
  EXPECT_EQ(SweepTree(shop, {.max_bytes = 0}, shop.Path("locks")).removed.size(), 3u);
  EXPECT_EQ(LiteWorkshop::Contents(shop.root()).size(), 1u) << "used lately";
}

TEST(Sweeps, HaveNoCompilersToTellApart) {
  const LiteWorkshop shop;
  shop.Whole('a');
  const auto report =
      Sweep({shop.root(), TreeKind::kLite, false}, {.only_compiler = "neuronxcc-1"}, "");
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code(), Errc::kUsage);
  EXPECT_EQ(report.error().message(),
            "a tree of vllm-neuron: its entries do not record their compiler");
}

}  // namespace
}  // namespace nxdkit::neff
