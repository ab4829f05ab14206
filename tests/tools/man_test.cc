// The man pages agree with the commands: every option of --help=all is in the page and the other
// way round, the JSON is described, the examples are accepted, and mandoc finds no fault.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "lib/json/json.h"
#include "tests/tools/json_schema.h"
#include "tests/tools/man_page.h"
#include "tests/tools/process.h"

namespace nxdkit::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::string PagePath(const std::string& tool) {
  return NXDKIT_SOURCE_DIR "/man/" + NameOf(tool) + ".1";
}

std::vector<std::string> Missing(const Names& from, const Names& in) {
  std::vector<std::string> missing;
  for (const std::string& name : from)
    if (!in.contains(name)) missing.push_back(name);
  return missing;
}

TEST(ManPages, EveryToolHasOne) {
  EXPECT_GE(BuiltTools().size(), 4u) << "the tools were not found";
  for (const std::string& tool : BuiltTools())
    EXPECT_TRUE(std::filesystem::exists(PagePath(tool))) << PagePath(tool);
}

TEST(ManPages, DescribeTheOptionsOfTheHelpAndNoOthers) {
  for (const std::string& tool : BuiltTools()) {
    const ProcessResult help = RunProcess({tool, "--help=all"});
    ASSERT_EQ(help.exit_code, 0) << tool;
    const Names in_help = HelpOptions(help.out);
    const std::string page = ReadFile(PagePath(tool));
    EXPECT_TRUE(in_help.contains("--help")) << tool;
    EXPECT_THAT(Missing(in_help, ManOptions(page)), IsEmpty()) << "not in " << PagePath(tool);
    EXPECT_THAT(Missing(ManMentions(page), in_help), IsEmpty())
        << PagePath(tool) << " names what " << tool << " does not take";
  }
}

TEST(ManPages, DescribeTheEnvelopeOfTheJson) {
  for (const std::string& tool : BuiltTools()) {
    const Names documented = ManJsonPaths(ReadFile(PagePath(tool)));
    const ProcessResult version = RunProcess({tool, "--version", "--json"});
    const ProcessResult misuse = RunProcess({tool, "--no-such-option", "--json"});
    EXPECT_EQ(version.exit_code, 0) << tool;
    EXPECT_EQ(misuse.exit_code, 2) << tool;
    for (const ProcessResult& result : {version, misuse}) {
      const Result<Json> json = ParseJson(result.out);
      ASSERT_TRUE(json.ok()) << tool << ": " << result.out;
      EXPECT_THAT(UndocumentedPaths(*json, documented), IsEmpty()) << PagePath(tool);
    }
  }
}

// Runs one command with --json, and checks its output against its page.
void ExpectDocumented(int exit_code, std::vector<std::string> command) {
  const std::string page = ReadFile(PagePath(command[0]));
  command[0] = std::string(NXDKIT_TOOLS) + "/" + command[0];
  command.push_back("--json");
  const ProcessResult result = RunProcess(command);
  EXPECT_EQ(result.exit_code, exit_code) << command[0] << ": " << result.err;
  const Result<Json> json = ParseJson(result.out);
  ASSERT_TRUE(json.ok()) << command[0] << ": " << result.out;
  EXPECT_THAT(UndocumentedPaths(*json, ManJsonPaths(page)), IsEmpty()) << command[0];
  EXPECT_THAT(SourceSchemas().Faults(NameOf(command[0]) + ".json", *json), IsEmpty())
      << result.out.substr(0, 400);
}

