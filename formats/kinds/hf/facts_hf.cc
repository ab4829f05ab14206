#include "formats/kinds/hf/facts_hf.h"

#include "formats/hf/hf.h"
#include "formats/kinds/facts.h"
#include "formats/kinds/open.h"
#include "formats/kinds/table.h"
#include "formats/rollout/rollout_layout.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"

namespace nxdkit::kinds {
namespace {

// "tp3_sharded_checkpoint.safetensors" is rank 3's file.
std::optional<int> RolloutRank(const std::string& name) {
  if (!name.starts_with("tp")) return std::nullopt;
  const std::string_view digits = std::string_view(name).substr(2, name.find('_') - 2);
  const std::optional<int> rank = ParseNumber<int>(digits);
  return rank && *rank >= 0 && name == rollout::ShardFileName(*rank) ? rank : std::nullopt;
}

Status DescribeFile(Survey& survey, const std::string& path, const InputHints& hints) {
  NXDKIT_ASSIGN(survey.artifact, OpenArtifact(path, &kHf, hints, survey.artifact.look));
  survey.form = "safetensors";
  survey.description = "safetensors file";
  const std::optional<int> rank = RolloutRank(BaseName(path));
  if (!rank) return OkStatus();
  survey.form = "rollout_shard";
  survey.description = fmt::format("rank {}'s weights of a rollout bundle", *rank);
  survey.not_checked = "one rank's file; the whole folder can be checked";
  survey.rank = FileRank{*rank, std::nullopt, std::nullopt};
  return OkStatus();
}

// Opens the set, of several, that transformers would load; commands that do more with them ask.
Result<Artifact> OpenOneSet(Survey& survey, const std::string& path, const InputHints& asked) {
  Result<Artifact> opened = OpenArtifact(path, &kHf, asked, survey.artifact.look);
  const std::string folder = opened.ok() ? opened->path : opened.error().file();
  const Result<std::vector<std::string>> sets = hf::WeightSets(folder, survey.artifact.look);
  if (!sets.ok() || sets->size() < 2) return opened;
  InputHints hints = asked;
  if (!hints.Has("weights")) {
    survey.warnings.push_back(
        fmt::format("{}: there are {} sets of weights in the folder; {} is shown, which "
                    "transformers would load, and every other command asks which one to use",
                    folder, sets->size(), sets->front()));
    hints.Set("weights", sets->front());
    opened = OpenArtifact(path, &kHf, hints, survey.artifact.look);
  }
  const auto facts = std::make_shared<HfFacts>();
  for (const std::string& set : *sets)
    facts->sets.push_back({set, set == BaseName(*hints.Text("weights"))});
  survey.facts = facts;
  return opened;
}

}  // namespace

Status DescribeHf(Survey& survey, const std::string& path, const InputHints& hints) {
  if (hints.memory) {
    NXDKIT_TRY(SurveyWhole(survey, kHf, path, hints));
    survey.description = "Hugging Face model in memory";
    return OkStatus();
  }
  NXDKIT_ASSIGN(const bool folder, survey.artifact.look.IsFolder(path));
  if (!folder) return DescribeFile(survey, path, hints);
  NXDKIT_ASSIGN(survey.artifact, OpenOneSet(survey, path, hints));
  survey.form = kHf.name;
  survey.is_whole = true;
  survey.description = "Hugging Face model folder";
  NXDKIT_ASSIGN(const std::vector<std::string> names, survey.artifact.look.ListIfThere(path));
  const bool indexed = std::ranges::any_of(names, hf::IsIndexName);
  if (const size_t files = survey.artifact.files.size(); files > 1)
    survey.description +=
        fmt::format(", {}{}", Counted(files, "file"), indexed ? " and an index" : "");
  return OkStatus();
}

void AddHfFacts(KindFacts& facts, const Survey& survey) {
  const HfFacts* hf = FactsAs<HfFacts>(survey);
  const std::vector<WeightSet> sets = hf ? hf->sets : std::vector<WeightSet>();
  const auto text = [](const WeightSet& set) {
    return Short(set.file) + (set.read ? " (shown)" : "");
  };
  facts.files.Add(sets.empty() ? "" : "sets", Joined(sets, text), "weight_sets",
                  ArrayOf(sets, [](const WeightSet& set) -> Json {
                    return {{"file", set.file}, {"read", set.read}};
                  }));
}

}  // namespace nxdkit::kinds
