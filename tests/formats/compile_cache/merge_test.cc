#include "formats/compile_cache/merge.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "formats/compile_cache/kernel_config.h"
#include "formats/compile_cache/lite_kernel.h"
#include "formats/compile_cache/lite_owner.h"
#include "formats/compile_cache/relocate.h"
#include "tests/formats/compile_cache/cache_workshop.h"
#include "tests/formats/compile_cache/lite_workshop.h"
#include "tests/formats/neff/neff_bytes.h"

namespace nxdkit::neff {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing_util::CacheWorkshop;
using testing_util::GraphOf;
using testing_util::Held;
using testing_util::KernelConfig;
using testing_util::KernelFile;
using testing_util::LiteWorkshop;
using testing_util::ReadBytes;
using testing_util::ToyNeff;

MergeReport Merge(const std::string& from, const std::string& into, MergeOptions options = {}) {
  options.kernels = fs::path(from).parent_path();  // where the tests put binaries
  const auto report = MergeTree(from, into, options);
  EXPECT_TRUE(report.ok()) << report.error().ToString();
  return report.ok() ? *report : MergeReport();
}

std::string DigestPrefix(const std::string& contents) {
  return Sha256Hex(testing_util::AsBytes(contents)).substr(0, 16) + "-";
}

std::vector<std::string> Show(const std::vector<MergeItem>& items) {
  std::vector<std::string> lines;
  for (const MergeItem& item : items) {
    const size_t name = item.entry.starts_with("nki/") ? 6 : 2;
    lines.push_back(item.entry.substr(0, name) + " " + item.reason +
                    (item.message.empty() ? "" : ": " + item.message));
  }
  return lines;
}

TEST(Merges, BringWhatIsNotThere) {
  const LiteWorkshop shop;
  shop.Whole('a');
  shop.Whole('b');
  shop.Write(LiteWorkshop::Key('b') + "/hlo_passes/1/x.txt", "pass");
  shop.Whole('b', GraphOf({"theirs"}), "into");
  shop.Whole('c', GraphOf({}), "into");
  const MergeReport report = Merge(shop.root(), shop.Path("into"));
  EXPECT_THAT(Show(report.copied), ElementsAre("aa new"));
  EXPECT_EQ(report.kept, 1u);
  EXPECT_THAT(report.left, IsEmpty());
  EXPECT_THAT(shop.Faults("into"), IsEmpty());
  EXPECT_EQ(ReadBytes(shop.In(LiteWorkshop::Key('b') + "/graph.hlo", "into")), GraphOf({"theirs"}))
      << "what is there stays";
  EXPECT_FALSE(fs::exists(shop.In(LiteWorkshop::Key('a') + "/.cache_accessed", "into")));
  // Neither leftovers nor locks.
  for (const auto& each : fs::directory_iterator(shop.Path("into")))
    EXPECT_EQ(each.path().filename().string().size(), 32u) << each.path();
}

TEST(Merges, IntoNothingMakeATree) {
  const LiteWorkshop shop;
  shop.Whole('a');
  shop.Write(LiteWorkshop::Key('a') + "/hlo_passes/1/x.txt", "pass");
  EXPECT_EQ(Merge(shop.root(), shop.Path("new/tree")).copied.size(), 1u);
  std::vector<std::string> expected = LiteWorkshop::Contents(shop.root());
  std::erase_if(expected, [](const std::string& name) {
    return name.find(".cache_accessed") != std::string::npos;
  });
  EXPECT_EQ(LiteWorkshop::Contents(shop.Path("new/tree")), expected);
  EXPECT_THAT(Merge(shop.root(), shop.Path("new/tree")).copied, IsEmpty()) << "a second time";
}

TEST(Merges, LeaveWhatIsNotWhole) {
  const LiteWorkshop shop;
  const std::string a = shop.Whole('a');
  const std::string b = shop.Whole('b');
  const std::string c = shop.Whole('c');
  shop.Write(a + "/" + LiteNeffName(a), ToyNeff().substr(0, 1200));
  fs::remove(shop.In(b + "/.compilation_complete"));
  fs::remove(shop.In(c + "/.compilation_complete"));
  shop.Write(OwnerLockName(c), "");
  const Held held(shop.In(OwnerLockName(c)), LOCK_EX);
  const MergeReport report = Merge(shop.root(), shop.Path("into"));
  EXPECT_THAT(report.copied, IsEmpty());
  EXPECT_THAT(Show(report.left),
              ElementsAre(AllOf(HasSubstr("aa damaged: graph_aa"), HasSubstr("(and 1 more)")),
                          "bb unfinished", "cc in use"));
  EXPECT_TRUE(fs::is_empty(shop.Path("into")));
}

TEST(Merges, ReplaceTheDamagedWhenAsked) {
  const LiteWorkshop shop;
  const std::string key = shop.Whole('a');
  shop.Whole('a', GraphOf({}), "into");
  shop.Write(key + "/" + LiteNeffName(key), ToyNeff().substr(0, 1200), "into");
  EXPECT_EQ(Merge(shop.root(), shop.Path("into")).kept, 1u);
  EXPECT_THAT(shop.Faults("into"), Not(IsEmpty()));
  EXPECT_THAT(Show(Merge(shop.root(), shop.Path("into"), {.damaged = true}).copied),
              ElementsAre("aa was damaged"));
  EXPECT_THAT(shop.Faults("into"), IsEmpty());
}

TEST(Merges, ReplaceTheUnfinishedThatNobodyWorksOn) {
  const LiteWorkshop shop;
  const std::string key = shop.Whole('a');
  shop.Write(key + "/graph.hlo", "half", "into");
  shop.Write(OwnerLockName(key), "", "into");
  {
    const Held held(shop.In(OwnerLockName(key), "into"), LOCK_EX);
    EXPECT_THAT(Show(Merge(shop.root(), shop.Path("into")).left), ElementsAre("aa in use"));
  }
  EXPECT_THAT(Show(Merge(shop.root(), shop.Path("into")).copied), ElementsAre("aa was unfinished"));
  EXPECT_THAT(shop.Faults("into"), IsEmpty());
}

// The engine has locked an entry that has no folder yet.
TEST(Merges, DoNotComeBetweenTheEngineAndItsEntry) {
  const LiteWorkshop shop;
  const std::string key = shop.Whole('a');
  shop.Write(OwnerLockName(key), "", "into");
  const Held held(shop.In(OwnerLockName(key), "into"), LOCK_EX);
  const MergeReport report = Merge(shop.root(), shop.Path("into"));
  EXPECT_THAT(Show(report.left), ElementsAre("aa in use"));
  EXPECT_THAT(report.copied, IsEmpty());
  EXPECT_EQ(report.bytes, 0u);
  EXPECT_FALSE(fs::exists(shop.In(key, "into")));
}

TEST(Merges, DryOnesWriteNothing) {
  const LiteWorkshop shop;
  const std::string binary = shop.scratch().Write("k.klir", "klir");
  shop.Whole('a', GraphOf({KernelConfig(binary)}));
  shop.Write("nki/" + LiteWorkshop::Key('b') + ".json", KernelFile(KernelConfig(binary)));
  const MergeReport report = Merge(shop.root(), shop.Path("into"), {.dry_run = true});
  EXPECT_THAT(Show(report.copied), ElementsAre("nki/bb new", "aa new"));
  EXPECT_FALSE(fs::exists(shop.Path("into")));
}

// All paths that are named afterwards exist, and nothing else in a graph has changed.
TEST(Merges, TakeTheBinariesOfKernelsAlong) {
  const LiteWorkshop shop;
  const std::string binary = shop.scratch().Write("k.klir", "klir");
  const std::string other = shop.scratch().Write("other.klir", "other");
  shop.Whole('a', GraphOf({KernelConfig(binary), "x", KernelConfig(other)}));
  const std::string kernel = "nki/" + LiteWorkshop::Key('b') + ".json";
  shop.Write(kernel, KernelFile(KernelConfig(binary)));
  Merge(shop.root(), shop.Path("into"));
  fs::remove(binary);
  fs::remove(other);
  EXPECT_THAT(shop.Faults("into"), IsEmpty());
  const std::string folder = fs::canonical(shop.Path("into")).string() + "/nki/binaries/";
  const std::string first = folder + DigestPrefix("klir") + "k.klir";
  const std::string second = folder + DigestPrefix("other") + "other.klir";
  EXPECT_EQ(ReadBytes(first), "klir");
  EXPECT_EQ(ReadBytes(shop.In(kernel, "into")), KernelFile(KernelConfig(first)));
  EXPECT_EQ(ReadBytes(shop.In(LiteWorkshop::Key('a') + "/graph.hlo", "into")),
            GraphOf({KernelConfig(first), "x", KernelConfig(second)}));
  // And merged again, from the tree alone.
  Merge(shop.Path("into"), shop.Path("third"));
  fs::remove_all(shop.Path("into"));
  EXPECT_THAT(shop.Faults("third"), IsEmpty());
  EXPECT_EQ(ReadBytes(shop.In("nki/binaries/" + DigestPrefix("klir") + "k.klir", "third")), "klir");
}

TEST(Merges, KeepTheCopyWhereTheFileNamesIt) {
  const LiteWorkshop shop;
  shop.Whole('a');
  shop.Write("nki/binaries/7.klir", "copy");
  const std::string kernel = "nki/" + LiteWorkshop::Key('b') + ".json";
  const std::string more = "\"kernel_binary\":\"binaries/7.klir\",";
  shop.Write(kernel, KernelFile(KernelConfig("/no/longer/there.klir"), more));
  Merge(shop.root(), shop.Path("into"));
  EXPECT_THAT(shop.Faults("into"), IsEmpty());
  EXPECT_EQ(ReadBytes(shop.In("nki/binaries/7.klir", "into")), "copy");
}

// Two kernels of one path, made one after the other: each has its own copy.
TEST(Merges, KeepCopiesApart) {
  const LiteWorkshop shop;
  for (const std::string& name : {std::string("7"), std::string("8")}) {
    shop.Write("nki/binaries/" + name, "copy " + name);
    shop.Write(
        "nki/" + LiteWorkshop::Key(name[0]) + ".json",
        KernelFile(KernelConfig("/x/k.klir"), "\"kernel_binary\":\"binaries/" + name + "\","));
  }
  shop.Write("nki/binaries/8", "another", "into");
  const MergeReport report = Merge(shop.root(), shop.Path("into"));
  EXPECT_THAT(Show(report.copied), ElementsAre("nki/77 new"));
  EXPECT_THAT(Show(report.left),
              ElementsAre(AllOf(HasSubstr("nki/88 differs: there already: "),
                                HasSubstr("nki/binaries/8 is another file than"))));
  EXPECT_EQ(ReadBytes(shop.In("nki/binaries/7", "into")), "copy 7");
  fs::remove(shop.In("nki/binaries/8", "into"));
  Merge(shop.root(), shop.Path("into"));
  EXPECT_EQ(ReadBytes(shop.In("nki/binaries/8", "into")), "copy 8");
  EXPECT_THAT(shop.Faults("into"), IsEmpty());
}

TEST(Merges, OtherBinariesOfTheSameNameStay) {
  const LiteWorkshop shop;
  const std::string binary = shop.scratch().Write("k.klir", "klir");
  shop.Whole('a', GraphOf({KernelConfig(binary)}));
  shop.Whole('c', GraphOf({}), "into");
  shop.Write("nki/binaries/k.klir", "another", "into");
  Merge(shop.root(), shop.Path("into"));
  EXPECT_EQ(ReadBytes(shop.In("nki/binaries/k.klir", "into")), "another");
  const std::string name = DigestPrefix("klir") + "k.klir";
  EXPECT_EQ(ReadBytes(shop.In("nki/binaries/" + name, "into")), "klir");
  EXPECT_THAT(shop.Faults("into"), IsEmpty());
}

TEST(Merges, SayWhenABinaryIsNowhere) {
  const LiteWorkshop shop;
  const std::string graph = GraphOf({KernelConfig("/no/k.klir")});
  shop.Whole('a', graph);
  shop.Write("nki/" + LiteWorkshop::Key('b') + ".json", KernelFile(KernelConfig("/no/k.klir")));
  const MergeReport report = Merge(shop.root(), shop.Path("into"));
  EXPECT_THAT(Show(report.left),
              ElementsAre("nki/bb damaged: the binary /no/k.klir is not in the trees and "
                          "not in " +
                          fs::path(shop.root()).parent_path().string()));
  EXPECT_THAT(Show(report.unlinked), ElementsAre("aa no binary: /no/k.klir"));
  EXPECT_EQ(ReadBytes(shop.In(LiteWorkshop::Key('a') + "/graph.hlo", "into")), graph);
}

// Ctrl-C, or a full disk.
TEST(Merges, AnErrorLeavesNothingAside) {
  const LiteWorkshop shop;
  for (const char digit : std::string("abcdef")) shop.Whole(digit);
  int asked = 0;
  MergeOptions options;
  options.poll = [&]() -> Status {
    if (++asked < 12) return OkStatus();
    return Error(Errc::kInterrupted, "stopped");
  };
  const auto report = MergeTree(shop.root(), shop.Path("into"), options);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code(), Errc::kInterrupted);
  EXPECT_THAT(LiteWorkshop::Contents(shop.Path("into")), IsEmpty());
}

