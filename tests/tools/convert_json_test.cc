// The JSON of nxd-convert, ckpt-verify and nxdkit-make-model: keys and types as in the man pages,
// for success and failure; and the examples of those pages, run one after the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/formats/kinds/adapter/lora_workshop.h"
#include "tests/tools/convert_workshop.h"
#include "tests/tools/man_page.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Types = std::map<std::string, std::string>;

// Key -> type, of one level. Counts are never negative.
Types TypesOf(const Json& json) {
  Types types;
  for (const auto& [key, value] : json.items())
    types[key] = value.is_number_unsigned() ? "count" : value.type_name();
  return types;
}

Types With(Types more) {
  Types types = {{"schema_version", "count"}, {"tool", "string"},     {"tool_version", "string"},
                 {"status", "string"},        {"exit_code", "count"}, {"warnings", "array"}};
  types.merge(more);
  return types;
}

void ExpectDocumented(const Json& json, const std::string& tool) {
  const Names documented = ManJsonPaths(ReadFile(NXDKIT_SOURCE_DIR "/man/" + tool + ".1"));
  EXPECT_THAT(UndocumentedPaths(json, documented), IsEmpty()) << tool;
}

class ConvertJson : public ::testing::Test {
 protected:
  const Workshop workshop_;
  const std::string model_ = workshop_.MakeModel("model", testing_util::TinyLlama());
  const std::string out_ = workshop_ / "out";
};

TEST_F(ConvertJson, OfAConversion) {
  const Types expected = With({{"input", "string"},
                               {"output", "string"},
                               {"from", "string"},
                               {"to", "string"},
                               {"model_type", "string"},
                               {"parameters", "count"},
                               {"source_bytes", "count"},
                               {"output_bytes", "count"},
                               {"output_files", "count"},
                               {"output_tensors", "count"},
                               {"tasks", "count"},
                               {"resumed_tasks", "count"},
                               {"buffer_bytes", "count"},
                               {"predicted_memory_bytes", "count"},
                               {"peak_memory_bytes", "count"},
                               {"seconds", "number"},
                               {"blob_missing", "boolean"},
                               {"verified", "boolean"},
                               {"already_published", "boolean"},
                               {"dry_run", "boolean"},
                               {"values", "object"},
                               {"notes", "array"}});
  const Json dry =
      JsonOf(Workshop::Convert("--from hf --to rollout --tp 2 --json -n", model_, out_));
  const Json json =
      JsonOf(Workshop::Convert("--from hf --to rollout --tp 2 --json --verify", model_, out_));
  for (const Json& document : {dry, json}) {
    EXPECT_EQ(TypesOf(document), expected);
    ExpectDocumented(document, "nxd-convert");
    EXPECT_EQ(document["tool"], "nxd-convert");
    EXPECT_EQ(document["status"], "ok");
    EXPECT_EQ(document["input"], model_);
    EXPECT_EQ(document["output"], out_);
    EXPECT_EQ(document["from"], "hf");
    EXPECT_EQ(document["to"], "rollout");
    EXPECT_EQ(document["model_type"], "llama");
    // 2 * 64 * 32 in embedding and head, 4 layers of q, o (32 * 32), k, v (8 * 32), 3 * 48 * 32 and
    // two norms, and the last norm.
    EXPECT_EQ(document["parameters"], 2 * 2048 + 4 * (2048 + 512 + 4608 + 64) + 32);
    EXPECT_EQ(document["source_bytes"], fs::file_size(model_ + "/model.safetensors"));
    EXPECT_EQ(document["output_files"], 2);
    EXPECT_EQ(document["blob_missing"], true);
  }
  EXPECT_EQ(dry["dry_run"], true);
  EXPECT_EQ(dry["verified"], false);
  EXPECT_EQ(json["dry_run"], false);
  EXPECT_EQ(json["verified"], true);
  for (const char* key : {"output_bytes", "output_tensors", "tasks", "buffer_bytes"})
    EXPECT_EQ(dry[key], json[key]) << key;
  const Tree tree = ReadTree(out_ + "/checkpoint/weights");
  uint64_t bytes = 0;
  for (const auto& [name, contents] : tree) bytes += contents.size();
  EXPECT_EQ(json["output_bytes"], bytes);
}

