// tools/schemas: the shape of every command's JSON. The output of the commands is checked here and
// in man_test.cc; the property names against the man pages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "formats/kinds/table.h"
#include "tests/formats/kinds/adapter/lora_workshop.h"
#include "tests/tools/convert_workshop.h"
#include "tests/tools/json_schema.h"
#include "tests/tools/man_page.h"
#include "tests/tools/process.h"

namespace nxdkit::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Runs it with --json; returns the document, which must be valid.
Json ExpectValid(int exit_code, const Words& command) {
  Words words = command;
  words[0] = Workshop::Tool(command[0]);
  words.emplace_back("--json");
  const ProcessResult result = RunProcess(words);
  EXPECT_EQ(result.exit_code, exit_code) << command[0] << ": " << result.err;
  const Json json = JsonOf(result);
  EXPECT_THAT(SourceSchemas().Faults(command[0] + ".json", json), IsEmpty())
      << result.out.substr(0, 400);
  return json;
}

TEST(JsonSchemas, EveryCommandHasOne) {
  for (const std::string& tool : BuiltTools()) {
    const std::string name = NameOf(tool);
    ASSERT_TRUE(SourceSchemas().Has(name + ".json")) << name;
    EXPECT_EQ(SourceSchemas().file(name + ".json")["properties"]["tool"]["const"], name);
    for (const char* option : {"--help", "--version", "--completion=bash"})
      ExpectValid(0, {name, option});
    ExpectValid(2, {name, "--no-such-option"});
  }
}

// The lists of kinds, which are those that a source may have.
void AddKindLists(const Json& schema, const std::string& key, std::vector<Json>& lists) {
  if (schema.is_object() && schema.contains("enum") && key != "to" &&
      std::ranges::count(schema["enum"], Json("nkipy")) > 0)
    lists.push_back(schema["enum"]);
  if (schema.is_structured())
    for (const auto& [name, value] : schema.items())
      AddKindLists(value, schema.is_object() ? name : key, lists);
}

TEST(JsonSchemas, KnowEveryKindOfSource) {
  std::vector<Json> lists;
  for (const std::string& tool : BuiltTools())
    AddKindLists(SourceSchemas().file(NameOf(tool) + ".json"), "", lists);
  EXPECT_GE(lists.size(), 5u);
  for (const Json& list : lists)
    for (const kinds::Kind* kind : kinds::Kinds())
      EXPECT_EQ(std::ranges::count(list, Json(kind->name)), 1) << kind->name << ": " << list;
}

TEST(JsonSchemas, AreInstalledWithTheCommands) {
  EXPECT_THAT(ReadFile(NXDKIT_SOURCE_DIR "/tools/CMakeLists.txt"),
              ::testing::HasSubstr("/nxdkit/schemas"));
}

// "options[].*" in a page covers everything below.
bool Stands(const Names& documented, const std::string& path) {
  if (documented.contains(path)) return true;
  const size_t dot = path.rfind('.');
  return dot != std::string::npos && documented.contains(path.substr(0, dot) + ".*");
}

TEST(JsonSchemas, NameWhatTheManPagesDescribeAndNothingElse) {
  for (const std::string& tool : BuiltTools()) {
    const std::string name = NameOf(tool);
    // EveryToolHasOne finds a page that is missing.
    if (!std::filesystem::exists(NXDKIT_SOURCE_DIR "/man/" + name + ".1")) continue;
    const Names documented = ManJsonPaths(ReadFile(NXDKIT_SOURCE_DIR "/man/" + name + ".1"));
    const Names paths = SourceSchemas().Paths(name + ".json");
    for (const std::string& path : paths)
      EXPECT_TRUE(Stands(documented, path)) << name << ".1 does not describe " << path;
    for (const std::string& path : documented) {
      if (path.ends_with("*")) continue;
      EXPECT_TRUE(paths.contains(path)) << "the schema of " << name << " has no " << path;
    }
  }
}

TEST(JsonSchemas, ErrorsHaveEveryCode) {
  const Json& codes = SourceSchemas().file(
      "common.json")["$defs"]["failure"]["properties"]["error"]["properties"]["code"]["enum"];
  for (int i = 0; i <= static_cast<int>(Errc::kInternal); ++i)
    EXPECT_THAT(codes, Contains(std::string(ErrcName(static_cast<Errc>(i)))));
}

