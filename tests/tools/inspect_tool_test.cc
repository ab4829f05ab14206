// ckpt-inspect from outside: the text, the JSON and its description in the man page, exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "formats/torch/encoder.h"
#include "lib/hash/crc32.h"
#include "lib/json/json.h"
#include "tests/tools/man_page.h"
#include "tests/tools/process.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

ProcessResult Tool(const std::string& name, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), NXDKIT_TOOLS "/" + name);
  return RunProcess(arguments);
}

ProcessResult Inspect(std::vector<std::string> arguments) {
  return Tool("ckpt-inspect", std::move(arguments));
}

Json InspectJson(std::vector<std::string> arguments) {
  arguments.push_back("--json");
  const ProcessResult result = Inspect(std::move(arguments));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  Result<Json> json = ParseJson(result.out);
  if (json.ok()) return *std::move(json);
  ADD_FAILURE() << json.error().ToString() << result.out;
  return {};
}

void MakeModel(const std::string& folder) {
  const ProcessResult made = Tool("nxdkit-make-model", {"--out", folder, "-q"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
}

void Convert(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--no-sync", "-q"});
  const ProcessResult converted = Tool("nxd-convert", std::move(arguments));
  ASSERT_EQ(converted.exit_code, 0) << converted.err;
}

// A safetensors file with this header and `bytes` of data.
std::string Safetensors(std::string header, const std::string& data) {
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i));
  return file + header + data;
}

