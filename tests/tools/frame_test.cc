// The frame of the tools, tested from outside with frame-tool: the texts on both streams, and the
// exit codes. The texts are part of the product, so they are compared word for word.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tools/process.h"

namespace nxdkit::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using SortedJson = nlohmann::json;

ProcessResult Frame(std::vector<std::string> arguments,
                    const std::vector<std::string>& environment = {}) {
  arguments.insert(arguments.begin(), NXDKIT_FRAME_TOOL);
  return RunProcess(arguments, environment);
}

// The fields of a run that must succeed.
SortedJson Fields(std::vector<std::string> arguments) {
  arguments.push_back("--json");
  const ProcessResult result = Frame(std::move(arguments));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return SortedJson::parse(result.out);
}

TEST(Frame, PrintsTheAnswerOnStdoutAndNothingElse) {
  const ProcessResult result = Frame({"good", "--tp", "8"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "tp 8\n");
  EXPECT_EQ(result.err, "");
}

struct End {
  const char* input;
  int exit_code;
  const char* code;
  const char* err;
};

class FrameEnds : public ::testing::TestWithParam<End> {};

TEST_P(FrameEnds, PrintsTheErrorOnceAndExitsByItsCode) {
  const ProcessResult result = Frame({GetParam().input});
  EXPECT_EQ(result.exit_code, GetParam().exit_code);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, GetParam().err);
}

TEST_P(FrameEnds, PrintsOneJsonDocument) {
  const ProcessResult result = Frame({GetParam().input, "--json"});
  EXPECT_EQ(result.exit_code, GetParam().exit_code);
  const SortedJson json = SortedJson::parse(result.out);
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["tool"], "frame-tool");
  EXPECT_EQ(json["exit_code"], GetParam().exit_code);
  EXPECT_EQ(json["status"], GetParam().exit_code == 1 ? "findings" : "error");
  EXPECT_EQ(json["error"]["code"], GetParam().code);
  EXPECT_EQ(json["warnings"], SortedJson::array());
}

INSTANTIATE_TEST_SUITE_P(
    All, FrameEnds,
    ::testing::Values(
        End{"refused", 1, "findings", "frame-tool: error: the plan is refused\n"},
        End{"missing.pt", 3, "not_found", "frame-tool: error: missing.pt: no such input\n"},
        End{"corrupt", 3, "corrupt",
            "frame-tool: error: model.safetensors: data/0: bad\\x0aname: rank 3: offset 17: header "
            "length 300 is over the limit of 100\nhint: copy it again\n"},
        End{"unsupported", 4, "unsupported", "frame-tool: error: cannot do it correctly\n"},
        End{"io", 5, "io", "frame-tool: error: no space\n"},
        End{"limit", 6, "limit", "frame-tool: error: 1 MiB is too little\n"},
        End{"memory", 6, "limit",
            "frame-tool: error: the system gave no more memory\n"
            "hint: lower --max-memory or --jobs, where the command has them\n"},
        End{"sigint", 130, "interrupted",
            "frame-tool: error: stopped by SIGINT\n"
            "hint: run the same command line with --resume to continue\n"},
        End{"sigterm", 143, "interrupted",
            "frame-tool: error: stopped by SIGTERM\n"
            "hint: run the same command line with --resume to continue\n"},
        End{"throw", 70, "internal",
            "frame-tool: error: internal error: boom\n"
            "hint: this is a bug of the program; please report it with the command line\n"}),
    [](const auto& end) { return std::string(end.param.code) + std::to_string(end.index); });

// Each problem can be read, and searched for, by itself; a number alone is not a list.
TEST(Frame, ProblemsAreALineEach) {
  EXPECT_EQ(Frame({"problems"}).err,
            "frame-tool: error: 2 problems in the configuration:\n  [1] a\\x0ab [9] is wrong\n"
            "  [2] c is missing\n");
  const SortedJson json = SortedJson::parse(Frame({"problems", "--json"}).out);
  EXPECT_EQ(json["error"]["message"],
            "2 problems in the configuration:\n[1] a\nb [9] is wrong\n[2] c is missing");
}