TEST(Merges, WriteThroughNoLink) {
  const LiteWorkshop shop;
  shop.Whole('a');
  shop.Whole('b', GraphOf({}), "into");
  fs::create_directory(shop.Path("elsewhere"));
  fs::create_directory_symlink(shop.Path("elsewhere"), shop.In("nki", "into"));
  const auto report = MergeTree(shop.root(), shop.Path("into"), {});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code(), Errc::kUnsupported);
  EXPECT_THAT(report.error().file(), HasSubstr("into/nki"));
}

// A tree may name any file of this machine.
TEST(Merges, TakeNoFileFromElsewhere) {
  const LiteWorkshop shop;
  const testing_util::Scratch elsewhere;
  const std::string secret = elsewhere.Write("secret", "secret");
  fs::create_directories(shop.In("nki/binaries"));
  fs::create_symlink(secret, shop.In("nki/binaries/link"));
  fs::create_directory_symlink(elsewhere.folder(), shop.In("nki/linked"));
  shop.Whole('a', GraphOf({KernelConfig(secret), KernelConfig("/x/link"),
                           KernelConfig(shop.In("../" + shop.In("nki/linked/secret"))),
                           KernelConfig(shop.In("nki/linked/secret"))}));
  shop.Write("nki/" + LiteWorkshop::Key('b') + ".json",
             KernelFile(KernelConfig("/x"), "\"kernel_binary\":\"linked/secret\","));
  const MergeReport report = Merge(shop.root(), shop.Path("into"));
  EXPECT_EQ(report.unlinked.size(), 4u);
  EXPECT_EQ(report.left.size(), 1u);
  for (const auto& each : fs::recursive_directory_iterator(shop.Path("into")))
    EXPECT_TRUE(!each.is_regular_file() || ReadBytes(each.path()) != "secret") << each.path();
}

