#include "tools/conversions/convert_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <thread>

#include "lib/base/process_memory.h"
#include "lib/base/text.h"
#include "tools/conversions/launcher.h"

namespace nxdkit::tool {
namespace {

Json FitJson(const hardware::Fit& fit) {
  Json rows = Json::array();
  for (const hardware::MemoryRow& row : fit.rows)
    rows.push_back({{"what", row.what}, {"bytes", row.bytes}});
  return {{"instance", fit.instance},
          {"cores", fit.cores},
          {"data_parallel", fit.data_parallel},
          {"core_bytes", fit.core_bytes},
          {"used_bytes", fit.used_bytes()},
          {"reserve_bytes", fit.reserve_bytes},
          {"rows", std::move(rows)},
          {"smallest", fit.smallest.empty() ? Json() : Json(fit.smallest)}};
}

Json ValuesJson(const ops::ValueReport& values) {
  return {{"nan", values.nan},
          {"infinite", values.inf},
          {"not_finite", values.not_finite},
          {"zero", values.zero}};
}

// "parts 0, 3"; the first few of many.
std::string PartNames(const std::vector<int>& parts) {
  std::vector<std::string> names;
  for (const int part : parts) names.push_back(std::to_string(part));
  return (parts.size() == 1 ? "part " : "parts ") + FirstNames(names, 16);
}

std::string FitLines(const ops::ConvertReport& report) {
  std::string text;
  if (report.fit)
    text += fmt::format("{}: {}; the smallest instance that takes it is {}\n", report.fit->instance,
                        hardware::FitText(*report.fit), report.fit->smallest);
  if (report.fit && !report.fit->assumed.empty())
    text += fmt::format("note: this is for {}\n", report.fit->assumed);
  return text;
}

}  // namespace

void SetSides(Sides sides, ops::ConvertRequest& request) {
  request.hints = std::move(sides.input);
  request.options = std::move(sides.output);
  request.instance = std::move(sides.instance);
  request.here = std::move(sides.here);
  request.training = sides.training;
  request.notes = std::move(sides.notes);
}

Json WrittenJson(const ops::ConvertReport& report, double seconds, bool dry_run) {
  Json json = {{"model_type", report.model_type},
               {"parameters", report.parameters},
               {"output_bytes", report.output_bytes},
               {"output_files", report.output_files},
               {"output_tensors", report.output_tensors},
               {"peak_memory_bytes", PeakRssBytes()},
               {"seconds", seconds},
               {"verified", report.verified},
               {"already_published", report.already_published},
               {"dry_run", dry_run},
               {"values", ValuesJson(report.values)},
               {"notes", report.notes}};
  if (report.fit) json["fit"] = FitJson(*report.fit);
  return json;
}

Json PlannedJson(const ops::ConvertReport& report, double seconds, bool dry_run) {
  return WithKeys({{"source_bytes", report.source_bytes},
                   {"tasks", report.tasks},
                   {"resumed_tasks", report.resumed_tasks},
                   {"buffer_bytes", report.buffer_bytes},
                   {"predicted_memory_bytes", report.predicted_memory}},
                  WrittenJson(report, seconds, dry_run));
}

Json PartJson(const ops::PartReport& part) {
  return {{"index", part.index}, {"count", part.count},         {"files", part.files},
          {"bytes", part.bytes}, {"published", part.published}, {"missing", part.missing}};
}

std::string PartText(const ops::PartReport& part, bool dry_run) {
  std::string text = fmt::format("part {} of {}: {}, {}", part.index, part.count,
                                 Counted(part.files, "file"), HumanBytes(part.bytes));
  if (dry_run) return text + "\n";
  if (part.published) return text + "; all parts are there, the output is published\n";
  if (part.missing.empty()) return text + "; another process publishes the output\n";
  return text + "; the output waits for " + PartNames(part.missing) + "\n";
}

Json LoraJson(const ops::LoraReport& lora) {
  return {{"adapter", lora.path},
          {"pairs", lora.pairs},
          {"whole", lora.wholes},
          {"rank", lora.rank},
          {"scale", lora.scale}};
}

std::string LoraText(const ops::LoraReport& lora) {
  return fmt::format("adapter {}: {} with A and B, {} whole; rank {}, scale {}\n",
                     EscapeControl(lora.path), Counted(lora.pairs, "weight"),
                     Counted(lora.wholes, "parameter"), lora.rank, lora.scale);
}

Json WithKeys(Json json, const Json& more) {
  json.update(more);
  return json;
}

std::string WroteText(std::string_view output, const ops::ConvertReport& report, bool dry_run) {
  if (report.already_published)
    return fmt::format("{} is there already, every byte as it would be written: ",
                       EscapeControl(output));
  if (report.part && !report.part->published)  // the output is not there yet
    return fmt::format("{} part {} of {} of {}; in all ", dry_run ? "would make" : "made",
                       report.part->index, report.part->count, EscapeControl(output));
  return fmt::format("{} {}: ", dry_run ? "would write" : "wrote", EscapeControl(output));
}

std::string CountsText(const ops::ConvertReport& report) {
  return fmt::format("{}, {} in {}, {}\n", Counted(report.parameters, "parameter"),
                     HumanBytes(report.output_bytes), Counted(report.output_tensors, "tensor"),
                     Counted(report.output_files, "file"));
}

std::string CostText(const ops::ConvertReport& report, uint64_t work_bytes, double seconds,
                     bool dry_run) {
  if (dry_run)
    return fmt::format("plan: {}, {} of buffers, about {} of memory\n",
                       Counted(report.tasks, "task"), HumanBytes(report.buffer_bytes),
                       HumanBytes(report.predicted_memory));
  return fmt::format("{:.2f} s, {}, peak memory {}{}\n", seconds, HumanRate(work_bytes, seconds),
                     HumanBytes(PeakRssBytes()), report.verified ? ", verified" : "");
}

std::string NotesText(const ops::ConvertReport& report) {
  std::string text = FitLines(report);
  for (const std::string& note : report.notes) text += "note: " + EscapeControl(note) + "\n";
  return text;
}

Result<ToolAnswer> AnswerConvert(ops::ConvertRequest& request, const ExplainArgs& explain,
                                 const ConvertWords& words, ToolContext& context) {
  const Runner runner(context);
  request.run = runner.options();
  if (std::holds_alternative<ops::Part>(request.place)) {  // a part shares the cores of its machine
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    request.run.jobs =
        std::min(request.run.jobs, std::max(1, cores / ProcessesHere(ThisEnvironment())));
  }
  request.force = context.common().force;
  request.resume = context.common().resume;
  request.on_detail = [&context](const std::string& line) { context.Detail(line); };
  if (explain.tensor) return AnswerExplain(request, explain, context);
  const bool dry_run = context.common().dry_run;
  NXDKIT_ASSIGN(const ops::ConvertReport report,
                dry_run ? ops::DryRun(request) : ops::Convert(request));
  const double seconds = context.seconds();
  context.Tell(report);
  ToolAnswer answer{.text = words.text(report, request, seconds, dry_run),
                    .fields = words.json(report, request, seconds, dry_run)};
  if (!dry_run) answer.brief = "";
  return answer;
}

}  // namespace nxdkit::tool
