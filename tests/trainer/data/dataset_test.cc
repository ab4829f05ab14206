#include "trainer/data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "lib/system/process.h"
#include "tests/lib/expect_error.h"
#include "tests/lib/temp_folder.h"
#include "trainer/data/command_rows.h"

namespace nxdkit::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_util::ExpectError;
using testing_util::TempFolder;
using testing_util::WriteText;

constexpr std::string_view kChat =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

class DatasetTest : public ::testing::Test {
 protected:
  Result<Dataset> Load(std::string_view rows) {
    WriteText(path_, rows);
    return Dataset::Load(path_, maker_, options_);
  }
  std::string Text(const Dataset& data, size_t row) {
    return tokenizer_.Decode(data.ids(row), false);
  }
  static std::string Prompt(std::string_view content) {
    return "<|im_start|>user\n" + std::string(content) + "<|im_end|>\n<|im_start|>assistant\n";
  }

  TempFolder folder_;
  std::string path_ = folder_ / "rows.jsonl";
  Tokenizer tokenizer_ =
      *Tokenizer::Open(std::string(NXDKIT_TESTDATA) + "/tokenizer/qwen/tokenizer.json");
  ChatTemplate chat_ = *ChatTemplate::Parse(kChat);
  PromptFormat format_ = *PromptFormat::Parse("{{ content | trim }} Think first.");
  PromptMaker maker_{&tokenizer_, &chat_, nullptr};
  DatasetOptions options_;
};

TEST_F(DatasetTest, MakesIdsOfRows) {
  const Result<Dataset> data = Load(
      "{\"prompt\": \"1 + 1?\", \"answer\": \"2\", \"level\": 3}\n"
      "{\"prompt\": \" \\u221a4? \", \"answer\": 2, \"images\": []}\n"
      "{\"prompt\": \"\", \"answer\": 2.50}\n");
  ASSERT_TRUE(data.ok()) << data.error().ToString();
  ASSERT_EQ(data->size(), 3u);
  EXPECT_EQ(Text(*data, 0), Prompt("1 + 1?"));
  EXPECT_EQ(Text(*data, 1), Prompt(" \u221a4? "));
  EXPECT_EQ(Text(*data, 2), Prompt(""));
  EXPECT_EQ(data->ground_truth(0), "2");
  EXPECT_EQ(data->ground_truth(1), "2");
  EXPECT_EQ(data->ground_truth(2), "2.5");
  EXPECT_EQ(data->ids(0)[0], tokenizer_.TokenId("<|im_start|>"));
  EXPECT_EQ(data->longest(), static_cast<int64_t>(data->ids(1).size()));
}

TEST_F(DatasetTest, PutsTheFormatAroundThePrompt) {
  maker_.format = &format_;
  const Result<Dataset> data = Load("{\"prompt\": \" 1 + 1?\\n\", \"answer\": \"2\"}");
  ASSERT_TRUE(data.ok()) << data.error().ToString();
  EXPECT_EQ(Text(*data, 0), Prompt("1 + 1? Think first."));
}

TEST_F(DatasetTest, APromptHasTokens) {
  chat_ = *ChatTemplate::Parse("{{ messages[0].content }}");
  const auto error =
      ExpectError(Load("{\"prompt\": \"1\", \"answer\": 1}\n{\"prompt\": \"\", \"answer\": 1}"),
                  Errc::kCorrupt, "line 2: the prompt has no tokens");
  EXPECT_EQ(error->file(), path_);
}

TEST_F(DatasetTest, TakesOtherColumns) {
  options_.prompt_key = "problem";
  options_.answer_key = "solution";
  const Result<Dataset> data = Load("{\"problem\": \"p\", \"solution\": \"s\"}");
  ASSERT_TRUE(data.ok()) << data.error().ToString();
  EXPECT_EQ(Text(*data, 0), Prompt("p"));
  EXPECT_EQ(data->ground_truth(0), "s");
}

std::string LongRow() {
  return "{\"prompt\": \"" + std::string(500, '1') + "23\", \"answer\": \"long\"}\n";
}
constexpr const char* kShortRow = "{\"prompt\": \"5\", \"answer\": \"short\"}\n";

