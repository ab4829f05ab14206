// Rank files that are missing, renamed, cut short or mixed up: each is named, and nothing is
// invented.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "formats/fsdp/open.h"
#include "tests/formats/scratch.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::fsdp {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing_util::ExpectError;

class Damage : public ::testing::Test {
 protected:
  std::string Copy(const std::string& run) {
    const std::string to = scratch_.folder() + "/" + run;
    fs::copy(NXDKIT_TESTDATA "/rank_files/" + run + "/global_step_2/actor", to,
             fs::copy_options::recursive);
    return to;
  }
  static Result<Opened> OpenAll(const std::string& path) {
    return Open(path, {}, {{}, true, false});
  }
  static std::string File(const std::string& path, FilePart part, int world, int rank) {
    return path + "/" + FileName(part, world, rank);
  }
  static void Swap(const std::string& a, const std::string& b) {
    fs::rename(a, a + ".old");
    fs::rename(b, a);
    fs::rename(a + ".old", b);
  }

  testing_util::Scratch scratch_;
};

TEST_F(Damage, RanksThatLackAreNamed) {
  const std::string path = Copy("verl-fsdp2-w8");
  for (const int rank : {1, 5, 6, 7}) fs::remove(File(path, FilePart::kModel, 8, rank));
  const auto error = ExpectError(OpenAll(path), Errc::kNotFound,
                                 "of 8 ranks, 4 are missing: 1, 5 to 7; the first file is "
                                 "model_world_size_8_rank_1.pt");
  ASSERT_TRUE(error);
  EXPECT_THAT(error->hint(), HasSubstr("each node keeps the files of its own ranks"));
  const Result<Opened> shown = Open(path, {}, {{}, false, true});
  ASSERT_TRUE(shown.ok()) << shown.error().ToString();
  EXPECT_EQ(shown->facts.set.of(FilePart::kModel), (std::vector<int>{0, 2, 3, 4}));
}

TEST_F(Damage, AnOptimizerThatLacksARankStopsWhoAsksForIt) {
  const std::string path = Copy("verl-fsdp2-w8");
  fs::remove(File(path, FilePart::kOptimizer, 8, 3));
  ExpectError(OpenAll(path), Errc::kNotFound, "optim_world_size_8_rank_3.pt");
  const Result<Opened> model = Open(path, {}, {});
  ASSERT_TRUE(model.ok()) << model.error().ToString();
  EXPECT_EQ(model->facts.form, OptimizerForm::kNone);
  EXPECT_THAT(model->folder.warnings, ::testing::ElementsAre(HasSubstr("1 is missing: 3")));
}

TEST_F(Damage, TwoWorldsInOneFolderAreListed) {
  const std::string path = Copy("verl-fsdp2-w8");
  const std::string other = Copy("verl-fsdp2-w1");
  fs::copy(File(other, FilePart::kModel, 1, 0), path);
  const auto error =
      ExpectError(OpenAll(path), Errc::kCorrupt,
                  "files of several numbers of ranks: 1 (1 of their models), 8 (8 of "
                  "their models)");
  ASSERT_TRUE(error);
  EXPECT_THAT(error->hint(), HasSubstr("--ranks-of"));
  EXPECT_TRUE(Open(path, {}, {8, true, false}).ok());
}

// A distributed tensor in a rank's file records its place; for slices only the archive does.
TEST_F(Damage, FilesUnderTheNamesOfOtherRanksAreNamed) {
  for (const auto& [run, part, world] : {std::tuple{"verl-fsdp2-w8", FilePart::kModel, 8},
                                         {"verl-fsdp2-w8", FilePart::kOptimizer, 8},
                                         {"verl-fsdp1-flat", FilePart::kOptimizer, 3},
                                         {"verl-fsdp1-flat", FilePart::kExtraState, 3}}) {
    const std::string path = Copy(run);
    Swap(File(path, part, world, 0), File(path, part, world, 1));
    const auto error =
        ExpectError(OpenAll(path), Errc::kCorrupt,
                    fmt::format("the archive was saved as {}", FileName(part, world, 1)));
    ASSERT_TRUE(error);
    EXPECT_EQ(error->file(), File(path, part, world, 0));
    fs::remove_all(path);
  }
}

TEST_F(Damage, FilesThatAreCutShortAreNamed) {
  const std::string path = Copy("verl-fsdp1-flat");
  const std::string file = File(path, FilePart::kModel, 3, 2);
  fs::resize_file(file, fs::file_size(file) - 100);
  const auto result = OpenAll(path);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().file(), file);
}

// Every byte of a file's pickle, changed: the result is an error, or the tensors of the run in
// their shapes.
TEST_F(Damage, MutationsOfAPickleAreRefusedOrHarmless) {
  const std::string path = Copy("easyr1-w2-qwen3");
  const std::string file = File(path, FilePart::kModel, 2, 1);
  const std::string whole = testing_util::ReadBytes(file);
  const size_t begin = whole.find("\x80\x02}");
  ASSERT_NE(begin, std::string::npos);
  size_t refused = 0;
  for (size_t i = 0; i < 1500; ++i) {
    std::string changed = whole;
    changed[begin + i] = static_cast<char>(changed[begin + i] ^ (1 << (i % 8)));
    std::ofstream(file, std::ios::binary) << changed;
    const Result<Opened> opened = OpenAll(path);
    if (!opened.ok()) {
      EXPECT_NE(opened.error().code(), Errc::kInternal) << i << opened.error().ToString();
      ++refused;
      continue;
    }
    EXPECT_EQ(opened->facts.tensors.size(), 25u) << i;
  }
  EXPECT_GT(refused, 1000u);
}

}  // namespace
}  // namespace nxdkit::fsdp
