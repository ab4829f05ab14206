// Archives packed and unpacked, compared with the real tar, and archives that must be refused.
#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "formats/rollout/weight_slots.h"
#include "formats/tar/pack.h"
#include "formats/tar/unpack.h"
#include "lib/system/process.h"
#include "tests/formats/scratch.h"

namespace nxdkit::tar {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing_util::ReadBytes;
using testing_util::Scratch;

using Tree = std::map<std::string, std::string>;

Tree TreeOf(const std::string& folder) {
  Tree tree;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    tree[entry.path().lexically_relative(folder).string()] =
        entry.is_directory() ? "(folder)" : ReadBytes(entry.path().string());
  return tree;
}

class Tar : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(At("in/model/empty"));
    fs::create_directories(At("in/" + std::string(90, 'd') + "/" + std::string(90, 'e')));
    Put("in/done", "1");
    Put("in/model/a.pt", std::string(3'000'000, 'a') + "end");
    Put("in/model/none", "");
    Put("in/" + std::string(90, 'd') + "/" + std::string(90, 'e') + "/n\xc3\xa4me", "x");
  }
  std::string At(const std::string& name) const { return scratch_.folder() + "/" + name; }
  void Put(const std::string& name, const std::string& bytes) const {
    std::ofstream(At(name), std::ios::binary) << bytes;
  }
  Result<TransportReport> PackIn(const std::string& name) const {
    PackRequest request{.input = At("in"), .output = At(name)};
    request.compression = *CompressionOf(name);
    request.sync = false;
    return Pack(request);
  }
  Result<TransportReport> UnpackTo(const std::string& archive, const std::string& name,
                                   int strip = 0) const {
    UnpackRequest request{.archive = At(archive), .output = At(name)};
    request.strip = strip;
    request.sync = false;
    return Unpack(request);
  }
  void ExpectRefused(const std::string& archive, const std::string& member,
                     const std::string& message) const {
    const auto report = UnpackTo(archive, "out");
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.error().code(), Errc::kCorrupt);
    EXPECT_EQ(report.error().file(), At(archive));
    EXPECT_EQ(report.error().member(), member);
    EXPECT_THAT(report.error().message(), HasSubstr(message));
    EXPECT_FALSE(fs::exists(At("out")) || fs::exists(At("out.partial")));
  }
  int Shell(const std::string& command) const {
    return std::system(("cd " + scratch_.folder() + " && " + command).c_str());
  }
  const Scratch scratch_;
};

// An archive with entries that Pack would never write.
struct Entry {
  std::string name;
  std::string link;
  bool hard = false;
};
void WriteArchive(const std::string& path, const std::vector<Entry>& entries) {
  archive* writer = archive_write_new();
  archive_write_set_format_pax_restricted(writer);
  ASSERT_EQ(archive_write_open_filename(writer, path.c_str()), ARCHIVE_OK);
  for (const Entry& entry : entries) {
    archive_entry* made = archive_entry_new();
    archive_entry_set_pathname(made, entry.name.c_str());
    archive_entry_set_perm(made, 0644);
    const bool is_link = !entry.link.empty();
    archive_entry_set_filetype(made, is_link && !entry.hard ? AE_IFLNK : AE_IFREG);
    if (is_link && entry.hard) archive_entry_set_hardlink(made, entry.link.c_str());
    if (is_link && !entry.hard) archive_entry_set_symlink(made, entry.link.c_str());
    archive_entry_set_size(made, is_link ? 0 : 4);
    ASSERT_EQ(archive_write_header(writer, made), ARCHIVE_OK);
    if (!is_link) {
      ASSERT_EQ(archive_write_data(writer, "data", 4), 4);
    }
    archive_entry_free(made);
  }
  archive_write_free(writer);
}

