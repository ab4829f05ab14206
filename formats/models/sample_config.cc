#include <fmt/core.h>

#include "formats/models/sample_model.h"
#include "formats/models/table.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::models {

Result<std::string> SampleConfig(const Family& family, const std::string& base) {
  NXDKIT_ASSIGN(const Json all, ParseJson(base));
  Json json = all;
  Evaluator values(family.table->sample_symbols, all);
  for (const SampleLine& line : family.table->samples) {
    Json* at = &json;
    for (const std::string_view part : Split(line.key, '.')) at = &(*at)[std::string(part)];
    if (line.json == "base") {
      *at = all;
    } else if (line.json.empty()) {
      NXDKIT_ASSIGN(const int64_t number, values.Number(line.expression).on(line.key));
      *at = number;
    } else {
      NXDKIT_ASSIGN(Json value, ParseJson(line.json));
      *at = std::move(value);
    }
  }
  return DumpPython(json) + "\n";
}

}  // namespace nxdkit::models