TEST_F(DatasetTest, DropsOverlongPrompts) {
  options_.max_prompt_tokens = 40;
  const Result<Dataset> data = Load(LongRow() + kShortRow);
  ASSERT_TRUE(data.ok()) << data.error().ToString();
  ASSERT_EQ(data->size(), 1u);
  EXPECT_EQ(data->ground_truth(0), "short");
  EXPECT_EQ(data->dropped(), 1);
}

TEST_F(DatasetTest, NamesTheFirstOverlongPrompt) {
  options_.max_prompt_tokens = 40;
  options_.overlong = Overlong::kError;
  const auto error = ExpectError(Load(kShortRow + LongRow()), Errc::kLimit, "line 2: a prompt of ");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), path_);
  EXPECT_THAT(error->message(), ::testing::HasSubstr("tokens is over the limit of 40"));
}

TEST_F(DatasetTest, TruncatesTheTextAndNeverWhatStandsAroundIt) {
  options_.max_prompt_tokens = 40;
  options_.overlong = Overlong::kTruncate;
  maker_.format = &format_;
  const Result<Dataset> data = Load(LongRow() + kShortRow);
  ASSERT_TRUE(data.ok()) << data.error().ToString();
  EXPECT_EQ(data->truncated(), 1);
  ASSERT_EQ(data->ids(0).size(), 40u) << "each digit is a token of its own: 40 can be met";
  const std::string text = Text(*data, 0);
  EXPECT_TRUE(text.starts_with("<|im_start|>user\n1")) << text;
  EXPECT_TRUE(text.ends_with("123 Think first.<|im_end|>\n<|im_start|>assistant\n")) << text;
  EXPECT_EQ(Text(*data, 1), Prompt("5 Think first."));

  options_.max_prompt_tokens = 5;
  ExpectError(Load(LongRow()), Errc::kLimit, "the prompt format and the chat template alone take");
}

TEST_F(DatasetTest, ThinkingReachesTheTemplate) {
  chat_ = *ChatTemplate::Parse("{{ messages[0].content }}{{ enable_thinking is defined }}");
  options_.chat.enable_thinking = false;
  const Result<Dataset> data = Load(kShortRow);
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(Text(*data, 0), "5True");
}

struct Fault {
  const char* row;
  Errc code;
  const char* member;
  const char* message;
};

TEST_F(DatasetTest, NamesFileLineAndColumn) {
  const Fault faults[] = {
      {R"({"answer": "a"})", Errc::kCorrupt, "prompt",
       "line 2: the column is missing; there are: answer"},
      {R"({"prompt": "p"})", Errc::kCorrupt, "answer",
       "line 2: the column is missing; there are: prompt"},
      {R"({"prompt": null, "answer": "a"})", Errc::kCorrupt, "prompt",
       "line 2: found null, expected a text"},
      {R"({"prompt": ["p"], "answer": "a"})", Errc::kCorrupt, "prompt", "expected a text"},
      {R"({"prompt": "p", "answer": NaN})", Errc::kCorrupt, "answer",
       "expected a text or a finite number"},
      {R"({"prompt": "p", "answer": true})", Errc::kCorrupt, "answer", "found true"},
      {R"({"prompt": "p", "answer": "a", "images": ["x.png"]})", Errc::kUnsupported, "images",
       "line 2: a row with images or videos"},
  };
  for (const Fault& fault : faults) {
    SCOPED_TRACE(fault.row);
    const auto error =
        ExpectError(Load(kShortRow + std::string(fault.row)), fault.code, fault.message);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->file(), path_);
    EXPECT_EQ(error->member(), fault.member);
  }
}

TEST_F(DatasetTest, TemplateErrorsHaveTheLine) {
  chat_ = *ChatTemplate::Parse("{{ raise_exception('no') if '5' in messages[0].content }}x");
  const auto error = ExpectError(Load(kShortRow), Errc::kCorrupt, "the template says: no");
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), ::testing::StartsWith("line 1: "));
}

TEST_F(DatasetTest, AnEmptyDataSetIsAnError) {
  ExpectError(Load(""), Errc::kCorrupt, "there are no rows");
  options_.max_prompt_tokens = 3;
  ExpectError(Load(kShortRow), Errc::kUsage, "no row remains of 1: 1 are longer than 3 tokens");
  ExpectError(Dataset::Load(folder_ / "none.jsonl", maker_, options_), Errc::kNotFound,
              "neither a file nor a folder");
  options_.max_prompt_tokens = 0;
  ExpectError(Load(kShortRow), Errc::kUsage, "max_prompt_tokens is 0");
}

