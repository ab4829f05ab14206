#include "formats/compile_cache/relocate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/compile_cache/lite_owner.h"
#include "tests/formats/compile_cache/cache_workshop.h"
#include "tests/formats/compile_cache/lite_workshop.h"

namespace nxdkit::neff {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing_util::GraphOf;
using testing_util::Held;
using testing_util::KernelConfig;
using testing_util::LiteWorkshop;
using testing_util::ReadBytes;

// Two entries, and another process that acts when the second is looked at: the first is complete
// but unpublished then.
RelocateReport RelocateBeside(const LiteWorkshop& shop, const std::function<void()>& other) {
  for (const char digit : {'a', 'b'}) shop.Whole(digit, GraphOf({KernelConfig("/old/k")}));
  int asked = 0;
  const auto poll = [&]() -> Status {
    if (++asked == 2) other();
    return OkStatus();
  };
  const auto report =
      RelocateKernels({shop.root(), TreeKind::kLite, false}, {"/old", "/new", false, poll});
  EXPECT_TRUE(report.ok()) << report.error().ToString();
  return report.ok() ? *report : RelocateReport();
}

std::vector<std::string> Left(const RelocateReport& report) {
  std::vector<std::string> lines;
  for (const Relocated& file : report.left)
    lines.push_back(file.file.substr(0, 2) + " " + file.reason);
  return lines;
}

TEST(RelocationsBesideOthers, KeepWhatAnotherWrote) {
  const LiteWorkshop shop;
  const std::string file = LiteWorkshop::Key('a') + "/graph.hlo";
  const std::string theirs = GraphOf({KernelConfig("/theirs/k")});
  const RelocateReport report = RelocateBeside(shop, [&] {
    shop.Write("new", theirs);
    fs::rename(shop.In("new"), shop.In(file));
  });
  EXPECT_THAT(Left(report), ElementsAre("aa changed meanwhile"));
  EXPECT_EQ(report.changed.size(), 1u);
  EXPECT_EQ(ReadBytes(shop.In(file)), theirs);
}

TEST(RelocationsBesideOthers, GoOnWithoutWhatIsGone) {
  const LiteWorkshop shop;
  const std::string key = LiteWorkshop::Key('a');
  const RelocateReport report = RelocateBeside(shop, [&] { fs::remove_all(shop.In(key)); });
  EXPECT_THAT(Left(report), ElementsAre("aa gone"));
  EXPECT_EQ(report.changed.size(), 1u);
  EXPECT_FALSE(fs::exists(shop.In(key)));
}

TEST(RelocationsBesideOthers, LeaveWhatIsHeldWhenItGetsItsName) {
  const LiteWorkshop shop;
  const std::string key = LiteWorkshop::Key('a');
  std::optional<Held> held;
  const RelocateReport report = RelocateBeside(shop, [&] {
    shop.Write(OwnerLockName(key), "");
    held.emplace(shop.In(OwnerLockName(key)), LOCK_EX);
  });
  EXPECT_THAT(Left(report), ElementsAre("aa in use"));
  EXPECT_EQ(ReadBytes(shop.In(key + "/graph.hlo")), GraphOf({KernelConfig("/old/k")}));
}

}  // namespace
}  // namespace nxdkit::neff
