// ckpt-diff from outside: text, JSON, limits, exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "tests/tools/convert_workshop.h"
#include "tests/tools/json_schema.h"
#include "tests/tools/man_page.h"

namespace nxdkit::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DiffTool : public ::testing::Test {
 protected:
  static ProcessResult Diff(const std::string& options, const std::string& a,
                            const std::string& b) {
    Words words = {Workshop::Tool("ckpt-diff")};
    for (const std::string& word : Split(options)) words.push_back(word);
    words.push_back(a);
    words.push_back(b);
    return RunProcess(words);
  }
  // Runs, expects the code, and checks the JSON against the man page.
  static Json DiffJson(int exit_code, const std::string& options, const std::string& a,
                       const std::string& b) {
    const ProcessResult result = Diff(options + " --json", a, b);
    EXPECT_EQ(result.exit_code, exit_code) << options << result.out << result.err;
    const Json json = JsonOf(result);
    const Names documented = ManJsonPaths(ReadFile(NXDKIT_SOURCE_DIR "/man/ckpt-diff.1"));
    EXPECT_THAT(UndocumentedPaths(json, documented), IsEmpty()) << options;
    return json;
  }
  // Changes the lowest bit of the last element of the file, in a one-file model's last tensor.
  static void NudgeLast(const std::string& model) {
    std::fstream file(model + "/model.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-2, std::ios::end);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(-2, std::ios::end);
    file.put(byte);
  }

  const Workshop workshop_;
  const std::string a_ = workshop_.MakeModel("a", testing_util::TinyLlama());
  const std::string b_ = workshop_.MakeModel("b", testing_util::TinyLlama());
};

TEST_F(DiffTool, SaysEqualAcrossLayouts) {
  ExpectConverts("--from hf --to nxd --tp 8 --hw trn2", b_, workshop_ / "set");
  const ProcessResult result = Diff("", a_, workshop_ / "set");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, ::testing::StartsWith("equal: 39 parameters, "));
  const Json json = DiffJson(0, "", a_, workshop_ / "set");
  EXPECT_EQ(json["b_kind"], "nxd");
  EXPECT_EQ(json["compared"], 39);
  EXPECT_EQ(json["total"]["changed"], 0);
  EXPECT_TRUE(json["tensors"].empty());
}

TEST_F(DiffTool, ShowsOneChangedElement) {
  NudgeLast(b_);
  const ProcessResult result = Diff("", a_, b_);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.out, HasSubstr("worst at ["));
  EXPECT_THAT(result.out, HasSubstr("in all\n"));
  EXPECT_THAT(result.out, HasSubstr("1 element differs by 1 ulp\n"));
  const Json json = DiffJson(1, "", a_, b_);
  EXPECT_EQ(json["total"]["changed"], 1);
  EXPECT_EQ(json["total"]["ulps"][0]["max_ulp"], 1);
  ASSERT_EQ(json["tensors"].size(), 1u);
  EXPECT_EQ(json["tensors"][0]["changed"], 1);
  EXPECT_EQ(json["tensors"][0]["a_dtype"], "BF16");
  EXPECT_NE(json["tensors"][0]["worst"]["a"], json["tensors"][0]["worst"]["b"]);
}

TEST_F(DiffTool, LimitsDecideTheExitCode) {
  NudgeLast(b_);
  EXPECT_EQ(Diff("--max-ulp 0", a_, b_).exit_code, 1);
  EXPECT_EQ(Diff("--max-ulp 1", a_, b_).exit_code, 0);
  EXPECT_EQ(Diff("--rtol 1e-5", a_, b_).exit_code, 1);
  EXPECT_EQ(Diff("--rtol 1e-2", a_, b_).exit_code, 0);
  EXPECT_EQ(Diff("--atol 1", a_, b_).exit_code, 0);
  EXPECT_EQ(Diff("--atol 1 --max-ulp 0", a_, b_).exit_code, 1) << "every limit has to hold";
  const ProcessResult result = Diff("--max-ulp 1", a_, b_);
  EXPECT_THAT(result.out, HasSubstr(" elements, 0 beyond the limits\n"));
}

