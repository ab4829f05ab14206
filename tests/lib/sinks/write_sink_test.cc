// Files as they are written, and the parts reused from an interrupted run.
#include "lib/sinks/write_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/lib/expect_error.h"
#include "tests/lib/sinks/write_sink_fixture.h"

namespace nxdkit {
namespace {

using testing_util::Exists;
using testing_util::ExpectError;
using testing_util::ReadText;
using testing_util::TempFolder;
using testing_util::WriteJob;
using testing_util::WriteText;

constexpr uint64_t kTasks = 9;  // 32 rows and 32 rows in chunks of 4, and 160 bytes of b: at least

// Runs to the end and checks every byte.
uint64_t FinishRun(const WriteJob& job, const std::string& folder, const std::string& fingerprint,
                   uint64_t expected_resumed) {
  auto sink = job.Begin(folder, fingerprint);
  EXPECT_TRUE(sink.ok()) << sink.error().ToString();
  if (!sink.ok()) return 0;
  EXPECT_EQ((*sink)->resumed_tasks(), expected_resumed);
  uint64_t done = 0;
  const Status run = job.Run(**sink, UINT64_MAX, &done);
  EXPECT_TRUE(run.ok()) << run.error().ToString();
  const Status finish = (*sink)->Finish();
  EXPECT_TRUE(finish.ok()) << finish.error().ToString();
  job.ExpectWhole(folder);
  return done;
}

// Does `tasks` tasks and drops everything, as a kill does.
void InterruptedRun(const WriteJob& job, const std::string& folder, const std::string& fingerprint,
                    uint64_t tasks) {
  auto sink = job.Begin(folder, fingerprint);
  ASSERT_TRUE(sink.ok()) << sink.error().ToString();
  ExpectError(job.Run(**sink, tasks), Errc::kInterrupted, "stopped by the test");
}

TEST(WriteSink, WritesDataAndFrames) {
  for (const bool needs_crc : {true, false}) {
    const TempFolder folder;
    EXPECT_GE(FinishRun(WriteJob(needs_crc), folder.path(), "", 0), kTasks);
  }
}

TEST(WriteSink, KeepsNoJournalWithoutAFingerprint) {
  const TempFolder folder;
  const WriteJob job;
  auto sink = job.Begin(folder.path(), "");
  ASSERT_TRUE(sink.ok());
  EXPECT_FALSE(Exists(folder / ".nxdkit-journal"));
  EXPECT_TRUE(Exists(folder / "sub/two.bin"));
}

// Before the end there is only data: no reader takes the file for whole.
TEST(WriteSink, WritesTheFramesLast) {
  const TempFolder folder;
  const WriteJob job;
  auto sink = job.Begin(folder.path(), "f");
  ASSERT_TRUE(sink.ok());
  ASSERT_TRUE(job.Run(**sink).ok());
  EXPECT_EQ(ReadText(folder / "one.bin").substr(0, 4), std::string(4, '\0'));
  ASSERT_TRUE((*sink)->Finish().ok());
  EXPECT_EQ(ReadText(folder / "one.bin").substr(0, 4), "HEAD");
}

TEST(WriteSink, ResumesWithoutRedoingTasks) {
  const WriteJob job;
  const TempFolder whole;
  const uint64_t all = FinishRun(job, whole.path(), "f", 0);
  for (const uint64_t stop : {uint64_t{0}, uint64_t{1}, all / 2, all - 1}) {
    const TempFolder folder;
    InterruptedRun(job, folder.path(), "f", stop);
    EXPECT_EQ(FinishRun(job, folder.path(), "f", stop), all - stop);
  }
}

TEST(WriteSink, ResumesSeveralTimes) {
  const WriteJob job;
  const TempFolder folder;
  for (int i = 0; i < 4; ++i) InterruptedRun(job, folder.path(), "f", 2);
  FinishRun(job, folder.path(), "f", 8);
}

TEST(WriteSink, StartsAfreshForAnotherPlan) {
  const WriteJob job;
  const TempFolder folder;
  InterruptedRun(job, folder.path(), "f", 3);
  FinishRun(job, folder.path(), "another", 0);
}

// Leftovers of another plan have no place in this output.
TEST(WriteSink, RemovesWhatAnotherPlanLeft) {
  const WriteJob job;
  const TempFolder folder;
  InterruptedRun(job, folder.path(), "f", 3);
  WriteText(folder / "sub/rank_07.bin", "of tp 8");
  WriteText(folder / "done", "1");
  FinishRun(job, folder.path(), "another", 0);
  EXPECT_FALSE(Exists(folder / "sub/rank_07.bin"));
  EXPECT_FALSE(Exists(folder / "done"));
}

TEST(WriteSink, StartsAfreshWhenAFileChangedItsSize) {
  const WriteJob job;
  const TempFolder folder;
  InterruptedRun(job, folder.path(), "f", 3);
  std::filesystem::resize_file(folder / "sub/two.bin", 10);
  FinishRun(job, folder.path(), "f", 0);
}

TEST(WriteSink, StartsAfreshWhenAFileIsGone) {
  const WriteJob job;
  const TempFolder folder;
  InterruptedRun(job, folder.path(), "f", 3);
  std::filesystem::remove(folder / "one.bin");
  FinishRun(job, folder.path(), "f", 0);
}

// The tasks that were invalid the first time must not come back with the next resume.
TEST(WriteSink, ForgetsVoidTasksForGood) {
  const WriteJob job;
  const TempFolder folder;
  InterruptedRun(job, folder.path(), "f", 5);
  std::filesystem::remove(folder / "one.bin");
  InterruptedRun(job, folder.path(), "f", 1);
  FinishRun(job, folder.path(), "f", 1);
}

// A line cut off by the kill is invalid, everything before it counts.
TEST(WriteSink, IgnoresACutOffLine) {
  const WriteJob job;
  const TempFolder folder;
  InterruptedRun(job, folder.path(), "f", 3);
  const std::string journal = ReadText(folder / ".nxdkit-journal");
  WriteText(folder / ".nxdkit-journal", journal + "t 8");
  FinishRun(job, folder.path(), "f", 3);
}

// A flipped bit anywhere in the journal: the output is still right.
TEST(WriteSink, TrustsNoDamagedJournal) {
  const WriteJob job;
  const TempFolder made;
  InterruptedRun(job, made.path(), "f", 4);
  const std::string journal = ReadText(made / ".nxdkit-journal");
  ASSERT_GT(journal.size(), 100u);
  for (size_t at = 0; at < journal.size(); at += 3)
    for (const char flip : {char{1}, char{4}}) {
      const TempFolder folder;
      InterruptedRun(job, folder.path(), "f", 4);
      std::string damaged = ReadText(folder / ".nxdkit-journal");
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      WriteText(folder / ".nxdkit-journal", damaged);
      auto sink = job.Begin(folder.path(), "f");
      ASSERT_TRUE(sink.ok()) << sink.error().ToString();
      EXPECT_LE((*sink)->resumed_tasks(), 4u);
      ASSERT_TRUE(job.Run(**sink).ok());
      const Status finish = (*sink)->Finish();
      ASSERT_TRUE(finish.ok()) << finish.error().ToString();
      job.ExpectWhole(folder.path());
      if (::testing::Test::HasFailure()) FAIL() << "byte " << at;
    }
}

TEST(WriteSink, TruncatesALongJournalOfAnotherRun) {
  const WriteJob job;
  const TempFolder folder;
  WriteText(folder / ".nxdkit-journal", std::string(100'000, 'x'));
  InterruptedRun(job, folder.path(), "f", 2);
  EXPECT_LT(ReadText(folder / ".nxdkit-journal").size(), 10'000u);
  FinishRun(job, folder.path(), "f", 2);
}

TEST(WriteSink, ReportsAFolderItCannotMake) {
  const WriteJob job;
  const TempFolder folder;
  WriteText(folder / "sub", "a file in the way");
  const auto error = ExpectError(job.Begin(folder.path(), ""), Errc::kIo, "create the folder");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->file(), folder / "sub");
}

TEST(WriteSink, FindsAMissingChunkInItsChecksums) {
  const WriteJob job;
  const TempFolder folder;
  auto sink = job.Begin(folder.path(), "");
  ASSERT_TRUE(sink.ok());
  ExpectError(job.Run(**sink, 3), Errc::kInterrupted, "stopped");
  ExpectError((*sink)->Finish(), Errc::kInternal, "bytes have a checksum");
}

}  // namespace
}  // namespace nxdkit