constexpr const char* kTwoTensors =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
    R"("b\n[31m":{"dtype":"U8","shape":[2,2],"data_offsets":[8,12]}})";
// 1.5 and -2; 0, 255, 1, 4
const std::string kTwoTensorsData("\0\0\xc0\x3f\0\0\0\xc0\0\xff\1\4", 12);

// The existing tensors are shown, and unknown facts reported; a config that is insufficient for any
// program is not an error here, and is one elsewhere.
TEST(InspectWithoutConfig, ShowsTheTensorsWhateverItLacks) {
  const TempFolder folder;
  fs::copy(NXDKIT_TESTDATA "/transformers/llama_5", folder.path() + "/model");
  const std::string model = folder.path() + "/model";
  const std::string whole = ReadFile(model + "/config.json");
  const std::string digest = Tool("ckpt-digest", {model}).out;
  for (const char* key : {"num_hidden_layers", "hidden_size", "vocab_size", ""}) {
    SCOPED_TRACE(key);
    Json config = *ParseJson(whole);
    config.erase(key);
    folder.Write("model/config.json", *key ? config.dump() : "{");
    const std::string fault = *key ? std::string(key) + ": missing" : "syntax error";
    const ProcessResult shown = Inspect({model});
    EXPECT_EQ(shown.exit_code, 0) << shown.err;
    EXPECT_THAT(shown.out, HasSubstr("model.layers.0.self_attn.q_proj.weight"));
    EXPECT_THAT(shown.out, HasSubstr("not checked: " + model + "/config.json: "));
    EXPECT_THAT(shown.out, HasSubstr(fault));
    const ProcessResult digested = Tool("ckpt-digest", {model});
    EXPECT_EQ(digested.exit_code, 0) << digested.err;
    EXPECT_EQ(digested.out, digest);
    EXPECT_THAT(digested.err, HasSubstr(fault));
    EXPECT_THAT(digested.err, HasSubstr("every tensor counts as a parameter of its own"));
    for (const std::vector<std::string>& strict :
         {std::vector<std::string>{"--manifest", folder.path() + "/m.json", model},
          std::vector<std::string>{"--as", "vllm", "--tp", "1", model}}) {
      const ProcessResult refused = Tool("ckpt-digest", strict);
      EXPECT_EQ(refused.exit_code, 3);
      EXPECT_THAT(refused.err, HasSubstr(fault));
    }
  }
}

TEST(InspectTool, AFolderWithoutAnArtifactSaysSoAndNothingElse) {
  const TempFolder folder;
  const ProcessResult result = Inspect({folder.path()});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_EQ(result.err, "ckpt-inspect: error: " + folder.path() + ": the folder is empty\n");
}

TEST(InspectTool, TextOfASmallFileWordForWord) {
  const TempFolder folder;
  const std::string path = folder.Write("x.safetensors", Safetensors(kTwoTensors, kTwoTensorsData));
  ProcessResult result = Inspect({path, "--stats"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  const size_t place = result.out.find("  file system ");  // where the tests run
  ASSERT_NE(place, std::string::npos);
  result.out.erase(place, result.out.find('\n', place) + 1 - place);
  const std::string bytes = std::to_string(fs::file_size(path));
  EXPECT_EQ(result.out,
            "safetensors file\n"
            "  path        " +
                path +
                "\n"
                "  parameters  6 stored elements\n"
                "  bytes       " +
                bytes +
                " B\n  files       1\n  tensors     2\n  dtypes      F32 in 1 (8 B), U8 in 1 (4 "
                "B)\n  metadata    format=pt\n  layout      not checked: no config.json, and "
                "shapes alone do not determine heads and family; name one with --config\n\nname    "
                "   dtype  shape   bytes  min  max   mean  nan  inf  zeros  file\na          F32   "
                " [2]       8 B   -2  1.5  -0.25    0    0      0  x.safetensors\nb\\x0a[31m  U8   "
                "  [2, 2]    4 B    0  255     65    0    0      1  x.safetensors\n");
}

TEST(InspectTool, TheTableFitsATerminal) {
  const TempFolder folder;
  const std::string model = folder.path() + "/model";
  MakeModel(model);
  const ProcessResult narrow =
      RunOnTerminal({"sh", "-c", "stty cols 60 <&2; \"$@\" >&2", "sh", NXDKIT_TOOLS "/ckpt-inspect",
                     "--filter", "*self_attn*", model});
  EXPECT_EQ(narrow.exit_code, 0);
  EXPECT_THAT(narrow.err, HasSubstr("..."));
  EXPECT_THAT(narrow.err, Not(HasSubstr("self_attn.q_proj.weight")));
  const size_t table = narrow.err.find("\nname ");
  ASSERT_NE(table, std::string::npos) << narrow.err;
  std::istringstream lines(narrow.err.substr(table + 1));
  for (std::string line; std::getline(lines, line);)
    EXPECT_LE(line.size(), 61u) << line;  // with the carriage return of a terminal
  EXPECT_THAT(Inspect({"--filter", "*self_attn*", model}).out,
              HasSubstr("model.layers.0.self_attn.q_proj.weight"));
}

TEST(InspectTool, ListsTwentyAndSaysHowManyMore) {
  const TempFolder folder;
  const std::string model = folder.path() + "/model";
  MakeModel(model);
  const auto lines = [](const std::string& out) { return std::ranges::count(out, '\n'); };
  const ProcessResult brief = Inspect({model});
  EXPECT_THAT(brief.out, HasSubstr("\n... and 26 more tensors (--filter GLOB, --top N and --json "
                                   "list them)\n"));
  const ProcessResult none = Inspect({model, "--top", "0"});
  EXPECT_THAT(none.out, Not(HasSubstr("model.safetensors\n")));
  EXPECT_THAT(none.out, Not(HasSubstr("... and")));
  EXPECT_EQ(lines(brief.out), lines(none.out) + 1 + 1 + 20 + 1);
  const ProcessResult largest = Inspect({model, "--top", "1"});
  EXPECT_THAT(largest.out, HasSubstr("\nmodel.embed_tokens.weight  BF16   [512, 64]  65.5 kB  "));
  EXPECT_EQ(lines(largest.out), lines(none.out) + 1 + 1 + 1);
  const ProcessResult filtered = Inspect({model, "--filter", "*norm*", "--filter", "lm_head*"});
  EXPECT_EQ(lines(filtered.out), lines(none.out) + 1 + 1 + 17);
}

// A rank's file begins with the rank tensors of 4 bytes each.
TEST(InspectTool, ListsLayerByLayerFromLargeToSmall) {
  const TempFolder folder;
  const std::string model = folder.path() + "/model";
  MakeModel(model);
  const std::string bundle = folder.path() + "/bundle";
  Convert(
      {"--from", "hf", "--to", "rollout", "--tp", "2", "--bs", "1", "--seq", "128", model, bundle});
  const auto names = [](const std::string& out) {
    std::vector<std::string> found;
    std::istringstream lines(out.substr(out.find("\nname ") + 1));
    for (std::string line; std::getline(lines, line);)
      found.push_back(line.substr(0, line.find(' ')));
    return found;
  };
  const std::vector<std::string> brief = names(Inspect({bundle}).out);
  ASSERT_GT(brief.size(), 20u);
  EXPECT_EQ(brief[1], "embed_tokens.weight");
  EXPECT_THAT(brief[20], StartsWith("layers.1."));
  const auto first_rank_tensor = std::ranges::find(brief, "layers.0.self_attn.rank_util.rank");
  ASSERT_NE(first_rank_tensor, brief.end());
  EXPECT_THAT(*(first_rank_tensor - 1), StartsWith("layers.0."));
  EXPECT_THAT(*(first_rank_tensor + 1), StartsWith("layers.1."));
  const Json json = InspectJson({bundle});
  EXPECT_EQ(json["tensors"][0]["bytes"], 4) << "programs get the order of the file";
}

TEST(InspectTool, SameOutputAtAnyNumberOfThreads) {
  const TempFolder folder;
  const std::string model = folder.path() + "/model";
  MakeModel(model);
  const std::string one = Inspect({model, "--stats", "--json", "-j", "1"}).out;
  EXPECT_EQ(Inspect({model, "--stats", "--json", "-j", "8"}).out, one);
  EXPECT_THAT(one, HasSubstr("\"mean\":"));
}

TEST(InspectTool, WarningsGoToStderrAndTheSummaryGoesOn) {
  const TempFolder folder;
  const std::string model = folder.path() + "/model";
  MakeModel(model);
  const std::string set = folder.path() + "/set";
  Convert({"--from", "hf", "--to", "nxd", "--tp", "2", model, set});
  fs::remove(set + "/done");
  const ProcessResult result = Inspect({set, "--top", "0"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "ckpt-inspect: warning: " + set +
                            " has no `done` marker: the save may not have finished\n");
  EXPECT_THAT(result.out,
              HasSubstr("  tag         set; markers: checkpoint there, done missing\n"));
  EXPECT_THAT(result.out, HasSubstr("  grid        tp 2, pp 1\n"));
  EXPECT_THAT(InspectJson({set})["warnings"], ElementsAre(HasSubstr("no `done` marker")));
}

TEST(InspectTool, ContradictingOptionIsAUsageError) {
  const TempFolder folder;
  const std::string model = folder.path() + "/model";
  MakeModel(model);
  const std::string set = folder.path() + "/set";
  Convert({"--from", "hf", "--to", "nxd", "--tp", "2", model, set});
  const ProcessResult result = Inspect({set, "--tp", "4"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err,
              HasSubstr("tp is 2 by the set's names and shapes, but is 4 by the command line"));
}

// --- damaged and unknown input

TEST(InspectTool, TruncatedSafetensorsNamesFileOffsetFoundAndExpected) {
  const TempFolder folder;
  const std::string whole = Safetensors(kTwoTensors, kTwoTensorsData);
  const std::string path = folder.Write("x.safetensors", whole.substr(0, whole.size() - 4));
  const ProcessResult result = Inspect({path});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, StartsWith("ckpt-inspect: error: " + path + ": "));
  EXPECT_THAT(result.err, HasSubstr("MetadataIncompleteBuffer"));

  const ProcessResult json = Inspect({path, "--json"});
  EXPECT_EQ(json.exit_code, 3);
  const Result<Json> document = ParseJson(json.out);
  ASSERT_TRUE(document.ok()) << json.out;
  const Json& error = (*document)["error"];
  EXPECT_EQ(error["code"], "corrupt");
  EXPECT_EQ(error["file"], path);
  EXPECT_TRUE(error["offset"].is_number_integer()) << json.out;
  // 4 of 12 bytes of data are cut off.
  EXPECT_THAT(error["message"].get<std::string>(),
              HasSubstr("the tensors take 12 bytes, the file has 8 bytes of data"));
}

TEST(InspectTool, EveryTruncationOfASmallFileIsRefused) {
  const TempFolder folder;
  const std::string whole = Safetensors(kTwoTensors, kTwoTensorsData);
  for (size_t bytes = 0; bytes < whole.size(); bytes += 7) {
    const std::string path = folder.Write("x.safetensors", whole.substr(0, bytes));
    const ProcessResult result = Inspect({path, "--stats"});
    EXPECT_EQ(result.exit_code, 3) << bytes;
    EXPECT_THAT(result.err, StartsWith("ckpt-inspect: error: " + path)) << bytes;
  }
}

TEST(InspectTool, WhatIsNotThereAndWhatIsNoArtifact) {
  const TempFolder folder;
  const ProcessResult missing = Inspect({folder.path() + "/none"});
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_EQ(missing.err,
            "ckpt-inspect: error: " + folder.path() + "/none: no such file or folder\n");
  const ProcessResult text = Inspect({folder.Write("notes.txt", "hello")});
  EXPECT_EQ(text.exit_code, 4);
  EXPECT_THAT(text.err, HasSubstr("neither a safetensors file nor a torch archive"));
  const ProcessResult nothing = Inspect({});
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("PATH"));
}

// A pickle that would run a command if Python loaded it.
TEST(InspectTool, NothingIsExecuted) {
  const TempFolder folder;
  const std::string witness = folder.path() + "/witness";
  const std::string pickle =
      "\x80\x02"
      "cposix\nsystem\n"
      "X" +
      std::string(1, static_cast<char>(6 + witness.size())) + std::string(3, '\0') + "touch " +
      witness + "\x85R.";
  const ProcessResult result = Inspect({folder.Write("evil.pt", pickle)});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("ckpt-inspect: error: "));
  EXPECT_FALSE(fs::exists(witness));
}

// --- the JSON and its description

// Type phrases of the man page ("An integer or null.") by path.
std::map<std::string, std::string> DocumentedTypes(const std::string& page) {
  std::map<std::string, std::string> types;
  std::istringstream lines(page.substr(page.find("An inspection has")));
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(".It Va ")) {
      std::istringstream words(line.substr(7));
      names.clear();
      for (std::string word; words >> word;)
        if (word != ",") names.push_back(word);
      continue;
    }
    for (const std::string& name : names) types[name] = line;
    names.clear();
  }
  return types;
}