TEST_F(DiffTool, TopLimitsTheList) {
  const std::string other = workshop_.MakeModel("c", testing_util::TinyLlama(), "--seed 9");
  const ProcessResult result = Diff("--top 2", a_, other);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("... and 37 more (--top N lists more)\n"));
  EXPECT_EQ(DiffJson(1, "--top 3", a_, other)["tensors"].size(), 3u);
  EXPECT_EQ(DiffJson(1, "--top 0", a_, other)["tensors"].size(), 0u);
  const Json all = DiffJson(1, "", a_, other);
  double before = INFINITY;
  for (const Json& tensor : all["tensors"]) {
    EXPECT_LE(tensor["max_abs"].get<double>(), before) << "worst first";
    before = tensor["max_abs"].get<double>();
  }
}

// The values of every tensor, read by the format's own rules: a length, a header and the data.
std::map<std::string, std::vector<double>> Bf16Tensors(const std::string& model) {
  const std::string bytes = ReadFile(model + "/model.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  std::map<std::string, std::vector<double>> tensors;
  const Json header = Json::parse(bytes.substr(8, length));
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    EXPECT_EQ(tensor["dtype"], "BF16");
    for (uint64_t at = tensor["data_offsets"][0]; at < tensor["data_offsets"][1]; at += 2) {
      uint16_t bits = 0;
      std::memcpy(&bits, bytes.data() + 8 + length + at, sizeof bits);
      tensors[name].push_back(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16));
    }
  }
  return tensors;
}

struct Norms {
  double a = 0;
  double update = 0;
};

// The norms of the parameters whose names begin so.
Norms NormsOf(const std::string& a, const std::string& b, const std::string& prefix) {
  const auto from = Bf16Tensors(a);
  const auto to = Bf16Tensors(b);
  Norms sums;
  for (const auto& [name, values] : from) {
    if (!name.starts_with(prefix)) continue;
    for (size_t i = 0; i < values.size(); ++i) {
      const double update = to.at(name)[i] - values[i];
      sums.a += values[i] * values[i];
      sums.update += update * update;
    }
  }
  return {std::sqrt(sums.a), std::sqrt(sums.update)};
}

void ExpectNorms(const Json& json, const Norms& expected) {
  EXPECT_NEAR(json["norm_a"].get<double>(), expected.a, 1e-12 * expected.a);
  EXPECT_NEAR(json["norm_update"].get<double>(), expected.update, 1e-12 * expected.update);
  const double relative = expected.update / expected.a;
  EXPECT_NEAR(json["relative_update"].get<double>(), relative, 1e-12 * relative);
}

TEST_F(DiffTool, SaysHowFarEachLayerHasMoved) {
  const std::string other = workshop_.MakeModel("c", testing_util::TinyLlama(), "--seed 9");
  const Json json = DiffJson(1, "", a_, other);
  ExpectNorms(json["update"], NormsOf(a_, other, ""));
  ASSERT_EQ(json["layers"].size(), 7u);
  EXPECT_EQ(json["layers"][0]["name"], "model.embed_tokens");
  EXPECT_EQ(json["layers"][0]["layer"], Json());
  EXPECT_EQ(json["layers"][2]["name"], "model.layers.1");
  EXPECT_EQ(json["layers"][2]["layer"], 1);
  EXPECT_EQ(json["layers"][2]["parameters"], 9);
  for (const Json& layer : json["layers"])
    ExpectNorms(layer, NormsOf(a_, other, layer["name"].get<std::string>() + "."));
  for (const char* jobs : {"-j 1", "-j 7"})
    EXPECT_EQ(DiffJson(1, jobs, a_, other)["layers"], json["layers"]);
}

// Rows of the picture: those after the heading.
std::vector<std::string> PictureOf(const std::string& text) {
  std::vector<std::string> rows;
  std::istringstream lines(text);
  bool inside = false;
  for (std::string line; std::getline(lines, line); inside |= line.starts_with("layer "))
    if (inside) rows.push_back(line);
  return rows;
}

TEST_F(DiffTool, DrawsWhichLayersMoved) {
  NudgeLast(b_);
  const auto diff = [&](const std::string& locale) {
    return RunProcess({"env", "-u", "LC_CTYPE", "-u", "LANG", "LC_ALL=" + locale,
                       Workshop::Tool("ckpt-diff"), a_, b_})
        .out;
  };
  const std::string ascii = diff("C");
  EXPECT_THAT(ascii, ::testing::StartsWith("1 of 39 parameters differs, in 1 of "));
  EXPECT_THAT(ascii, HasSubstr("\nupdate: ||B - A|| / ||A|| = "));
  const std::vector<std::string> rows = PictureOf(ascii);
  ASSERT_EQ(rows.size(), 7u) << ascii;
  EXPECT_EQ(rows[0], "embed_tokens         0");
  EXPECT_THAT(rows[1], ::testing::StartsWith("layer 0 "));
  size_t longest = 0;
  for (const std::string& row : rows) longest = std::max(longest, row.size());
  EXPECT_EQ(longest, 80u) << "the bar of the layer that moved most ends at the margin";
  EXPECT_THAT(ascii, HasSubstr("####"));
  const std::string blocks = diff("C.UTF-8");
  EXPECT_THAT(blocks, HasSubstr("\u2588\u2588"));
  EXPECT_THAT(blocks, ::testing::Not(HasSubstr("##")));
  EXPECT_EQ(blocks, diff("de_DE.utf8")) << "a locale that need not be installed";
}

