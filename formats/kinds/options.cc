#include "formats/kinds/options.h"

#include <algorithm>

namespace nxdkit::kinds {
namespace {

constexpr OptionRow kCommonRows[] = {
    {"config",
     "FILE",
     "config.json of the model, if the input has none",
     kAsInput | kAsTarget,
     {},
     ValueKind::kPath},
    {"family",
     "FILE",
     "family file to use instead of the built-in one",
     kAsInput,
     {},
     ValueKind::kPath},
    {"merge-lora",
     "ADAPTER",
     "LoRA adapter to merge into the model: a PEFT folder or an NxD set",
     kAsSource,
     {},
     ValueKind::kPath},
    {"lora-alpha", "ALPHA", "lora_alpha of an adapter whose files lack it", kAsInput},
    {"dtype", "keep|bf16|f16|f32|downcast",
     "element type of the weights; downcast: F32 to BF16, F64 to F32", kAsTarget}};

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

}  // namespace nxdkit::kinds