TEST(Merges, KernelsOfTheSameNameThatDifferStay) {
  const LiteWorkshop shop;
  const std::string binary = shop.scratch().Write("k.klir", "klir");
  const std::string kernel = "nki/" + LiteWorkshop::Key('b') + ".json";
  shop.Write(kernel, KernelFile(KernelConfig(binary)));
  const auto merge = [&](const std::string& theirs, bool damaged = false) {
    shop.Write(kernel, theirs, "into");
    return Merge(shop.root(), shop.Path("into"), {.damaged = damaged});
  };
  EXPECT_THAT(Show(merge(KernelFile(KernelConfig(binary, "sub"))).left),
              ElementsAre(HasSubstr("nki/bb differs: there already, another kernel")));
  const std::string same = shop.scratch().Write("same.klir", "klir");
  EXPECT_EQ(merge(KernelFile(KernelConfig(same))).kept, 1u) << "only the path is another";
  const std::string other = shop.scratch().Write("other.klir", "stale");
  EXPECT_THAT(Show(merge(KernelFile(KernelConfig(other))).left),
              ElementsAre(AllOf(HasSubstr("differs: there already: its binary"),
                                HasSubstr("has sha256:"))));
  const std::string gone = KernelFile(KernelConfig("/no/k.klir"));
  EXPECT_THAT(Show(merge(gone).left), ElementsAre(HasSubstr("damaged: there already: its binary")));
  EXPECT_EQ(ReadBytes(shop.In(kernel, "into")), gone);
  EXPECT_THAT(Show(merge(gone, true).copied), ElementsAre("nki/bb was damaged"));
  EXPECT_THAT(shop.Faults("into"), IsEmpty());
}