TEST_F(DiffTool, FitsANarrowTerminal) {
  const std::string other = workshop_.MakeModel("c", testing_util::TinyLlama(), "--seed 9");
  const ProcessResult wide = Diff("--top 3", a_, other);
  EXPECT_THAT(wide.out, HasSubstr("model.layers.")) << "elsewhere names are whole";
  const ProcessResult narrow =
      RunOnTerminal({"sh", "-c", "stty cols 72 <&2; \"$@\" >&2", "sh", Workshop::Tool("ckpt-diff"),
                     "--top", "39", a_, other},
                    {"LC_ALL=C"});
  EXPECT_THAT(narrow.err, HasSubstr("..."));
  std::istringstream lines(narrow.err);
  for (std::string line; std::getline(lines, line);)
    if (line.find("worst at") == line.npos && line.find("elements differ") == line.npos) {
      EXPECT_LE(line.size(), 73u) << line;  // with the carriage return of a terminal
    }
}

// All powers of two up to 2^31: in ten rows, and none is lost.
TEST_F(DiffTool, TheHistogramOfUlpsIsShort) {
  const std::string wide_a = workshop_.MakeModel("wa", testing_util::TinyLlama(), "--dtype f32");
  const std::string wide_b =
      workshop_.MakeModel("wb", testing_util::TinyLlama(), "--dtype f32 --seed 9");
  const Json json = DiffJson(1, "", wide_a, wide_b);
  EXPECT_GT(json["total"]["ulps"].size(), 10u);
  std::istringstream lines(Diff("", wide_a, wide_b).out);
  const std::regex row(" *([0-9,]+) elements? differs? by (up to 2\\^[0-9]+|[0-9]+) ulps?");
  int rows = 0;
  uint64_t sum = 0;
  std::smatch match;
  for (std::string line; std::getline(lines, line);)
    if (std::regex_match(line, match, row)) {
      ++rows;
      std::string number = match[1];
      std::erase(number, ',');
      sum += std::stoull(number);
    }
  EXPECT_GE(rows, 5);
  EXPECT_LE(rows, 10);
  EXPECT_EQ(sum, json["total"]["changed"]);
}

TEST_F(DiffTool, NamesWhatOnlyOneHas) {
  const std::string other = workshop_.MakeModel("c", testing_util::TinyQwen3());
  const Json json = DiffJson(1, "", a_, other);
  EXPECT_THAT(Diff("", a_, other).out, HasSubstr("lm_head.weight: the parameter is only in A\n"));
  bool named = false;
  for (const Json& finding : json["findings"])
    named |= finding["parameter"] == "lm_head.weight" && finding["check"] == "only in a";
  EXPECT_TRUE(named);
}

TEST_F(DiffTool, TakesTheLayoutOfEachSide) {
  ExpectConverts("--from hf --to nxd --tp 2", b_, workshop_ / "set");
  for (const char* name : {"/nxdkit.json", "/config.json"})
    std::filesystem::remove(workshop_ / "set" + name);
  const std::string set = workshop_ / "set";
  EXPECT_EQ(Diff("", a_, set).exit_code, 3);
  const std::string config = "config " + a_ + "/config.json";
  EXPECT_EQ(Diff("--b-" + config, a_, set).exit_code, 0);
  EXPECT_EQ(Diff("--a-" + config + " --a-from nxd --b-from hf", set, a_).exit_code, 0);
  EXPECT_EQ(Diff("--a-" + config + " --a-tp 4", set, a_).exit_code, 2);
}

TEST_F(DiffTool, SaysWhatIsWrongWithALimit) {
  for (const char* bad : {"x", "-1", "1e-3x", "nan", "inf", "1e999"}) {
    const ProcessResult result = Diff(std::string("--atol=") + bad, a_, b_);
    EXPECT_EQ(result.exit_code, 2) << bad;
    EXPECT_THAT(result.err, HasSubstr(std::string("--atol: found \"") + bad +
                                      "\", expected a number from 0 on"));
  }
  EXPECT_EQ(Diff("--max-ulp -1", a_, b_).exit_code, 2);
  EXPECT_EQ(Diff("", a_, workshop_ / "nothing").exit_code, 3);
}

