#include "tools/cli/house_rules.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <utility>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/user_path.h"

namespace nxdkit::tool {
namespace {

using Options = std::vector<OptionFacts>;

// Options of the vendor's converters and of engines, answered with our own. Source: NxD's
// checkpoint_converter.py, optimum-cli export neuron, vllm serve, neuron_parallel_compile.
struct ForeignOption {
  std::string_view theirs;
  std::string_view ours;      // "": none
  std::string_view why = {};  // "": no reason needed
};

constexpr ForeignOption kForeign[] = {
    {"--tp-size", "--tp"},
    {"--pp-size", "--pp"},
    {"--ep-size", "--ep"},
    {"--virtual-pp-size", "--vpp"},
    {"--kv-size-multiplier", "--kv-multiplier"},
    {"--kv-replicator", "--kv-multiplier"},
    {"--hw-backend", "--hw"},
    {"--model-style", "--style"},
    {"--qkv-linear", "--qkv linear"},
    {"--fuse-qkv", "--qkv fused"},
    {"--coalesce-qkv", "--qkv coalesced"},
    {"--save-xser", "--xser"},
    {"--load-xser", "", "xser is recognised"},
    {"--model-key", "", "the model's key is recognised"},
    {"--convert-from-full-state", "--from torch --to nxd, or --from hf"},
    {"--convert-to-full-state", "--from nxd --to torch, or --to hf"},
    {"--convert-from-xser", "--no-xser of nxd-reshard"},
    {"--convert-to-xser", "--xser of nxd-reshard"},
    {"--input-dir", "INPUT, without an option"},
    {"--output-dir", "OUTPUT, without an option"},
    {"--hf-model-name", "--config, with the path of a config.json"},
    {"--nxdt-yaml-config", "--layout-from"},
    {"--n-layers", "", "the number of layers is the model's"},
    {"--i-tp-round-factor", "", "no padding of the MLP is known"},
    {"--pad-attn-heads", "", "a bundle has the padding of its engine, and an NxD set none"},
    {"--num-cores", "--tp"},
    {"--auto-cast-type", "--dtype"},
    {"--torch-dtype", "--dtype"},
    {"--max-num-seqs", "--bs"},
    {"--max-model-len", "--seq"},
    {"--command",
     "a word: neuron-cache collect, compile, warm for both, clear (clean), prune (clear-locks)"},
    {"--analyze-output", "", "what the compiler supports is not analyzed"},
    {"--analyze-verbosity", "", "what the compiler supports is not analyzed"},
    {"--retry-failed-compilation", "", "what failed before is tried again"},
    {"--nproc-per-node", "said behind --: neuron-cache collect -- torchrun ..."},
    {"--nnodes", "said behind --: neuron-cache collect -- torchrun ..."},
};

// "here it is --tp", "leave it out: ..." for a long option with its dashes, "_" and "-" alike;
// nullopt for an option of no program that we know.
std::optional<std::string> AnswerTo(std::string_view option) {
  std::string name(option.substr(0, option.find('=')));
  std::ranges::replace(name, '_', '-');
  for (const ForeignOption& row : kForeign)
    if (row.theirs == name)
      return row.ours.empty() ? fmt::format("leave it out: {}", row.why)
                              : fmt::format("here it is {}", row.ours);
  return std::nullopt;
}

// The option of that name with its dashes, long or short; nullptr for an unknown one.
const OptionFacts* Find(const Options& options, const std::string& dashed) {
  for (const OptionFacts& option : options) {
    const std::vector<std::string> names = option.AllNames();
    if (std::ranges::find(names, dashed) != names.end()) return &option;
  }
  return nullptr;
}

// "--max_memory=4_G" -> {"--max-memory", "=4_G"}; the value keeps its underscores.
std::pair<std::string, std::string> SplitLong(const std::string& argument) {
  const size_t equals = argument.find('=');
  std::string name = argument.substr(0, equals);
  std::ranges::replace(name, '_', '-');
  return {name, equals == std::string::npos ? "" : argument.substr(equals)};
}

bool IsKnownOption(const Options& options, const std::string& argument) {
  if (argument.starts_with("--")) return Find(options, SplitLong(argument).first) != nullptr;
  return Find(options, argument) != nullptr;
}

// `after`: a user who types one option of another program often types more of them.
Error UnknownOption(const Options& options, const std::string& found,
                    std::span<const std::string> after = {}) {
  if (const std::optional<std::string> answer = AnswerTo(found)) {
    std::string others;
    for (const std::string& argument : after)
      if (const auto other = AnswerTo(argument); other && !IsKnownOption(options, argument))
        others += fmt::format("{}{}: {}", others.empty() ? "" : "; ",
                              argument.substr(0, argument.find('=')), *other);
    return BadUsage("unknown option {}; {}", found, *answer).hint(others);
  }
  std::vector<std::string> known;
  for (const OptionFacts& option : options)
    known.insert(known.end(), option.names.begin(), option.names.end());
  // "-tp" is compared as "--tp".
  const std::string dashed = found.starts_with("--") ? found : "-" + found;
  // Among equally near names, prefer the longest common prefix: --tpp is --tp rather than --top.
  std::ranges::stable_sort(known, std::greater(), [&](const std::string& name) {
    return std::ranges::mismatch(name, dashed).in1 - name.begin();
  });
  const std::optional<std::string> close = ClosestWord(dashed, known);
  if (close) return BadUsage("unknown option {}; did you mean {}?", found, *close);
  return BadUsage("unknown option {}", found).hint("--help lists the options");
}

Error MissingValue(const OptionFacts& option) {
  return BadUsage("option {} needs a value: {}", option.DisplayName(), option.value);
}

bool IsValue(const Options& options, const std::string* next) {
  return next != nullptr && !IsKnownOption(options, *next);
}

Status CheckLong(const Options& options, const OptionFacts& option, const std::string& name,
                 const std::string& equals_value, const std::string* next) {
  if (option.value.empty()) {
    if (equals_value.empty()) return OkStatus();
    const bool toggle = option.names.size() > 1 && option.names[1] == "--no-" + option.name;
    const std::string off = toggle ? fmt::format("give --{0} or --no-{0}", option.name)
                                   : fmt::format("give {} or leave it out", name);
    return BadUsage("option {} takes no value, found \"{}\"; {}", name, equals_value.substr(1),
                    off);
  }
  if (option.ValueMayBeLeftOut()) return OkStatus();
  const bool empty = equals_value == "=";
  const bool swallows = equals_value.empty() && !IsValue(options, next);
  return empty || swallows ? Status(MissingValue(option)) : OkStatus();
}

}  // namespace

Result<std::vector<std::string>> ApplyHouseRules(const Options& options,
                                                 const std::vector<std::string>& arguments) {
  std::vector<std::string> normal;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--") {
      normal.insert(normal.end(), arguments.begin() + static_cast<ptrdiff_t>(i), arguments.end());
      break;
    }
    if (!argument.starts_with("--")) {
      normal.push_back(argument);
      continue;
    }
    const auto [name, equals_value] = SplitLong(argument);
    const OptionFacts* option = Find(options, name);
    if (option == nullptr) return UnknownOption(options, name, std::span(arguments).subspan(i + 1));
    const std::string* next = i + 1 < arguments.size() ? &arguments[i + 1] : nullptr;
    NXDKIT_TRY(CheckLong(options, *option, name, equals_value, next));
    if (option->ValueMayBeLeftOut()) {
      const bool is_next = equals_value.empty() && IsValue(options, next);
      normal.push_back(name);
      normal.push_back(is_next ? arguments[++i]
                               : equals_value.substr(std::min<size_t>(1, equals_value.size())));
      continue;
    }
    normal.push_back(name + equals_value);
    if (!option->value.empty() && equals_value.empty()) normal.push_back(arguments[++i]);
  }
  return normal;
}