// The engine's own promotion does nothing in nki/ when the other side has such a folder.
TEST(Merges, CloseTheGapOfTheEnginesPromotion) {
  const LiteWorkshop shop;
  const std::string binary = shop.scratch().Write("k.klir", "klir");
  shop.Write("nki/" + LiteWorkshop::Key('b') + ".json", KernelFile(KernelConfig(binary)));
  shop.Write("nki/" + LiteWorkshop::Key('c') + ".json", KernelFile(KernelConfig(binary)), "into");
  Merge(shop.root(), shop.Path("into"));
  EXPECT_TRUE(fs::exists(shop.In("nki/" + LiteWorkshop::Key('b') + ".json", "into")));
  EXPECT_TRUE(fs::exists(shop.In("nki/" + LiteWorkshop::Key('c') + ".json", "into")));
}

TEST(Merges, NativeTrees) {
  const LiteWorkshop shop;
  const auto name = [](char digit) { return "ab/cd/abcd" + std::string(28, digit) + ".neff"; };
  shop.Write(name('1'), ToyNeff());
  shop.Write(name('2'), ToyNeff());
  shop.Write(name('3'), ToyNeff().substr(0, 1100));
  shop.Write(name('4'), "");
  shop.Write(name('2'), "", "into");
  const MergeReport report = Merge(shop.root(), shop.Path("into"));
  ASSERT_EQ(report.copied.size(), 2u);
  EXPECT_EQ(report.copied[0].reason, "new");
  EXPECT_EQ(report.copied[1].reason, "was unfinished");
  ASSERT_EQ(report.left.size(), 2u);
  EXPECT_EQ(report.left[0].reason, "damaged");
  EXPECT_EQ(report.left[1].reason, "unfinished");
  EXPECT_THAT(shop.Faults("into"), IsEmpty());
  EXPECT_EQ(ReadBytes(shop.In(name('2'), "into")), ToyNeff());
  EXPECT_EQ(LiteWorkshop::Contents(shop.Path("into")).size(), 2u) << "nothing is left aside";
}

