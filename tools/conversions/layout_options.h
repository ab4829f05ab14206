// PRIVATE to tools/: the layout options that the conversions and every reader of an NxD set share.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tools/cli/option_table.h"

namespace nxdkit::tool {

// What was given; nothing here is a default. Numbers are at least 1.
struct LayoutArgs {
  // NxD sets
  std::optional<int> tp, pp, vpp, ep, kv_multiplier;
  std::optional<std::string> qkv;    // separate, linear, fused, coalesced
  std::optional<std::string> hw;     // trn1, trn2
  std::optional<std::string> style;  // hf, nxdt, megatron, optimum; of a distributed checkpoint too
  std::optional<bool> xser;
  std::optional<std::string> tag;
  std::optional<std::string> config;  // a config.json, for a source that has none
  // Hugging Face folders
  std::optional<std::string> weights;  // the file or the index that counts, of several
  std::string weights_option;          // "--a-weights", as it was added; "" when it was not
  // rollout bundles
  std::optional<std::string> flavor;  // optimum, nxdi
  std::optional<int> bs, seq;
  std::optional<bool> fused_qkv, on_device_sampling;
  std::optional<std::string> optimum_version, compiler_version;
  std::optional<std::string> bundle;  // a compiled bundle to take model.pt and neuron_config from
  std::optional<std::string> merge_lora;   // an adapter that is merged into the source
  std::optional<std::string> layout_from;  // a configuration of NxD Training
  std::optional<std::string> instance;     // "trn1.32xlarge"
  std::optional<int> nodes;
  // torch distributed checkpoints
  std::optional<int> chunks;
  std::optional<std::string> mesh;
  // any output
  std::optional<std::string> dtype;           // keep, bf16, f16, f32
  std::optional<std::string> max_shard_size;  // as hf::ParseShardSize reads it
};

enum LayoutGroup : unsigned {
  kNxdLayout = 1,        // --tp --pp --vpp --ep --kv-multiplier --qkv --hw --style --tag --config
  kRolloutLayout = 2,    // --tp --flavor --bs --seq --fused-qkv --on-device-sampling --bundle ...
  kOutputLayout = 4,     // --xser --dtype --max-shard-size
  kXserLayout = 8,       // --xser
  kLoraLayout = 16,      // --merge-lora
  kDtypeLayout = 32,     // --dtype
  kInstanceLayout = 64,  // --instance
  kNodesLayout = 128,    // --nodes
  kFromLayout = 256,     // --layout-from
  kDcpLayout = 512,      // --chunks --mesh
  kHfLayout = 1024,      // --weights
};

// What an option can describe.
enum LayoutSide : unsigned {
  kNxdInput = 1,
  kRolloutInput = 2,
  kNxdOutput = 4,
  kRolloutOutput = 8,
  kHfOutput = 16,
  kAnySide = 32,
  kDcpOutput = 64,
  kHfInput = 128,
};

// Adds the options of the groups (LayoutGroup bits) under the heading `heading`. With a prefix,
// say "against-", they are named --against-tp and so on, and have no long aliases: for a command
// that reads two artifacts.
void AddLayoutOptions(OptionTable& table, LayoutArgs& args, unsigned groups,
                      std::string_view heading, std::string_view prefix = "");

// The first option that was given and describes none of these sides (LayoutSide bits): "--bs".
std::optional<std::string> OptionWithoutMeaning(const LayoutArgs& args, unsigned sides);
// The first option that was given, for a side that is not there.
std::optional<std::string> FirstOption(const LayoutArgs& args);

}  // namespace nxdkit::tool