TEST_F(Tar, ATreeComesBack) {
  for (const std::string name : {"a.tar", "a.tar.zst", "a.tar.gz"}) {
    const auto packed = PackIn(name);
    ASSERT_TRUE(packed.ok()) << packed.error().ToString();
    EXPECT_EQ(packed->files, 4u);
    EXPECT_EQ(packed->bytes, 3'000'005u);
    EXPECT_EQ(packed->archive_bytes, fs::file_size(At(name)));
    const auto unpacked = UnpackTo(name, "from." + name);
    ASSERT_TRUE(unpacked.ok()) << unpacked.error().ToString();
    EXPECT_EQ(unpacked->files, 4u);
    EXPECT_EQ(unpacked->bytes, 3'000'005u);
    EXPECT_EQ(TreeOf(At("from." + name)), TreeOf(At("in")));
  }
  EXPECT_LT(fs::file_size(At("a.tar.zst")), 100'000u);
}

// A pipe that gets a byte for each alarm, so that the test can wait for them.
int g_alarms = -1;
extern "C" void OnAlarm(int) {
  if (::write(g_alarms, "", 1) < 0) ::_exit(101);
}

TEST_F(Tar, SignalsDoNotEndAStream) {
  Result<PipeEnds> stream = MakePipe();
  Result<PipeEnds> alarms = MakePipe();
  ASSERT_TRUE(stream.ok() && alarms.ok());
  const pid_t child = ::fork();
  if (child == 0) {
    g_alarms = alarms->write.fd();
    ::dup2(stream->write.fd(), STDOUT_FILENO);
    struct sigaction action = {};  // interrupted writes are not restarted
    action.sa_handler = OnAlarm;
    ::sigaction(SIGALRM, &action, nullptr);
    const itimerval often = {{0, 1000}, {0, 1000}};
    ::setitimer(ITIMER_REAL, &often, nullptr);
    const auto packed = Pack({.input = At("in"), .output = std::string(kStream)});
    ::_exit(packed.ok() ? 0 : 100);
  }
  stream->write.Close();
  // The pipe is full long before the child has ended; the alarms come while it waits.
  char bytes[1 << 16];
  for (int left = 30; left > 0; --left) ASSERT_EQ(::read(alarms->read.fd(), bytes, 1), 1);
  size_t all = 0;
  for (ssize_t got; (got = ::read(stream->read.fd(), bytes, sizeof bytes)) > 0;)
    all += static_cast<size_t>(got);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_GT(all, 3'000'000u);
}

TEST_F(Tar, SameContentsSameBytes) {
  for (const std::string name : {"a.tar", "a.tar.zst", "a.tar.gz"}) {
    ASSERT_TRUE(PackIn(name).ok());
    fs::rename(At(name), At("first"));
    fs::last_write_time(At("in/done"), fs::file_time_type::clock::now() - std::chrono::hours(5));
    fs::permissions(At("in/done"), fs::perms::owner_read);
    ASSERT_TRUE(PackIn(name).ok());
    EXPECT_TRUE(ReadBytes(At(name)) == ReadBytes(At("first"))) << name;
  }
}

TEST_F(Tar, FollowsLinks) {
  Put("blob", "blob");
  fs::create_symlink("../blob", At("in/link"));
  fs::create_directory_symlink("model", At("in/other"));
  ASSERT_TRUE(PackIn("a.tar").ok());
  ASSERT_TRUE(UnpackTo("a.tar", "out").ok());
  EXPECT_EQ(TreeOf(At("out"))["link"], "blob");
  EXPECT_EQ(TreeOf(At("out"))["other/a.pt"].size(), 3'000'003u);
  EXPECT_FALSE(fs::is_symlink(At("out/link")));
}

TEST_F(Tar, RefusesALinkToAFolderAroundItAndOneToNothing) {
  fs::create_directory_symlink("..", At("in/model/up"));
  EXPECT_EQ(PackIn("a.tar").error().code(), Errc::kUnsupported);
  fs::remove(At("in/model/up"));
  fs::create_symlink("nowhere", At("in/dangling"));
  EXPECT_EQ(PackIn("a.tar").error().code(), Errc::kCorrupt);
  EXPECT_EQ(PackIn("a.tar").error().file(), At("in/dangling"));
}

// --- single files

TEST_F(Tar, AFileComesBackAsAFile) {
  for (const std::string name : {"a.pt.tar", "a.pt.tar.zst", "a.pt.tar.gz"}) {
    const auto packed = Pack({.input = At("in/model/a.pt"),
                              .output = At(name),
                              .compression = *CompressionOf(name),
                              .sync = false});
    ASSERT_TRUE(packed.ok()) << packed.error().ToString();
    EXPECT_TRUE(packed->single_file);
    EXPECT_EQ(packed->files, 1u);
    const auto unpacked = Unpack({.archive = At(name), .output = At("copy." + name)});
    ASSERT_TRUE(unpacked.ok()) << unpacked.error().ToString();
    EXPECT_TRUE(unpacked->single_file);
    EXPECT_TRUE(ReadBytes(At("copy." + name)) == ReadBytes(At("in/model/a.pt")));
    EXPECT_FALSE(fs::exists(At("copy." + name + ".partial")));
  }
}

TEST_F(Tar, AFolderOfOneFileComesBackAsAFolder) {
  fs::create_directory(At("one"));
  Put("one/weights.pt", "x");
  const auto packed = Pack({.input = At("one"), .output = At("a.tar"), .sync = false});
  ASSERT_TRUE(packed.ok()) << packed.error().ToString();
  EXPECT_FALSE(packed->single_file);
  const auto unpacked = UnpackTo("a.tar", "out");
  ASSERT_TRUE(unpacked.ok()) << unpacked.error().ToString();
  EXPECT_FALSE(unpacked->single_file);
  EXPECT_EQ(TreeOf(At("out")), (Tree{{"weights.pt", "x"}}));
}

// Archives of the real tar: a single entry that is a file outside any folder becomes a file,
// everything else a folder.
TEST_F(Tar, OneFileInNoFolderIsAFile) {
  ASSERT_EQ(Shell("tar cf file.tar -C in done && tar cf deep.tar in/done && "
                  "tar cf two.tar -C in done model/none && tar cf dot.tar -C in/model ."),
            0);
  ASSERT_TRUE(UnpackTo("file.tar", "file").ok());
  EXPECT_EQ(ReadBytes(At("file")), "1");
  ASSERT_TRUE(UnpackTo("deep.tar", "deep").ok());
  EXPECT_EQ(ReadBytes(At("deep/in/done")), "1");
  ASSERT_TRUE(UnpackTo("deep.tar", "stripped", 1).ok());
  EXPECT_EQ(ReadBytes(At("stripped/done")), "1");
  ASSERT_TRUE(UnpackTo("two.tar", "two").ok());
  EXPECT_EQ(ReadBytes(At("two/done")), "1");
  ASSERT_TRUE(UnpackTo("dot.tar", "dot").ok());
  EXPECT_TRUE(fs::is_directory(At("dot")));
  const auto nothing = UnpackTo("file.tar", "nothing", 1);
  ASSERT_FALSE(nothing.ok());
  EXPECT_EQ(nothing.error().message(), "the archive holds no file");
}

TEST_F(Tar, AFileIsUnpackedOverNoFolder) {
  ASSERT_TRUE(Pack({.input = At("in/done"), .output = At("a.tar"), .sync = false}).ok());
  fs::create_directory(At("out"));
  for (const bool force : {false, true}) {
    const auto report =
        Unpack({.archive = At("a.tar"), .output = At("out"), .force = force, .sync = false});
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.error().code(), Errc::kUsage);
    EXPECT_EQ(report.error().file(), At("out"));
    EXPECT_THAT(report.error().message(), HasSubstr("single file and the output is a folder"));
    EXPECT_FALSE(fs::exists(At("out.partial")));
  }
  Put("mine", "mine");
  EXPECT_EQ(UnpackTo("a.tar", "mine").error().code(), Errc::kUsage);
  EXPECT_EQ(ReadBytes(At("mine")), "mine");
  EXPECT_TRUE(Unpack({.archive = At("a.tar"), .output = At("mine"), .force = true}).ok());
  EXPECT_EQ(ReadBytes(At("mine")), "1");
}

