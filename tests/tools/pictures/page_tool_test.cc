// --html of ckpt-inspect, nxd-convert and nxd-reshard: the page's data is what --json says, and the
// page is one whole file. How it looks and works is tested in a browser, by tests/interop.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/tools/convert_workshop.h"

namespace nxdkit::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The JSON of a data block of a page.
Json DataOf(const std::string& page, const std::string& id) {
  const std::string begin = "<script type=\"application/json\" id=\"" + id + "\">";
  const size_t at = page.find(begin);
  if (at == std::string::npos) {
    ADD_FAILURE() << "no data " << id;
    return {};
  }
  const size_t from = at + begin.size();
  return Json::parse(page.substr(from, page.find("</script>", from) - from));
}

// The patterns of all leaves by name.
void AddLeaves(const Json& nodes, const Json& patterns, const std::string& before,
               std::map<std::string, Json>& leaves) {
  for (const Json& node : nodes) {
    const std::string name = before + node[0].get<std::string>();
    if (node[1].is_array())
      AddLeaves(node[1], patterns, name + ".", leaves);
    else
      leaves[name] = patterns[node[1].get<size_t>()];
  }
}

std::map<std::string, Json> LeavesOf(const Json& data) {
  std::map<std::string, Json> leaves;
  AddLeaves(data["tree"], data["patterns"], "", leaves);
  return leaves;
}

int64_t ElementsOf(const Json& shape) {
  int64_t count = 1;
  for (const Json& extent : shape) count *= extent.get<int64_t>();
  return count;
}

class HtmlPages : public ::testing::Test {
 protected:
  static ProcessResult Run(Words words) {
    words[0] = Workshop::Tool(words[0]);
    return RunProcess(words);
  }
  std::string MakeShards() const {
    const std::string shards = shop_ / "shards";
    EXPECT_EQ(Workshop::Convert("--to nxd --tp 2", model_, shards).exit_code, 0);
    return shards;
  }

  const Workshop shop_;
  const std::string model_ = shop_.MakeModel("model", testing_util::TinyLlama());
  const std::string page_ = shop_ / "page.html";
};

TEST_F(HtmlPages, InspectDrawsTheParametersThatItCounts) {
  const std::string shards = MakeShards();
  const ProcessResult result = Run({"ckpt-inspect", "--json", "--html", page_, shards});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = JsonOf(result);
  EXPECT_EQ(json["html"], page_);
  const std::string page = ReadFile(page_);
  EXPECT_THAT(page, HasSubstr("script-src 'sha256-"));
  const auto leaves = LeavesOf(DataOf(page, "tree"));
  int64_t elements = 0;
  for (const auto& [name, leaf] : leaves) elements += ElementsOf(leaf["s"][0][1]);
  EXPECT_EQ(elements, json["parameters"]);
  // Four query heads of 4 rows for each of two ranks.
  const Json& query = leaves.at("model.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(query["p"], Json::parse("[[[32,32],4,0]]"));
  EXPECT_EQ(query["c"],
            Json::parse("[[0,0,[0,0,16,32],0,0,[0,0,16,32]],[0,1,[16,0,16,32],0,0,[16,0,16,32]]]"));
  EXPECT_EQ(DataOf(page, "tree")["files"][1], "tp 1");
}

TEST_F(HtmlPages, APageIsReplacedOnlyWithForce) {
  shop_.Write("page.html", "mine");
  const ProcessResult refused = Run({"ckpt-inspect", "--html", page_, model_});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("page.html: it already exists"));
  EXPECT_EQ(ReadFile(page_), "mine");
  const ProcessResult forced = Run({"ckpt-inspect", "-f", "--html", page_, model_});
  EXPECT_EQ(forced.exit_code, 0);
  EXPECT_THAT(forced.out, HasSubstr("wrote " + page_));
  EXPECT_THAT(ReadFile(page_), HasSubstr("<!DOCTYPE html>"));
  std::filesystem::create_directory(shop_ / "folder");
  for (const auto& [path, code, message] :
       {std::tuple{shop_ / "no/page.html", 5, "no/page.html: its folder is not there"},
        {shop_ / "folder", 2, "found a folder"},
        {std::string("/dev/null"), 2, "found something else"},
        {shop_ / "model/model.safetensors", 2, "model.safetensors"}}) {
    const ProcessResult result = Run({"ckpt-inspect", "-f", "--html", path, model_});
    EXPECT_EQ(result.exit_code, code);
    EXPECT_THAT(result.err, HasSubstr(message));
  }
}