bool Fits(const Json& value, const std::string& phrase) {
  if (value.is_null()) return phrase.ends_with(" or null.");
  const std::string first = phrase.substr(0, phrase.find_first_of(".", 0));
  const auto says = [&](const char* type) { return first.find(type) != std::string::npos; };
  if (value.is_string()) return says("string");
  if (value.is_boolean()) return says("boolean");
  if (value.is_number_integer()) return says("integer") || says("number");
  if (value.is_number()) return says("number");
  if (value.is_array()) return says("array");
  return value.is_object() && says("object");
}

class SchemaCheck {
 public:
  SchemaCheck() : types_(DocumentedTypes(ReadFile(NXDKIT_SOURCE_DIR "/man/ckpt-inspect.1"))) {}

  // `json` is the document; its envelope is checked elsewhere.
  void See(const Json& json) {
    for (const auto& [key, value] : json.items())
      if (!kEnvelope.contains(key)) Walk(value, key);
  }

  // Documented but never seen.
  std::vector<std::string> Unseen() const {
    std::vector<std::string> unseen;
    for (const auto& [path, type] : types_)
      if (!seen_.contains(path)) unseen.push_back(path);
    return unseen;
  }
  size_t documented() const { return types_.size(); }

 private:
  void Walk(const Json& value, const std::string& path) {
    auto type = types_.find(path);
    if (type == types_.end() && !path.ends_with("[]"))
      type = types_.find(path.substr(0, path.rfind('.')) + ".*");
    if (type != types_.end()) {
      seen_.insert(type->first);
      EXPECT_TRUE(Fits(value, type->second))
          << path << ": " << value.dump() << " is not: " << type->second;
    } else if (!path.ends_with("[]")) {
      ADD_FAILURE() << path << " is not documented";
    }
    if (value.is_array())
      for (const Json& item : value) Walk(item, path + "[]");
    if (value.is_object())
      for (const auto& [key, item] : value.items()) Walk(item, path + "." + key);
  }