TEST(ManPages, DescribeTheJsonOfEveryKindOfRun) {
  const TempFolder folder;
  const std::string model = folder.path() + "/model";
  const std::string other = folder.path() + "/other";
  const std::string shards = folder.path() + "/shards";
  const std::vector<std::string> convert = {"nxd-convert", "--from", "hf",  "--to", "nxd",
                                            "--tp",        "2",      model, shards};
  const auto with = [](std::vector<std::string> command, std::vector<std::string> more) {
    command.insert(command.end(), more.begin(), more.end());
    return command;
  };
  ExpectDocumented(0, {"nxdkit-make-model", "--out", model});
  ExpectDocumented(0, {"nxdkit-make-model", "--out", other, "--seed", "2"});
  ExpectDocumented(0, with(convert, {"--dry-run"}));
  ExpectDocumented(0, with(convert, {"--explain", "model.norm.weight"}));
  ExpectDocumented(0, with(convert, {"--explain", "--html", folder.path() + "/plan.html"}));
  ExpectDocumented(0, with(convert, {"--verify"}));
  ExpectDocumented(2, convert);  // the output already exists
  const std::vector<std::string> reshard = {"nxd-reshard", "--pp", "2", shards,
                                            folder.path() + "/resharded"};
  ExpectDocumented(0, with(reshard, {"--dry-run"}));
  ExpectDocumented(0, with(reshard, {"--explain", "model.norm.weight"}));
  ExpectDocumented(0, reshard);
  ExpectDocumented(0, {"ckpt-inspect", shards, "--stats"});
  ExpectDocumented(0, {"ckpt-inspect", model, "--html", folder.path() + "/model.html"});
  ExpectDocumented(3, {"ckpt-inspect", folder.path() + "/nothing"});
  ExpectDocumented(0, {"ckpt-verify", shards, "--against", model});
  const std::string bundle = folder.path() + "/bundle";
  ExpectDocumented(0, {"neuron-export", "--tp", "2", "--target", "cpu", model, bundle});
  ExpectDocumented(0, {"ckpt-inspect", NXDKIT_TESTDATA "/neff/toy.neff", "--stats"});
  ExpectDocumented(0, {"ckpt-inspect", NXDKIT_TESTDATA "/nxd/v2/step_10/optim"});
  ExpectDocumented(0, {"ckpt-verify", bundle, "--weights", model});
  const std::string cache = folder.path() + "/cache";
  const std::vector<std::string> exports = {
      "neuron-export", "--tp", "2",   "--cache-dir",         cache,
      "--bs",          "4",    model, folder.path() + "/out"};
  ExpectDocumented(0, {"neuron-export", "--tp", "2", "--bs", "4", "--target", "cpu", model,
                       folder.path() + "/out"});
  ExpectDocumented(0, with(exports, {"--no-blob", "--force", "--dry-run"}));
  ExpectDocumented(4, exports);  // there is no blob
  folder.Write("cache/neuronxcc-1/MODULE_1+d41d8cd9/model.neff", "no neff");
  folder.Write("cache/neuronxcc-1/MODULE_1+d41d8cd9/model.done", "");
  ExpectDocumented(0, {"ckpt-inspect", cache});
  folder.Write("model/trn_config.json", "{\"fuse_qkv\": true}");
  ExpectDocumented(0, {"ckpt-inspect", model});
  folder.Write("adapter/adapter_config.json", "{\"r\": 8}");
  std::filesystem::copy_file(model + "/model.safetensors",
                             folder.path() + "/adapter/adapter_model.safetensors");
  ExpectDocumented(0, {"ckpt-inspect", folder.path() + "/adapter"});
  for (const char* command : {"ls", "clear"})
    ExpectDocumented(0, {"neuron-cache", command, "--dry-run", "--cache-dir", cache});
  ExpectDocumented(1, {"neuron-cache", "verify", "--cache-dir", cache});
  ExpectDocumented(1, {"neuron-cache", "merge", cache, folder.path() + "/merged"});
  ExpectDocumented(4, {"neuron-cache", "relocate", "/a", "/b", "--cache-dir", cache});
  ExpectDocumented(0, {"neuron-cache", "prune", "--damaged", "--cache-dir", cache});
  ExpectDocumented(1, {"ckpt-verify", shards, "--against", other});
  const std::string manifest = folder.path() + "/manifest.json";
  ExpectDocumented(0, {"ckpt-digest", shards, "--manifest", manifest});
  ExpectDocumented(0, {"ckpt-diff", model, shards});
  ExpectDocumented(1, {"ckpt-diff", other, shards});
  ExpectDocumented(1, {"ckpt-digest", other, "--check", manifest, "--no-files"});
}

// --help stops before the work, but after the options were read and accepted.
void ExpectAccepted(const std::string& tool, const std::string& example) {
  // Nothing is written into the test's working folder.
  const std::string line = example.substr(0, example.find(" > "));
  std::string options = line.substr(NameOf(tool).size());
  options.insert(std::min(options.find(" -- "), options.size()), " --help");
  const ProcessResult result = RunProcess({"bash", "-c", tool + options});
  EXPECT_EQ(result.exit_code, 0) << example << "\n" << result.err;
}

TEST(ManPages, ExamplesAreAccepted) {
  for (const std::string& tool : BuiltTools()) {
    const std::vector<std::string> examples = ManExamples(ReadFile(PagePath(tool)));
    EXPECT_FALSE(examples.empty()) << PagePath(tool) << " has no example";
    for (const std::string& example : examples) {
      EXPECT_TRUE(example.starts_with(NameOf(tool) + " ")) << PagePath(tool) << ": " << example;
      ExpectAccepted(tool, example);
    }
  }
}

constexpr const char* kReadmes[] = {"/README.md", "/tools/README.md", "/tools/EXAMPLES.md",
                                    "/trainer/README.md"};

