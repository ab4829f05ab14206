// neuron-cache compile, collect and warm on a full disk, and with failing system calls: no partial
// entry, finished ones stay, and the next run resumes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/tools/precompile_workshop.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kDiskKeys = "abcd";
const std::string kCompileWords = "compile -j 1 --memory-per-job 1M --target trn1";

// A command on a disk with so much space, then once more with more; the contents of the cache after
// each are copied to first/ and second/.
class DiskShop : public PrecompileWorkshop {
 public:
  DiskShop() {
    for (const char key : kDiskKeys) AddGraph(key, 0, "graphs");
  }

  // `disk`: the folder on the small disk. `with_graphs`: the cache begins with all of them.
  ProcessResult RunTwice(const std::string& disk, int room_kib, bool with_graphs,
                         const std::string& options) {
    for (const char* name : {"first", "second", "begun", "words", "cache", "work"})
      fs::remove_all(*this / name);
    for (const std::string& folder : {Cache(), *this / "work"}) fs::create_directories(folder);
    std::string script = "disk=" + disk + " cache=" + Cache() + " shop=" + path() +
                         "\nmount -t tmpfs -o size=1m tmpfs $disk || exit 77\n";
    if (with_graphs) script += "cp -r $shop/graphs/. $cache\n";
    script += "cat /dev/zero >$disk/filler 2>/dev/null\ntruncate -s -" + std::to_string(room_kib) +
              "K $disk/filler\n"
              "\"$@\"; echo exit $?\n"
              "cp -r $cache $shop/first; rm -f $shop/first/filler $disk/filler\n"
              "\"$@\"; echo exit $?\n"
              "cp -r $cache $shop/second\n";
    return CcInNamespace(script, options);
  }
  // Expects that the first run found the disk full, with the exit code for that.
  bool WasFull(const ProcessResult& result) const {
    return result.out.find("exit 5\n") != std::string::npos;
  }

  // Expects only whole files under the engine's names. Returns the keys of the finished entries.
  std::string ExpectSound(const std::string& root) const {
    std::string done;
    for (const char key : kDiskKeys) {
      const std::string entry = *this / root + "/" + Name(key);
      if (fs::exists(entry + "/model.done")) done += key;
      if (fs::exists(entry + "/model.done") || fs::exists(entry + "/model.neff")) {
        EXPECT_EQ(ReadFile(entry + "/model.neff"), testing_util::ToyNeff()) << entry;
      }
      if (fs::exists(entry + "/model.hlo_module.pb")) {
        EXPECT_EQ(ReadFile(entry + "/model.hlo_module.pb"), GraphText(key)) << entry;
      }
      EXPECT_FALSE(fs::exists(entry + "/model.log")) << "a full disk is no failure of the graph";
    }
    for (const auto& each : fs::recursive_directory_iterator(*this / root)) {
      EXPECT_NE(each.path().extension(), ".lock") << each.path();
      EXPECT_FALSE(each.path().filename().string().starts_with(".nxdkit")) << each.path();
    }
    return done;
  }
};

TEST(PrecompileDisk, FullOfTheCacheLosesNothing) {
  if (const std::string missing = MountsMissing(); !missing.empty()) GTEST_SKIP() << missing;
  DiskShop shop;
  std::set<size_t> finished;
  // From a disk too small for a lock to one with room for everything.
  for (int room = 0; room <= 72; room += 4) {
    SCOPED_TRACE(std::to_string(room) + " KiB");
    const ProcessResult result = shop.RunTwice(shop.Cache(), room, true, kCompileWords);
    const std::string first = shop.ExpectSound("first");
    finished.insert(first.size());
    if (first != kDiskKeys) {
      EXPECT_TRUE(shop.WasFull(result)) << result.out << result.err;
      EXPECT_THAT(result.err, HasSubstr("No space left on device"));
    }
    EXPECT_EQ(shop.ExpectSound("second"), kDiskKeys);
    EXPECT_THAT(result.out, ::testing::EndsWith("exit 0\n")) << result.err;
    for (const char key : first) EXPECT_EQ(shop.Begun()[key], 1) << key;
  }
  EXPECT_GE(finished.size(), 3u) << "the disk was full at few moments only";
}

TEST(PrecompileDisk, FullOfTheWorkFolderIsNoFailureOfTheGraph) {
  if (const std::string missing = MountsMissing(); !missing.empty()) GTEST_SKIP() << missing;
  DiskShop shop;
  bool by_us = false;
  bool by_the_compiler = false;
  for (int room = 0; room <= 24; room += 4) {
    SCOPED_TRACE(std::to_string(room) + " KiB");
    const ProcessResult result = shop.RunTwice(shop / "work", room, true, kCompileWords);
    by_us |= shop.WasFull(result);
    by_the_compiler |= result.out.find("disk full: ") != std::string::npos;
    const std::string first = shop.ExpectSound("first");
    EXPECT_EQ(first != kDiskKeys,
              result.out.find("exit 0\n") > result.out.find("exit 1\n") || shop.WasFull(result))
        << result.out;
    EXPECT_EQ(shop.ExpectSound("second"), kDiskKeys) << result.out << result.err;
    EXPECT_THAT(result.out, ::testing::EndsWith("exit 0\n")) << result.err;
  }
  EXPECT_TRUE(by_us);
  EXPECT_TRUE(by_the_compiler);
}