  const Names kEnvelope = {"schema_version", "tool",     "tool_version", "status",
                           "exit_code",      "warnings", "error",        "chosen"};
  std::map<std::string, std::string> types_;
  Names seen_;
};

// A state dict of references, like the main file of an xser set, without the files.
std::string ReferencesFile() {
  using torch::PickleValue;
  const PickleValue root = PickleValue::MakeDict(
      {{PickleValue{std::string("a")}, PickleValue{torch::TensorReference{0}}},
       {PickleValue{std::string("epoch")}, PickleValue{int64_t{3}}}});
  const auto encoder = torch::EncodeValue(root, {}, "archive");
  if (!encoder.ok()) {
    ADD_FAILURE() << encoder.error().ToString();
    return "";
  }
  std::string file((*encoder)->file_bytes(), '\0');
  for (const Fragment& fragment : (*encoder)->Frame({}))
    file.replace(fragment.offset, fragment.bytes.size(), fragment.bytes);
  return file;
}

// The smallest zip that claims to be TorchScript: one stored record.
std::string TorchScriptFile() {
  const std::string name = "model/constants.pkl";
  const auto number = [](uint64_t value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(i < 8 ? value >> (8 * i) : 0);
    return out;
  };
  const std::string data = "\x80\x02).";
  const std::string common = number(0, 2) + number(0, 2) + number(0, 4) +
                             number(Crc32(0, std::as_bytes(std::span(data))), 4) +
                             number(data.size(), 4) + number(data.size(), 4) +
                             number(name.size(), 2) + number(0, 2);
  std::string file = "PK\3\4" + number(20, 2) + common + name + data;
  const std::string directory =
      "PK\1\2" + number(20, 2) + number(20, 2) + common + number(0, 14) + name;
  const uint64_t at = file.size();
  return file + directory + "PK\5\6" + number(0, 4) + number(1, 2) + number(1, 2) +
         number(directory.size(), 4) + number(at, 4) + number(0, 2);
}

