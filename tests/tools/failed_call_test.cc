// Every system call that a command makes on its files fails once, in each of five ways. The result
// is an error that names a path, and no output; or the same output as without the failure. Never
// another output: a path that cannot be inspected is not missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "lib/base/text.h"
#include "tests/formats/reshard/training_tag.h"
#include "tests/tools/convert_workshop.h"

#ifdef NXDKIT_FAIL_CALL
namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;

struct Row {
  const char* name;
  const char* words;  // "@" is the workshop's folder; @out is the output
};

struct Failure {
  const char* name;
  int number;
};
constexpr Failure kFailures[] = {
    {"EIO", EIO}, {"EACCES", EACCES}, {"ESTALE", ESTALE}, {"ENOSPC", ENOSPC}, {"ENOENT", ENOENT}};

// With one thread, so that the calls come in one order.
constexpr Row kRows[] = {
    {"HfToNxd", "nxd-convert -j 1 --from hf --to nxd --tp 2 @model @out"},
    {"NxdToRollout", "nxd-convert -j 1 --to rollout --tp 2 --bs 1 --seq 32 @set @out"},
    {"XserToHf", "nxd-convert -j 1 --to hf @xser @out"},
    {"ToAFile", "nxd-convert -j 1 --to torch @model @out"},
    {"Replaces", "nxd-convert -j 1 --to hf --force @set @out"},
    {"Resumes", "nxd-convert -j 1 --to nxd --tp 2 --resume @model @out"},
    {"Into", "nxd-convert -j 1 --to rollout --into @set @out"},
    {"OnePart", "nxd-convert -j 1 --to nxd --tp 2 --part 0/1 @model @out"},
    {"Delta", "nxd-convert -j 1 --to delta --base @model @other @out"},
    {"Reshards", "nxd-reshard -j 1 --tp 1 --dp 2 @tag @out"},
    {"TagToDcp", "nxd-convert -j 1 --to dcp @tag @out"},
    {"DcpToTag", "nxd-convert -j 1 --to nxd --tp 1 @dcp @out"},
    {"Packs", "ckpt-pack @bundle @out.tar.zst"},
    {"Unpacks", "ckpt-pack --unpack @set.tar.gz @out"},
    {"Verifies", "ckpt-verify -j 1 @xser"},
    {"VerifiesABundle", "ckpt-verify -j 1 @bundle"},
    {"Compares", "ckpt-diff -j 1 @model @set"},
    {"Digests", "ckpt-digest -j 1 @xser"},
    {"Inspects", "ckpt-inspect @tag"}};

// Everything at a path and below it: bytes of files, and targets of links.
using Snapshot = std::map<std::string, std::string>;
Snapshot Take(const std::string& path) {
  Snapshot all;
  const auto add = [&](const fs::path& at) {
    const fs::file_status status = fs::symlink_status(at);
    std::string& text = all[at.string().substr(path.size())];
    if (fs::is_symlink(status)) text = "-> " + fs::read_symlink(at).string();
    if (fs::is_regular_file(status)) text = ReadFile(at.string());
  };
  if (!fs::exists(fs::symlink_status(path))) return all;
  add(path);
  if (fs::is_directory(path))
    for (const auto& entry : fs::recursive_directory_iterator(path)) add(entry.path());
  // The number of the process that wrote last is not part of a bundle.
  std::erase_if(all, [](const auto& item) { return item.first.ends_with("/.weights.lock"); });
  return all;
}