TEST(PrecompileDisk, FullWhileGraphsAreCollected) {
  if (const std::string missing = MountsMissing(); !missing.empty()) GTEST_SKIP() << missing;
  DiskShop shop;
  for (int room = 0; room <= 64; room += 8) {
    SCOPED_TRACE(std::to_string(room) + " KiB");
    const ProcessResult result =
        shop.RunTwice(shop.Cache(), room, false, "collect -q -- trace a b c d");
    shop.ExpectSound("first");
    shop.ExpectSound("second");
    EXPECT_THAT(result.out, ::testing::EndsWith("exit 0\n")) << result.err;
    for (const char key : kDiskKeys)
      EXPECT_TRUE(
          fs::exists(shop / "second/" + PrecompileWorkshop::Name(key) + "/model.hlo_module.pb"))
          << key;
  }
}

#ifdef NXDKIT_FAIL_CALL
// Each system call that compile makes on its files fails once.
class FailingShop : public PrecompileWorkshop {
 public:
  FailingShop() {
    Renew();
    EXPECT_EQ(Run({}).exit_code, 0);
    std::ifstream lines(log_);
    for (std::string line; std::getline(lines, line);) ++calls_;
    EXPECT_GT(calls_, 100);
  }
  ~FailingShop() { fs::remove(log_); }

  int calls() const { return calls_; }

  void Try(int call, int failure) const {
    Renew();
    const ProcessResult result =
        Run({"FAIL_CALL=" + std::to_string(call), "FAIL_WITH=" + std::to_string(failure)});
    SCOPED_TRACE(std::to_string(call) + " " + std::strerror(failure) + ": " +
                 (fs::exists(log_) ? ReadFile(log_) : "") + "exit " +
                 std::to_string(result.exit_code) + ": " + result.out + result.err);
    EXPECT_THAT(result.exit_code, AnyOf(0, 1, 3, 5));
    ExpectNoFalseResults();
    std::set<char> done;
    for (const char key : {'a', 'b'}) {
      // The shell of the stand-in can fail, too: for us a missing NEFF is one that the compiler did
      // not make.
      const bool reads_badly = result.out.find("it ended with 0") != std::string::npos;
      EXPECT_FALSE(failure != ENOENT && reads_badly && Has(key, "model.log")) << key;
      if (Has(key, "model.done")) done.insert(key);
    }
    // An entry reported as missing is skipped.
    if (result.exit_code == 0 && failure != ENOENT) {
      EXPECT_EQ(done.size(), 2u);
    }
    const ProcessResult plain = Cc(kCompileWords);
    EXPECT_EQ(plain.exit_code, 0) << plain.out << plain.err;
    for (const char key : {'a', 'b'}) {
      EXPECT_TRUE(Has(key, "model.done")) << key;
      if (done.contains(key)) {
        EXPECT_EQ(Begun()[key], 1) << key;
      }
    }
    EXPECT_THAT(Ending(".lock"), IsEmpty());
  }

 private:
  void Renew() const {
    for (const std::string& name : {log_, Cache(), *this / "begun", *this / "work"})
      fs::remove_all(name);
    for (const char key : {'a', 'b'}) AddGraph(key);
  }
  ProcessResult Run(Words environment) const {
    environment.push_back("LD_PRELOAD=" NXDKIT_FAIL_CALL);
    environment.push_back("FAIL_UNDER=" + path());
    environment.push_back("FAIL_LOG=" + log_);
    return Cc(kCompileWords + " -q", environment);
  }

  const std::string log_ = path() + ".log";
  int calls_ = 0;
};

constexpr int kCallFailures[] = {EIO, EACCES, ESTALE, ENOSPC, ENOENT};

TEST(PrecompileFailedCall, LosesNothing) {
  const FailingShop shop;
  for (int call = 1; call <= shop.calls(); call += 7)
    shop.Try(call, kCallFailures[static_cast<size_t>(call / 7) % std::size(kCallFailures)]);
}

TEST(InjectPrecompile, LosesNothing) {
  const FailingShop shop;
  for (int call = 1; call <= shop.calls(); ++call)
    for (const int failure : kCallFailures) shop.Try(call, failure);
}
#endif

}  // namespace
}  // namespace nxdkit::test
