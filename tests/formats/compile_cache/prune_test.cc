#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "formats/compile_cache/leftovers.h"
#include "tests/formats/compile_cache/cache_workshop.h"

namespace nxdkit::neff {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_util::CacheWorkshop;
using testing_util::Held;
using testing_util::ReasonsOf;

// Entries of 1002 bytes each ("[]" and the payload): a was used 90 days ago, b 60, c 40, d 10.
class Evictions : public ::testing::Test {
 protected:
  Evictions() {
    workshop_.Done('b', 1000, 60);
    workshop_.Done('a', 1000, 90);
    workshop_.Done('d', 1000, 10);
    workshop_.Done('c', 1000, 40);
  }
  PruneReport Prune(uint64_t max_bytes, int days = 30, bool dry_run = false) const {
    PruneOptions options;
    options.max_bytes = max_bytes;
    options.keep_seconds = int64_t{days} * 24 * 3600;
    options.dry_run = dry_run;
    return workshop_.Prune(options);
  }
  const CacheWorkshop workshop_;
};

TEST_F(Evictions, NothingWhileThereIsRoom) {
  const PruneReport report = Prune(4008);
  EXPECT_THAT(report.removed, IsEmpty());
  EXPECT_EQ(report.bytes_before, 4008u);
  EXPECT_EQ(workshop_.Left(), "abcd");
}

TEST_F(Evictions, TheLeastRecentlyUsedFirst) {
  const PruneReport report = Prune(4007);
  EXPECT_THAT(ReasonsOf(report.removed), ElementsAre("a least recently used"));
  EXPECT_EQ(report.bytes_after, 3006u);
  EXPECT_EQ(workshop_.Left(), "bcd");
  Prune(2000);
  EXPECT_EQ(workshop_.Left(), "d");
}

TEST_F(Evictions, NothingThatWasUsedLately) {
  const PruneReport report = Prune(0);
  EXPECT_EQ(workshop_.Left(), "d");
  EXPECT_EQ(report.over_limit_bytes, 1002u);
  EXPECT_THAT(ReasonsOf(Prune(0, 5).removed), ElementsAre("d least recently used"));
}

TEST_F(Evictions, TheTimeToLiveIsExact) {
  PruneOptions options;
  options.max_bytes = 3006;
  options.keep_seconds = int64_t{90} * 24 * 3600;
  options.now_ns = CacheWorkshop::kNow - 1;
  EXPECT_THAT(workshop_.Prune(options).removed, IsEmpty());
  options.now_ns = CacheWorkshop::kNow;
  EXPECT_EQ(workshop_.Prune(options).removed.size(), 1u);
}

TEST_F(Evictions, UseMakesAnEntryYoung) {
  workshop_.Age(CacheWorkshop::Module('a'), 1);
  Prune(3006);
  EXPECT_EQ(workshop_.Left(), "acd");
}

TEST_F(Evictions, DryRunRemovesNothing) {
  const PruneReport report = Prune(0, 30, true);
  EXPECT_EQ(report.removed.size(), 3u);
  EXPECT_EQ(workshop_.Left(), "abcd");
}

TEST_F(Evictions, DefaultsAreThoseOfTheGuide) {
  const PruneOptions options;
  EXPECT_EQ(options.max_bytes, 100'000'000'000u);
  EXPECT_EQ(options.keep_seconds, 2'592'000);
}

TEST(Prunes, FailuresAndWhatDiedByDefault) {
  const CacheWorkshop workshop;
  workshop.Done('a', 10, 1);
  workshop.Write(CacheWorkshop::Module('b'), "model.log", "no");
  workshop.Write(CacheWorkshop::Module('c'), "model.hlo_module.pb.lock", "");
  workshop.Write(CacheWorkshop::Module('d'), "model.hlo_module.pb", "half");
  EXPECT_THAT(ReasonsOf(workshop.Prune().removed), ElementsAre("b failed", "c stale lock"));
  EXPECT_EQ(workshop.Left(), "ad");
  PruneOptions options;
  options.empty = true;
  EXPECT_THAT(ReasonsOf(workshop.Prune(options).removed), ElementsAre("d empty"));
}

TEST(Prunes, DamagedEntriesWhenAsked) {
  const CacheWorkshop workshop;
  workshop.Done('a', 10, 1);  // no NEFF at all
  EXPECT_THAT(workshop.Prune().removed, IsEmpty());
  PruneOptions options;
  options.damaged = true;
  EXPECT_THAT(ReasonsOf(workshop.Prune(options).removed), ElementsAre("a damaged"));
}

TEST(Prunes, OtherCompilersWhenAsked) {
  const CacheWorkshop workshop;
  workshop.Done('a', 10, 1);
  workshop.Write(CacheWorkshop::Module('b'), "model.neff", "x", "neuronxcc-2");
  workshop.Write(CacheWorkshop::Module('b'), "model.done", "", "neuronxcc-2");
  PruneOptions options;
  options.only_compiler = "neuronxcc-2";
  EXPECT_THAT(ReasonsOf(workshop.Prune(options).removed), ElementsAre("a other compiler"));
  EXPECT_FALSE(fs::exists(workshop.root() + "/neuronxcc-1")) << "its folder is empty now";
}

TEST(Prunes, OnlyLocksThatNobodyHolds) {
  const CacheWorkshop workshop;
  const std::string module = CacheWorkshop::Module('a');
  workshop.Write(module, "model.hlo_module.pb.lock", "");
  {
    const Held held(workshop.Entry(module) + "/model.hlo_module.pb.lock", LOCK_EX);
    const PruneReport report = workshop.Prune();
    EXPECT_THAT(report.removed, IsEmpty());
    EXPECT_THAT(ReasonsOf(report.in_use), ElementsAre("a stale lock"));
  }
  EXPECT_THAT(ReasonsOf(workshop.Prune().removed), ElementsAre("a stale lock"));
}

TEST(Prunes, NothingThatIsInUse) {
  const CacheWorkshop workshop;
  const std::string module = workshop.Done('a', 10, 100);
  PruneOptions options;
  options.everything = true;
  {
    const Held held(workshop.Entry(module), LOCK_SH);
    const PruneReport report = workshop.Prune(options);
    EXPECT_THAT(ReasonsOf(report.in_use), ElementsAre("a clear"));
    EXPECT_EQ(report.bytes_after, 12u);
  }
  EXPECT_THAT(ReasonsOf(workshop.Prune(options).removed), ElementsAre("a clear"));
  EXPECT_EQ(workshop.Left(), "");
}

TEST(Prunes, NothingThatIsNoEntry) {
  const CacheWorkshop workshop;
  workshop.Done('a', 10, 100);
  workshop.Write("0_REGISTRY/0.4", "x.json", "{}");
  workshop.Write("..", "notes.txt", "mine");
  const testing_util::Scratch other;
  other.Write("precious", "x");
  fs::create_directory_symlink(other.folder(), workshop.Entry("MODULE_link+00000000"));
  fs::create_directory_symlink(other.folder(), workshop.Entry(CacheWorkshop::Module('a')) + "/in");
  PruneOptions options;
  options.everything = true;
  EXPECT_EQ(workshop.Prune(options).removed.size(), 1u);
  EXPECT_TRUE(fs::exists(other.Path("precious")));
  EXPECT_TRUE(fs::exists(workshop.Entry("0_REGISTRY/0.4/x.json")));
  EXPECT_TRUE(fs::exists(workshop.root() + "/notes.txt"));
  EXPECT_TRUE(fs::is_symlink(workshop.Entry("MODULE_link+00000000")));
}

TEST(Prunes, WhatAKilledPruneLeftGoes) {
  const CacheWorkshop workshop;
  workshop.Write("../.nxdkit-removed-abc123/MODULE_1+00000000", "model.neff", "x");
  workshop.Prune();
  EXPECT_FALSE(fs::exists(workshop.root() + "/.nxdkit-removed-abc123"));
}

TEST(Prunes, AreStopped) {
  const CacheWorkshop workshop;
  workshop.Done('a', 10, 100);
  PruneOptions options;
  options.everything = true;
  options.poll = [] { return Status(Error(Errc::kInterrupted, "stop")); };
  const auto report = Prune(workshop.root(), options);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code(), Errc::kInterrupted);
  EXPECT_EQ(workshop.Left(), "a");
}

class Slots : public ::testing::Test {
 protected:
  // Makes an entry of ours with this blob.
  void MakeBlob(const std::string& blob, const std::string& compiler = "neuronxcc-1") const {
    auto slot = CacheSlot::Make(workshop_.root(), compiler, key_.module, {});
    ASSERT_TRUE(slot.ok()) << slot.error().ToString();
    workshop_.Write(key_.module, "model.pt", blob, compiler);
    ASSERT_TRUE(slot->Finish(key_, "a model", {}).ok());
  }
  Result<std::optional<CacheSlot>> Use(const std::string& compiler = "") const {
    return CacheSlot::Use(workshop_.root(), compiler, key_.module, {});
  }
  const CacheWorkshop workshop_;
  const CacheKey key_ = MakeKey("graph", {"-O1"});
};

TEST_F(Slots, WhoComesSecondFindsItDone) {
  EXPECT_FALSE(Use()->has_value()) << "nothing there yet";
  EXPECT_FALSE(fs::exists(workshop_.Entry(key_.module))) << "a question makes nothing";
  MakeBlob("blob");
  const auto used = Use();
  ASSERT_TRUE(used.ok() && used->has_value());
  EXPECT_EQ((*used)->path(), workshop_.Entry(key_.module));
  const auto faults = VerifyEntry((*used)->entry());
  ASSERT_TRUE(faults.ok());
  EXPECT_THAT(*faults, IsEmpty());
  EXPECT_EQ(testing_util::ReadBytes((*used)->path() + "/compile_flags.json"), "[\"-O1\"]");
  EXPECT_EQ(testing_util::ReadBytes((*used)->path() + "/model.graph.json"), "graph");
}

TEST_F(Slots, AreNotRemovedWhileTheyAreUsed) {
  MakeBlob("blob");
  const auto used = Use();
  PruneOptions options;
  options.everything = true;
  EXPECT_EQ(workshop_.Prune(options).in_use.size(), 1u);
}

TEST_F(Slots, UseIsRemembered) {
  MakeBlob("blob");
  workshop_.Age(key_.module, 500);
  const int64_t before = workshop_.Read(key_.module).used_ns;
  ASSERT_TRUE(Use().ok());
  EXPECT_GT(workshop_.Read(key_.module).used_ns, before);
}

TEST_F(Slots, ACutFileIsFoundBeforeUse) {
  MakeBlob("blob");
  workshop_.Write(key_.module, "model.pt", "blo");
  const auto used = Use();
  ASSERT_FALSE(used.ok());
  EXPECT_EQ(used.error().code(), Errc::kCorrupt);
  EXPECT_EQ(used.error().message(), "3 bytes found, the manifest says 4");
  EXPECT_EQ(used.error().file(), workshop_.Entry(key_.module) + "/model.pt");
  const auto faults = VerifyEntry(workshop_.Read(key_.module));
  ASSERT_EQ(faults->size(), 1u);
  EXPECT_THAT((*faults)[0].message, HasSubstr("found, the manifest says sha256:"));
}

// The mark of an entry in the making is removed when it is finished or has failed, and not before.
TEST_F(Slots, AreLockedWhileTheyAreMade) {
  auto slot = CacheSlot::Make(workshop_.root(), "neuronxcc-1", key_.module, {});
  ASSERT_TRUE(slot.ok());
  workshop_.Write(key_.module, "left over", "x");
  ASSERT_TRUE(slot->Begin().ok());
  EXPECT_EQ(workshop_.Read(key_.module).state, EntryState::kLocked);
  EXPECT_EQ(workshop_.Read(key_.module).files, 1u);
  EXPECT_THAT(ReasonsOf(workshop_.Prune().in_use), ElementsAre(HasSubstr("stale lock")));
  workshop_.Write(key_.module, "model.pt", "blob");
  ASSERT_TRUE(slot->Finish(key_, "a model", {}).ok());
  EXPECT_EQ(workshop_.Read(key_.module).state, EntryState::kDone);
  EXPECT_FALSE(fs::exists(workshop_.Entry(key_.module) + "/nxdkit-entry.lock"));
  EXPECT_THAT(*VerifyEntry(workshop_.Read(key_.module)), IsEmpty());
  ASSERT_TRUE(slot->Begin().ok());
  ASSERT_TRUE(slot->Fail(key_, "no").ok());
  EXPECT_EQ(workshop_.Read(key_.module).state, EntryState::kFailed);
  EXPECT_EQ(workshop_.Read(key_.module).files, 3u) << "flags, graph and log";
}

TEST_F(Slots, ADeadMakersEntryGoes) {
  {
    auto slot = CacheSlot::Make(workshop_.root(), "neuronxcc-1", key_.module, {});
    ASSERT_TRUE(slot.ok() && slot->Begin().ok());
    workshop_.Write(key_.module, "model.pt", "half");
  }
  EXPECT_EQ(workshop_.Read(key_.module).state, EntryState::kLocked);
  EXPECT_THAT(ReasonsOf(workshop_.Prune().removed), ElementsAre(HasSubstr("stale lock")));
}

TEST_F(Slots, BlobsAreAskedAbout) {
  MakeBlob("blob");
  workshop_.Write(key_.module, "model_text.pt", "part");
  const BlobCheck check = [](const std::string& path, const Poll&) {
    return Result<std::vector<std::string>>(
        std::vector<std::string>{"no good: " + testing_util::ReadBytes(path)});
  };
  const auto faults = VerifyEntry(workshop_.Read(key_.module), {}, check);
  ASSERT_TRUE(faults.ok());
  ASSERT_EQ(faults->size(), 2u);
  EXPECT_EQ((*faults)[0].file, "model.pt");
  EXPECT_EQ((*faults)[0].message, "no good: blob");
  EXPECT_EQ((*faults)[1].file, "model_text.pt");
}

TEST_F(Slots, TheLatestCompilerIsTakenUnlessOneIsNamed) {
  MakeBlob("old", "neuronxcc-2.9.0");
  MakeBlob("new", "neuronxcc-2.21.0");
  MakeBlob("unknown", kUnknownCompiler);
  EXPECT_THAT((**Use()).path(), HasSubstr("neuronxcc-2.21.0/"));
  EXPECT_THAT((**Use("neuronxcc-2.9.0")).path(), HasSubstr("neuronxcc-2.9.0/"));
  EXPECT_FALSE(Use("neuronxcc-3")->has_value());
}

TEST_F(Slots, EntriesOfTheVendorAreNotOurs) {
  workshop_.Write(key_.module, "model.neff", "x");
  workshop_.Write(key_.module, "model.done", "");
  EXPECT_FALSE(Use()->has_value());
}

TEST_F(Slots, AFailureIsKept) {
  auto slot = CacheSlot::Make(workshop_.root(), "neuronxcc-1", key_.module, {});
  ASSERT_TRUE(slot.ok());
  workshop_.Write(key_.module, "half", "made");
  ASSERT_TRUE(slot->Fail(key_, "the log\n").ok());
  EXPECT_EQ(slot->entry().state, EntryState::kFailed);
  EXPECT_FALSE(fs::exists(slot->path() + "/half"));
  EXPECT_EQ(testing_util::ReadBytes(slot->path() + "/model.log"), "the log\n");
}

TEST_F(Slots, WaitingIsStopped) {
  const auto slot = CacheSlot::Make(workshop_.root(), "neuronxcc-1", key_.module, {});
  const auto second = CacheSlot::Make(workshop_.root(), "neuronxcc-1", key_.module,
                                      [] { return Status(Error(Errc::kInterrupted, "stop")); });
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), Errc::kInterrupted);
}

// A merge that was killed; a running one is left alone.
TEST(Prunes, WhatAMergeBuiltAsideWhenItsProcessIsGone) {
  const CacheWorkshop workshop;
  const std::string gone = workshop.root() + "/" + kMergePrefix + ".tmp.another.1";
  const std::string runs = workshop.root() + "/" + AsideName(kMergePrefix);
  for (const std::string& folder : {gone, runs}) std::filesystem::create_directory(folder);
  workshop.Prune();
  EXPECT_FALSE(std::filesystem::exists(gone));
  EXPECT_TRUE(std::filesystem::exists(runs));
}

}  // namespace
}  // namespace nxdkit::neff