TEST_F(DatasetTest, AnEmptyFileAmongOthersIsTold) {
  std::filesystem::create_directory(folder_ / "shards");
  const std::string shards = folder_ / "shards";
  for (const char* name : {"/0.jsonl", "/1.jsonl"}) WriteText(shards + name, "");
  const auto none =
      ExpectError(Dataset::Load(shards, maker_, options_), Errc::kCorrupt, "there are no rows");
  ASSERT_TRUE(none);
  EXPECT_EQ(none->file(), shards);
  WriteText(shards + "/1.jsonl", kShortRow);
  const auto data = Dataset::Load(shards, maker_, options_);
  ASSERT_TRUE(data.ok()) << data.error().ToString();
  EXPECT_EQ(data->size(), 1u);
  EXPECT_THAT(data->empty_files(), ElementsAre(shards + "/0.jsonl"));
}

TEST_F(DatasetTest, TheFingerprintIsOfIdsAndAnswers) {
  const std::string lines = Load("{\"prompt\": \"p\", \"answer\": \"a\"}\n")->fingerprint();
  EXPECT_TRUE(lines.starts_with("sha256:")) << lines;
  EXPECT_EQ(lines.size(), 71u);
  EXPECT_EQ(Load("[{\"answer\": \"a\", \"x\": 1, \"prompt\": \"p\"}]")->fingerprint(), lines);
  EXPECT_NE(Load("{\"prompt\": \"p\", \"answer\": \"b\"}\n")->fingerprint(), lines);
  EXPECT_NE(Load("{\"prompt\": \"q\", \"answer\": \"a\"}\n")->fingerprint(), lines);
}

// exec:COMMAND.
class CommandRows : public DatasetTest {
 protected:
  Result<Dataset> Run(const std::string& script) {
    WriteText(folder_ / "rows.sh", script);
    return Dataset::Load("exec:sh '" + (folder_ / "rows.sh") + "'", maker_, options_);
  }
};

TEST_F(CommandRows, AreThoseOfTheFile) {
  const std::string rows = R"({"prompt": "1+1", "answer": 2})"
                           "\n\n"
                           R"({"prompt": "a", "answer": "b"})";
  const auto file = Load(rows);
  const auto printed = Run("printf '%s' '" + rows + "'");
  ASSERT_TRUE(printed.ok()) << printed.error().ToString();
  EXPECT_EQ(printed->size(), 2u);
  EXPECT_EQ(printed->fingerprint(), file->fingerprint());
}

TEST_F(CommandRows, FaultsAreThoseOfTheProgram) {
  const std::string row = R"({"prompt": "1", "answer": 2})";
  ExpectError(Run("echo '" + row + "'; echo oh >&2; echo no >&2; exit 3"), Errc::kIo,
              "the program exited with 3 after 1 rows; its standard error: oh | no");
  ExpectError(Run("echo '" + row + "'; kill -9 $$"), Errc::kIo,
              "the program was killed by signal 9 after 1 rows");
  ExpectError(Run("echo '" + row + "'; echo '[1]'; sleep 1000"), Errc::kCorrupt,
              "line 2: found an array, expected an object");
  ExpectError(Run("exit 0"), Errc::kCorrupt, "there are no rows");
  const auto none = ExpectError(Dataset::Load("exec:no-such-program", maker_, options_),
                                Errc::kNotFound, "no such program");
  ASSERT_TRUE(none);
  EXPECT_EQ(none->file(), "no-such-program");
}

