// What a damaged record of checkpoints must not do.
#include "trainer/loop/checkpoint.h"

#include <filesystem>

#include "tests/lib/expect_error.h"
#include "tests/lib/temp_folder.h"

namespace nxdkit::trainer {
namespace {

using testing_util::ExpectError;
using testing_util::TempFolder;
using testing_util::WriteText;

TEST(FindLastCheckpoint, TakesTheOneThatTheTrackerNames) {
  const TempFolder folder;
  EXPECT_FALSE(FindLastCheckpoint(folder.path())->has_value()) << "a new run";
  std::filesystem::create_directories(folder / "global_step_7");
  WriteText(folder / "checkpoint_tracker.json", "{\"last_global_step\": 7}");
  const auto found = FindLastCheckpoint(folder.path());
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ((*found)->step, 7);
  EXPECT_EQ((*found)->folder, folder / "global_step_7");
}

TEST(FindLastCheckpoint, RefusesWhatIsNoStep) {
  const TempFolder folder;
  for (const char* step : {"1e300", "7.5", "-7", "\"7\"", "18446744073709551615", "null"}) {
    WriteText(folder / "checkpoint_tracker.json",
              std::string("{\"last_global_step\": ") + step + "}");
    const auto error = ExpectError(FindLastCheckpoint(folder.path()), Errc::kCorrupt, "");
    ASSERT_TRUE(error) << step;
    EXPECT_EQ(error->file(), folder / "checkpoint_tracker.json");
    EXPECT_EQ(error->member(), "last_global_step") << step << ": " << error->ToString();
  }
}

}  // namespace
}  // namespace nxdkit::trainer