TEST_F(Tar, OnlyFilesAndFoldersArePacked) {
  ASSERT_EQ(Shell("mkfifo pipe"), 0);
  const auto pipe = Pack({.input = At("pipe"), .output = At("a.tar")});
  ASSERT_FALSE(pipe.ok());
  EXPECT_EQ(pipe.error().code(), Errc::kUnsupported);
  EXPECT_EQ(pipe.error().file(), At("pipe"));
  const auto missing = Pack({.input = At("nowhere"), .output = At("a.tar")});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code(), Errc::kNotFound);
  EXPECT_EQ(missing.error().file(), At("nowhere"));
  EXPECT_FALSE(fs::exists(At("a.tar")));
}

TEST_F(Tar, ATruncatedArchiveOfAFileLeavesNothing) {
  ASSERT_TRUE(Pack({.input = At("in/done"), .output = At("a.tar"), .sync = false}).ok());
  const std::string whole = ReadBytes(At("a.tar"));
  for (size_t bytes = 0; bytes < whole.size() - 1024; bytes += 64) {
    Put("cut.tar", whole.substr(0, bytes));
    const auto report = UnpackTo("cut.tar", "out");
    ASSERT_FALSE(report.ok()) << bytes;
    EXPECT_EQ(report.error().code(), Errc::kCorrupt) << bytes;
    EXPECT_FALSE(fs::exists(At("out")) || fs::exists(At("out.partial"))) << bytes;
  }
}