// --- several steps

class DiffSteps : public DiffTool {
 protected:
  static ProcessResult Steps(const Words& more, const Words& paths) {
    Words words = {Workshop::Tool("ckpt-diff")};
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), paths.begin(), paths.end());
    return RunProcess(words);
  }

  const std::string c_ = workshop_.MakeModel("c", testing_util::TinyLlama(), "--seed 9");
};

TEST_F(DiffSteps, ComparesTheFirstWithTheLastAndEachWithTheNext) {
  NudgeLast(b_);
  const ProcessResult result = Steps({"--json"}, {a_, b_, c_});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  Json json = JsonOf(result);
  EXPECT_THAT(UndocumentedPaths(json, ManJsonPaths(ReadFile(NXDKIT_SOURCE_DIR "/man/ckpt-diff.1"))),
              IsEmpty());
  EXPECT_THAT(SourceSchemas().Faults("ckpt-diff.json", json), IsEmpty());
  const Json pairs[] = {DiffJson(1, "", a_, b_), DiffJson(1, "", b_, c_)};
  ASSERT_EQ(json["steps"].size(), 2u);
  for (size_t i = 0; i < 2; ++i)
    for (const char* key : {"a", "b", "total", "update", "layers", "findings"})
      EXPECT_EQ(json["steps"][i][key], pairs[i][key]) << i << " " << key;
  const Json whole = DiffJson(1, "", a_, c_);
  EXPECT_FALSE(whole.contains("steps"));
  json.erase("steps");
  EXPECT_EQ(json, whole);
}

TEST_F(DiffSteps, HasATableOfTheSteps) {
  NudgeLast(b_);
  const std::string two = "first against last: " + Steps({}, {a_, c_}).out;
  const std::string three = Steps({}, {a_, b_, c_}).out;
  ASSERT_THAT(three, ::testing::StartsWith(two)) << "then the steps";
  EXPECT_THAT(three.substr(two.size()), ::testing::MatchesRegex("changed     update  step\n"
                                                                " +1 +[0-9.e-]+  " +
                                                                a_ + " -> " + b_ +
                                                                "\n"
                                                                " +[0-9,]+ +[0-9.]+  " +
                                                                b_ + " -> " + c_ + "\n"));
}

TEST_F(DiffSteps, DifferWhereOnlyAStepDoes) {
  const ProcessResult back = Steps({}, {a_, c_, b_});
  EXPECT_EQ(back.exit_code, 1) << "there and back again";
  EXPECT_THAT(back.out, ::testing::StartsWith("first against last: equal: 39 parameters, "));
  EXPECT_THAT(back.out, HasSubstr(c_ + " -> " + b_ + "\n"));
  EXPECT_EQ(Steps({}, {a_, b_, a_}).exit_code, 0);
  EXPECT_EQ(Steps({"--atol", "9"}, {a_, c_, b_}).exit_code, 0);
}

TEST_F(DiffSteps, ThatCannotBeOpenedIsNamed) {
  const std::string missing = workshop_ / "missing";
  for (const Words& paths :
       {Words{a_, b_, missing}, Words{a_, missing, b_}, Words{missing, a_, b_}}) {
    const ProcessResult result = Steps({}, paths);
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_THAT(result.err, HasSubstr(missing));
    EXPECT_THAT(result.out, IsEmpty());
  }
}

TEST_F(DiffSteps, TakeTheOptionsOfB) {
  ExpectConverts("--from hf --to nxd --tp 2", a_, workshop_ / "one");
  ExpectConverts("--from hf --to nxd --tp 2", b_, workshop_ / "two");
  for (const char* set : {"one", "two"})
    for (const char* name : {"/nxdkit.json", "/config.json"})
      std::filesystem::remove(workshop_ / set + name);
  const Words paths = {a_, workshop_ / "one", workshop_ / "two"};
  EXPECT_EQ(Steps({}, paths).exit_code, 3);
  EXPECT_EQ(Steps({"--b-config", a_ + "/config.json"}, paths).exit_code, 0);
}

// --- the page

Json HeatDataOf(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"heat\">";
  const size_t at = page.find(begin) + begin.size();
  return *ParseJson(page.substr(at, page.find("</script>", at) - at));
}