TEST_F(HtmlPages, StandardOutputGetsThePageAlone) {
  const ProcessResult page = Run({"ckpt-inspect", "--html", "-", model_});
  EXPECT_TRUE(page.out.starts_with("<!DOCTYPE html>")) << page.out.substr(0, 100);
  EXPECT_EQ(JsonOf(Run({"ckpt-inspect", "--json", "--html", "-", model_}))["page"], page.out);
}

// Everything that can be inspected has a page, also without tensors.
TEST_F(HtmlPages, InspectDrawsWhatHasNoTensors) {
  const ProcessResult result =
      Run({"ckpt-inspect", "--html", page_, NXDKIT_TESTDATA "/neff/toy.neff"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(ReadFile(page_), Not(HasSubstr("id=\"treemap\"")));
}

TEST_F(HtmlPages, NamesAreText) {
  const std::string header =
      R"({"<img src=x onerror=alert(1)>":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
      R"("</script><script>alert(2)</script>":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  shop_.Write("bad <b>.safetensors", file + header + "12345678");
  const ProcessResult result =
      Run({"ckpt-inspect", "--html", page_, shop_ / "bad <b>.safetensors"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string page = ReadFile(page_);
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, Not(HasSubstr("<b>.safe")));
  EXPECT_TRUE(LeavesOf(DataOf(page, "tree")).contains("</script><script>alert(2)</script>"));
}

// --- the plan

TEST_F(HtmlPages, ThePlanOfAllTensorsHasItsBytes) {
  const ProcessResult result = RunProcess({Workshop::Tool("nxd-convert"), "--to", "nxd", "--tp",
                                           "2", "--json", "--explain", "--html", page_, model_});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = JsonOf(result);
  EXPECT_EQ(json["tensor"], nullptr);
  const Json planned =
      JsonOf(Workshop::Convert("--to nxd --tp 2 --json -n", model_, shop_ / "out"));
  uint64_t flow_bytes = 0, page_bytes = 0, tensor_bytes = 0;
  for (const Json& flow : json["flows"]) flow_bytes += flow["bytes"].get<uint64_t>();
  const Json data = DataOf(ReadFile(page_), "plan");
  for (const Json& flow : data["flows"]) page_bytes += flow[2].get<uint64_t>();
  EXPECT_EQ(flow_bytes, page_bytes);
  const auto leaves = LeavesOf(data);
  EXPECT_EQ(leaves.size(), json["tensors"]);
  for (const auto& [name, leaf] : leaves) tensor_bytes += leaf["b"].get<uint64_t>();
  EXPECT_EQ(tensor_bytes, flow_bytes) << "this plan has no padding";
  EXPECT_EQ(planned["parameters"].get<uint64_t>() * 2 +
                /* norms are on both ranks */ (4 * 64 + 32) * 2,
            flow_bytes);
}

// The parts in --json are those of the text, whose numbers convert_json_test.cc finds in the files.
TEST_F(HtmlPages, APartIsTheSameInTextAndJson) {
  const Json json =
      JsonOf(Workshop::Convert("--to rollout --tp 4 --no-fused-qkv --json --explain "
                               "layers.1.self_attn.qkv_proj.k_proj.weight",
                               model_, shop_ / "out"));
  ASSERT_EQ(json["parts"].size(), 4u);
  const Json& part = json["parts"][3];
  EXPECT_EQ(part["heads"], Json::parse("[1,1]"));
  EXPECT_EQ(part["parameter_box"], Json::parse(R"({"lo":[4,0],"extent":[4,32]})"));
  EXPECT_THAT(json["explanation"].get<std::string>(),
              HasSubstr("model.layers.1.self_attn.k_proj.weight[4:8, 0:32] (head 1)"));
}

// Constants are parts too, everywhere.
TEST_F(HtmlPages, PaddingIsAPart) {
  const ProcessResult text =
      Workshop::Convert("--to rollout --tp 3 --explain lm_head.weight", model_, shop_ / "out");
  EXPECT_THAT(text.out, HasSubstr("[20:22, 0:32] zeros as padding\n"));
  const Json json = JsonOf(Workshop::Convert("--to rollout --tp 3 --json --explain lm_head.weight",
                                             model_, shop_ / "out"));
  const Json& last = json["parts"].back();
  EXPECT_EQ(last["value"], 0);
  EXPECT_EQ(last["box"], Json::parse(R"({"lo":[20,0],"extent":[2,32]})"));
  EXPECT_TRUE(last["from"].is_null());
  EXPECT_EQ(
      Run({"nxd-convert", "--to", "rollout", "--tp", "3", "--explain", "--html", page_, model_})
          .exit_code,
      0);
  EXPECT_EQ(LeavesOf(DataOf(ReadFile(page_), "plan")).at("lm_head.weight")["f"],
            Json::parse("[[2,[20,0,2,32],0,1]]"));
  const ProcessResult rank =
      Workshop::Convert("--to rollout --tp 2 --explain rank_util.rank", model_, shop_ / "out");
  EXPECT_THAT(rank.out, HasSubstr("[0:1] 0, the rank\n"));
}

// The heads of a fused parameter begin again with each kind: they have no single number.
TEST_F(HtmlPages, AFusedParameterHasNoHeadNumbers) {
  const std::string gpt2 = shop_ / "gpt2";
  ASSERT_EQ(Run({"nxdkit-make-model", "-q", "--family", "gpt2", "--out", gpt2}).exit_code, 0);
  const ProcessResult result = Workshop::Convert(
      "--to nxd --tp 2 --explain transformer.h.0.attn.c_attn.weight", gpt2, shop_ / "out");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, Not(HasSubstr("head")));
}

TEST_F(HtmlPages, ExplainStandsAlone) {
  const std::string out = shop_ / "out";
  const ProcessResult all = Workshop::Convert("--to nxd --tp 2 --explain", model_, out);
  EXPECT_EQ(all.exit_code, 0) << all.err;
  EXPECT_THAT(all.out, HasSubstr(" tensors from 1 file to 2 files"));
  EXPECT_FALSE(std::filesystem::exists(out));
  // The same in front of another option, and without the output.
  EXPECT_EQ(Run({"nxd-convert", "--explain", "--to", "nxd", "--tp", "2", model_}).out, all.out);
  const ProcessResult some =
      Run({"nxd-convert", "--to", "nxd", "--tp", "2", "--explain", "*layers.0.*norm*", model_});
  EXPECT_THAT(some.out, HasSubstr("model.layers.0.input_layernorm.weight"));
  EXPECT_THAT(some.out, Not(HasSubstr("model.layers.1.")));
}

TEST_F(HtmlPages, AnHtmlWithoutExplainIsRefused) {
  const ProcessResult result =
      Run({"nxd-convert", "--to", "nxd", "--tp", "2", "--html", page_, model_, shop_ / "out"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("add --explain"));
}

TEST_F(HtmlPages, ReshardDrawsItsPlanToo) {
  const std::string shards = MakeShards();
  const ProcessResult result =
      Run({"nxd-reshard", "--tp", "1", "--explain", "--html", page_, shards});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(DataOf(ReadFile(page_), "plan")["sources"].size(), 2u);
  EXPECT_EQ(Run({"nxd-reshard", "--tp", "1", shards}).exit_code, 2);
}

// A row for each part, in the terminal as far as it is wide.
TEST_F(HtmlPages, ThePictureInTheTerminal) {
  const ProcessResult result =
      RunProcess({"env", "LC_ALL=C", Workshop::Tool("nxd-convert"), "--to", "nxd", "--tp", "2",
                  "--explain", "model.layers.0.self_attn.q_proj.weight", model_});
  EXPECT_THAT(result.out,
              HasSubstr("model.layers.0.self_attn.q_proj.weight\n"
                        "  tp 0  ####################....................  [0:16, 0:32] heads 0 to "
                        "3\n"
                        "  tp 1  ....................####################  [16:32, 0:32] heads 4 "
                        "to 7\n"));
}

}  // namespace
}  // namespace nxdkit::test