TEST_F(CommandRows, AreNotWaitedForWithoutAnEnd) {
  const auto run = [](const std::string& script) {
    RowCommand command{.words = {"sh", "-c", script}, .source = "exec:it"};
    command.patience = std::chrono::seconds(2);  // includes the start of the shell
    return ReadCommandRows(command, [](const auto&, uint64_t) { return OkStatus(); });
  };
  const std::string row = R"(echo '{"prompt": "1", "answer": 2}'; )";
  const struct {
    const char* rest;
    const char* message;
  } rows[] = {
      {"exec sleep 1000", "the program has said nothing for 2 s after 1 rows"},
      {"exec >&-; sleep 1000",
       "the program has closed its output and has not ended for 2 s after 1 rows"},
  };
  for (const auto& [rest, message] : rows) {
    const auto error = ExpectError(run(row + "echo oh >&2; " + rest), Errc::kIo, message);
    ASSERT_TRUE(error) << rest;
    EXPECT_EQ(error->file(), "exec:it");
    EXPECT_THAT(error->message(), HasSubstr("oh"));
  }
}

TEST_F(CommandRows, OfEndlessLinesOneRowIsHeld) {
  ExpectError(Run("while :; do printf '%065536d' 0; done"), Errc::kLimit,
              "line 1: a row is over the limit of 67108864 bytes");
}

// The real reader of tables is in tests/interop/table_interop.py; these are the errors without it.
TEST_F(CommandRows, TablesNeedPyarrow) {
  WriteText(folder_ / "rows.parquet", "PAR1");
  const std::string path = ::getenv("PATH");
  ::setenv("PATH", folder_.path().c_str(), 1);
  const auto load = [&] { return Dataset::Load(folder_ / "rows.parquet", maker_, options_); };
  ExpectError(load(), Errc::kUnsupported, "there is no python3");
  WriteText(folder_ / "python3", "#!/bin/sh\nexit 69\n");
  std::filesystem::permissions(folder_ / "python3", std::filesystem::perms::owner_all);
  const auto error = ExpectError(load(), Errc::kUnsupported,
                                 "tables are read by python3 with pyarrow, which it does not have");
  ASSERT_TRUE(error);
  EXPECT_THAT(error->hint(), HasSubstr("pip install pyarrow"));
  EXPECT_EQ(error->file(), folder_ / "rows.parquet");
  ::setenv("PATH", path.c_str(), 1);
}

// Python looks for modules in the working directory first, and the helper needs json and pyarrow.
// The stand-in for pyarrow here reports whether it was imported.
TEST_F(CommandRows, TablesAreReadWithoutTheModulesOfTheWorkingDirectory) {
  if (!FindProgram("python3")) GTEST_SKIP() << "there is no python3";
  WriteText(folder_ / "rows.parquet", "PAR1");
  const std::string mark = folder_ / "mark";
  const std::string place = folder_ / "here";
  std::filesystem::create_directory(place);
  for (const char* module : {"json", "decimal", "pyarrow", "site", "os", "usercustomize"})
    WriteText(place + "/" + module + ".py", "open('" + mark + "', 'w')\n");
  const std::filesystem::path here = std::filesystem::current_path();
  std::filesystem::current_path(place);
  for (const char* list : {"", ".", ":", "../here:"}) {
    ::setenv("PYTHONPATH", list, 1);
    const auto rows = Dataset::Load(folder_ / "rows.parquet", maker_, options_);
    EXPECT_FALSE(rows.ok());
    EXPECT_FALSE(std::filesystem::exists(mark)) << "code of the working directory was run";
  }
  ::unsetenv("PYTHONPATH");
  std::filesystem::current_path(here);
}

// Like environment modules of a cluster that name the places of packages: those come after Python's
// own.
TEST_F(CommandRows, PyarrowMayBeInAPlaceOfPythonpath) {
  if (!FindProgram("python3")) GTEST_SKIP() << "there is no python3";
  if (std::system("python3 -I -c 'import pyarrow' 2> /dev/null") == 0)
    GTEST_SKIP() << "python3 has a pyarrow of its own";
  WriteText(folder_ / "rows.parquet", "PAR1");
  std::filesystem::create_directories(folder_ / "packages/pyarrow");
  WriteText(folder_ / "packages/pyarrow/__init__.py",
            "class ArrowException(Exception): pass\nraise OSError('this one was asked')\n");
  WriteText(folder_ / "packages/json.py", "raise OSError('and this one')\n");
  ::setenv("PYTHONPATH", (folder_ / "packages").c_str(), 1);
  ExpectError(Dataset::Load(folder_ / "rows.parquet", maker_, options_), Errc::kIo,
              "this one was asked");
  ::unsetenv("PYTHONPATH");
}

}  // namespace
}  // namespace nxdkit::trainer
