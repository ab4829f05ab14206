#include "formats/compile_cache/lite_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "formats/compile_cache/lite_owner.h"
#include "formats/compile_cache/neff_tree.h"
#include "lib/system/process_facts.h"
#include "tests/formats/compile_cache/cache_workshop.h"
#include "tests/formats/compile_cache/lite_workshop.h"
#include "tests/formats/neff/neff_bytes.h"

namespace nxdkit::neff {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_util::GraphOf;
using testing_util::Held;
using testing_util::KernelConfig;
using testing_util::KernelFile;
using testing_util::LiteWorkshop;
using testing_util::ToyNeff;

constexpr int64_t kSecondsToNs = 1'000'000'000;

FoundTree Find(const std::string& path) {
  const auto tree = FindTree(path);
  EXPECT_TRUE(tree.ok()) << tree.error().ToString();
  return tree.ok() ? *tree : FoundTree();
}

// The owner's file as the engine writes it for this process.
std::string OwnerText(int64_t pid, const std::string& name, const std::string& words) {
  return fmt::format("pid: {}\nprocess_name: {}\ncmdline: {}\nrank: 0\ntimestamp: 1787000000.0\n",
                     pid, name, words);
}
std::string WordsOfThisProcess() {
  std::string list;
  const std::optional<ProcessFacts> facts = FactsOfProcess(::getpid());
  for (const std::string& word : facts->words) list += (list.empty() ? "'" : ", '") + word + "'";
  return "[" + list + "]";
}

TEST(Trees, AreToldByWhatLiesThere) {
  const LiteWorkshop shop;
  EXPECT_TRUE(Find(shop.root()).is_empty);
  shop.Whole('a');
  EXPECT_EQ(TreeName(Find(shop.root()).kind), "vllm-neuron");
  shop.Write("ab/cd/" + LiteWorkshop::Key('c') + ".neff", "x", "native");
  EXPECT_EQ(TreeName(Find(shop.Path("native")).kind), "torch-neuronx");
  const std::string sha(64, 'e');
  shop.Write(sha + "/" + sha + ".neff", "x", "older");
  EXPECT_EQ(TreeName(Find(shop.Path("older")).kind), "torch-neuronx");
  shop.Write("neuronxcc-1/MODULE_1+00000000/model.done", "", "xla");
  EXPECT_EQ(TreeName(Find(shop.Path("xla")).kind), "libneuronxla");
  EXPECT_FALSE(Find(shop.Path("xla")).is_empty);
  shop.Write("nki/" + LiteWorkshop::Key('d') + ".json", "{}", "kernels");
  EXPECT_EQ(TreeName(Find(shop.Path("kernels")).kind), "vllm-neuron");
  shop.Write("notes/" + LiteWorkshop::Key('d') + ".json", "{}", "none");
  EXPECT_TRUE(Find(shop.Path("none")).is_empty);
}

TEST(Trees, LieWhereTheVariableOfTheEngineSays) {
  const LiteWorkshop shop;
  shop.Whole('a', GraphOf({}), "cache/neuron/compile_cache");
  EXPECT_EQ(Find(shop.Path("cache")).root, shop.Path("cache/neuron/compile_cache"));
}

// A folder of 32 digits in a tree of libneuronxla is a stranger there.
TEST(Trees, OfLibneuronxlaMayHoldStrangers) {
  const LiteWorkshop shop;
  shop.Whole('a');
  shop.Write("ab/cd/" + LiteWorkshop::Key('c') + ".neff", "x");
  shop.Write("neuronxcc-1/MODULE_1+00000000/model.done", "");
  const FoundTree tree = Find(shop.root());
  EXPECT_EQ(TreeName(tree.kind), "libneuronxla");
  const auto listing = ListTreeOf(tree, MomentOf(tree.root));
  ASSERT_TRUE(listing.ok());
  EXPECT_THAT(listing->strangers, ElementsAre(LiteWorkshop::Key('a'), "ab"));
}

TEST(Trees, OfTwoKindsInOneFolderAreRefused) {
  const LiteWorkshop shop;
  shop.Whole('a');
  shop.Write("ab/cd/" + LiteWorkshop::Key('c') + ".neff", "x");
  const auto tree = FindTree(shop.root());
  ASSERT_FALSE(tree.ok());
  EXPECT_EQ(tree.error().code(), Errc::kUnsupported);
  EXPECT_EQ(tree.error().message(), "entries of vllm-neuron and of torch-neuronx in one folder");
  EXPECT_EQ(tree.error().file(), shop.root());
}

TEST(LiteEntries, AreDoneWhenAllThatTheEngineAsksForIsThere) {
  const LiteWorkshop shop;
  const auto state = [&](const char* without) {
    const std::string key = shop.Whole('a');
    const std::string name = without == std::string("neff") ? LiteNeffName(key) : without;
    fs::remove(shop.In(key + "/" + name));
    const auto entry = ReadLiteEntry(shop.root(), key, MomentOf(shop.root()));
    EXPECT_TRUE(entry.ok());
    return std::string(StateName(entry->state));
  };
  EXPECT_EQ(state("nothing"), "done");
  EXPECT_EQ(state("command.txt"), "done");
  for (const char* file :
       {"neff", "graph.hlo", ".compilation_complete", ".artifact_metadata_v0.json"})
    EXPECT_EQ(state(file), "empty") << file;
}

TEST(LiteEntries, WereUsedWhenTheEngineNotedIt) {
  const LiteWorkshop shop;
  const std::string key = shop.Whole('a');
  const auto used = [&] { return ReadLiteEntry(shop.root(), key, MomentOf(shop.root()))->used_ns; };
  EXPECT_EQ(used(), int64_t{1'787'000'100'500'000'000});
  shop.Write(key + "/.cache_accessed", "yesterday");
  LiteWorkshop::Age(shop.In(key), 1000);
  EXPECT_NEAR(static_cast<double>(used()), static_cast<double>(::time(nullptr) - 1000) * 1e9, 60e9);
  shop.Write(key + "/.cache_accessed", "1e300");
  EXPECT_GT(used(), 0);
}

TEST(LiteOwners, AreTheProcessOfThatPidNameAndCommandLine) {
  const LiteWorkshop shop;
  const std::string key = LiteWorkshop::Key('a');
  const std::string name = FactsOfProcess(::getpid())->name;
  const auto ask = [&](const std::string& text) {
    shop.Write(OwnerFileName(key), text);
    return *AskOwner(shop.root(), key, {::time(nullptr) * kSecondsToNs, false});
  };
  EXPECT_EQ(*AskOwner(shop.root(), key, {}), OwnerState::kNone);
  EXPECT_EQ(ask(OwnerText(::getpid(), name, WordsOfThisProcess())), OwnerState::kAlive);
  EXPECT_EQ(ask(OwnerText(::getpid(), "another", WordsOfThisProcess())), OwnerState::kDead);
  EXPECT_EQ(ask(OwnerText(::getpid(), name, "['python', '-m', 'vllm']")), OwnerState::kDead);
  EXPECT_EQ(ask(OwnerText(int64_t{1} << 40, name, WordsOfThisProcess())), OwnerState::kDead);
  // It may be being written at this moment.
  EXPECT_EQ(ask("pid: "), OwnerState::kAlive);
  LiteWorkshop::Age(shop.In(OwnerFileName(key)), 700);
  EXPECT_EQ(*AskOwner(shop.root(), key, {::time(nullptr) * kSecondsToNs, false}),
            OwnerState::kDead);
}

TEST(LiteOwners, WhoHoldsTheLockLives) {
  const LiteWorkshop shop;
  const std::string key = LiteWorkshop::Key('a');
  shop.Write(OwnerFileName(key), OwnerText(int64_t{1} << 40, "x", "[]"));
  shop.Write(OwnerLockName(key), "");
  const TreeMoment moment{::time(nullptr) * kSecondsToNs, false};
  {
    const Held held(shop.In(OwnerLockName(key)), LOCK_EX);
    EXPECT_EQ(*AskOwner(shop.root(), key, moment), OwnerState::kAlive);
  }
  EXPECT_EQ(*AskOwner(shop.root(), key, moment), OwnerState::kDead);
}

// A pid of another machine means nothing here.
TEST(LiteOwners, OnASharedTreeAreDeadAfterADay) {
  const LiteWorkshop shop;
  const std::string key = LiteWorkshop::Key('a');
  shop.Write(OwnerFileName(key), OwnerText(int64_t{1} << 40, "x", "[]"));
  const auto ask = [&](int64_t hours) {
    return *AskOwner(shop.root(), key, {(::time(nullptr) + hours * 3600) * kSecondsToNs, true});
  };
  EXPECT_EQ(ask(1), OwnerState::kAlive);
  EXPECT_EQ(ask(25), OwnerState::kDead);
}

TEST(LiteOwners, FilesAreNotTrusted) {
  EXPECT_EQ(ParseOwnerFile("process_name: x\n").error().message(), "there is no line \"pid:\"");
  EXPECT_EQ(ParseOwnerFile("pid: -3\n").error().message(), "pid \"-3\" found, a number expected");
  const auto owner = ParseOwnerFile("pid:7\ncmdline: ['a b', \"it's\", 'c\\\\d\\n']\n");
  ASSERT_TRUE(owner.ok());
  EXPECT_THAT(*owner->words, ElementsAre("a b", "it's", "c\\d\n"));
  for (const char* list : {"['a", "a, b", "['\\x41']", "[1]"})
    EXPECT_EQ(ParseOwnerFile(std::string("pid:7\ncmdline: ") + list)->words, std::nullopt) << list;
}

TEST(Leftovers, AreToldByTheirNames) {
  const auto show = [](const char* name) {
    const auto leftover = ParseLeftover(name);
    return leftover ? fmt::format("{}|{}|{}|{}", leftover->of, leftover->what, leftover->host,
                                  leftover->pid)
                    : "none";
  };
  EXPECT_EQ(show("abc.tmp.17"), "abc|tmp||17");
  EXPECT_EQ(show("abc.tmp.node-1.eu.17"), "abc|tmp|node-1.eu|17");
  EXPECT_EQ(show("abc.trash.17"), "abc|trash||17");
  EXPECT_EQ(show("abc.capture.17"), "abc|capture||17");
  EXPECT_EQ(show("nki.tmp.h.17"), "nki|tmp|h|17");
  for (const char* name : {"abc", ".tmp.17", "abc.tmp.", "abc.tmp.x", "abc.tmp..5", "abc.tmp.-5",
                           "abc.tmp.0", "abc.tmpx.5"})
    EXPECT_EQ(show(name), "none") << name;
  EXPECT_EQ(ParseLeftover(AsideName("abc"))->pid, ::getpid());
}

TEST(Leftovers, GoWhenTheirProcessIsGoneAndAllIsQuiet) {
  const LiteWorkshop shop;
  shop.Write("a.tmp.1/x", "x");
  const std::string path = shop.In("a.tmp.1");
  const int64_t now = ::time(nullptr) * kSecondsToNs;
  const auto abandoned = [&](const std::string& host, int64_t pid, bool shared) {
    return *IsAbandoned(path, {"a", "tmp", host, pid}, {now, shared});
  };
  const int64_t dead = int64_t{1} << 40;
  EXPECT_FALSE(abandoned("", dead, false)) << "it was touched a moment ago";
  LiteWorkshop::Age(path, 700);
  EXPECT_TRUE(abandoned("", dead, false));
  EXPECT_TRUE(abandoned(HostName(), dead, true));
  EXPECT_FALSE(abandoned("", ::getpid(), false));
  EXPECT_FALSE(abandoned(HostName(), ::getpid(), false));
  EXPECT_FALSE(abandoned("another", dead, false)) << "nobody can ask there";
  EXPECT_FALSE(abandoned("", dead, true)) << "it may be of another machine";
  LiteWorkshop::Age(path, 90'000);
  EXPECT_TRUE(abandoned("another", dead, false));
  EXPECT_TRUE(abandoned("", dead, true));
}

TEST(LiteVerifies, AWholeTree) {
  const LiteWorkshop shop;
  const std::string binary = shop.scratch().Write("k.klir", "klir");
  shop.Whole('a', GraphOf({KernelConfig(binary)}));
  shop.Write("nki/" + LiteWorkshop::Key('b') + ".json", KernelFile(KernelConfig(binary)));
  shop.Write("." + LiteWorkshop::Key('a') + ".compilation_metadata.lock", "");
  EXPECT_THAT(shop.Faults(), IsEmpty());
}

// The engine only checks whether the files exist.
TEST(LiteVerifies, FindACutNeff) {
  const LiteWorkshop shop;
  const std::string key = shop.Whole('a');
  const std::string neff = key + "/" + LiteNeffName(key);
  shop.Write(neff, ToyNeff().substr(0, 1300));
  EXPECT_THAT(
      shop.Faults(),
      ElementsAre("aa: " + LiteNeffName(key) +
                      ": 1300 bytes found, .compilation_complete says 1367: the engine counts it "
                      "as a hit (read from its source, not run)",
                  AllOf(HasSubstr("offset 16: data size 343 is past the end: 276 bytes are left"),
                        HasSubstr("counts it as a hit"))));
  EXPECT_EQ(ListLiteTree(shop.root(), {})->entries[0].state, EntryState::kDone);
  std::string flipped = ToyNeff();
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  shop.Write(neff, flipped);
  EXPECT_THAT(shop.Faults(), ElementsAre(HasSubstr("does not have the hash of the header, md5:")));
}

TEST(LiteVerifies, NameEachFault) {
  struct Case {
    const char* file;
    std::string contents;
    const char* fault;
  };
  const std::string key = LiteWorkshop::Key('a');
  const std::string metadata = LiteWorkshop::Metadata(key);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = metadata;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  const char* kMeta = ".artifact_metadata_v0.json";
  const char* kMark = ".compilation_complete";
  const Case cases[] = {
      {kMark, "", "aa: .compilation_complete: offset 0: there is no line \"completed:\""},
      {kMark, "completed:1\n", "offset 12: there is no line \"neff_size:\""},
      {kMark, "completed:1\nneff_size:many\n",
       "offset 12: \"neff_size:many\" found, a number of bytes expected"},
      {kMark, "completed:now\n", "offset 0: \"completed:now\" found, unix seconds expected"},
      {kMark, LiteWorkshop::Marker(1367) + "completed_by_rank:x\n",
       "\"completed_by_rank:x\" found, a rank expected"},
      {kMeta, "{", "aa: .artifact_metadata_v0.json: offset 1: "},
      {kMeta, "[]", "an array found, an object expected"},
      {kMeta, with("\"version\": 0", "\"version\": 1"), "version: 1 found, 0 expected"},
      {kMeta, with(key, LiteWorkshop::Key('b')), "cache_key: \"bbbb"},
      {kMeta, with("\"output_count\": 2", "\"output_count\": -2"),
       "output_count: -2 found, an integer or null expected"},
      {kMeta, with("[0, 3]", "[0, \"3\"]"), "unused_input_indices: "},
      {kMeta, with("false", "0"), "has_rng_seed_parameter: 0 found, a boolean expected"},
      {kMeta, with("{\"1\": 2}", "{\"x\": 2}"), "io_map: "},
      {kMeta, with("\"output_count\": 2,", ""), "output_count: missing"},
      {"command.txt", "neuronx-cc compile x --output /y/graph_0.neff --target trn2\n",
       "--output names graph_0.neff, expected graph_aaaa"},
      {"command.txt", "neuronx-cc compile x --target=trn2 --lnc 2\n",
       "--lnc is 2, the header of the NEFF says 1"},
      {"graph.hlo", "graph", "aa: graph.hlo: offset 0: "},
  };
  for (const Case& each : cases) {
    const LiteWorkshop shop;
    shop.Whole('a');
    EXPECT_THAT(shop.Faults(), IsEmpty());
    shop.Write(key + "/" + each.file, each.contents);
    EXPECT_THAT(shop.Faults(), ElementsAre(HasSubstr(each.fault))) << each.file;
  }
}

// Reported, but not as findings: the engine does not mind.
TEST(LiteVerifies, RemarkWhatTheEngineDoesNotMind) {
  struct Case {
    const char* file;
    std::string contents;
    const char* remark;
  };
  const Case cases[] = {
      {"command.txt", "neuronx-cc compile x\n", "there is no --target"},
      {"command.txt", "neuronx-cc 'compile", "is not closed"},
      {"graph_0.neff", "x", "aa: graph_0.neff: the engine never looks for it, but for graph_aaaa"},
      {".artifact_metadata_v1.json", "{}", "the engine reads version 0 only"},
      {"graph.hlo", GraphOf({}) + testing_util::PutField(40, KernelConfig("/a/b")),
       "a kernel's configuration is outside a backend_config"},
  };
  for (const Case& each : cases) {
    const LiteWorkshop shop;
    const std::string key = shop.Whole('a');
    EXPECT_THAT(shop.Remarks(), IsEmpty());
    shop.Write(key + "/" + each.file, each.contents);
    EXPECT_THAT(shop.Remarks(), ElementsAre(HasSubstr(each.remark))) << each.file;
    EXPECT_THAT(shop.Faults(), IsEmpty()) << each.file;
  }
}

TEST(LiteVerifies, NullsAreAllowedWhereTheEngineWritesThem) {
  const LiteWorkshop shop;
  const std::string key = shop.Whole('a');
  shop.Write(key + "/.artifact_metadata_v0.json",
             "{\"version\": 0, \"created_timestamp\": \"\", \"cache_key\": \"" + key +
                 "\", \"output_count\": null, \"unused_input_indices\": null, "
                 "\"has_rng_seed_parameter\": true, \"io_map\": null}");
  shop.Write(key + "/.compilation_complete", LiteWorkshop::Marker(1367) + "completed_by_rank:3\n");
  EXPECT_THAT(shop.Faults(), IsEmpty());
}

// A trn1 has one logical core for each physical one.
TEST(LiteVerifies, TheTargetAgainstTheHeader) {
  const LiteWorkshop shop;
  const std::string key = shop.Whole('a');
  std::string neff = ToyNeff();
  testing_util::Put<uint32_t>(neff, 552, 2);
  shop.Write(key + "/" + LiteNeffName(key), neff);
  shop.Write(key + "/command.txt", "neuronx-cc compile x --target trn1\n");
  EXPECT_THAT(shop.Faults(),
              ElementsAre(HasSubstr("--target trn1 has at most 1 logical core of each, the header "
                                    "of the NEFF says 2")));
}

TEST(LiteVerifies, FindWhatIsMissing) {
  for (const char* file : {"graph.hlo", ".compilation_complete", ".artifact_metadata_v0.json"}) {
    const LiteWorkshop shop;
    const std::string key = shop.Whole('a');
    fs::remove(shop.In(key + "/" + file));
    EXPECT_THAT(shop.Faults(),
                ElementsAre(HasSubstr(std::string(file) + ": missing: the engine compiles")));
  }
  const LiteWorkshop shop;
  const std::string key = shop.Whole('a');
  fs::remove(shop.In(key + "/" + LiteNeffName(key)));
  EXPECT_THAT(shop.Faults(), ElementsAre(HasSubstr(LiteNeffName(key) + ": missing")));
  fs::create_symlink(shop.scratch().Write("elsewhere", ToyNeff()),
                     shop.In(key + "/" + LiteNeffName(key)));
  EXPECT_THAT(shop.Faults(), ElementsAre(HasSubstr("a link or a folder, expected a file")));
}

// After a success the engine releases the lock, and leaves the owner's file.
TEST(LiteVerifies, DoNotMindTheOwnerOfAFinishedEntry) {
  const LiteWorkshop shop;
  const std::string key = shop.Whole('a');
  shop.Write(OwnerFileName(key), OwnerText(int64_t{1} << 40, "x", "[]"));
  shop.Write(OwnerLockName(key), "");
  EXPECT_THAT(shop.Faults(), IsEmpty());
}

TEST(LiteVerifies, LeaveAloneWhatIsBeingMade) {
  const LiteWorkshop shop;
  const std::string key = shop.Whole('a');
  fs::remove(shop.In(key + "/.compilation_complete"));
  shop.Write(OwnerLockName(key), "");
  const Held held(shop.In(OwnerLockName(key)), LOCK_EX);
  EXPECT_THAT(shop.Faults(), IsEmpty());
}

TEST(LiteVerifies, FindBinariesThatAreGone) {
  const LiteWorkshop shop;
  const std::string binary = shop.Path("no.klir");
  const std::string graph = GraphOf({"x", KernelConfig(binary)});
  shop.Whole('a', graph);
  shop.Write("nki/" + LiteWorkshop::Key('b') + ".json", KernelFile(KernelConfig(binary)));
  shop.Write("nki/" + LiteWorkshop::Key('c') + ".json", KernelFile(KernelConfig("k.klir")));
  const std::string names = "names the kernel binary " + binary + ", which does not exist: ";
  EXPECT_THAT(
      shop.Faults(),
      ElementsAre(HasSubstr(fmt::format("graph.hlo: offset {}: {}", graph.find("eyJ"), names)),
                  AllOf(HasSubstr(": nki/bbbb"), HasSubstr(names)),
                  AllOf(HasSubstr(": nki/cccc"), HasSubstr("expected an absolute path"))));
}

TEST(LiteVerifies, KernelFilesAreNotTrusted) {
  const LiteWorkshop shop;
  const std::string config = KernelConfig(shop.scratch().Write("k.klir", "klir"));
  struct Case {
    std::string contents;
    const char* fault;
  };
  const Case cases[] = {
      {"{", "offset 1: "},
      {"{\"schema_version\":2}", "schema_version: schema_version 2 found, 1 expected"},
      {"{\"schema_version\":1}", "dumped_config: "},
      {KernelFile("eyJ4"), "dumped_config: it is not base64 of a JSON object with klir_binary"},
      {KernelFile(config, "\"kernel_binary\":\"../../k\","), "kernel_binary: \"../../k\" found"},
      {KernelFile(config, "\"kernel_binary\":\"/k\","), "kernel_binary: \"/k\" found"},
      {KernelFile(config, "\"kernel_binary\":\"binaries/k\","),
       "names the copy binaries/k, which does not exist"},
  };
  for (const Case& each : cases) {
    shop.Write("nki/" + LiteWorkshop::Key('b') + ".json", each.contents);
    EXPECT_THAT(shop.Faults(), ElementsAre(HasSubstr(each.fault))) << each.contents;
  }
}

TEST(LiteVerifies, FindWhatLiesBesideEntries) {
  const LiteWorkshop shop;
  const std::string key = shop.Whole('a');
  shop.Write(OwnerFileName(LiteWorkshop::Key('c')), OwnerText(int64_t{1} << 40, "x", "[]"));
  shop.Write("AAAA/graph.hlo", "x");
  shop.Write("readme", "mine");
  const std::string b = LiteWorkshop::Key('b');
  for (const char* name : {".tmp.1099511627776", ".trash.1099511627776", ".capture.1099511627776"})
    shop.Write(b + name + "/graph.hlo", "x");
  shop.Write("nki/" + b + ".json.tmp.h.1", "x");
  shop.Write("nki/binaries/k.tmp.h~0123abcd.1", "x");
  shop.Write(key + "/graph.hlo.tmp.h~0123abcd.1", "x");
  const int64_t tomorrow = (::time(nullptr) + 90'000) * kSecondsToNs;
  EXPECT_THAT(shop.Faults("tree", tomorrow),
              ElementsAre(HasSubstr("compilation_metadata: its process is gone"),
                          HasSubstr("b.capture.1099511627776: a leftover"),
                          HasSubstr("b.tmp.1099511627776: a leftover"),
                          HasSubstr("b.trash.1099511627776: a leftover"),
                          HasSubstr("nki/" + b + ".json.tmp.h.1: a leftover"),
                          HasSubstr("nki/binaries/k.tmp.h~0123abcd.1: a leftover"),
                          HasSubstr("/graph.hlo.tmp.h~0123abcd.1: a leftover"),
                          HasSubstr("AAAA: the name is not 32 hexadecimal digits")));
  EXPECT_THAT(shop.Faults(), ElementsAre(HasSubstr("its process is gone"), HasSubstr("AAAA")))
      << "leftovers have to be quiet for a while";
}

TEST(NeffTrees, ListTheirFilesAndVerifyThem) {
  const LiteWorkshop shop;
  const std::string key = "abcd" + std::string(28, '0');
  shop.Write("ab/cd/" + key + ".neff", ToyNeff());
  EXPECT_THAT(shop.Faults(), IsEmpty());
  shop.Write("ab/cd/abcd" + std::string(28, '1') + ".neff", "");
  shop.Write("ab/cd/abcd" + std::string(28, '2') + ".neff", ToyNeff().substr(0, 1100));
  shop.Write("ab/cd/ff" + std::string(30, '3') + ".neff", ToyNeff());
  shop.Write("ab/cd/x.neff", ToyNeff());
  shop.Write("ab/cd/.tmp.Xy12Zz", "half");
  const std::string sha(64, 'e');
  shop.Write(sha + "/" + sha + ".neff", ToyNeff());
  fs::create_symlink("/etc/passwd", shop.In("ab/cd/abcd" + std::string(28, '4') + ".neff"));
  const auto listing = ListNeffTree(shop.root());
  ASSERT_TRUE(listing.ok()) << listing.error().ToString();
  EXPECT_EQ(listing->entries.size(), 6u);
  EXPECT_EQ(listing->entries[0].state, EntryState::kDone);
  EXPECT_EQ(listing->entries[1].state, EntryState::kEmpty);
  EXPECT_EQ(listing->bytes, 4 * 1367u + 1100u);
  EXPECT_EQ(listing->strangers.size(), 2u);
  const int64_t tomorrow = (::time(nullptr) + 90'000) * kSecondsToNs;
  EXPECT_THAT(shop.Faults("tree", tomorrow),
              ElementsAre(HasSubstr("0 bytes: a miss, and compiled again"),
                          HasSubstr("offset 16: data size 343 is past the end"),
                          HasSubstr("it is looked for at ff/33/ff33"),
                          HasSubstr("the name is not 32 hexadecimal digits"),
                          HasSubstr("ab/cd/.tmp.Xy12Zz: a leftover")));
}

}  // namespace
}  // namespace nxdkit::neff