// A bundle whose weights are switched, and both slots overwritten, after the packer has listed
// them: as a plain folder, which the first refresh moves away, and behind the link.
class TarOfABundle : public Tar {
 protected:
  void SetUp() override {
    fs::create_directories(At("run/bundle/weights"));
    Put("run/bundle/weights/tp0", "old 0");
    Put("run/bundle/weights/tp1", "old 1");
  }
  std::string Weights() const { return At("run/bundle/weights"); }
  void Refresh(const std::string& text) const {
    const auto update = rollout::SlotUpdate::Begin(Weights(), {.files = {"tp0", "tp1"}});
    ASSERT_TRUE(update.ok()) << update.error().ToString();
    for (const char* name : {"/tp0", "/tp1"})
      std::ofstream((*update)->path() + name, std::ios::binary) << text;
    const Status published = (*update)->Publish();
    ASSERT_TRUE(published.ok()) << published.error().ToString();
  }
  // Packs `folder` and unpacks it again.
  Tree PackWhileRefreshing(const std::string& folder) const {
    PackRequest request{.input = At(folder), .output = At("a.tar"), .force = true, .sync = false};
    request.hooks.begin = [&](const std::string&, uint64_t) {
      for (const char* text : {"new 1", "new 2", "new 3"}) Refresh(text);
    };
    const auto packed = Pack(request);
    EXPECT_TRUE(packed.ok()) << packed.error().ToString();
    fs::remove_all(At("out"));
    const auto unpacked = UnpackTo("a.tar", "out");
    EXPECT_TRUE(unpacked.ok()) << unpacked.error().ToString();
    return TreeOf(At("out"));
  }
};

TEST_F(TarOfABundle, HasOneVersionOfWeightsThatWereNeverRefreshed) {
  EXPECT_EQ(PackWhileRefreshing("run"), (Tree{{"bundle", "(folder)"},
                                              {"bundle/weights", "(folder)"},
                                              {"bundle/weights/tp0", "old 0"},
                                              {"bundle/weights/tp1", "old 1"}}));
}

TEST_F(TarOfABundle, HasOneVersionOfRefreshedWeights) {
  fs::create_directory_symlink("run/bundle/weights", At("elsewhere"));
  for (const std::string folder : {"run/bundle", "run/bundle/weights", "elsewhere"}) {
    Refresh("whole");
    const Tree tree = PackWhileRefreshing(folder);
    const std::string below = folder == "run/bundle" ? "weights/" : "";
    EXPECT_EQ(tree.size(), below.empty() ? 2u : 3u) << folder;
    EXPECT_EQ(tree.at(below + "tp0"), "whole") << folder;
    EXPECT_EQ(tree.at(below + "tp1"), "whole") << folder;
  }
}

// A slot under its own name, with the version before the current one: the next to be overwritten.
TEST_F(TarOfABundle, HoldsASlotThatIsPackedByItsName) {
  Refresh("one");
  Refresh("two");
  EXPECT_EQ(PackWhileRefreshing("run/bundle/.weights.1"), (Tree{{"tp0", "one"}, {"tp1", "one"}}));
}

TEST_F(TarOfABundle, IsRefusedWhenAVersionWasNeverFinished) {
  Refresh("one");
  Put("run/bundle/weights/.incomplete", "");
  const auto packed = Pack({.input = At("run"), .output = At("a.tar")});
  ASSERT_FALSE(packed.ok());
  EXPECT_EQ(packed.error().code(), Errc::kCorrupt);
  EXPECT_THAT(packed.error().message(), HasSubstr("half written"));
  EXPECT_THAT(packed.error().file(), HasSubstr("/.weights."));
  EXPECT_FALSE(fs::exists(At("a.tar")));
}

TEST_F(Tar, RealTarReadsOurs) {
  for (const std::string name : {"a.tar", "a.tar.gz"}) {
    ASSERT_TRUE(PackIn(name).ok());
    fs::create_directory(At("real." + name));
    ASSERT_EQ(Shell("tar xf " + name + " -C real." + name), 0);
    EXPECT_EQ(TreeOf(At("real." + name)), TreeOf(At("in")));
  }
}

