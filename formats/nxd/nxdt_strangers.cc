#include "formats/nxd/nxdt_strangers.h"

namespace nxdkit::nxd {
namespace {

struct StrangerRow {
  std::string_view section;  // "" for the root
  std::string_view key;
  std::string_view what;
  std::string_view hint;
};
constexpr std::string_view kSayIt =
    "give the layout with options: --tp, --pp, --kv-multiplier, --qkv, --hw";
constexpr StrangerRow kStrangers[] = {
    {"model", "tensor_model_parallel_size", "a configuration of NeMo (its sizes are in model)",
     "give them with --tp and --pp, the names with --style megatron"},
    {"", "tensor_model_parallel_size", "a configuration of Megatron",
     "give it with --tp and --pp, the names with --style megatron"},
    {"", "actor_rollout_ref", "a configuration of verl", kSayIt},
    {"", "worker", "a configuration of EasyR1 or of grpo-train", kSayIt},
    {"", "compute_environment", "a configuration of accelerate", kSayIt},
    {"", "base_model", "a configuration of axolotl", kSayIt},
    {"", "model_name_or_path", "a configuration of LLaMA-Factory or TRL", kSayIt},
    {"", "recipe", "a configuration of NeMo 2", kSayIt}};

}  // namespace

YamlStranger StrangerOf(const Value& root) {
  for (const StrangerRow& row : kStrangers) {
    const Value* const section = row.section.empty() ? &root : root.Find(row.section);
    if (section && section->Find(row.key)) return {row.what, row.hint};
  }
  return {"", kSayIt};
}

}  // namespace nxdkit::nxd