TEST(InspectTool, JsonHasTheKeysAndTypesOfTheManPageAndAllOfThem) {
  const TempFolder folder;
  const std::string model = folder.path() + "/model";
  MakeModel(model);
  const std::string root = folder.path() + "/root";
  Convert({"--from", "hf", "--to", "nxd", "--tp", "8", "--kv-multiplier", "2", "--hw", "trn2",
           model, root + "/step_1"});
  std::ofstream(root + "/step_1/user_content.pt") << "x";
  const std::string bundle = folder.path() + "/bundle";
  Convert(
      {"--from", "hf", "--to", "rollout", "--tp", "8", "--bs", "1", "--seq", "128", model, bundle});
  std::ofstream(bundle + "/model.pt") << "x";
  folder.Write("bundle/checkpoint/weights/version.json",
               R"({"schema_version": 1, "serial": 2, "label": "step_2", "source": "shards"})");

  SchemaCheck schema;
  EXPECT_GT(schema.documented(), 60u) << "the man page was not read";
  schema.See(InspectJson({model, "--stats", "--html", folder.path() + "/model.html"}));
  schema.See(InspectJson({root, "--html", "-"}));
  schema.See(InspectJson({root + "/step_1/model/dp_rank_00_tp_rank_01_pp_rank_00.pt"}));
  schema.See(InspectJson({bundle}));
  schema.See(InspectJson({folder.Write("refs.pt", ReferencesFile())}));
  schema.See(InspectJson({folder.Write("script.pt", TorchScriptFile())}));
  schema.See(
      InspectJson({folder.Write("x.safetensors", Safetensors(kTwoTensors, kTwoTensorsData))}));
  schema.See(InspectJson({NXDKIT_TESTDATA "/neff/toy.neff", "--stats"}));
  schema.See(InspectJson({NXDKIT_TESTDATA "/nxd/v2/step_10/optim"}));
  folder.Write("cache/neuronxcc-1/MODULE_1+d41d8cd9/model.log", "x");
  schema.See(InspectJson({folder.path() + "/cache"}));
  folder.Write("adapter/adapter_config.json", R"({"r": 8, "target_modules": ["q_proj"]})");
  folder.Write("adapter/adapter_model.safetensors", Safetensors(kTwoTensors, kTwoTensorsData));
  schema.See(InspectJson({folder.path() + "/adapter"}));
  schema.See(InspectJson({NXDKIT_TESTDATA "/delta/ulp.delta"}));
  schema.See(InspectJson({NXDKIT_TESTDATA "/dcp/one"}));
  schema.See(InspectJson({NXDKIT_TESTDATA "/rank_files/verl-fsdp2-dims"}));
  for (const auto& [kind, run] :
       {std::pair{"zero", "stage2-bf16-3-odd"}, {"megatron", "llama-tp2-pp2"}}) {
    const std::string to = folder.path() + "/" + kind;
    ASSERT_EQ(Tool("ckpt-pack",
                   {"--unpack", std::string(NXDKIT_TESTDATA "/") + kind + "/fixtures.tar.zst", to})
                  .exit_code,
              0);
    schema.See(InspectJson({to + "/" + run}));
  }
  folder.Write("root/trn_config.json", R"({"fuse_qkv": true})");
  folder.Write("root/shards/mp_metadata_pp_rank_0.json",
               R"({"parameters": {}, "model_weight_transformation_specs": []})");
  schema.See(InspectJson({root}));
  folder.Write("model/model-00001-of-00002.safetensors", "of another save");
  schema.See(InspectJson({model}));
  EXPECT_THAT(schema.Unseen(), IsEmpty()) << "documented, and never there";
}

