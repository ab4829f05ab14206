// The families' texts compared with real programs: every tensor of the models that transformers
// saves, and the parameters of vLLM's own model objects.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "formats/models/rank_tensors.h"
#include "formats/models/view.h"
#include "formats/vllm/engine_layout.h"
#include "lib/base/text.h"
#include "tests/formats/model_layouts.h"
#include "tests/formats/scratch.h"

namespace nxdkit::models {
namespace {

using nlohmann::json;
using Shapes = std::map<std::string, Shape>;

json Fixture(const char* name) {
  return json::parse(testing_util::ReadBytes(std::string(NXDKIT_TESTDATA "/families/") + name));
}

// The cases of testdata/families: a config and what transformers wrote for it.
struct Case {
  std::string name;
  json config;
  Shapes disk;
};
std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const auto& [file, suffix] : {std::pair{"families.json", ""},
                                     {"more.json", ""},
                                     {"families-4.json", "_of_transformers_4"}}) {
    const json fixture = Fixture(file);
    for (const auto& [name, row] : fixture["families"].items()) {
      Case one{name + suffix, row["config"], {}};
      for (const json& tensor : row["disk"]) one.disk[tensor[0]] = tensor[2].get<Shape>();
      cases.push_back(std::move(one));
    }
  }
  return cases;
}
// Models without a text: each has a head_dim of its own in some layers.
bool HasNoText(const Case& one) { return one.name == "gemma4_text"; }

Shapes ShapesOf(const std::vector<TensorLayout>& tensors) {
  Shapes shapes;
  for (const TensorLayout& tensor : tensors) shapes[tensor.name] = tensor.shape;
  return shapes;
}

// The names in one and not, or with another shape, in the other.
std::vector<std::string> Differences(const Shapes& expected, const Shapes& found) {
  std::vector<std::string> all;
  for (const auto& [name, shape] : expected)
    if (const auto it = found.find(name); it == found.end())
      all.push_back("missing " + name);
    else if (it->second != shape)
      all.push_back(fmt::format("{} is {}, not {}", name, ShapeText(it->second), ShapeText(shape)));
  for (const auto& [name, shape] : found)
    if (!expected.contains(name)) all.push_back("too much " + name);
  return all;
}

// Every element of every parameter is on a rank, and all ranks exist; a cut element is on exactly
// one, or on those that share it.
void ExpectCutWhole(const Model& model) {
  const std::vector<LogicalTensor> logical = model.Logical();
  for (const int64_t tp : {1, 2, 4}) {
    const int64_t kv = model.config.kv_heads;
    if (model.config.heads % tp != 0 || (kv > 0 && kv % tp != 0 && tp % kv != 0)) continue;
    bool even = true;
    for (uint32_t i = 0; i < model.params.size(); ++i) even &= CheckEven(model, i, tp).ok();
    if (!even) continue;
    Layout layout;
    for (int64_t rank = 0; rank < tp; ++rank) {
      RankHeads heads;
      for (int64_t h = 0; h < model.config.heads / tp; ++h)
        heads.query.push_back(rank * (model.config.heads / tp) + h);
      if (kv >= tp)
        for (int64_t h = 0; h < kv / tp; ++h) heads.kv.push_back(rank * (kv / tp) + h);
      else if (kv > 0)
        heads.kv.push_back(rank / (tp / kv));
      layout.files.push_back({fmt::format("rank {}", rank), rank, 0});
      for (uint32_t i = 0; i < model.params.size(); ++i) {
        TensorLayout tensor = PartTensor(model, {i}, model.params[i].name, {heads, tp, rank});
        tensor.file = static_cast<uint32_t>(rank);
        layout.tensors.push_back(std::move(tensor));
      }
    }
    const Status status = CheckLayout(logical, layout);
    EXPECT_TRUE(status.ok()) << status.error().ToString();
    std::vector<int64_t> copies(model.params.size());
    std::vector<std::set<std::pair<Shape, Shape>>> boxes(model.params.size());
    std::vector<int64_t> distinct(model.params.size());
    for (const TensorLayout& tensor : layout.tensors)
      for (const Piece& piece : tensor.pieces) {
        copies[piece.param] += piece.logical.Volume();
        if (boxes[piece.param].insert({piece.logical.lo, piece.logical.extent}).second)
          distinct[piece.param] += piece.logical.Volume();
      }
    for (uint32_t i = 0; i < model.params.size(); ++i) {
      const int64_t all = *ElementCount(model.params[i].shape);
      EXPECT_EQ(distinct[i], all) << model.params[i].name << " at tp " << tp;
      EXPECT_GE(copies[i], all) << model.params[i].name << " at tp " << tp;
      EXPECT_LE(copies[i], all * tp) << model.params[i].name << " at tp " << tp;
      if (model.params[i].CutDim() == kWhole) {
        EXPECT_EQ(copies[i], all * tp) << model.params[i].name;
      }
    }
  }
}

