#include "formats/compile_cache/discard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "formats/compile_cache/lite_owner.h"
#include "tests/formats/compile_cache/cache_workshop.h"
#include "tests/formats/compile_cache/lite_workshop.h"

namespace nxdkit::neff {
namespace {

namespace fs = std::filesystem;
using testing_util::Held;
using testing_util::LiteWorkshop;
using testing_util::ReadBytes;

Result<std::optional<EntryHold>> Hold(const LiteWorkshop& shop, const std::string& key) {
  return HoldEntry({shop.root(), TreeKind::kLite, false}, key, {MomentOf(shop.root()), "", false});
}

// The engine reads the owner's file when it finds the lock taken, and ends when there is none.
TEST(Holds, TellTheEngineWhoHolds) {
  const LiteWorkshop shop;
  const std::string key = shop.Whole('a');
  const std::string file = shop.In(OwnerFileName(key));
  {
    const auto hold = Hold(shop, key);
    ASSERT_TRUE(hold.ok() && *hold);
    ASSERT_TRUE(fs::exists(file));
    const auto owner = ParseOwnerFile(ReadBytes(file));
    ASSERT_TRUE(owner.ok()) << owner.error().ToString();
    EXPECT_EQ(owner->pid, ::getpid());
    // A process with that pid, name and command line is alive, whoever asks without the lock.
    fs::rename(shop.In(OwnerLockName(key)), shop.In("aside"));
    EXPECT_EQ(*AskOwner(shop.root(), key, MomentOf(shop.root())), OwnerState::kAlive);
    fs::rename(shop.In("aside"), shop.In(OwnerLockName(key)));
    EXPECT_FALSE(*Hold(shop, key)) << "nobody else meanwhile";
  }
  EXPECT_FALSE(fs::exists(file));
  EXPECT_FALSE(fs::exists(shop.In(OwnerLockName(key))));
}

TEST(Holds, TakeThePlaceOfADeadOwner) {
  const LiteWorkshop shop;
  const std::string key = LiteWorkshop::Key('a');
  shop.Write(OwnerFileName(key), "pid: 1099511627776\n");
  shop.Write(OwnerLockName(key), "");
  {
    const auto hold = Hold(shop, key);
    ASSERT_TRUE(hold.ok() && *hold);
    EXPECT_EQ(ParseOwnerFile(ReadBytes(shop.In(OwnerFileName(key))))->pid, ::getpid());
  }
  EXPECT_FALSE(fs::exists(shop.In(OwnerFileName(key))));
  EXPECT_TRUE(fs::exists(shop.In(OwnerLockName(key)))) << "it was there before";
}

}  // namespace
}  // namespace nxdkit::neff