// Command lines are indented, with a "$ " before those with output.
TEST(Readme, ExamplesAreAccepted) {
  size_t examples = 0;
  for (const char* readme : kReadmes) {
    std::istringstream lines(ReadFile(std::string(NXDKIT_SOURCE_DIR) + readme));
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("    ") || line.ends_with("\\")) continue;
      line.erase(0, line.find_first_not_of(" $"));
      for (const std::string& tool : BuiltTools()) {
        if (!line.starts_with(NameOf(tool) + " ")) continue;
        ExpectAccepted(tool, line);
        ++examples;
      }
    }
  }
  EXPECT_GE(examples, 20u);
}

TEST(Readme, NamesOnlyOptionsThatExist) {
  Names known = {"--install", "--max"};  // of cmake, and --max_steps of a program
  const std::string quickstart = ReadFile(NXDKIT_SOURCE_DIR "/tools/quickstart.sh");
  for (const std::string& tool : BuiltTools())
    known.merge(HelpOptions(RunProcess({tool, "--help=all"}).out));
  static const std::regex option("(^|[ `(])(--[a-z][a-z-]*)");
  for (const char* readme :
       {"/README.md", "/tools/README.md", "/tools/EXAMPLES.md", "/formats/README.md"}) {
    std::string text;
    std::istringstream lines(ReadFile(std::string(NXDKIT_SOURCE_DIR) + readme));
    for (std::string line;
         std::getline(lines, line);)  // options of Slurm and of a program are not ours
      if (line.find("$ sbatch --dep") == line.npos && line.find("(sbatch ") == line.npos)
        text += line + "\n";
    for (std::sregex_iterator at(text.begin(), text.end(), option), end; at != end; ++at) {
      const std::string name = (*at)[2];
      EXPECT_TRUE(known.contains(name) || quickstart.find(name) != std::string::npos)
          << readme << " names " << name;
    }
  }
}

TEST(Readme, ListsEveryTool) {
  const std::string readme = ReadFile(NXDKIT_SOURCE_DIR "/README.md");
  for (const std::string& tool : BuiltTools())
    EXPECT_NE(readme.find("\n| `" + NameOf(tool) + "` |"), std::string::npos) << tool;
}

TEST(ManPages, PassMandocLint) {
  for (const auto& entry : std::filesystem::directory_iterator(NXDKIT_SOURCE_DIR "/man")) {
    if (entry.path().extension() != ".1" && entry.path().extension() != ".7") continue;
    const ProcessResult result =
        RunProcess({"mandoc", "-T", "lint", "-W", "warning", entry.path().string()});
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  }
}

TEST(ManPages, BelongToATool) {
  Names pages;
  for (const std::string& tool : BuiltTools()) pages.insert(NameOf(tool) + ".1");
  for (const auto& entry : std::filesystem::directory_iterator(NXDKIT_SOURCE_DIR "/man")) {
    if (entry.path().extension() != ".1") continue;
    EXPECT_TRUE(pages.contains(entry.path().filename().string())) << entry.path();
  }
}

// --- the parsers of the two texts, on texts that differ

constexpr const char* kHelp = R"(usage: x [options]

Options:
  -j, --jobs N        threads, see --no-such-thing
      --xser, --no-xser
                      - a dash in the text is no option
)";

constexpr const char* kPage = R"(.Sh SYNOPSIS
.Op Fl -gone
.Sh OPTIONS
.It Fl j Ar N , Fl -jobs Ar N
.It Fl -xser , Fl -no-xser
See
.Fl -elsewhere .
.Sh JSON OUTPUT
.It Va tensors
.It Va tensors[].name , tensors[].bytes
.It Va dtypes
.It Va dtypes.*
.Sh EXAMPLES
.Dl x --jobs 3
)";

TEST(ManPageReader, FindsTheOptionsOfTheHelp) {
  EXPECT_THAT(HelpOptions(kHelp), UnorderedElementsAre("-j", "--jobs", "--xser", "--no-xser"));
}

TEST(ManPageReader, FindsTheOptionsOfThePage) {
  EXPECT_THAT(ManOptions(kPage), UnorderedElementsAre("-j", "--jobs", "--xser", "--no-xser"));
  EXPECT_THAT(Missing(ManMentions(kPage), HelpOptions(kHelp)),
              ElementsAre("--elsewhere", "--gone"));
}

TEST(ManPageReader, FindsWhatTheJsonHasAndThePageHasNot) {
  const Json json = Json::parse(
      R"({"tensors": [{"name": "a", "rank": 1}, {"bytes": 2}], "dtypes": {"BF16": 3}, "new": 1})");
  EXPECT_THAT(UndocumentedPaths(json, ManJsonPaths(kPage)), ElementsAre("new", "tensors[].rank"));
}

TEST(ManPageReader, FindsTheExamples) {
  EXPECT_THAT(ManExamples(kPage), ElementsAre("x --jobs 3"));
}

}  // namespace
}  // namespace nxdkit::test