TEST_F(Tar, WeReadRealTars) {
  for (const std::string format : {"gnu", "pax", "ustar"}) {
    ASSERT_EQ(Shell("tar cf r.tar --format=" + format + " in"), 0);
    ASSERT_TRUE(UnpackTo("r.tar", "whole." + format).ok());
    EXPECT_EQ(TreeOf(At("whole." + format + "/in")), TreeOf(At("in")));
    ASSERT_TRUE(UnpackTo("r.tar", "stripped." + format, 1).ok());
    EXPECT_EQ(TreeOf(At("stripped." + format)), TreeOf(At("in")));
  }
}

TEST(TarNames, AreSafe) {
  EXPECT_EQ(*SafeName("./a//b/", 0), "a/b");
  EXPECT_EQ(*SafeName("a/b/c", 1), "b/c");
  EXPECT_EQ(*SafeName("a", 1), "");
  EXPECT_EQ(*SafeName("...", 0), "...");
  EXPECT_THAT(SafeName("/etc/passwd", 0).error().message(), HasSubstr("absolute"));
  EXPECT_THAT(SafeName("a/../../b", 0).error().message(), HasSubstr("\"..\""));
  EXPECT_THAT(SafeName("../b", 1).error().message(), HasSubstr("\"..\""));
  EXPECT_THAT(SafeName(std::string(4097, 'n'), 0).error().message(), HasSubstr("4097 bytes"));
  std::string deep = "a";
  for (int i = 0; i < 64; ++i) deep += "/a";
  EXPECT_THAT(SafeName(deep, 0).error().message(), HasSubstr("64 folders deep"));
}

TEST_F(Tar, RefusesNamesThatLeadOut) {
  WriteArchive(At("a.tar"), {{"good", ""}, {"a/../../evil", ""}});
  ExpectRefused("a.tar", "a/../../evil", "\"..\" would leave the output folder");
  WriteArchive(At("a.tar"), {{"/abs", ""}});
  ExpectRefused("a.tar", "/abs", "an absolute name");
  EXPECT_FALSE(fs::exists(At("evil")));
}

TEST_F(Tar, RefusesLinks) {
  WriteArchive(At("a.tar"), {{"x", "/etc"}, {"x/passwd", ""}});
  ExpectRefused("a.tar", "x", "a link to /etc: links are refused");
  WriteArchive(At("a.tar"), {{"a", ""}, {"b", "a", true}});
  ExpectRefused("a.tar", "b", "a link to a: links are refused");
}

TEST_F(Tar, RefusesANameThatComesTwice) {
  WriteArchive(At("a.tar"), {{"a", ""}, {"./a", ""}});
  ExpectRefused("a.tar", "./a", "the name is there twice");
  WriteArchive(At("a.tar"), {{"a", ""}, {"a/b", ""}});
  ExpectRefused("a.tar", "a", "a folder where a file of that name is");
  WriteArchive(At("a.tar"), {{"a/b", ""}, {"a", ""}});
  ExpectRefused("a.tar", "a", "a file where a folder of that name is");
}

TEST_F(Tar, ATruncatedArchiveLeavesNothing) {
  fs::remove(At("in/model/a.pt"));
  Put("in/model/b.pt", std::string(700, 'b'));
  for (const std::string name : {"a.tar", "a.tar.zst", "a.tar.gz"}) {
    ASSERT_TRUE(PackIn(name).ok());
    const std::string whole = ReadBytes(At(name));
    // One of the two blocks of zeros at the end is enough; the checksum comes after them.
    const size_t end = name == "a.tar" ? whole.size() - 1024 : whole.size();
    for (size_t bytes = 0; bytes < end; bytes += name == "a.tar" ? 64 : 1) {
      Put("cut.tar", whole.substr(0, bytes));
      const auto report = UnpackTo("cut.tar", "out");
      ASSERT_FALSE(report.ok()) << name << " " << bytes;
      EXPECT_EQ(report.error().code(), Errc::kCorrupt) << name << " " << bytes;
      EXPECT_FALSE(fs::exists(At("out")) || fs::exists(At("out.partial"))) << name << " " << bytes;
    }
  }
}

TEST_F(Tar, RefusesWhatIsNoArchive) {
  Put("a.tar", std::string(5000, 'x'));
  ExpectRefused("a.tar", "", "the archive cannot be read");
}

}  // namespace
}  // namespace nxdkit::tar