TEST_F(ConvertJson, OfAFailure) {
  const std::string file = model_ + "/model.safetensors";
  workshop_.Write("model/model.safetensors", ReadFile(file).substr(0, 100));
  const ProcessResult result = Workshop::Convert("--from hf --to nxd --tp 2 --json", model_, out_);
  EXPECT_EQ(result.exit_code, 3);
  const Json json = JsonOf(result);
  EXPECT_EQ(TypesOf(json), With({{"error", "object"}}));
  ExpectDocumented(json, "nxd-convert");
  EXPECT_EQ(json["status"], "error");
  EXPECT_EQ(json["exit_code"], 3);
  EXPECT_EQ(json["error"]["code"], "corrupt");
  EXPECT_EQ(json["error"]["file"], file);
  EXPECT_TRUE(json["error"]["message"].is_string());
}

TEST_F(ConvertJson, OfAnExplanation) {
  const Json json = JsonOf(Workshop::Convert(
      "--from hf --to nxd --tp 2 --json --explain model.norm.weight", model_, out_));
  EXPECT_EQ(TypesOf(json), With({{"tensor", "string"},
                                 {"explanation", "string"},
                                 {"tensors", "count"},
                                 {"flows", "array"},
                                 {"parts", "array"}}));
  ExpectDocumented(json, "nxd-convert");
}

// --- the output of --explain

TEST_F(ConvertJson, ExplainGivesFileAndBytesOfEveryPart) {
  ExpectConverts("--from hf --to nxd --tp 2", model_, out_);
  const ProcessResult result = Workshop::Convert(
      "--from nxd --to rollout --tp 4 --no-fused-qkv --explain "
      "layers.1.self_attn.qkv_proj.k_proj.weight",
      out_, workshop_ / "bundle");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_FALSE(Traces(workshop_ / "bundle"));
  // Two key heads of 4 rows over 4 ranks: each is stored twice. NxD rank 0 has head 0, rank 1
  // has 1.
  const std::string name = "model.layers.1.self_attn.k_proj.weight";
  std::string expected;
  for (int rank = 0; rank < 4; ++rank) {
    const int head = rank / 2;
    const std::string shard =
        out_ + "/model/dp_rank_00_tp_rank_0" + std::to_string(head) + "_pp_rank_00.pt";
    const std::string bytes = ReadFile(shard);
    // The rows themselves show where they are stored: the model file has them too.
    const Json origin = JsonOf(
        Workshop::Convert("--from hf --to hf --json --explain " + name, model_, workshop_ / "x"));
    const std::string text = origin["explanation"];
    const size_t begin = std::stoull(text.substr(text.find("file bytes [") + 12));
    const std::string rows = ReadFile(model_ + "/model.safetensors")
                                 .substr(begin + static_cast<size_t>(head) * 256, 256);
    const size_t at = bytes.find(rows);
    ASSERT_NE(at, std::string::npos);
    expected += "layers.1.self_attn.qkv_proj.k_proj.weight BF16 [4, 32] in checkpoint/weights/tp" +
                std::to_string(rank) + "_sharded_checkpoint.safetensors (tp rank " +
                std::to_string(rank) + ")\n  [0:4, 0:32] = " + name + "[" +
                std::to_string(head * 4) + ":" + std::to_string(head * 4 + 4) + ", 0:32] (head " +
                std::to_string(head) + ")\n      from " + name + " BF16 [4, 32] in " + shard +
                ", file bytes [" + std::to_string(at) + ", " + std::to_string(at + 256) + ")\n";
  }
  EXPECT_THAT(result.out, EndsWith("\n\n" + expected)) << "behind the picture";
}