TEST(Merges, NativeTreesUnderTheirLocks) {
  const LiteWorkshop shop;
  const std::string key = "abcd" + std::string(28, '1');
  shop.Write("ab/cd/" + key + ".neff", ToyNeff());
  shop.Write(key + ".lock", "", "locks");
  const MergeOptions options{.neff_tree_locks = shop.Path("locks")};
  {
    const Held held(shop.In(key + ".lock", "locks"), LOCK_EX);
    EXPECT_THAT(Show(Merge(shop.root(), shop.Path("into"), options).left),
                ElementsAre("ab in use"));
  }
  EXPECT_EQ(Merge(shop.root(), shop.Path("into"), options).copied.size(), 1u);
}

TEST(Merges, TreesOfLibneuronxla) {
  const CacheWorkshop from;
  const std::string done = from.Done('a', 1, 1);
  from.Write(done, "model.neff", ToyNeff());
  from.Write(done, "model.hlo_module.pb.lock", "");
  const std::string cut = from.Done('b', 1, 1);
  from.Write(cut, "model.neff", "cut");
  from.Write("MODULE_" + std::string(20, 'c') + "+00000000", "model.log", "failed");
  const LiteWorkshop shop;
  const MergeReport report = Merge(from.root(), shop.Path("into"));
  EXPECT_THAT(Show(report.copied), ElementsAre("ne new"));
  ASSERT_EQ(report.left.size(), 2u);
  EXPECT_THAT(report.left[0].message, HasSubstr("model.neff: offset 3: ends inside the header"));
  EXPECT_EQ(report.left[1].reason, "unfinished");
  const auto entry = ReadEntry(shop.Path("into") + "/neuronxcc-1/" + done);
  ASSERT_TRUE(entry.ok()) << entry.error().ToString();
  EXPECT_EQ(entry->state, EntryState::kDone);
  EXPECT_EQ(entry->files, 3u) << "all but the lock";
  const auto left = fs::directory_iterator(shop.Path("into"));
  EXPECT_EQ(std::distance(begin(left), end(left)), 1) << "nothing is left aside";
}