TEST(Frame, FailedCheckIsAnInternalErrorAlsoAsJson) {
  const ProcessResult result = Frame({"check", "--json"});
  EXPECT_EQ(result.exit_code, 70);
  EXPECT_EQ(SortedJson::parse(result.out)["error"]["code"], "internal");
  EXPECT_THAT(result.err, HasSubstr("how.empty()"));
}

TEST(Frame, ErrorObjectHoldsThePlaceAndOnlyTheKeysThatAreKnown) {
  const SortedJson full = SortedJson::parse(Frame({"corrupt", "--json"}).out)["error"];
  EXPECT_EQ(full, SortedJson::parse(R"({"code": "corrupt",
      "message": "header length 300 is over the limit of 100", "file": "model.safetensors",
      "member": "data/0", "tensor": "bad\nname", "rank": 3, "offset": 17,
      "hint": "copy it again"})"));
  const SortedJson bare = SortedJson::parse(Frame({"unsupported", "--json"}).out)["error"];
  EXPECT_EQ(bare,
            SortedJson::parse(R"({"code": "unsupported", "message": "cannot do it correctly"})"));
}

TEST(Frame, FindingsAreAnAnswerWithExitCodeOne) {
  const ProcessResult result = Frame({"findings", "--json"});
  EXPECT_EQ(result.exit_code, 1);
  const SortedJson json = SortedJson::parse(result.out);
  EXPECT_EQ(json["status"], "findings");
  EXPECT_FALSE(json.contains("error"));
  EXPECT_EQ(Frame({"findings"}).err, "");
}

TEST(Frame, OkDocumentHasTheEnvelopeAndTheFields) {
  const SortedJson json = Fields({"good", "--tp", "4"});
  EXPECT_EQ(json["status"], "ok");
  EXPECT_EQ(json["exit_code"], 0);
  EXPECT_THAT(json["tool_version"].get<std::string>(), HasSubstr("."));
  EXPECT_EQ(json["tp"], 4);
  EXPECT_EQ(json["not_utf8"], "\xEF\xBF\xBD") << "bytes that are not UTF-8 become U+FFFD";
}

TEST(Frame, JsonIsOneLine) {
  const std::string out = Frame({"good", "--json"}).out;
  ASSERT_FALSE(out.empty());
  EXPECT_EQ(out.find('\n'), out.size() - 1);
}

// --- usage errors

struct Misuse {
  std::vector<std::string> arguments;
  std::string message;
};

class FrameMisuse : public ::testing::TestWithParam<Misuse> {};

TEST_P(FrameMisuse, SaysTheOptionWhatWasFoundAndWhatWasExpected) {
  const ProcessResult result = Frame(GetParam().arguments);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, ::testing::StartsWith("frame-tool: error: " + GetParam().message + "\n"));
}