TEST_F(ConvertJson, ExplainSaysWhatIsPadding) {
  const ProcessResult result =
      Workshop::Convert("--from hf --to rollout --tp 3 --explain lm_head.weight", model_, out_);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("  [0:20, 0:32] = lm_head.weight[44:64, 0:32]\n"));
  EXPECT_THAT(result.out, HasSubstr("  [20:22, 0:32] = 0 (padding)\n"));
  const ProcessResult rank =
      Workshop::Convert("--from hf --to rollout --tp 2 --explain rank_util.rank", model_, out_);
  EXPECT_THAT(rank.out, HasSubstr("rank_util.rank I32 [1] in "));
  EXPECT_THAT(rank.out, HasSubstr("  [0:1] = 1 (the rank)\n"));
}

TEST_F(ConvertJson, ExplainOffersTheNearestName) {
  const ProcessResult result =
      Workshop::Convert("--from hf --to hf --explain model.norms.weight", model_, out_);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("the output has no tensor of this name"));
  EXPECT_THAT(result.err, HasSubstr("did you mean model.norm.weight?"));
}

// --- ckpt-verify

TEST_F(ConvertJson, OfAGoodArtifact) {
  ExpectConverts("--from hf --to nxd --tp 2", model_, out_);
  const Json json = JsonOf(Workshop::Verify(out_, "--json --against " + model_));
  EXPECT_EQ(TypesOf(json), With({{"path", "string"},
                                 {"against", "string"},
                                 {"kind", "string"},
                                 {"model_type", "string"},
                                 {"tensors", "count"},
                                 {"parameters", "count"},
                                 {"ranks", "count"},
                                 {"checks", "array"},
                                 {"loader", "null"},
                                 {"findings", "array"}}));
  ExpectDocumented(json, "ckpt-verify");
  EXPECT_EQ(json["status"], "ok");
  EXPECT_EQ(json["kind"], "nxd");
  EXPECT_EQ(json["ranks"], 2);
  EXPECT_EQ(json["parameters"], 2 * 2048 + 4 * (2048 + 512 + 4608 + 64) + 32);
  EXPECT_EQ(json["checks"].size(), 6u) << json["checks"];
  EXPECT_THAT(json["findings"], IsEmpty());
  EXPECT_FALSE(JsonOf(Workshop::Verify(out_, "--json")).contains("against"));
}

TEST_F(ConvertJson, OfAFinding) {
  ExpectConverts("--from hf --to nxd --tp 2", model_, out_);
  const std::string other = workshop_.MakeModel("other", testing_util::TinyLlama(), "--seed 2");
  const ProcessResult result = Workshop::Verify(out_, "--json --against " + other);
  EXPECT_EQ(result.exit_code, 1);
  const Json json = JsonOf(result);
  EXPECT_EQ(json["status"], "findings");
  ExpectDocumented(json, "ckpt-verify");
  bool has_head = false;
  for (const Json& finding : json["findings"]) {
    Types types = {{"check", "string"},  {"message", "string"},   {"file", "string"},
                   {"tensor", "string"}, {"parameter", "string"}, {"rank", "count"},
                   {"index", "array"},   {"count", "count"},      {"expected", "string"},
                   {"found", "string"}};
    if (finding.contains("head")) types["head"] = "count";
    has_head |= finding.contains("head");
    EXPECT_EQ(TypesOf(finding), types);
  }
  EXPECT_TRUE(has_head);
}

// The text of what has the same document: a sentence, what was right, and the worst.
TEST_F(ConvertJson, OtherWeightsAreOneSentenceForPeople) {
  ExpectConverts("--from hf --to nxd --tp 2", model_, out_);
  const std::string other = workshop_.MakeModel("other", testing_util::TinyLlama(), "--seed 2");
  const ProcessResult result = Workshop::Verify(out_, "--against " + other);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, testing::StartsWith(out_ + ": all 39 parameters differ from " + other +
                                              ": another model or another step\nok: "));
  std::istringstream lines(result.out);
  int wrong = 0;
  for (std::string line; std::getline(lines, line);) wrong += line.starts_with("WRONG: ");
  EXPECT_EQ(wrong, 5) << result.out;
  EXPECT_THAT(result.out,
              testing::ContainsRegex("\n\\.\\.\\. and [0-9]+ more \\(--json lists all\\)\n"));
}