void ExpectClose(const Json& found, const Json& expected) {
  EXPECT_NEAR(found.get<double>(), expected.get<double>(), 1e-5 * expected.get<double>());
}

TEST_F(DiffSteps, HaveAPageWithTheNumbersOfTheJson) {
  const std::string path = workshop_ / "page.html";
  const ProcessResult result = Steps({"--json", "--html", path}, {a_, c_, b_, c_});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  const Json json = JsonOf(result);
  EXPECT_EQ(json["html"], path);
  EXPECT_THAT(SourceSchemas().Faults("ckpt-diff.json", json), IsEmpty());
  const Json data = HeatDataOf(ReadFile(path));
  std::map<std::string, Json> params;
  for (const Json& param : data["params"])
    params[data["rows"][param[0].get<size_t>()].get<std::string>() + "." +
           data["modules"][param[1].get<size_t>()].get<std::string>()] = param;
  ASSERT_EQ(params.size(), 39u);
  ASSERT_EQ(json["tensors"].size(), 39u);
  for (const Json& tensor : json["tensors"]) {
    const Json& param = params[tensor["name"]];
    EXPECT_EQ(param[4], tensor["changed"]);
    constexpr const char* kKeys[] = {"norm_a",   "norm_update", "max_abs",
                                     "mean_abs", "max_rel",     "mean_rel"};
    for (size_t i = 0; i < 6; ++i) ExpectClose(param[5 + i], tensor[kKeys[i]]);
  }
  ASSERT_EQ(data["steps"].size(), 4u);
  for (size_t step = 0; step < 4; ++step) {
    const Json& layers = step == 0 ? json["layers"] : json["steps"][step - 1]["layers"];
    ASSERT_EQ(data["steps"][step]["layers"].size(), layers.size());
    for (size_t i = 0; i < layers.size(); ++i) {
      const Json& layer = data["steps"][step]["layers"][i];
      EXPECT_EQ(data["rows"][layer[0].get<size_t>()], layers[i]["name"]);
      EXPECT_EQ(layer[2], layers[i]["elements"]);
      ExpectClose(layer[4], layers[i]["norm_a"]);
      ExpectClose(layer[5], layers[i]["norm_update"]);
    }
  }
}

TEST_F(DiffTool, GivesTheNormsOfEachTensor) {
  const std::string other = workshop_.MakeModel("c", testing_util::TinyLlama(), "--seed 9");
  for (const Json& tensor : DiffJson(1, "--top 5", a_, other)["tensors"])
    ExpectNorms(tensor, NormsOf(a_, other, tensor["name"]));
}

TEST_F(DiffTool, ReplacesNoFileWithoutForce) {
  const std::string path = workshop_.Write("page.html", "mine");
  const ProcessResult refused = Diff("--html " + path, a_, b_);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--force replaces it"));
  EXPECT_EQ(ReadFile(path), "mine");
  const ProcessResult forced = Diff("--force --html " + path, a_, b_);
  EXPECT_EQ(forced.exit_code, 0) << forced.err;
  EXPECT_THAT(forced.out, HasSubstr("\nwrote " + path));
  EXPECT_THAT(ReadFile(path), ::testing::StartsWith("<!DOCTYPE html>"));
  const std::string weights = b_ + "/model.safetensors";
  const std::string bytes = ReadFile(weights);
  for (const std::string& taken : {b_, weights})
    EXPECT_EQ(Diff("--force --html " + taken, a_, b_).exit_code, 2) << taken;
  EXPECT_TRUE(ReadFile(weights) == bytes);
  EXPECT_EQ(Diff("--html " + (workshop_ / "no/such/page"), a_, b_).exit_code, 5);
  EXPECT_EQ(Diff("--html " + (workshop_ / "page"), a_, b_ + "x").exit_code, 3);
}

TEST_F(DiffTool, PrintsThePage) {
  NudgeLast(b_);
  const ProcessResult page = Diff("--html -", a_, b_);
  EXPECT_EQ(page.exit_code, 1);
  EXPECT_THAT(page.out, ::testing::StartsWith("<!DOCTYPE html>"));
  EXPECT_EQ(HeatDataOf(page.out)["params"].size(), 39u);
  const Json json = DiffJson(1, "--html -", a_, b_);
  EXPECT_EQ(json["page"], page.out);
  EXPECT_FALSE(json.contains("html"));
  EXPECT_FALSE(DiffJson(1, "", a_, b_).contains("page"));
}

}  // namespace
}  // namespace nxdkit::test
