// Trees of ten thousand entries: every operation on them takes seconds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>

#include "formats/compile_cache/merge.h"
#include "formats/compile_cache/relocate.h"
#include "formats/compile_cache/sweep.h"
#include "tests/formats/compile_cache/lite_workshop.h"
#include "tests/formats/neff/neff_bytes.h"

namespace nxdkit::neff {
namespace {

namespace fs = std::filesystem;
using testing_util::GraphOf;
using testing_util::KernelConfig;
using testing_util::LiteWorkshop;
using testing_util::ToyNeff;

constexpr int kEntries = 10'000;
// Processor time of this process: generous, but too short for work on every pair.
constexpr double kMostSeconds = 30;

// Trees in memory, where the system has a folder for that: making and removing ten thousand folders
// measures the disk.
class InMemory {
 public:
  InMemory() {
    const char* before = std::getenv("TMPDIR");
    if (before != nullptr) before_ = before;
    std::error_code failure;
    const fs::space_info space = fs::space(kFolder, failure);
    if (!failure && space.available >> 30 > 0 && ::access(kFolder, W_OK) == 0)
      ::setenv("TMPDIR", kFolder, 1);
  }
  InMemory(const InMemory&) = delete;
  InMemory& operator=(const InMemory&) = delete;
  ~InMemory() {
    if (before_)
      ::setenv("TMPDIR", before_->c_str(), 1);
    else
      ::unsetenv("TMPDIR");
  }

 private:
  static constexpr char kFolder[] = "/dev/shm";
  std::optional<std::string> before_;
};

double ProcessorSeconds() {
  rusage usage{};
  EXPECT_EQ(::getrusage(RUSAGE_SELF, &usage), 0);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Most files of an entry are links to those of one, so that the disk is not measured.
void MakeEntries(const LiteWorkshop& shop, const std::string& binary) {
  const std::string first = shop.Whole('a', GraphOf({KernelConfig(binary)}), "first");
  for (int i = 0; i < kEntries; ++i) {
    const std::string key = Md5Hex(std::to_string(i));
    fs::create_directories(shop.In(key));
    for (const char* name : {"graph.hlo", ".compilation_complete", ".cache_accessed"})
      fs::create_hard_link(shop.In(first + "/" + name, "first"), shop.In(key + "/" + name));
    fs::create_hard_link(shop.In(first + "/" + LiteNeffName(first), "first"),
                         shop.In(key + "/" + LiteNeffName(key)));
    shop.scratch().Write("tree/" + key + "/.artifact_metadata_v0.json",
                         LiteWorkshop::Metadata(key));
  }
}

TEST(TenThousand, EntriesOfVllmNeuron) {
  const InMemory memory;
  const LiteWorkshop shop;
  const std::string binary = shop.scratch().Write("k.klir", "klir");
  MakeEntries(shop, binary);
  const double start = ProcessorSeconds();
  EXPECT_THAT(shop.Faults(), ::testing::IsEmpty());
  const FoundTree tree{shop.root(), TreeKind::kLite, false};
  const auto swept = Sweep(tree, {.max_bytes = 0, .keep_seconds = 0, .dry_run = true}, "");
  ASSERT_TRUE(swept.ok()) << swept.error().ToString();
  EXPECT_EQ(swept->removed.size(), size_t{kEntries});
  const auto merged =
      MergeTree(shop.root(), shop.Path("into"), {.kernels = shop.scratch().folder()});
  ASSERT_TRUE(merged.ok()) << merged.error().ToString();
  EXPECT_EQ(merged->copied.size(), size_t{kEntries});
  EXPECT_THAT(merged->unlinked, ::testing::IsEmpty());
  const std::string moved_to = shop.Path("moved");
  fs::create_directory(moved_to);
  fs::copy(binary, moved_to + "/k.klir");
  const auto moved = RelocateKernels(tree, {shop.scratch().folder(), moved_to, false, {}});
  ASSERT_TRUE(moved.ok()) << moved.error().ToString();
  EXPECT_EQ(moved->changed.size(), size_t{kEntries});
  EXPECT_THAT(moved->missing, ::testing::IsEmpty());
  fs::remove(binary);
  EXPECT_THAT(shop.Faults(), ::testing::IsEmpty());
  EXPECT_THAT(shop.Faults("into"), ::testing::IsEmpty());
  EXPECT_LT(ProcessorSeconds() - start, kMostSeconds);
}

TEST(TenThousand, EntriesOfTorchNeuron) {
  const InMemory memory;
  const LiteWorkshop shop;
  const std::string first = shop.scratch().Write("first.neff", ToyNeff());
  for (int i = 0; i < kEntries; ++i) {
    const std::string key = Md5Hex(std::to_string(i));
    const std::string folder = key.substr(0, 2) + "/0" + key.substr(3, 1);
    fs::create_directories(shop.In(folder));
    const std::string name = key.substr(0, 2) + "0" + key.substr(3);
    fs::create_hard_link(first, shop.In(folder + "/" + name + ".neff"));
  }
  const double start = ProcessorSeconds();
  EXPECT_THAT(shop.Faults(), ::testing::IsEmpty());
  const auto merged = MergeTree(shop.root(), shop.Path("into"), {});
  ASSERT_TRUE(merged.ok()) << merged.error().ToString();
  EXPECT_EQ(merged->copied.size(), size_t{kEntries});
  EXPECT_THAT(shop.Faults("into"), ::testing::IsEmpty());
  EXPECT_EQ(MergeTree(shop.root(), shop.Path("into"), {})->kept, uint64_t{kEntries});
  EXPECT_LT(ProcessorSeconds() - start, kMostSeconds);
}

}  // namespace
}  // namespace nxdkit::neff