TEST_F(ConvertJson, OfAnArtifactThatCannotBeRead) {
  const ProcessResult result = Workshop::Verify(workshop_ / "nowhere", "--json");
  EXPECT_EQ(result.exit_code, 3);
  const Json json = JsonOf(result);
  EXPECT_EQ(TypesOf(json), With({{"error", "object"}}));
  ExpectDocumented(json, "ckpt-verify");
  EXPECT_EQ(json["error"]["code"], "not_found");
  EXPECT_EQ(json["error"]["file"], workshop_ / "nowhere");
}

// --- nxdkit-make-model

TEST_F(ConvertJson, OfAMadeModel) {
  const Json json = JsonOf(RunProcess(
      {Workshop::Tool("nxdkit-make-model"), "--out", out_, "--json", "--max-shard-size", "50KB"}));
  EXPECT_EQ(TypesOf(json), With({{"output", "string"}, {"output_bytes", "count"}}));
  ExpectDocumented(json, "nxdkit-make-model");
  uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(out_))
    if (entry.path().extension() == ".safetensors") bytes += entry.file_size();
  EXPECT_EQ(json["output_bytes"], bytes);
}

// --- the pages' examples

void RunExamples(const Workshop& workshop, const std::string& tool) {
  const std::vector<std::string> examples =
      ManExamples(ReadFile(NXDKIT_SOURCE_DIR "/man/" + tool + ".1"));
  EXPECT_FALSE(examples.empty());
  for (const std::string& example : examples) {
    if (example.find("0.6b") != std::string::npos) continue;  // more than a gigabyte
    const ProcessResult result =
        RunProcess({"bash", "-c", "cd " + workshop.path() + " && " NXDKIT_TOOLS "/" + example});
    EXPECT_EQ(result.exit_code, 0) << example << "\n" << result.out << result.err;
  }
}

TEST(ManExamples, DoWhatTheySay) {
  const Workshop workshop;
  RunExamples(workshop, "nxdkit-make-model");
  fs::rename(workshop / "tiny", workshop / "model");
  ExpectConverts("--from hf --to rollout --tp 8 --bs 8 --seq 128", workshop / "model",
                 workshop / "compiled");
  workshop.Write("compiled/model.pt", testing_util::CompiledBlob());
  const Json config = Json::parse(ReadFile(workshop / "model/config.json"));
  testing_util::PeftFiles adapter;
  adapter.Add("self_attn.o_proj", config["num_hidden_layers"].get<int64_t>(),
              config["hidden_size"].get<int64_t>(),
              config["num_attention_heads"].get<int64_t>() * config["head_dim"].get<int64_t>());
  adapter.Write(workshop / "adapter");
  // The last step of a run.
  fs::create_directories(workshop / "checkpoints/run");
  fs::copy(workshop / "model", workshop / "checkpoints/run/global_step_500",
           fs::copy_options::recursive);
  workshop.Write("checkpoints/run/latest_checkpointed_iteration.txt", "500");
  RunExamples(workshop, "nxd-convert");
  ExpectSameTree(workshop / "model", workshop / "back");
  EXPECT_TRUE(ReadFile(workshop / "fresh/model.pt") == testing_util::CompiledBlob());
  // A set from another writer: without our record of the layout.
  fs::copy(workshop / "shards/step_0", workshop / "bare", fs::copy_options::recursive);
  fs::remove(workshop / "bare/nxdkit.json");
  RunExamples(workshop, "ckpt-verify");
}

}  // namespace
}  // namespace nxdkit::test
