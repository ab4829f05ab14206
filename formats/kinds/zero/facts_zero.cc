#include "formats/kinds/zero/facts_zero.h"

#include <fmt/format.h>

#include "formats/kinds/facts.h"
#include "formats/kinds/table.h"
#include "formats/kinds/zero/zero_state.h"
#include "lib/base/text.h"

namespace nxdkit::kinds {

Status DescribeZero(Survey& survey, const std::string& path, const InputHints& hints) {
  NXDKIT_TRY(SurveyWhole(survey, kZero, path, hints));
  const zero::Facts& facts = *ZeroFactsOf(survey.artifact);
  survey.description =
      fmt::format("DeepSpeed checkpoint, {} of {}", facts.form, Counted(facts.world, "rank"));
  survey.facts = std::make_shared<ZeroFacts>(facts);
  return OkStatus();
}

void AddZeroFacts(KindFacts& facts, const Survey& survey) {
  const ZeroFacts* state = FactsAs<ZeroFacts>(survey);
  if (!state) return facts.last.Key("zero", {});
  const zero::Facts& found = state->facts;
  if (found.stage > 0) facts.last.Line("ranks", std::to_string(found.world));
  facts.last.Line("parameters",
                  fmt::format("{} trained in {}, {} frozen; {}", Grouped(found.trained),
                              Counted(found.groups.size(), "group"), Grouped(found.frozen),
                              Counted(found.buffers, "buffer")));
  if (found.steps) facts.last.Line("steps", std::to_string(*found.steps));
  if (!found.version.empty()) facts.last.Line("saved by", "DeepSpeed " + Short(found.version));
  if (!found.others.empty())
    facts.last.Line("not read", Joined(found.others, Short) + ", which the script has added");
  for (const std::string& proof : found.proofs) facts.last.Line("proved", proof);
  facts.last.Key("zero", {{"stage", found.stage},
                          {"form", found.form},
                          {"world_size", found.world},
                          {"trained", found.trained},
                          {"frozen", found.frozen},
                          {"buffers", found.buffers},
                          {"groups", found.groups.size()},
                          {"steps", OrNull(found.steps)},
                          {"deepspeed", found.version},
                          {"not_read", found.others},
                          {"proofs", found.proofs}});
}

}  // namespace nxdkit::kinds
