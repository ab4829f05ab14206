// PRIVATE to tests. The base of the tests of nxd-convert and ckpt-verify: small models, the two
// commands, folders as data.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "lib/json/json.h"
#include "tests/formats/ops/sample_config.h"
#include "tests/tools/process.h"

namespace nxdkit::test {

using testing_util::TinyModel;
using Words = std::vector<std::string>;

// "--tp 2 --pp 2" as words.
inline Words Split(const std::string& text) {
  Words words;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (end > at) words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// Every file below a folder (or the file itself) with its bytes, by relative path.
using Tree = std::map<std::string, std::string>;
inline Tree ReadTree(const std::string& path) {
  Tree tree;
  if (!std::filesystem::is_directory(path)) return {{"", ReadFile(path)}};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
    if (entry.is_regular_file())
      tree[entry.path().lexically_relative(path).string()] = ReadFile(entry.path().string());
  return tree;
}

// Compares trees without printing megabytes when they differ.
inline void ExpectSameTree(const std::string& a, const std::string& b) {
  const Tree x = ReadTree(a);
  const Tree y = ReadTree(b);
  std::vector<std::string> x_names, y_names;
  for (const auto& [name, bytes] : x) x_names.push_back(name);
  for (const auto& [name, bytes] : y) y_names.push_back(name);
  EXPECT_EQ(x_names, y_names) << a << " and " << b;
  for (const auto& [name, bytes] : x)
    if (y.contains(name)) {
      EXPECT_TRUE(bytes == y.at(name)) << name << " differs between " << a << " and " << b;
    }
}

// Whether `path` or its staging folder exists.
inline bool Traces(const std::string& path) {
  return std::filesystem::exists(std::filesystem::symlink_status(path)) ||
         std::filesystem::exists(path + ".partial");
}

class Workshop {
 public:
  Workshop() {}  // clang makes no const one without it
  const std::string& path() const { return folder_.path(); }
  std::string operator/(const std::string& name) const { return folder_.path() + "/" + name; }
  std::string Write(const std::string& name, const std::string& contents) const {
    return folder_.Write(name, contents);
  }

  // Makes a Hugging Face folder; returns its path.
  std::string MakeModel(const std::string& name, const TinyModel& model,
                        const std::string& options = "") const {
    return MakeModelOf(name, model.Config(), options);
  }
  std::string MakeModelOf(const std::string& name, const std::string& config,
                          const std::string& options = "") const {
    const std::string file = folder_.Write(name + ".json", config);
    Words words = {Tool("nxdkit-make-model"), "--config", file, "--out", *this / name};
    for (const std::string& word : Split(options)) words.push_back(word);
    const ProcessResult result = RunProcess(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return *this / name;
  }

  static std::string Tool(const std::string& name) { return std::string(NXDKIT_TOOLS "/") + name; }

  // Runs nxd-convert with "--from hf --to nxd --tp 2" and the two paths. Not synced: tests have no
  // power cuts.
  static ProcessResult Convert(const std::string& options, const std::string& input,
                               const std::string& output) {
    Words words = {Tool("nxd-convert"), "--no-sync"};
    for (const std::string& word : Split(options)) words.push_back(word);
    words.push_back(input);
    words.push_back(output);
    return RunProcess(words);
  }

  static ProcessResult Verify(const std::string& path, const std::string& options = "") {
    Words words = {Tool("ckpt-verify"), path};
    for (const std::string& word : Split(options)) words.push_back(word);
    return RunProcess(words);
  }

 private:
  TempFolder folder_;
};

inline void ExpectConverts(const std::string& options, const std::string& input,
                           const std::string& output) {
  const ProcessResult result = Workshop::Convert(options, input, output);
  EXPECT_EQ(result.exit_code, 0) << options << "\n" << result.err;
  EXPECT_FALSE(std::filesystem::exists(output + ".partial")) << options;
}

// Expects a failure with this code and `part` on stderr, and nothing left behind.
inline void ExpectRefused(const std::string& options, const std::string& input,
                          const std::string& output, int exit_code, const std::string& part) {
  const bool there = std::filesystem::exists(output);
  for (const char* dry_run : {" --dry-run", ""}) {
    const ProcessResult result = Workshop::Convert(options + dry_run, input, output);
    EXPECT_EQ(result.exit_code, exit_code) << options << dry_run << "\n" << result.err;
    EXPECT_THAT(result.err, ::testing::HasSubstr(part)) << options << dry_run;
    EXPECT_EQ(std::filesystem::exists(output), there) << options << dry_run;
    EXPECT_FALSE(std::filesystem::exists(output + ".partial")) << options << dry_run;
  }
}

inline Json JsonOf(const ProcessResult& result) {
  Result<Json> json = ParseJson(result.out);
  EXPECT_TRUE(json.ok()) << result.out << result.err;
  return json.ok() ? *json : Json::object();
}

}  // namespace nxdkit::test