TEST_P(FrameMisuse, IsJsonUnderJson) {
  std::vector<std::string> arguments = {"--json"};
  arguments.insert(arguments.end(), GetParam().arguments.begin(), GetParam().arguments.end());
  const ProcessResult result = Frame(arguments);
  EXPECT_EQ(result.exit_code, 2);
  const SortedJson json = SortedJson::parse(result.out);
  EXPECT_EQ(json["exit_code"], 2);
  EXPECT_EQ(json["error"]["code"], "usage");
  EXPECT_EQ(json["error"]["message"], GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, FrameMisuse,
    ::testing::Values(
        Misuse{{"good", "--tpp", "8"}, "unknown option --tpp; did you mean --tp?"},
        Misuse{{"good", "--tpp=8"}, "unknown option --tpp; did you mean --tp?"},
        Misuse{{"good", "-tp", "8"}, "unknown option -tp; did you mean --tp?"},
        Misuse{{"good", "--max_memorry", "8"},
               "unknown option --max-memorry; did you mean --max-memory?"},
        Misuse{{"good", "--tga", "x"}, "unknown option --tga; did you mean --tag?"},
        Misuse{{"good", "--something-else"}, "unknown option --something-else"},
        Misuse{{"good", "-z"}, "unknown option -z"},
        Misuse{{"good", "--stats=True"},
               "option --stats takes no value, found \"True\"; give --stats or leave it out"},
        Misuse{{"good", "--xser=True"},
               "option --xser takes no value, found \"True\"; give --xser or --no-xser"},
        Misuse{{"good", "--no-xser=1"},
               "option --no-xser takes no value, found \"1\"; give --xser or --no-xser"},
        Misuse{{"good", "--stats", "True", "more"}, "unexpected argument \"more\""},
        Misuse{{"good", "--tp"}, "option --tp needs a value: N"},
        Misuse{{"good", "--tag="}, "option --tag needs a value: TAG"},
        Misuse{{"good", "--tag", "--stats"}, "option --tag needs a value: TAG"},
        Misuse{{"good", "--hw", "-q"}, "option --hw needs a value: trn1|trn2"},
        Misuse{{"good", "-j"}, "option --jobs needs a value: N"},
        Misuse{{"good", "--tp", "eight"},
               "option --tp: found \"eight\", expected a whole number of at least 1"},
        Misuse{{"good", "--tp", "0"},
               "option --tp: found \"0\", expected a whole number of at least 1"},
        Misuse{{"good", "--tp", "4x"},
               "option --tp: found \"4x\", expected a whole number of at least 1"},
        Misuse{{"good", "--tp", "99999999999999999999"},
               "option --tp: found \"99999999999999999999\", expected a whole number of at least "
               "1"},
        Misuse{{"good", "-j", "257"},
               "option --jobs: found \"257\", expected a whole number from 1 to 256"},
        Misuse{{"good", "--qkv", "joined"},
               "option --qkv: found \"joined\", expected one of separate|linear|fused|coalesced"},
        Misuse{{"good", "--max-memory", "4 gigs"},
               "option --max-memory: found \"4 gigs\", expected a size such as 500M, 4G or 4GiB"},
        Misuse{{"good", "--max-memory", "0"},
               "option --max-memory: found \"0\", expected a size such as 500M, 4G or 4GiB"},
        Misuse{{"good", "one", "two"}, "unexpected argument \"two\""},
        Misuse{{}, "INPUT is missing"}, Misuse{{"--tp", "8"}, "INPUT is missing"}));

TEST(Frame, UnknownOptionWithoutANeighbourPointsToTheHelp) {
  EXPECT_THAT(Frame({"good", "--something-else"}).err, HasSubstr("\nhint: --help lists"));
}

TEST(Frame, UrlsAreRefusedWhereALocalPathIsMeant) {
  const std::vector<std::vector<std::string>> rows = {
      {"INPUT", "s3://bucket/x"},
      {"OUTPUT", "good", "gs://bucket/x"},
      {"--config", "good", "--config", "file:///etc/passwd"},
      {"--bundle", "good", "--bundle=https://host/x"}};
  for (const std::vector<std::string>& row : rows) {
    const ProcessResult result = Frame({row.begin() + 1, row.end()});
    EXPECT_EQ(result.exit_code, 4) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, ::testing::StartsWith("frame-tool: error: " + row[0] + ": \""));
    const char* const hint = row[0] == "--config" ? "write /etc/passwd" : "mount";
    EXPECT_THAT(result.err,
                HasSubstr(std::string("is a URL, expected a local path\nhint: ") + hint));
  }
  EXPECT_EQ(Frame({"good", "a:/b"}).exit_code, 0);
  EXPECT_EQ(Frame({"good", "./s3://x"}).exit_code, 0) << "a path with ./ is never a URL";
  EXPECT_EQ(Frame({"good", "--tag", "s3://x"}).exit_code, 0) << "not a path";
}