class FamilyTexts : public ::testing::TestWithParam<Case> {};

TEST_P(FamilyTexts, HaveEveryTensorThatTransformersSaves) {
  const Case& one = GetParam();
  const Model model = testing_util::ModelOf(one.config);
  ASSERT_TRUE(model.config.family);
  bool found = false;
  std::vector<std::string> nearest;
  std::vector<std::string> spellings = Spellings(*model.config.family);
  spellings.insert(spellings.begin(), "");
  for (const std::string& spelling : spellings) {
    const auto tensors = SpelledTensors(model, spelling);
    ASSERT_TRUE(tensors.ok()) << tensors.error().ToString();
    Shapes shapes = ShapesOf(*tensors);
    for (const Alias& alias : model.config.aliases)
      if (!one.disk.contains(alias.name)) shapes.erase(alias.name);
    const std::vector<std::string> differences = Differences(one.disk, shapes);
    found |= differences.empty();
    if (nearest.empty() || differences.size() < nearest.size()) nearest = differences;
  }
  EXPECT_TRUE(found) << fmt::format("{}", fmt::join(nearest, "\n"));
}

TEST_P(FamilyTexts, CutEveryElementForEveryRank) {
  ExpectCutWhole(testing_util::ModelOf(GetParam().config));
}

std::vector<Case> CasesWithText() {
  std::vector<Case> cases = Cases();
  std::erase_if(cases, HasNoText);
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Saved, FamilyTexts, ::testing::ValuesIn(CasesWithText()),
                         [](const auto& one) {
                           std::string name = one.param.name;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// --- every row of a text is needed

// The parameters of a model, or the error in its text or its config.
Shapes Expanded(const std::string& text, const json& config, std::string& error) {
  auto family = ParseFamily(text, "mutated.family");
  if (!family.ok()) return error = family.error().ToString(), Shapes();
  const auto parsed = ParseConfigAs(std::make_shared<const Family>(*std::move(family)),
                                    config.dump(), "config.json");
  if (!parsed.ok()) return error = parsed.error().ToString(), Shapes();
  const Result<Model> model = MakeModel(*parsed);
  if (!model.ok()) return error = model.error().ToString(), Shapes();
  Shapes shapes;
  for (const Param& param : model->params) shapes[param.name] = param.shape;
  return shapes;
}

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> lines;
  for (const std::string_view line : Split(text, '\n')) lines.emplace_back(line);
  return lines;
}

std::string FirstWord(const std::string& line) {
  const size_t begin = line.find_first_not_of(' ');
  return begin == std::string::npos ? "" : line.substr(begin, line.find(' ', begin) - begin);
}

// The lines that are rows: they begin with a cut.
std::vector<size_t> RowLines(const std::vector<std::string>& lines) {
  std::set<std::string> cuts = {"all", "vocab", "c", "r"};
  std::vector<size_t> rows;
  for (size_t i = 0; i < lines.size(); ++i) {
    for (const std::string_view part : Split(lines[i], ';')) {
      const std::string word = FirstWord(std::string(part));
      const size_t at = part.find("cut ");
      if (word == "cut") cuts.emplace(FirstWord(std::string(part.substr(at + 4))));
    }
    if (cuts.contains(FirstWord(lines[i]))) rows.push_back(i);
  }
  return rows;
}

// The text without the row, with it twice, and with its first extent larger by one.
std::vector<std::string> Mutations(const std::string& line) {
  size_t at = line.find_first_not_of(' ');
  for (int word = 0; word < 2; ++word) at = line.find_first_not_of(' ', line.find(' ', at));
  const size_t end = std::min(line.find(' ', at), line.size());
  return {"", line + "; " + line, line.substr(0, end) + "+1" + line.substr(end)};
}

// The config, and others with the keys that it leaves out.
std::vector<json> Variants(const json& config) {
  std::vector<json> all(4, config);
  for (json* object : {&all[1], &all[1]["text_config"], &all[1]["vision_config"]})
    for (auto& [key, value] : object->items())
      if (value.is_boolean()) value = !value.get<bool>();
  all[2]["tie_word_embeddings"] = false;
  all[2]["quantization_config"]["quant_method"] = "mxfp4";
  for (const auto& [key, value] : {std::pair{"intermediate_size", 64}, {"hidden_size", 64}})
    if (config.value("model_type", "") == "gpt_oss") all[2][key] = value;
  all[3]["q_lora_rank"] = config.value("q_lora_rank", json()).is_null() ? json(22) : json();
  all[3]["mlp_only_layers"] = {0};
  all[3]["qk_layernorm"] = all[3]["attention_out_bias"] = all[3]["mlp_bias"] = true;
  for (const char* part : {"text_config", "vision_config"})
    for (json& variant : all)
      if (!config.contains(part)) variant.erase(part);
  if (all[3].contains("text_config"))
    all[3]["text_config"]["mlp_only_layers"] = all[3]["text_config"]["moe_layers"] = {0};
  if (config.value("model_type", "") == "qwen2")
    all[3]["architectures"] = {"Qwen2ForTokenClassification"};
  return all;
}

TEST(FamilyRows, AreEachMissedWhenOneIsDroppedDoubledOrWrong) {
  std::vector<Case> cases;
  for (const Case& one : CasesWithText())
    for (const json& variant : Variants(one.config)) cases.push_back({one.name, variant, {}});
  size_t found = 0;
  for (const FamilyHead& head : BuiltInFamilies()) {
    const std::vector<std::string> lines = Lines(BuiltInFamilyText(head.name));
    for (const size_t row : RowLines(lines))
      for (const std::string& mutation : Mutations(lines[row])) {
        std::vector<std::string> mutated = lines;
        mutated[row] = mutation;
        bool noticed = false;
        for (const Case& one : cases) {
          const std::string architecture = one.config["architectures"][0];
          const std::string type = one.config.value("model_type", "");
          const bool fits = head.types.empty()
                                ? std::ranges::count(head.architectures, architecture) > 0
                                : std::ranges::count(head.types, type) > 0;
          if (noticed || !fits) continue;
          std::string error;
          const Shapes before =
              Expanded(std::string(BuiltInFamilyText(head.name)), one.config, error);
          if (!std::exchange(error, "").empty()) continue;  // no model of the family
          const Shapes after =
              Expanded(fmt::format("{}", fmt::join(mutated, "\n")), one.config, error);
          noticed = !error.empty() || !Differences(before, after).empty();
        }
        EXPECT_TRUE(noticed) << head.name << ": " << lines[row] << " -> " << mutation;
        found += noticed ? 1 : 0;
      }
  }
  EXPECT_GT(found, 1500u);
}

// Whatever sizes, ties and biases a config has, every element has its rank.
TEST(FamilyConfigs, OfAnyKindAreCutWhole) {
  std::mt19937 random(5);
  size_t made = 0;
  for (const Case& one : CasesWithText())
    for (int round = 0; round < 6; ++round) {
      json config = one.config;
      const auto change = [&](json& object) {
        for (auto& [key, value] : object.items()) {
          if (value.is_boolean() && random() % 2 == 0) value = !value.get<bool>();
          const bool counts = key.ends_with("layers") || key.starts_with("num_") ||
                              key == "vocab_size" || key.ends_with("size");
          if (value.is_number_integer() && counts && random() % 4 == 0)
            value = std::max<int64_t>(1, value.get<int64_t>() * (1 + random() % 3) / 2);
        }
      };
      change(config);
      for (const char* part : {"text_config", "vision_config"})
        if (config.contains(part)) change(config[part]);
      const auto parsed = ParseConfig(config.dump(), "config.json");
      if (!parsed.ok()) {
        EXPECT_FALSE(parsed.error().message().empty());
        continue;
      }
      const Result<Model> model = MakeModel(*parsed);
      if (!model.ok()) continue;
      ++made;
      ExpectCutWhole(*model);
    }
  EXPECT_GT(made, 200u);
}

TEST(FamilyDigests, AreThoseOfTheTexts) {
  for (const FamilyHead& head : BuiltInFamilies()) {
    const std::string_view text = BuiltInFamilyText(head.name);
    EXPECT_EQ(ParseFamily(text, "")->digest, ParseFamily(std::string(text), "")->digest)
        << head.name;
  }
}

TEST(FamilyViews, AreWhatVllmHasInMemory) {
  const json parameters = Fixture("vllm_names.json")["parameters"];
  size_t compared = 0;
  for (const Case& one : Cases()) {
    if (!parameters.contains(one.name) || HasNoText(one)) continue;
    SCOPED_TRACE(one.name);
    const Model model = testing_util::ModelOf(one.config);
    if (!HasView(*model.config.family, "vllm")) continue;
    const auto tensors = vllm::RankTensors(model, {.tp = 1}, 0);
    ASSERT_TRUE(tensors.ok()) << tensors.error().ToString();
    Shapes expected;
    for (const json& row : parameters[one.name]) expected[row[0]] = row[1].get<Shape>();
    EXPECT_THAT(Differences(expected, ShapesOf(*tensors)), ::testing::IsEmpty());
    ++compared;
  }
  EXPECT_EQ(compared, 24u);
}

// The names and shapes of a checkpoint that megatron-core 0.16.1 saved with numbered layers, except
// for the padding of its vocabulary.
TEST(FamilyViews, MegatronHasEachKeyHeadAfterItsQueries) {
  const Model model = testing_util::ModelOf({{"model_type", "qwen2"},
                                             {"hidden_size", 32},
                                             {"intermediate_size", 40},
                                             {"num_hidden_layers", 2},
                                             {"num_attention_heads", 4},
                                             {"num_key_value_heads", 2},
                                             {"vocab_size", 101},
                                             {"tie_word_embeddings", true}});
  const auto tensors = SpelledTensors(model, "megatron", /*with_aliases=*/false);
  ASSERT_TRUE(tensors.ok()) << tensors.error().ToString();
  Shapes expected = {{"embedding.word_embeddings.weight", {101, 32}},
                     {"decoder.final_layernorm.weight", {32}}};
  for (const char* layer : {"decoder.layers.0.", "decoder.layers.1."})
    for (const auto& [name, shape] :
         std::map<std::string, Shape>{{"self_attention.linear_qkv.layer_norm_weight", {32}},
                                      {"self_attention.linear_proj.weight", {32, 32}},
                                      {"self_attention.linear_qkv.weight", {64, 32}},
                                      {"self_attention.linear_qkv.bias", {64}},
                                      {"mlp.linear_fc1.layer_norm_weight", {32}},
                                      {"mlp.linear_fc1.weight", {80, 32}},
                                      {"mlp.linear_fc2.weight", {32, 40}}})
      expected[layer + name] = shape;
  EXPECT_THAT(Differences(expected, ShapesOf(*tensors)), ::testing::IsEmpty());
  const auto bias = std::ranges::find(*tensors, "decoder.layers.0.self_attention.linear_qkv.bias",
                                      &TensorLayout::name);
  ASSERT_NE(bias, tensors->end());
  std::map<int64_t, std::string> rows;  // by the first: the rows of the parameters
  for (const Piece& piece : bias->pieces)
    rows[piece.stored_lo[0]] = fmt::format("{} {}+{}", model.params[piece.param].name,
                                           piece.logical.lo[0], piece.logical.extent[0]);
  const std::string layer = "model.layers.0.self_attn.";
  EXPECT_THAT(rows, ::testing::ElementsAre(std::pair(0, layer + "q_proj.bias 0+16"),
                                           std::pair(16, layer + "k_proj.bias 0+8"),
                                           std::pair(24, layer + "v_proj.bias 0+8"),
                                           std::pair(32, layer + "q_proj.bias 16+16"),
                                           std::pair(48, layer + "k_proj.bias 8+8"),
                                           std::pair(56, layer + "v_proj.bias 8+8")));
}

// A text of the user's has precedence, and a fault in it is reported with its place.
struct WrongText {
  const char* text;
  const char* message;
};
class WrongTexts : public ::testing::TestWithParam<WrongText> {};
TEST_P(WrongTexts, AreRefusedWithLineAndColumn) {
  const Result<Family> family = ParseFamily(GetParam().text, "my.family");
  ASSERT_FALSE(family.ok());
  EXPECT_EQ(family.error().code(), Errc::kCorrupt);
  EXPECT_EQ(family.error().file(), "my.family");
  EXPECT_THAT(family.error().message(), ::testing::HasSubstr(GetParam().message));
}
INSTANTIATE_TEST_SUITE_P(
    Texts, WrongTexts,
    ::testing::Values(
        WrongText{"", "no line says \"family NAME\""},
        WrongText{"family x; match X", "the family has no parameters"},
        WrongText{"family x\nall a 1", "no line \"match ARCHITECTURE\""},
        WrongText{"family x; match X\n  qq a 1", "line 2, column 3: \"qq\" is neither"},
        WrongText{"family x; match X\nlet a = 1 +", "line 2, column 12: something is missing"},
        WrongText{"family x; match X\nlet a = (1", "line 2, column 11: a bracket is not closed"},
        WrongText{"family x; match X\nlet a = 1)", "column 11: the bracket was not opened"},
        WrongText{"family x; match X\nlet a = 99999999999999999999", "over 64 bits"},
        WrongText{"family x; match X\neach l < 2\nall a.{l} 1", "the loop of line 2 has no end"},
        WrongText{"family x; match X\neach l < 2\nlet a = l\nall a.{l} 1\nend",
                  "line 3, column 1: a let must be outside loops"},
        WrongText{"family x; match X\nsplit a b = c\nall a 1",
                  "line 2, column 1: this line belongs to \"view bundle\" only"},
        WrongText{"family x; match X\nend", "line 2, column 1: no loop is open"},
        WrongText{"family x; match X\nall a.{l 1 1", "a brace is not closed"},
        WrongText{"family x; match X\nr a 1", "the cut's axis is not in the shape"},
        WrongText{"family x; match X\nall a 1 as nobody", "no such role"},
        WrongText{"family x; match X\ncut q 0 2", "COUNT:UNIT is expected"},
        WrongText{"family x; match X\nput a = melt b", "no such operation"},
        WrongText{"family x; match X\nstack a = b c", "this line belongs to a view"},
        WrongText{"family x; match X\nall \x01 1", "a byte 0x01 is not text"},
        WrongText{"family x; match X\nspelling mine", "spellings are called memory, hub, v4"},
        WrongText{"family x; match X\nbundle vllm", "bundles are made by optimum and nxdi"}));

TEST(WrongTexts, AreBounded) {
  const auto message = [](const std::string& rows) {
    const Result<Family> family = ParseFamily("family x; match X\n" + rows, "my.family");
    return family.ok() ? "" : family.error().message();
  };
  const auto repeated = [](const std::string& part, int times) {
    std::string text;
    for (int i = 0; i < times; ++i) text += part;
    return text;
  };
  EXPECT_THAT(message("all " + std::string(600, 'a') + " 1"), ::testing::HasSubstr("too long"));
  EXPECT_THAT(message("all " + repeated("{1}", 20) + " 1"),
              ::testing::HasSubstr("too many braces"));
  EXPECT_THAT(message("let a = " + repeated("1+", 3000) + "1"), ::testing::HasSubstr("too long"));
  EXPECT_THAT(message("cut q 0 " + repeated("1:1,", 100) + "1:1"),
              ::testing::HasSubstr("too many segments"));
  EXPECT_THAT(message(repeated("alias a = b\n", 100)), ::testing::HasSubstr("over 64 aliases"));
  EXPECT_THAT(message(repeated("ignore a b c\n", 400)), ::testing::HasSubstr("that are ignored"));
  std::string names;
  for (int i = 0; i < 1100; ++i) names += fmt::format("let n{} = 1\n", i);
  EXPECT_THAT(message(names), ::testing::HasSubstr("over 1000 names"));
}

// The model of a family with a text of these rows, from a config with a few keys.
Result<Model> Expanded(const std::string& rows, const std::string& keys = "") {
  NXDKIT_ASSIGN(Family family, ParseFamily("family x; match X\n" + rows, "my.family"));
  NXDKIT_ASSIGN(
      const ModelConfig config,
      ParseConfigAs(std::make_shared<const Family>(std::move(family)),
                    R"({"architectures": ["X"], "n": 1000000000, "hidden_size": 6)" + keys + "}",
                    "config.json"));
  return MakeModel(config);
}

// Names that a view makes longer and longer are limited, and so is turning row by row.
TEST(FamilyViews, OfHostileTextsEnd) {
  const auto tensors = [](const std::string& rows) { return SpelledTensors(*Expanded(rows), "v"); };
  std::string grows = "all a 1\nview v\n";
  for (int i = 0; i < 60; ++i) grows += "rename a aa\n";
  const auto grown = tensors(grows);
  ASSERT_TRUE(grown.ok());
  EXPECT_LT(grown->front().name.size(), 3000u);
  const auto turned = tensors("all b 1073741824 1\nview v\nrope b.weight 1");
  ASSERT_FALSE(turned.ok());
  EXPECT_THAT(turned.error().message(), ::testing::HasSubstr("of at most 1048576 rows"));
}

std::string ExpansionError(const std::string& rows, const std::string& keys = "") {
  const Result<Model> model = Expanded(rows, keys);
  return model.ok() ? "" : model.error().ToString();
}

TEST(FamilyBounds, HoldWhateverATextSays) {
  EXPECT_THAT(ExpansionError("each a < n\nall x.{a} 1\nend"),
              ::testing::HasSubstr("over 1000000 parameters"));
  EXPECT_THAT(ExpansionError("each a < n\nall x.{a} 1 if a < 0\nend\nall y 1"),
              ::testing::HasSubstr("over 3000000 steps"));
  EXPECT_THAT(ExpansionError("all y 1\nall y 2"), ::testing::HasSubstr("twice"));
  EXPECT_THAT(ExpansionError("all y n*n*n"), ::testing::HasSubstr("over 64 bits"));
  EXPECT_THAT(ExpansionError("all y hidden_size/4"),
              ::testing::HasSubstr("hidden_size 6 is not a multiple of 4"));
  EXPECT_THAT(ExpansionError("all y missing_key"),
              ::testing::HasSubstr("missing_key: missing; expected an integer"));
  EXPECT_THAT(ExpansionError("all y 2*n"), ::testing::HasSubstr("expected an extent from 1"));
  EXPECT_THAT(ExpansionError("cut q 0 2:2\nq y hidden_size"),
              ::testing::HasSubstr("the segments of its cut are 4 of 6 along axis 0"));
  const Result<Model> missing = Expanded("# a row\nall y hiden_size");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().member(), "hiden_size");
  EXPECT_EQ(missing.error().hint(), "the row is in line 3 of my.family");
  EXPECT_THAT(ExpansionError("all a/../b 1"), ::testing::HasSubstr("cannot be that of a tensor"));
  // Faults that a cold review of the sources found.
  EXPECT_THAT(ExpansionError("c a 8 8 as query"), ::testing::HasSubstr("no let nh, nkv or D"));
  EXPECT_THAT(ExpansionError("let L = 0 - 1; let E = 4\nall a 1"),
              ::testing::HasSubstr("gives -1 for L, at most 10000"));
  EXPECT_THAT(ExpansionError("let E = 2**62; let L = 4\nall a 1"),
              ::testing::HasSubstr("for E, at most 4096"));
  EXPECT_THAT(ExpansionError("let nh = 2**40\nall a 1"), ::testing::HasSubstr("at most 65536"));
  EXPECT_THAT(ExpansionError("c a 8 8 as expert_up"), ::testing::HasSubstr("each e < E"));
  EXPECT_THAT(ExpansionError("all a 1\nalias b.weight = c.weight"),
              ::testing::HasSubstr("an alias of it, and no such parameter"));
  EXPECT_THAT(ExpansionError("all a 1\nall b 1\nalias b.weight = a.weight"),
              ::testing::HasSubstr("as a parameter and as an alias"));
  EXPECT_THAT(ExpansionError("all a 1 if 1 not in hidden_size"), ::testing::HasSubstr("not in"));
}