TEST(InspectTool, JsonOfASmallFile) {
  const TempFolder folder;
  const std::string path = folder.Write("x.safetensors", Safetensors(kTwoTensors, kTwoTensorsData));
  const Json json = InspectJson({path, "--stats"});
  EXPECT_EQ(json["format"], "safetensors");
  EXPECT_EQ(json["parameters"], 6);
  EXPECT_EQ(json["layout_check"]["outcome"], "not_checked");
  const uint64_t data = fs::file_size(path) - kTwoTensorsData.size();
  EXPECT_EQ(json["tensors"][0], Json::parse(R"({"name": "a", "dtype": "F32", "shape": [2],
      "bytes": 8, "weight_file": 0, "file": "x.safetensors", "offset": )" +
                                            std::to_string(data) +
                                            R"(, "stats": {"min": -2.0, "max": 1.5, "mean": -0.25,
      "nan": 0, "inf": 0, "zeros": 0}})"));
  EXPECT_EQ(json["tensors"][1]["name"], "b\n[31m");
}

TEST(InspectTool, JsonListsAllUnlessAskedOtherwise) {
  const TempFolder folder;
  const std::string model = folder.path() + "/model";
  MakeModel(model);
  EXPECT_EQ(InspectJson({model})["tensors"].size(), 46u);
  EXPECT_EQ(InspectJson({model, "--top", "3"})["tensors"].size(), 3u);
  EXPECT_EQ(InspectJson({model, "--top", "0"})["tensors"].size(), 0u);
  EXPECT_EQ(InspectJson({model, "--top", "0"})["tensor_count"], 46);
  EXPECT_EQ(InspectJson({model, "--filter", "*.0.*"})["tensors"].size(), 11u);
}

}  // namespace
}  // namespace nxdkit::test