// It used to make a local folder "s3:".
TEST(Frame, EveryCommandRefusesAUrl) {
  const std::vector<std::vector<std::string>> commands = {
      {"ckpt-inspect", "s3://b/x"},
      {"ckpt-verify", "model", "--against", "s3://b/x"},
      {"ckpt-digest", "s3://b/x"},
      {"ckpt-diff", "model", "s3://b/x"},
      {"ckpt-pack", "model", "s3://b/x.tar"},
      {"nxd-convert", "--from", "hf", "--to", "nxd", "model", "s3://b/x"},
      {"nxd-reshard", "shards", "s3://b/x"},
      {"neuron-export", "--tp", "2", "model", "s3://b/x"},
      {"grpo-train", "report", "s3://b/x"},
      {"grpo-train", "--config", "s3://b/x.yaml"},
      {"nxdkit-make-model", "--out", "s3://b/x"}};
  for (std::vector<std::string> command : commands) {
    command[0].insert(0, NXDKIT_TOOLS "/");
    const ProcessResult result = RunProcess(command);
    EXPECT_EQ(result.exit_code, 4) << command[0] << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr("is a URL, expected a local path\n")) << command[0];
  }
}

TEST(Frame, ControlCharactersOfArgumentsAreEscaped) {
  const ProcessResult result = Frame({"good", "two", "\x1b[2J"});
  EXPECT_THAT(result.err, HasSubstr("\\x1b[2J"));
  EXPECT_THAT(result.err, Not(HasSubstr("\x1b")));
}

// --- accepted arguments

TEST(Frame, UnderscoresStandForDashesInNamesButNotInValues) {
  const SortedJson json =
      Fields({"good", "--tensor_parallel_size", "2", "--tag=my_tag", "--no_xser"});
  EXPECT_EQ(json["tp"], 2);
  EXPECT_EQ(json["tag"], "my_tag");
  EXPECT_EQ(json["xser"], "no");
  EXPECT_EQ(Fields({"good", "--tag", "my_tag"})["tag"], "my_tag");
}

TEST(Frame, LastOfARepeatedOptionWins) {
  EXPECT_EQ(Fields({"good", "--tp", "2", "--tp=4"})["tp"], 4);
  EXPECT_EQ(Fields({"good", "--xser", "--no-xser"})["xser"], "no");
  EXPECT_EQ(Fields({"good", "--no-xser", "--xser"})["xser"], "yes");
  EXPECT_EQ(Fields({"good"})["xser"], "unset");
}

TEST(Frame, ListsKeepEveryValueAsItStands) {
  const SortedJson json =
      Fields({"good", "--filter", "[a,b]", "--filter={x}", "--filter", "*.bias"});
  EXPECT_EQ(json["filters"], SortedJson::parse(R"(["[a,b]", "{x}", "*.bias"])"));
}

TEST(Frame, ShortOptionsTakeTheirValueEitherWayAndCluster) {
  EXPECT_EQ(Fields({"good", "-j3"})["jobs"], 3);
  EXPECT_EQ(Fields({"good", "-j", "3"})["jobs"], 3);
  const SortedJson json = Fields({"good", "-nf"});
  EXPECT_EQ(json["dry_run"], true);
  EXPECT_EQ(json["force"], true);
}

TEST(Frame, OptionsMayFollowArguments) {
  const SortedJson json = Fields({"--top", "7", "good", "--stats", "out", "--no-sync"});
  EXPECT_EQ(json["input"], "good");
  EXPECT_EQ(json["output"], "out");
  EXPECT_EQ(json["stats"], true);
  EXPECT_EQ(json["sync"], false);
  EXPECT_EQ(json["top"], 7);
}

TEST(Frame, AfterTwoDashesAllAreArguments) {
  const SortedJson json = SortedJson::parse(Frame({"--json", "--", "good", "--tp"}).out);
  EXPECT_EQ(json["input"], "good");
  EXPECT_EQ(json["output"], "--tp");
  EXPECT_EQ(Frame({"good", "--", "--json"}).out, "tp 0\n");
}

TEST(Frame, PrefixedLayoutOptionsFillTheOtherArgs) {
  const SortedJson json = Fields({"good", "--tp", "2", "--against-tp", "4"});
  EXPECT_EQ(json["tp"], 2);
  EXPECT_EQ(json["against_tp"], 4);
}

