// README.md, formats/models/README.md and nxdkit-families(7) agree with the texts of the families.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sstream>

#include "formats/models/view.h"
#include "tests/formats/scratch.h"

namespace nxdkit::tool {
namespace {

constexpr std::string_view kTrained[] = {"llama", "qwen2", "qwen3"};  // decoder_config.cc

struct Known {
  models::FamilyHead head;
  std::shared_ptr<const models::Family> family;
};

std::vector<Known> AllFamilies() {
  std::vector<Known> all;
  for (const models::FamilyHead& head : models::BuiltInFamilies()) {
    auto family = models::ParseFamily(models::BuiltInFamilyText(head.name), "");
    EXPECT_TRUE(family.ok()) << family.error().ToString();
    all.push_back({head, std::make_shared<models::Family>(*std::move(family))});
  }
  return all;
}

std::string Bundles(const models::Family& family) {
  if (family.optimum.known && family.nxdi.known) return "optimum, nxdi";
  return family.optimum.known ? "optimum" : family.nxdi.known ? "nxdi" : "";
}

// One row: name, models, bundle, dcp, vLLM, trained.
std::vector<std::string> RowOf(const Known& known) {
  const models::Family& family = *known.family;
  const bool trained = std::ranges::count(kTrained, family.model_type) > 0;
  return {family.model_type,
          fmt::format("{}", fmt::join(known.head.examples, ", ")),
          Bundles(family),
          family.titan == models::TitanRope::kNone ? "hf" : "hf, torchtitan",
          models::HasView(family, "vllm") ? "yes" : "",
          trained ? "yes" : ""};
}

std::string Between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin);
  if (from == std::string::npos) return "no \"" + begin + "\"";
  const size_t start = from + begin.size();
  return text.substr(start, text.find(end, start) - start);
}

// "a, b and c", folded at 100 columns.
std::string Folded(const std::string& text) {
  std::string out;
  size_t column = 0;
  std::istringstream words(text);
  for (std::string word; words >> word; column += word.size()) {
    const bool fits = column > 0 && column + 1 + word.size() <= 100;
    if (column > 0) out += fits ? " " : "\n  ";
    column = column == 0 ? 0 : fits ? column + 1 : 2;
    out += word;
  }
  return out + "\n";
}

TEST(FamiliesTable, OfReadmeCountsThem) {
  std::vector<std::string> bundles, trained;
  size_t all = 0, vllm = 0;
  for (const Known& known : AllFamilies()) {
    const std::vector<std::string> row = RowOf(known);
    ++all;
    if (!row[2].empty()) bundles.push_back(row[0]);
    if (!row[4].empty()) ++vllm;
    if (!row[5].empty()) trained.push_back(row[0]);
  }
  const std::string lines =
      Folded(fmt::format("- all {}: Hugging Face, torch, NxD shards and DCP", all)) +
      Folded(fmt::format("- rollout bundles: {}", fmt::join(bundles, ", "))) +
      Folded(fmt::format("- checked inside a running vLLM (`ckpt-verify --engine`): {}", vllm)) +
      Folded(fmt::format("- `grpo-train`: {}", fmt::join(trained, ", ")));
  const std::string page = testing_util::ReadBytes(NXDKIT_SOURCE_DIR "/README.md");
  EXPECT_EQ(Between(page, "<!-- families -->\n", "<!-- end -->"), lines) << lines;
}

TEST(FamiliesTable, OfTheModelsPageIsWhatTheTextsSay) {
  std::string table =
      "| family | such as | bundle | dcp | vLLM | grpo-train |\n"
      "|---|---|---|---|---|---|\n";
  for (const Known& known : AllFamilies())
    table += fmt::format("| {} |\n", fmt::join(RowOf(known), " | "));
  const std::string page = testing_util::ReadBytes(NXDKIT_SOURCE_DIR "/formats/models/README.md");
  EXPECT_EQ(Between(page, "<!-- families -->\n", "<!-- end -->"), table) << table;
}

TEST(FamiliesTable, OfTheManPageIsWhatTheTextsSay) {
  std::string list;
  for (const Known& known : AllFamilies()) {
    const std::vector<std::string> row = RowOf(known);
    list += fmt::format(".It {}\n", row[0]);
    list += fmt::format("{}.\n", fmt::join(known.head.architectures, ", "));
    if (!row[1].empty()) list += fmt::format("Such as {}.\n", row[1]);
    if (!row[2].empty()) list += fmt::format("Bundles: {}.\n", row[2]);
    if (known.family->titan != models::TitanRope::kNone) list += "TorchTitan's names.\n";
    if (!row[4].empty()) list += "vLLM's memory.\n";
    if (!row[5].empty()) list += "Trained by grpo-train.\n";
    const std::vector<std::string> spellings = models::Spellings(*known.family);
    if (!spellings.empty()) list += fmt::format("Spellings: {}.\n", fmt::join(spellings, ", "));
  }
  const std::string page = testing_util::ReadBytes(NXDKIT_SOURCE_DIR "/man/nxdkit-families.7");
  EXPECT_EQ(Between(page, ".\\\" families\n", ".\\\" end\n"), list) << list;
}

}  // namespace
}  // namespace nxdkit::tool