TEST(Merges, RefuseWhatCannotBeMeant) {
  const LiteWorkshop shop;
  shop.Whole('a');
  shop.Write("ab/cd/abcd" + std::string(28, '1') + ".neff", ToyNeff(), "native");
  const auto refused = [&](const std::string& from, const std::string& into) {
    const auto report = MergeTree(from, into, {});
    EXPECT_FALSE(report.ok());
    return report.ok() ? Error(Errc::kInternal, "") : report.error();
  };
  EXPECT_EQ(refused(shop.root(), shop.root()).code(), Errc::kUsage);
  EXPECT_EQ(refused(shop.root(), shop.root() + "/inner").code(), Errc::kUsage);
  EXPECT_EQ(refused(shop.Path("no"), shop.root()).code(), Errc::kNotFound);
  const Error kinds = refused(shop.root(), shop.Path("native"));
  EXPECT_EQ(kinds.code(), Errc::kUnsupported);
  EXPECT_THAT(kinds.message(),
              AllOf(HasSubstr("a tree of vllm-neuron"), HasSubstr("of torch-neuronx")));
}

TEST(Merges, NothingIntoATreeIsOfItsKind) {
  const LiteWorkshop shop;
  shop.Whole('a', GraphOf({}), "into");
  const MergeReport report = Merge(shop.root(), shop.Path("into"));
  EXPECT_EQ(report.kind, TreeKind::kLite);
  EXPECT_THAT(report.copied, IsEmpty());
}

// It would be unclear which of the two is meant.
TEST(Merges, OfAMixedFolderAreRefused) {
  const LiteWorkshop shop;
  shop.Whole('a');
  shop.Write("neuronxcc-1/MODULE_1+00000000/model.done", "");
  const auto report = MergeTree(shop.root(), shop.Path("into"), {});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code(), Errc::kUnsupported);
  EXPECT_EQ(report.error().message(), "entries of libneuronxla and of vllm-neuron in one folder");
}

// Remarks do not keep an entry from being merged.
TEST(Merges, TakeEntriesWithRemarks) {
  const LiteWorkshop shop;
  const std::string key = shop.Whole('a');
  shop.Write(key + "/command.txt", "neuronx-cc compile x\n");
  shop.Write(key + "/.artifact_metadata_v1.json", "{}");
  EXPECT_THAT(Show(Merge(shop.root(), shop.Path("into")).copied), ElementsAre("aa new"));
}

// Its paths stay, and that is reported.
TEST(Merges, SayWhenAGraphIsNotUnderstood) {
  const LiteWorkshop shop;
  const std::string graph = GraphOf({}) + testing_util::PutField(40, KernelConfig("/old/k"));
  shop.Whole('a', graph);
  const MergeReport report = Merge(shop.root(), shop.Path("into"));
  EXPECT_THAT(Show(report.copied), ElementsAre("aa new"));
  EXPECT_THAT(Show(report.unlinked),
              ElementsAre(HasSubstr("aa not understood: a kernel's configuration is outside")));
  EXPECT_EQ(ReadBytes(shop.In(LiteWorkshop::Key('a') + "/graph.hlo", "into")), graph);
}