TEST(Frame, SizesAreBytes) {
  EXPECT_EQ(Fields({"good"})["max_memory"], 512u << 20);
  EXPECT_EQ(Fields({"good", "--max-memory", "4GiB"})["max_memory"], uint64_t{4} << 30);
  EXPECT_EQ(Fields({"good", "--max-memory", "500M"})["max_memory"], 500'000'000);
}

// --- messages

TEST(Frame, WarningsGoToStderrAndIntoTheDocument) {
  EXPECT_EQ(Frame({"warn"}).err, "frame-tool: warning: careful\\x1b[31m\n");
  EXPECT_EQ(Frame({"warn", "-q"}).err, "");
  const ProcessResult result = Frame({"warn", "--json", "-q"});
  EXPECT_EQ(SortedJson::parse(result.out)["warnings"],
            SortedJson::parse(R"(["careful\u001b[31m"])"));
}

TEST(Frame, QuietPrintsTheBriefAnswer) {
  EXPECT_EQ(Frame({"done", "-q"}).out, "");
  EXPECT_EQ(Frame({"done"}).out, "it is done\n");
  EXPECT_EQ(Frame({"good", "-q"}).out, "tp 0\n");
}

TEST(Frame, DetailsOnlyWithVerbose) {
  EXPECT_EQ(Frame({"good"}).err, "");
  EXPECT_EQ(Frame({"good", "-v"}).err, "frame-tool: a detail\n");
}

constexpr const char* kRedError = "\033[31merror:\033[0m";

TEST(Frame, ColourOnlyOnATerminal) {
  EXPECT_THAT(Frame({"io"}, {"TERM=xterm", "NO_COLOR="}).err, Not(HasSubstr("\033")));
  const std::vector<std::string> command = {NXDKIT_FRAME_TOOL, "io"};
  EXPECT_THAT(RunOnTerminal(command, {"TERM=xterm", "NO_COLOR="}).err, HasSubstr(kRedError));
  EXPECT_THAT(RunOnTerminal(command, {"TERM=xterm", "NO_COLOR=1"}).err, Not(HasSubstr("\033")));
  EXPECT_THAT(RunOnTerminal(command, {"TERM=dumb", "NO_COLOR="}).err, Not(HasSubstr("\033")));
}

TEST(Frame, ColorOptionDecidesAgainstTheEnvironment) {
  EXPECT_THAT(Frame({"io", "--color", "always"}, {"NO_COLOR=1"}).err, HasSubstr(kRedError));
  EXPECT_THAT(RunOnTerminal({NXDKIT_FRAME_TOOL, "io", "--color=never"}, {"TERM=xterm"}).err,
              Not(HasSubstr("\033")));
}

TEST(Frame, ProgressIsDrawnOnATerminalOnly) {
  EXPECT_EQ(Frame({"progress"}).err, "");
  EXPECT_THAT(RunOnTerminal({NXDKIT_FRAME_TOOL, "progress"}).err, HasSubstr("work  "));
  EXPECT_EQ(RunOnTerminal({NXDKIT_FRAME_TOOL, "progress", "-q"}).err, "");
}

// --- a stdout that fails

TEST(Frame, FullDiskIsAnIoError) {
  const ProcessResult result =
      RunProcess({"bash", "-c", std::string(NXDKIT_FRAME_TOOL) + " good > /dev/full"});
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_EQ(result.err,
            "frame-tool: error: cannot write the answer to standard output: No space left on "
            "device\n");
}

TEST(Frame, ClosedPipeIsSilent) {
  const ProcessResult result =
      RunProcess({"bash", "-c",
                  std::string("mkfifo \"$0/p\"; exec 3<>\"$0/p\"; exec 4>\"$0/p\"; exec 3>&-; ") +
                      NXDKIT_FRAME_TOOL + " good >&4",
                  TempFolder().path()});
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_EQ(result.err, "");
}

// --- the tool's description of itself

TEST(Frame, HelpNeedsNoArguments) {
  const ProcessResult result = Frame({"--help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, ::testing::StartsWith("usage: frame-tool [options] INPUT [OUTPUT]\n"));
  EXPECT_THAT(result.out, HasSubstr("\n  -j, --jobs N"));
  EXPECT_THAT(result.out, HasSubstr("\n      --xser, --no-xser"));
  EXPECT_THAT(result.out, HasSubstr("(default 512MiB)"));
  EXPECT_THAT(result.out, HasSubstr("1 there are findings, 2 wrong options"));
  EXPECT_EQ(Frame({"--help=all"}).out, result.out);
}

TEST(Frame, ShortHelpFitsAScreen) {
  const ProcessResult result = Frame({"-h"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, ::testing::StartsWith("usage: frame-tool [options] INPUT [OUTPUT]\n"));
  EXPECT_THAT(result.out, HasSubstr("\nMost used options:\n      --top N "));
  EXPECT_THAT(result.out, Not(HasSubstr("--filter")));
  EXPECT_THAT(result.out, HasSubstr("\n  frame-tool good\n"));
  EXPECT_THAT(result.out, HasSubstr("frame-tool --help=FORMAT lists those of a format: nxd, "));
  for (const std::string& tool : BuiltTools()) {
    const std::string help = RunProcess({tool, "-h"}).out;
    EXPECT_LE(std::ranges::count(help, '\n'), 45) << help;
    EXPECT_THAT(help, HasSubstr(" --help lists all ")) << tool;
  }
}

// Commands of examples and usage lines stay whole.
TEST(Frame, OptionsFitEightyColumns) {
  std::vector<std::string> tools = BuiltTools();
  tools.emplace_back(NXDKIT_FRAME_TOOL);
  for (const std::string& tool : tools) {
    std::string help = RunProcess({tool, "--help"}).out;
    help.resize(std::min(help.find("\nExamples:\n"), help.size()));
    help.erase(0, help.find("\n\n"));
    std::istringstream lines(help);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << tool << line;
  }
}

TEST(Frame, HelpOfAKindIsAboutWhatGoesWithIt) {
  const std::string help = Frame({"--help=rollout"}).out;
  EXPECT_THAT(help, HasSubstr("\n      --flavor optimum|nxdi"));
  EXPECT_THAT(help, Not(HasSubstr("--pp")));
  const ProcessResult other = Frame({"--help=cpu"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("--help: found \"cpu\", expected one of nxd|rollout|all"));
}

// A name shared by two kinds is described as in the selected one.
TEST(Frame, HelpOfAKindHasItsOwnWords) {
  const std::string tool = NXDKIT_TOOLS "/nxd-convert";
  EXPECT_THAT(RunProcess({tool, "--help=dcp"}).out,
              HasSubstr("--style hf|hf-fused|torchtitan|torchtitan-unfused|torchtitan-2025\n"));
  EXPECT_THAT(RunProcess({tool, "--help=nxd"}).out,
              HasSubstr("--style hf|nxdt|megatron|optimum\n"));
}

TEST(Frame, HelpAsJsonListsTheTable) {
  const SortedJson options = SortedJson::parse(Frame({"--help", "--json"}).out)["options"];
  const auto find = [&](const std::string& name) {
    for (const SortedJson& option : options)
      if (option["name"] == name) return option;
    return SortedJson();
  };
  EXPECT_EQ(find("xser")["names"], SortedJson::parse(R"(["--xser", "--no-xser"])"));
  EXPECT_EQ(find("jobs")["short"], "j");
  EXPECT_EQ(find("hw")["choices"], SortedJson::parse(R"(["trn1", "trn2"])"));
  EXPECT_EQ(find("filter")["repeats"], true);
  EXPECT_EQ(find("INPUT")["required"], true);
}

TEST(Frame, VersionIsOneLine) {
  const ProcessResult result = Frame({"-V"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, ::testing::MatchesRegex("frame-tool \\(nxdkit\\) [0-9.]+\n"));
}

}  // namespace
}  // namespace nxdkit::test