// The inputs of all rows, made once.
class Inputs {
 public:
  Inputs() {
    testing_util::TinyModel model = testing_util::TinyLlama();
    model.layers = 2;
    shop.MakeModel("model", model, "--seed 1");
    shop.MakeModel("other", model, "--seed 2");
    ExpectConverts("--to nxd --tp 2", shop / "model", shop / "set");
    ExpectConverts("--to nxd --tp 2 --xser", shop / "model", shop / "xser");
    ExpectConverts("--to rollout --tp 2 --bs 1 --seq 32", shop / "other", shop / "bundle");
    testing_util::TrainingTag tag;
    tag.geometry.tp = 2;
    tag.dp = 3;
    testing_util::WriteTrainingTag(shop / "tag", tag);
    ExpectConverts("--to dcp", shop / "tag", shop / "dcp");
    const ProcessResult packed =
        RunProcess({Workshop::Tool("ckpt-pack"), shop / "set", shop / "set.tar.gz"});
    EXPECT_EQ(packed.exit_code, 0) << packed.err;
  }
  Workshop shop;
};
const Workshop& Shop() {
  static const auto inputs = std::make_unique<Inputs>();
  return inputs->shop;
}

class Trial {
 public:
  explicit Trial(const Row& row) {
    words_ = {"timeout", "-s", "KILL", "60"};
    for (std::string word : Split(row.words)) {
      if (word == "@out" || word == "@out.tar.zst") out_ = Shop() / word.substr(1);
      words_.push_back(word.starts_with('@') ? Shop() / word.substr(1) : word);
    }
    words_[4] = Workshop::Tool(words_[4]);
    const std::string name = row.name;
    if (name == "Into") before_ = Shop() / "bundle";
    if (name == "Replaces") before_ = Shop() / "other";
    Clear();
    old_ = Take(out_);
    const ProcessResult result = Run({});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    calls_ = Lines(ReadFile(log_));
    answer_ = result.out;
    made_ = Take(out_);
  }
  ~Trial() {
    before_.clear();
    Clear();
  }

  size_t calls() const { return calls_.size(); }
  std::vector<size_t> CallsFor(const std::string& path) const {
    std::vector<size_t> found;
    for (size_t call = 0; call < calls_.size(); ++call)
      if (calls_[call].ends_with(" " + path)) found.push_back(call);
    return found;
  }
  // The first `most` of the calls with the same name and path, such as those for the pieces of a
  // file.
  std::vector<size_t> FirstCalls(size_t most) const {
    std::map<std::string, size_t> seen;
    std::vector<size_t> some;
    for (size_t call = 0; call < calls_.size(); ++call)
      if (seen[calls_[call]]++ < most) some.push_back(call);
    return some;
  }

  // The fault in the command's handling of the failure; "" for none.
  std::string Try(size_t call, const Failure& failure) {
    Clear();
    const ProcessResult result = Run(
        {"FAIL_CALL=" + std::to_string(call + 1), "FAIL_WITH=" + std::to_string(failure.number)});
    const std::string wrong = WrongOf(result, failure);
    if (wrong.empty()) return "";
    std::ostringstream text;
    text << call + 1 << " " << failure.name << " " << ReadFile(log_) << "  " << wrong << ", exit "
         << result.exit_code << ": " << result.err << "\n";
    return text.str();
  }

 private:
  static std::vector<std::string> Lines(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }

  // The workshop before the command.
  void Clear() const {
    fs::remove(log_);
    for (const auto& entry : fs::directory_iterator(Shop().path()))
      if (entry.path().filename().string().starts_with("out")) fs::remove_all(entry.path());
    if (!before_.empty())
      fs::copy(before_, out_, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  }

  ProcessResult Run(Words environment) const {
    environment.push_back("LD_PRELOAD=" NXDKIT_FAIL_CALL);
    environment.push_back("FAIL_UNDER=" + Shop().path());
    environment.push_back("FAIL_LOG=" + log_);
    return RunProcess(words_, environment);
  }

  // Next to the output: "out.partial" and the like.
  std::string Leftover() const {
    for (const auto& entry : fs::directory_iterator(Shop().path())) {
      const std::string path = entry.path().string();
      if (path.ends_with(".partial")) return path;
    }
    return "";
  }

  // Whether the failed call was part of removing files that are no longer needed.
  bool FailedInCleanUp() const {
    const std::string call = ReadFile(log_);
    for (const char* name : {"unlink ", "unlinkat ", "rmdir ", "fdopendir ", "openat "})
      if (call.starts_with(name)) return true;
    return call.find(".partial") != std::string::npos && call.starts_with("readdir ");
  }

  std::string WrongOf(const ProcessResult& result, const Failure& failure) const {
    const int code = result.exit_code;
    if (code == 0 && result.out != answer_ && out_.empty()) return "it says something else";
    if (code == 0) return Take(out_) == made_ ? "" : "the output is another one";
    // A missing file may look like another kind to the reader (4), or be missing in a set (1).
    const bool by_contract =
        code == 3 || code == 5 || (failure.number == ENOENT && (code == 4 || code == 1));
    if (!by_contract) return "the exit code is not by the contract";
    if (result.err.find(Shop().path()) == std::string::npos) return "no path is named";
    if (Lines(result.err).size() > 4) return "over four lines";
    const Snapshot out = Take(out_);
    if (out != old_ && out != made_) return "half an output";
    const bool kept = result.err.find("was left in") != std::string::npos;
    if (!kept && !FailedInCleanUp() && !Leftover().empty()) return Leftover() + " is left";
    return "";
  }

  Words words_;
  std::string out_;     // "" for commands that only read
  std::string before_;  // copied to it
  const std::string log_ = Shop().path() + ".log";
  std::vector<std::string> calls_;
  std::string answer_;
  Snapshot old_;
  Snapshot made_;
};

class FailedCall : public ::testing::TestWithParam<Row> {};

// A sample: every third distinct call, with the failures in turn.
TEST_P(FailedCall, IsAnErrorOrWithoutEffect) {
  Trial trial(GetParam());
  const std::vector<size_t> calls = trial.FirstCalls(1);
  EXPECT_GT(calls.size(), 20u);
  std::string wrong;
  for (size_t i = 0; i < calls.size(); i += 3)
    wrong += trial.Try(calls[i], kFailures[i / 3 % std::size(kFailures)]);
  EXPECT_EQ(wrong, "");
}
INSTANTIATE_TEST_SUITE_P(Commands, FailedCall, ::testing::ValuesIn(kRows),
                         [](const auto& row) { return std::string(row.param.name); });

// Files that a conversion can work without, but must not ignore: that would be another output, with
// exit 0.
TEST(FailedCallFor, WhatMayBeMissing) {
  for (const auto& [row, name] :
       {std::pair(Row{"Reshards", "nxd-reshard -j 1 --dp 2 @tag @out"}, "tag/optim"),
        {Row{"Tag", "nxd-convert -j 1 --to dcp @tag @out"}, "tag/optim"},
        {kRows[0], "model/config.json"},
        {kRows[0], "model/model.safetensors"}}) {
    Trial trial(row);
    const std::vector<size_t> calls = trial.CallsFor(Shop() / name);
    EXPECT_FALSE(calls.empty());
    for (const size_t call : calls)
      for (const Failure& failure : kFailures) EXPECT_EQ(trial.Try(call, failure), "");
  }
}

class EveryFailedCall : public FailedCall {};

TEST_P(EveryFailedCall, IsAnErrorOrWithoutEffect) {
  Trial trial(GetParam());
  const std::vector<size_t> calls = trial.FirstCalls(8);
  std::string wrong;
  for (const size_t call : calls)
    for (const Failure& failure : kFailures) wrong += trial.Try(call, failure);
  EXPECT_EQ(wrong, "");
  std::printf("%s: %zu of %zu calls failed in %zu ways\n", GetParam().name, calls.size(),
              trial.calls(), std::size(kFailures));
}
INSTANTIATE_TEST_SUITE_P(Inject, EveryFailedCall, ::testing::ValuesIn(kRows),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace nxdkit::test
#endif