// A merge that waits before publishing its last entry until `processes` have come as far.
Result<MergeReport> MergeTogether(const LiteWorkshop& shop, const std::string& tree,
                                  int processes) {
  constexpr int kMostRounds = 10'000;
  const std::string own_pid = "." + std::to_string(::getpid());
  const auto has_last = [&] {
    std::error_code gone;
    for (const auto& each : fs::directory_iterator(shop.Path("into"), gone)) {
      const std::string name = each.path().filename();
      if (name.starts_with(LiteWorkshop::Key('f') + ".tmp.") && name.ends_with(own_pid))
        return true;
    }
    return false;
  };
  bool waited = false;
  const auto poll = [&]() -> Status {
    if (waited || !has_last()) return OkStatus();
    waited = true;
    shop.scratch().Write("ready" + own_pid, "");
    const auto all_are_ready = [&] {
      int ready = 0;
      for (const auto& each : fs::directory_iterator(shop.Path("")))
        ready += each.path().filename().string().starts_with("ready.");
      return ready == processes;
    };
    for (int i = 0; i < kMostRounds && !all_are_ready(); ++i) ::usleep(1000);
    return OkStatus();
  };
  return MergeTree(shop.Path(tree), shop.Path("into"), {.kernels = shop.Path(""), .poll = poll});
}

