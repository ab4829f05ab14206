#include "formats/megatron/keys.h"

#include <array>
#include <utility>

#include "formats/dcp/folder.h"
#include "lib/base/text.h"

namespace nxdkit::megatron {
namespace {

// Removes `text` from the front.
bool Take(std::string_view& rest, std::string_view text) {
  if (!rest.starts_with(text)) return false;
  rest.remove_prefix(text.size());
  return true;
}

// Removes digits from the front, and the text after them.
std::optional<int64_t> TakeNumber(std::string_view& rest, std::string_view after) {
  const size_t end = rest.find_first_not_of("0123456789");
  if (end == 0 || end == std::string_view::npos || !rest.substr(end).starts_with(after))
    return std::nullopt;
  const auto number = ParseNumber<int64_t>(rest.substr(0, end));
  if (number) rest.remove_prefix(end + after.size());
  return number;
}

// Removes "chained_0.", the prefix with several optimizers.
int64_t TakeChain(std::string_view& rest) {
  std::string_view after = rest;
  const auto number = Take(after, "chained_") ? TakeNumber(after, ".") : std::nullopt;
  if (number) rest = after;
  return number.value_or(0);
}

std::string StateOf(std::string_view name) {
  return name == "param" || name == "fp32_param" ? dcp::kMasterWeights : std::string(name);
}

// "dp_group_idx_0.gbuf_idx_0.dtype_(torch.bfloat16, torch.bfloat16).bucket_idx_1.exp_avg"
bool ParseBucket(std::string_view rest, Key& key) {
  const auto group = Take(rest, "dp_group_idx_") ? TakeNumber(rest, ".") : std::nullopt;
  const auto buffer = group && Take(rest, "gbuf_idx_") ? TakeNumber(rest, ".dtype_") : std::nullopt;
  constexpr std::string_view kBucket = ".bucket_idx_";
  const size_t at = rest.find(kBucket);
  if (!buffer || at == std::string_view::npos) return false;
  rest.remove_prefix(at + kBucket.size());
  const auto bucket = TakeNumber(rest, ".");
  if (!bucket) return false;
  key.kind = Key::Kind::kBucket;
  key.state = StateOf(rest);
  key.group = *group;
  key.buffer = *buffer;
  key.bucket = *bucket;
  return true;
}

// Parses the name of a module, taking its numbers out.
void ParseName(std::string_view rest, Key& key) {
  constexpr std::string_view kExperts = "mlp.experts.experts.";
  key.in_layer = Take(rest, "decoder.layers.");
  if (key.in_layer) key.layer = TakeNumber(rest, ".");
  std::string_view mtp = rest;
  if (!key.in_layer && Take(mtp, "mtp.layers.") && (key.mtp = TakeNumber(mtp, "."))) {
    rest = mtp;
    key.in_layer = Take(rest, "transformer_layer.") || Take(rest, "mtp_model_layer.");
  }
  std::string_view after = rest;
  if (key.in_layer && Take(after, kExperts)) key.expert = TakeNumber(after, ".");
  key.name = key.expert ? std::string(kExperts) + std::string(after) : std::string(rest);
  for (const auto& [end, half] : {std::pair{"_w", 0}, std::pair{"_v", 1}})
    if (key.in_layer && key.name.ends_with(std::string("linear_fc1.weight") + end)) {
      key.half = half;
      key.name.resize(key.name.size() - 2);
    }
}

}  // namespace

Key ParseKey(std::string_view text) {
  Key key;
  std::string_view rest = text;
  key.chain = TakeChain(rest);
  if (!Take(rest, "optimizer.")) {
    rest = text;
    key.kind = Key::Kind::kWeight;
    ParseName(rest, key);
    return key;
  }
  if (Take(rest, "distributed.")) {
    ParseBucket(rest, key);
    return key;
  }
  if (!Take(rest, "state.")) return key;
  const size_t dot = rest.find('.');
  if (dot == std::string_view::npos) return key;
  key.kind = Key::Kind::kState;
  key.state = StateOf(rest.substr(0, dot));
  ParseName(rest.substr(dot + 1), key);
  return key;
}

std::string_view OtherName(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kPairs = {{
      {"input_layernorm.weight", "self_attention.linear_qkv.layer_norm_weight"},
      {"pre_mlp_layernorm.weight", "mlp.linear_fc1.layer_norm_weight"},
      {"self_attention.q_layernorm.weight", "self_attention.linear_q_up_proj.layer_norm_weight"},
      {"self_attention.kv_layernorm.weight", "self_attention.linear_kv_up_proj.layer_norm_weight"},
  }};
  for (const auto& [a, b] : kPairs) {
    if (name == a) return b;
    if (name == b) return a;
  }
  return "";
}

}  // namespace nxdkit::megatron
