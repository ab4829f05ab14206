#include "trainer/report/metric_log.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "lib/base/text.h"
#include "lib/json/json.h"
#include "lib/system/folders.h"
#include "lib/system/lines.h"
#include "lib/yaml/value.h"
#include "trainer/base/characters.h"
#include "trainer/report/run_files.h"

namespace nxdkit::trainer {
namespace {

// Names ascend, so the members of a group are adjacent, except for names with a character that
// sorts before '/' ("a b" sorts before "a/b"): a tree keeps every group together.
Json Nested(const MetricRecord& record) {
  Json root = Json::object();
  std::set<std::string_view> values;
  for (const auto& [name, value] : record) values.insert(name);
  for (const auto& [name, value] : record) {
    Json* at = &root;
    const std::vector<std::string_view> parts = Split(name, '/');
    bool flat = name == "step" || name.starts_with("step/");
    for (size_t i = 0, length = 0; i + 1 < parts.size(); ++i) {
      length += parts[i].size();
      flat = flat || values.contains(std::string_view(name).substr(0, length));
      ++length;
    }
    if (flat) {
      root["/" + name] = value;
      continue;
    }
    for (const std::string_view part : parts) at = &(*at)[std::string(part)];
    *at = value;
  }
  return root;
}

// Objects contain only numbers; their depth is that of a name.
std::string OneLine(const Json& value) {
  if (!value.is_object()) return PythonFloat(value.get<double>());
  std::string text;
  for (const auto& [key, member] : value.items())
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", QuotedText(key), OneLine(member));
  return "{" + text + "}";
}

// Line feeds and tabs of a model's text are layout; other control characters are made visible,
// because a terminal that shows the log would execute them.
std::string Readable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of("\n\t"), text.size());
    out += EscapeControl(text.substr(0, end));
    if (end < text.size()) out += text[end];
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

// Rewrites generations.log from its records. A folder without records is from another trainer: its
// samples carry no step and are all kept.
Result<AppendFile> ContinueSamples(const std::string& folder, bool has_records) {
  const std::string path = JoinPath(folder, kGenerationsFile);
  if (!has_records) {
    NXDKIT_ASSIGN(const bool there, IsFile(path));
    return there ? AppendFile::Open(path) : AppendFile::Begin(path, "");
  }
  NXDKIT_ASSIGN(const File records, File::OpenRead(JoinPath(folder, kGenerationRecordsFile)));
  return AppendFile::Begin(path, [&](AppendFile& samples) {
    return ForEachLine(records, UINT64_MAX, [&](std::string_view line, uint64_t, bool) -> Status {
      for (const GenerationRecord& record : ParseGenerations(std::string(line) + "\n").records)
        NXDKIT_TRY(samples.Append(GenerationText(record.sample)));
      return OkStatus();
    });
  });
}

}  // namespace

std::string MetricLine(int64_t step, const MetricRecord& record) {
  const std::string members = OneLine(Nested(record));
  return fmt::format("{{\"step\": {}{}{}\n", step, members == "{}" ? "" : ", ", members.substr(1));
}

std::string GenerationLine(int64_t step, const Generation& sample) {
  return fmt::format(
      "{{\"step\": {}, \"prompt\": {}, \"output\": {}, \"ground_truth\": {}, \"score\": {}}}\n",
      step, QuotedText(sample.prompt), QuotedText(sample.output), QuotedText(sample.ground_truth),
      PythonFloat(sample.score));
}

std::string GenerationText(const Generation& sample) {
  return fmt::format("[prompt] {}\n[output] {}\n[ground_truth] {}\n[score] {}\n\n",
                     Readable(sample.prompt), Readable(sample.output),
                     Readable(sample.ground_truth), PythonFloat(sample.score));
}

Result<MetricLog> MetricLog::Open(const std::string& folder, std::optional<int64_t> resumed_step,
                                  std::string_view config_json) {
  NXDKIT_TRY(MakeFolders(folder));
  MetricLog log;
  const std::string records_path = JoinPath(folder, kGenerationRecordsFile);
  NXDKIT_ASSIGN(const bool has_records, IsThere(records_path));
  NXDKIT_ASSIGN(log.metrics_,
                ContinueLog(JoinPath(folder, kMetricsFile), resumed_step, &log.dropped_));
  NXDKIT_ASSIGN(log.generation_records_, ContinueLog(records_path, resumed_step, &log.dropped_));
  NXDKIT_ASSIGN(log.generations_, ContinueSamples(folder, has_records || !resumed_step));
  NXDKIT_TRY(WriteFileAtomic(JoinPath(folder, kConfigFile), std::string(config_json) + "\n"));
  return log;
}

Status MetricLog::Write(int64_t step, const MetricRecord& record) {
  return metrics_.Append(MetricLine(step, record));
}

Status MetricLog::WriteGenerations(int64_t step, std::span<const Generation> samples) {
  std::string records;
  std::string text;
  for (const Generation& sample : samples) {
    records += GenerationLine(step, sample);
    text += GenerationText(sample);
  }
  NXDKIT_TRY(generation_records_.Append(records));
  return generations_.Append(text);
}

Status MetricLog::Sync() {
  NXDKIT_TRY(metrics_.Sync());
  NXDKIT_TRY(generation_records_.Sync());
  return generations_.Sync();
}

}  // namespace nxdkit::trainer
