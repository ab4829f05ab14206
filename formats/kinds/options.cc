#include "formats/kinds/options.h"

#include <fmt/args.h>
#include <fmt/format.h>

#include <algorithm>

#include "formats/kinds/table.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::kinds {
namespace {

constexpr OptionRow kCommonRows[] = {
    {"config",
     "FILE",
     "config.json of the model, where the input has none",
     kAsInput | kAsTarget,
     {},
     ValueKind::kPath},
    {"merge-lora",
     "ADAPTER",
     "add this LoRA adapter to the model: PEFT's folder, or an NxD set of its shards",
     kAsSource,
     {},
     ValueKind::kPath},
    {"dtype", "keep|bf16|f16|f32|downcast",
     "element type of the floating point weights; downcast: F32 to BF16, F64 to F32", kAsTarget}};

std::string ValueText(const InputHints& hints, const OptionRow& row) {
  if (row.is_number()) return std::to_string(*hints.Number(row.name()));
  if (row.is_toggle()) return *hints.Toggle(row.name()) ? "on" : "off";
  return EscapeControl(*hints.Text(row.name()));
}

// `taken`: what may be said of this input.
Status CheckAgainst(std::span<const OptionRow> taken, std::string_view what,
                    const std::string& path, const InputHints& hints) {
  for (const Kind* kind : Kinds())
    for (const OptionRow& row : kind->options) {
      if ((row.sides & kAsInput) == 0 || row.misfit.empty() || !hints.Has(row.name())) continue;
      if (FindRow(taken, row.name(), kAsInput)) continue;
      return BadUsage("{}", fmt::format(fmt::runtime(row.misfit),
                                        fmt::arg("value", ValueText(hints, row)),
                                        fmt::arg("option", hints.prefix + std::string(row.name())),
                                        fmt::arg("origin", hints.origin), fmt::arg("what", what)))
          .in(path);
    }
  return OkStatus();
}

}  // namespace

std::vector<std::string> OptionRow::choices() const {
  std::vector<std::string> choices;
  std::string_view rest = value;
  for (size_t bar; (bar = rest.find('|')) != std::string_view::npos; rest.remove_prefix(bar + 1))
    choices.emplace_back(rest.substr(0, bar));
  if (!choices.empty()) choices.emplace_back(rest);
  return choices;
}

const OptionRow* FindRow(std::span<const OptionRow> rows, std::string_view name, unsigned sides) {
  const auto found = std::ranges::find_if(
      rows, [&](const OptionRow& row) { return row.name() == name && (row.sides & sides) != 0; });
  return found == rows.end() ? nullptr : &*found;
}

std::span<const OptionRow> CommonRows() { return kCommonRows; }

Status CheckHints(const Kind& kind, const std::string& path, const InputHints& hints) {
  if (kind.reads_base) return OkStatus();  // what is said is of the base
  return CheckAgainst(kind.options, kind.name, path, hints);
}

Status CheckNoHints(const std::string& path, const InputHints& hints) {
  return CheckAgainst({}, "no model's weights", path, hints);
}

}  // namespace nxdkit::kinds
