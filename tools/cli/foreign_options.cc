#include "tools/cli/foreign_options.h"

#include <fmt/core.h>

#include <algorithm>

namespace nxdkit::tool {
namespace {

struct Row {
  std::string_view theirs;
  std::string_view ours;      // "": there is none
  std::string_view why = {};  // nothing is to be said
};

constexpr Row kRows[] = {
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
};

}  // namespace

std::optional<std::string> AnswerTo(std::string_view option) {
  std::string name(option.substr(0, option.find('=')));
  std::ranges::replace(name, '_', '-');
  for (const Row& row : kRows)
    if (row.theirs == name)
      return row.ours.empty() ? fmt::format("leave it out: {}", row.why)
                              : fmt::format("here it is {}", row.ours);
  return std::nullopt;
}

}  // namespace nxdkit::tool