TEST(FamilyBounds, HoldForWhatComparisonsLookAt) {
  std::string zeros = R"(, "zeros": [0)";
  for (int i = 0; i < 60'000; ++i) zeros += ",0";
  EXPECT_THAT(ExpansionError("each a < 1000\nall x.{a} 1 if 1 in zeros\nend\nall y 1", zeros + "]"),
              ::testing::HasSubstr("over 50000000 elements of lists"));
  const std::string big = ", \"big\": \"" + std::string(1 << 20, 'x') + "\"";
  EXPECT_THAT(
      ExpansionError("let b = big\neach a < 4000\nall x.{a} 1 if b != b\nend\nall y 1", big),
      ::testing::HasSubstr("over 50000000 elements of lists"));
  const std::string two = R"(, "one": [1], "two": [1])";
  EXPECT_THAT(ExpansionError("let b = two\nall a 1 if one == b", two),
              ::testing::HasSubstr("two lists are not compared"));
  EXPECT_EQ(ExpansionError("all a 1\nall b 1 if one == []", two), "");
  EXPECT_EQ(Expanded("all a 1\nall b 1 if one == []", two)->params.size(), 1u);
}

TEST(FamilyExpressions, AgreeOnTextsAsOnNumbers) {
  EXPECT_THAT(
      ExpansionError("let a = agree(p, q)\nall x 1 if a == yes", R"(, "p": "yes", "q": "no")"),
      ::testing::HasSubstr(R"(q: found "no", and p is "yes")"));
  EXPECT_THAT(ExpansionError("let a = agree(p, q)\nall x 1 if a == yes", R"(, "p": "yes", "q": 0)"),
              ::testing::HasSubstr(R"(q: found 0, and p is "yes")"));
  EXPECT_EQ(
      ExpansionError("let a = agree(p, q)\nall x 1 if a == yes", R"(, "p": "yes", "q": "yes")"),
      "");
}

// 2^64 - 6 would be read as -6.
TEST(FamilyExpressions, RefuseElementsOver64Bits) {
  const std::string list = R"(, "list": [18446744073709551610])";
  EXPECT_THAT(ExpansionError("all x 1 if 0 - 6 in list", list),
              ::testing::HasSubstr("found 18446744073709551610, expected an integer"));
  EXPECT_THAT(ExpansionError("all x list[0]+7", list),
              ::testing::HasSubstr("+ does not apply to its operands"));
}

}  // namespace
}  // namespace nxdkit::models
