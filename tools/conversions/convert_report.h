// PRIVATE to tools/: the report of every command that writes weights, as JSON keys and as lines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "formats/ops/convert/convert.h"
#include "tools/cli/tool.h"
#include "tools/conversions/sides.h"
#include "tools/pictures/explain.h"

namespace nxdkit::tool {

// Stores the options of input and output, and the machine that the output is for.
void SetSides(Sides sides, ops::ConvertRequest& request);

Json WrittenJson(const ops::ConvertReport& report, double seconds, bool dry_run);
// The keys of WrittenJson after those of the plan.
Json PlannedJson(const ops::ConvertReport& report, double seconds, bool dry_run);

Json PartJson(const ops::PartReport& part);
std::string PartText(const ops::PartReport& part, bool dry_run);

Json LoraJson(const ops::LoraReport& lora);
std::string LoraText(const ops::LoraReport& lora);

// `json` with the keys of `more` after its own.
Json WithKeys(Json json, const Json& more);

// "wrote OUTPUT: ", "would write OUTPUT: ", or that it is there already.
std::string WroteText(std::string_view output, const ops::ConvertReport& report, bool dry_run);
// "1 parameters, 2 MB in 3 tensors, 4 files\n"
std::string CountsText(const ops::ConvertReport& report);
// One line: the plan of a dry run, else the time and memory that the run took. The rate is computed
// from `work_bytes`.
std::string CostText(const ops::ConvertReport& report, uint64_t work_bytes, double seconds,
                     bool dry_run);
// The fit on a core of --instance and its assumptions, and a line for each note.
std::string NotesText(const ops::ConvertReport& report);

// A command's texts for a conversion.
struct ConvertWords {
  std::string (*text)(const ops::ConvertReport&, const ops::ConvertRequest&, double seconds,
                      bool dry_run);
  Json (*json)(const ops::ConvertReport&, const ops::ConvertRequest&, double seconds, bool dry_run);
};
// Runs the request, or with --dry-run plans it, or with --explain describes its plan.
Result<ToolAnswer> AnswerConvert(ops::ConvertRequest& request, const ExplainArgs& explain,
                                 const ConvertWords& words, ToolContext& context);

}  // namespace nxdkit::tool