TEST(JsonSchemas, HoldForEveryWayToConvert) {
  const Workshop shop;
  const std::string model = shop.MakeModel("model", TinyModel{});
  const std::string other = shop.MakeModel("other", TinyModel{}, "--seed 9");
  const std::string third = shop.MakeModel("third", TinyModel{}, "--seed 10");
  testing_util::PeftFiles peft;
  peft.Add("self_attn.q_proj", 4, 32, 32);
  const std::string adapter = peft.Write(shop / "adapter");
  const auto convert = [](const std::string& options, const Words& paths) {
    Words words = {"nxd-convert", "--no-sync"};
    for (const std::string& word : Split(options)) words.push_back(word);
    words.insert(words.end(), paths.begin(), paths.end());
    return words;
  };
  const std::string bundle = shop / "bundle", delta = shop / "delta";
  ExpectValid(0, convert("--from hf --to rollout --tp 2", {model, bundle}));
  ExpectValid(0, convert("--from hf --to rollout --into", {other, bundle}));
  ExpectValid(0, convert("--from hf --to rollout --into --dry-run", {other, bundle}));
  ExpectValid(0, convert("--from hf --to delta --base " + model, {other, delta}));
  ExpectValid(0, convert("--from delta --to hf --base " + model, {delta, shop / "made"}));
  ExpectValid(1, convert("--from delta --to hf --base " + third, {delta, shop / "no"}));
  ExpectValid(0, convert("--from hf --to nxd --tp 2 --part 0/2", {model, shop / "parts"}));
  ExpectValid(0,
              convert("--from hf --to nxd --tp 2 --part 1/2 --dry-run", {model, shop / "parts"}));
  ExpectValid(0, convert("--from hf --to nxd --tp 2 --part 1/2", {model, shop / "parts"}));
  ExpectValid(0, convert("--from hf --to hf --merge-lora " + adapter, {model, shop / "merged"}));
  std::filesystem::create_directories(shop / "run");
  std::filesystem::copy(model, shop / "run/step_1", std::filesystem::copy_options::recursive);
  ExpectValid(0, convert("--follow --settle 1 --until 1 --to hf", {shop / "run", shop / "models"}));
  ExpectValid(6, convert("--from hf --to hf --max-memory 1K", {model, shop / "no"}));
  ExpectValid(3, convert("--from hf --to hf", {shop / "nothing", shop / "no"}));
  ExpectValid(4, convert("--from hf --to rollout --tp 2 --config " + model + "/config.json",
                         {adapter, shop / "no"}));
  ExpectValid(0, {"ckpt-pack", bundle, shop / "bundle.tar"});
  ExpectValid(0, {"ckpt-pack", "--unpack", shop / "bundle.tar", shop / "unpacked"});
  ExpectValid(0, {"ckpt-diff", model, other, "--top", "1", "--atol", "100"});
  ExpectValid(1, {"ckpt-diff", model, other, third, "--html", shop / "steps.html"});
  ExpectValid(1, {"ckpt-diff", model, other, "--html", "-"});
  ExpectValid(0, {"ckpt-inspect", adapter});
  ExpectValid(1, {"ckpt-verify", bundle, "--against", model});
}

// --- the validator, on documents that are wrong

Json Valid() {
  return *ParseJson(R"({"schema_version": 1, "tool": "ckpt-pack", "tool_version": "0.1.0",
      "status": "ok", "exit_code": 0, "warnings": [], "input": "a", "output": "b",
      "kind": "file", "files": 1, "bytes": 2, "archive_bytes": 3, "seconds": 0.5,
      "has_checksum": true})");
}

std::vector<std::string> FaultsWith(const std::string& key, const Json& value) {
  Json json = Valid();
  json[key] = value;
  return SourceSchemas().Faults("ckpt-pack.json", json);
}

TEST(SchemaValidator, FindsWhatIsWrong) {
  EXPECT_THAT(SourceSchemas().Faults("ckpt-pack.json", Valid()), IsEmpty());
  EXPECT_THAT(FaultsWith("extra", 1), ElementsAre("extra: not known"));
  EXPECT_THAT(FaultsWith("files", "1"), ElementsAre("files: found \"1\", the type is \"integer\""));
  EXPECT_THAT(FaultsWith("bytes", -1), ElementsAre("bytes: found -1, the least is 0"));
  EXPECT_THAT(FaultsWith("tool", "ckpt-diff"),
              ElementsAre("tool: found \"ckpt-diff\", expected \"ckpt-pack\""));
  EXPECT_THAT(FaultsWith("warnings", Json::array({3})),
              ElementsAre("warnings[]: found 3, the type is \"string\""));
  Json missing = Valid();
  missing.erase("seconds");
  EXPECT_THAT(SourceSchemas().Faults("ckpt-pack.json", missing), ElementsAre("seconds: missing"));
  EXPECT_THAT(FaultsWith("exit_code", 9),
              ElementsAre("exit_code: found 9, expected one of [0,1,2,3,4,5,6,70,130,143]"));
}

}  // namespace
}  // namespace nxdkit::test
