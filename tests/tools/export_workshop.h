// PRIVATE to tests. The base of the tests of neuron-export and neuron-cache: a compiler of a few
// lines of shell, in a folder at the beginning of PATH.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/formats/compiled_blob.h"
#include "tests/tools/convert_workshop.h"

namespace nxdkit::test {

class ExportWorkshop : public Workshop {
 public:
  ExportWorkshop() { std::filesystem::create_directories(*this / "bin"); }

  std::string Cache() const { return *this / "cache"; }

  // The options are split at spaces; MODEL and OUTPUT follow. No compiler but ours can be found,
  // and no cache of this machine.
  ProcessResult Export(const std::string& options, const std::string& model,
                       const std::string& output, Words environment = {}) const {
    Words words = {Tool("neuron-export"), "--no-sync"};
    for (const std::string& word : Split(options)) words.push_back(word);
    words.push_back(model);
    words.push_back(output);
    return RunWithOurPath(words, std::move(environment));
  }

  ProcessResult CacheTool(const std::string& options, Words environment = {}) const {
    Words words = {Tool("neuron-cache")};
    for (const std::string& word : Split(options)) words.push_back(word);
    return RunWithOurPath(words, std::move(environment));
  }

  // A program named `name` in PATH.
  std::string Script(const std::string& name, const std::string& body) const {
    const std::string path = Write("bin/" + name, "#!/bin/bash\nset -eu\n" + body);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }

  // A compiler that makes a bundle of the given model, with `blob` as its model.pt; every run adds
  // a line with its arguments to the file `runs`. `before` runs first.
  std::string Compiler(const std::string& name = "optimum-cli", const std::string& before = "",
                       const std::string& blob = testing_util::CompiledBlob()) const {
    const std::string made = Write("made/" + name + ".pt", blob);
    return Script(name, before + "echo \"$*\" >>" + *this / "runs" +
                            "\n"
                            "out=\"${@: -1}\"\n"
                            "while [ $# -gt 1 ]; do case $1 in\n"
                            "  --model) model=$2; shift ;;\n"
                            "  --batch_size) bs=$2; shift ;;\n"
                            "  --sequence_length) seq=$2; shift ;;\n"
                            "  --tensor_parallel_size) tp=$2; shift ;;\n"
                            "esac; shift; done\n" +
                            Tool("nxd-convert") +
                            " --no-sync -q --from hf --to rollout --tp $tp --bs $bs --seq $seq "
                            "\"$model\" \"$out\"\n"
                            "cp " +
                            made + " \"$out/model.pt\"\n");
  }

  size_t Runs() const {
    if (!std::filesystem::exists(*this / "runs")) return 0;
    const std::string text = ReadFile(*this / "runs");
    return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  }

  // The path of the cache's only entry.
  std::string OnlyEntry() const {
    std::string found;
    for (const auto& compiler : std::filesystem::directory_iterator(Cache()))
      for (const auto& entry : std::filesystem::directory_iterator(compiler.path())) {
        EXPECT_EQ(found, "") << "more than one entry";
        found = entry.path().string();
      }
    EXPECT_NE(found, "") << "no entry";
    return found;
  }

 private:
  ProcessResult RunWithOurPath(const Words& words, Words environment) const {
    const char* path = std::getenv("PATH");
    environment.push_back("PATH=" + *this / "bin" + ":" + (path == nullptr ? "" : path));
    bool says_place = false;
    for (const std::string& entry : environment)
      says_place |= entry.starts_with("NEURON_COMPILE_CACHE_URL=");
    if (!says_place) environment.push_back("NEURON_COMPILE_CACHE_URL=" + Cache());
    return RunProcess(words, environment);
  }
};

}  // namespace nxdkit::test