Status CheckRemaining(const Options& options, const std::vector<std::string>& remaining) {
  for (const std::string& argument : remaining)
    if (argument.size() > 1 && argument[0] == '-' && argument != "--")
      return UnknownOption(options, argument);
  for (const std::string& argument : remaining)
    if (argument != "--")
      return BadUsage("unexpected argument \"{}\"", argument).hint("--help shows the usage");
  return OkStatus();
}

Error EndsTooEarly(const Options& options, const std::string& last) {
  const OptionFacts* option =
      last.size() > 1 ? Find(options, std::string("-") + last.back()) : nullptr;
  if (option != nullptr) return MissingValue(*option);
  return BadUsage("cannot read the argument \"{}\"", last);
}

Status CheckLocal(const OptionFacts& option, const std::string& value) {
  const bool local = option.completes == Completes::kPath || option.completes == Completes::kFolder;
  const Status refused = local ? RefuseUrl(value) : OkStatus();
  if (refused.ok()) return OkStatus();
  return Unsupported("{}: \"{}\" is a URL, expected a local path", option.DisplayName(), value)
      .hint(refused.error().hint());
}

bool WantsJson(const std::vector<std::string>& arguments) {
  const auto end = std::ranges::find(arguments, "--");
  return std::find(arguments.begin(), end, "--json") != end;
}

}  // namespace nxdkit::tool