// Several merges at once into one tree: every entry is there once, and whole, with its own binary.
TEST(Merges, OfSeveralProcessesAtOnce) {
  const LiteWorkshop shop;
  const std::vector<std::string> trees = {"one", "two", "three"};
  std::set<std::string> keys;
  // The binaries have one base name, and different contents. All trees have sixteen entries of the
  // same keys, and one of their own, which names its first binary too.
  for (const std::string& tree : trees) {
    const auto put = [&](const std::string& key, const std::string& name) {
      const std::string config = KernelConfig(shop.Path(name) + "/k.klir", name);
      shop.WholeKey(key, GraphOf({config}), tree);
      shop.Write("nki/" + key + ".json", KernelFile(config), tree);
      keys.insert(key);
    };
    for (const char digit : std::string("0123456789abcdef")) {
      fs::create_directory(shop.Path(tree + digit));
      shop.scratch().Write(tree + digit + "/k.klir", tree + digit);
      put(LiteWorkshop::Key(digit), tree + digit);
    }
    put(Md5Hex(tree), tree + "0");
  }
  std::vector<pid_t> children;
  for (const std::string& tree : trees) {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto report = MergeTogether(shop, tree, 3);
      const bool told = report.ok() && report->unlinked.empty() &&
                        report->copied.size() + report->left.size() + report->kept == 34;
      if (!told)
        fmt::print(stderr, "{}: {}\n", tree,
                   report.ok() ? fmt::format("{} copied, {} left, {} kept, {} unlinked",
                                             report->copied.size(), report->left.size(),
                                             report->kept, report->unlinked.size())
                               : report.error().ToString());
      ::_exit(told ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_THAT(shop.Faults("into"), IsEmpty());
  const auto listing = ListLiteTree(shop.Path("into"), {});
  EXPECT_EQ(listing->entries.size(), 19u);
  EXPECT_THAT(listing->strangers, IsEmpty());
  // Each names the binary from its own tree, which is also in its configuration.
  for (const std::string& key : keys) {
    const std::string graph = ReadBytes(shop.In(key + "/graph.hlo", "into"));
    const auto kernels = KernelsOfGraph(graph);
    ASSERT_TRUE(kernels.ok() && kernels->size() == 1);
    const std::string own = ReadBytes((*kernels)[0].binary);
    EXPECT_EQ(graph, GraphOf({KernelConfig((*kernels)[0].binary, own)}));
    const auto kernel = ReadLiteKernel(shop.In("nki/" + key + ".json", "into"));
    ASSERT_TRUE(kernel.ok());
    EXPECT_EQ(kernel->config, KernelConfig(kernel->binary, ReadBytes(kernel->binary)));
  }
}

RelocateReport Relocate(const LiteWorkshop& shop, const std::string& from, const std::string& to,
                        bool dry_run = false) {
  const auto report =
      RelocateKernels({shop.root(), TreeKind::kLite, false}, {from, to, dry_run, {}});
  EXPECT_TRUE(report.ok()) << report.error().ToString();
  return report.ok() ? *report : RelocateReport();
}

TEST(Relocations, ChangeThePathsInKernelsAndGraphs) {
  const LiteWorkshop shop;
  const std::string key = shop.Whole(
      'a', GraphOf({KernelConfig("/old/x/k.klir"), "other", KernelConfig("/older/k.klir")}));
  shop.Whole('c');
  const std::string kernel = "nki/" + LiteWorkshop::Key('b') + ".json";
  shop.Write(kernel, KernelFile(KernelConfig("/old/x/k.klir")));
  shop.scratch().Write("k.klir", "klir");
  const std::vector<std::string> before = LiteWorkshop::Contents(shop.root());
  EXPECT_EQ(Relocate(shop, "/old", "/new", true).changed.size(), 2u);
  EXPECT_EQ(LiteWorkshop::Contents(shop.root()), before) << "a dry run";
  const std::string to = shop.Path("a/longer/path/than/before");
  fs::create_directories(to + "/x");
  fs::copy(shop.Path("k.klir"), to + "/x/k.klir");
  const RelocateReport report = Relocate(shop, "/old", to);
  ASSERT_EQ(report.changed.size(), 2u);
  EXPECT_EQ(report.changed[0].file, kernel);
  EXPECT_EQ(report.changed[1].file, key + "/graph.hlo");
  EXPECT_EQ(report.looked_at, 3u);
  EXPECT_THAT(report.missing, IsEmpty());
  EXPECT_EQ(ReadBytes(shop.In(kernel)), KernelFile(KernelConfig(to + "/x/k.klir")));
  EXPECT_EQ(ReadBytes(shop.In(key + "/graph.hlo")),
            GraphOf({KernelConfig(to + "/x/k.klir"), "other", KernelConfig("/older/k.klir")}));
  // And back: the same bytes as before.
  EXPECT_THAT(Relocate(shop, to, "/old").missing, ElementsAre("/old/x/k.klir"));
  EXPECT_EQ(LiteWorkshop::Contents(shop.root()), before);
}

// A command that was killed starts over.
TEST(Relocations, IntoAFolderOfTheOldOneHappenOnce) {
  const LiteWorkshop shop;
  const std::string key = shop.Whole('a', GraphOf({KernelConfig("/old/k.klir")}));
  EXPECT_EQ(Relocate(shop, "/old", "/old/new").changed.size(), 1u);
  EXPECT_EQ(Relocate(shop, "/old", "/old/new").changed.size(), 0u);
  EXPECT_EQ(ReadBytes(shop.In(key + "/graph.hlo")), GraphOf({KernelConfig("/old/new/k.klir")}));
}

TEST(Relocations, LeaveWhatTheyDoNotUnderstand) {
  const LiteWorkshop shop;
  const std::string a = shop.Whole(
      'a', GraphOf({KernelConfig("/old/k")}) + testing_util::PutField(40, KernelConfig("/old/k")));
  const std::string b = shop.Whole('b', "no graph");
  const std::string c = shop.Whole('c', GraphOf({KernelConfig("/old/k")}));
  fs::remove(shop.In(c + "/.compilation_complete"));
  shop.Write(OwnerLockName(c), "");
  const Held held(shop.In(OwnerLockName(c)), LOCK_EX);
  const std::vector<std::string> before = LiteWorkshop::Contents(shop.root());
  const RelocateReport report = Relocate(shop, "/old", "/new");
  ASSERT_EQ(report.left.size(), 3u);
  EXPECT_EQ(report.left[0].file, a + "/graph.hlo");
  EXPECT_EQ(report.left[0].reason, "a kernel's configuration is outside a backend_config");
  EXPECT_EQ(report.left[1].file, b + "/graph.hlo");
  EXPECT_EQ(report.left[2].reason, "in use");
  EXPECT_EQ(LiteWorkshop::Contents(shop.root()), before);
}

TEST(Relocations, AreForTreesThatNamePaths) {
  const auto refused = [](TreeKind kind, const std::string& from) {
    return RelocateKernels({"/x", kind, false}, {from, "/new", false, {}}).error().code();
  };
  EXPECT_EQ(refused(TreeKind::kXla, "/old"), Errc::kUnsupported);
  EXPECT_EQ(refused(TreeKind::kNeff, "/old"), Errc::kUnsupported);
  EXPECT_EQ(refused(TreeKind::kLite, "old"), Errc::kUsage);
}

}  // namespace
}  // namespace nxdkit::neff
