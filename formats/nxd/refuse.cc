#include "formats/nxd/refuse.h"

#include <algorithm>
#include <vector>

#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::nxd {
namespace {

using Names = std::vector<std::string>;

bool Starts(const Names& names, std::string_view prefix) {
  return std::ranges::any_of(names,
                             [&](const std::string& name) { return name.starts_with(prefix); });
}

bool Ends(const Names& names, std::string_view suffix) {
  return std::ranges::any_of(names,
                             [&](const std::string& name) { return name.ends_with(suffix); });
}

bool Has(const Names& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

struct Row {
  bool (*is)(const Names& names);
  const char* what;
  const char* hint;
};
constexpr Row kRows[] = {
    {[](const Names& names) { return Has(names, ".metadata") && Ends(names, ".distcp"); },
     "a torch distributed checkpoint (.metadata and .distcp files), as NxD writes ZeRO-1 "
     "optimizers with use_zero1_dcp; it holds no weights",
     "name the tag folder, whose model/ holds the weights"},
    {[](const Names& names) { return Starts(names, "full_tp_rank_"); },
     "a merged ZeRO-1 optimizer (full_tp_rank_..., of nxd_convert_zero_checkpoints); it holds no "
     "weights",
     "name the tag folder, whose model/ holds the weights"},
    {[](const Names& names) { return std::ranges::any_of(names, IsLegacyOptimizer); },
     "a legacy ZeRO-1 optimizer (optim.dp_rank_DD.tp_rank_TT files); it holds no weights",
     "name the folder of the model that was saved with it"},
    {[](const Names& names) { return Starts(names, "adapter_model."); },
     "a LoRA adapter, not a whole model", "nxd-convert --merge-lora merges it into its base"},
    {[](const Names& names) { return Has(names, "adapter_config.json"); },
     "a LoRA adapter without its weights: only adapter_config.json is there",
     "fetch adapter_model.safetensors, or name the folder that has it"},
    {[](const Names& names) {
       return Starts(names, "tp") && Ends(names, "_sharded_checkpoint.safetensors");
     },
     "weights sharded for inference (tpN_sharded_checkpoint.safetensors), not a training shard set",
     "read it with --from rollout"},
};

}  // namespace

bool IsLegacyOptimizer(std::string_view name) { return name.starts_with("optim.dp_rank_"); }

Result<bool> IsOptimizerFolder(const std::string& path, const Looker& look) {
  if (BaseName(path) != "optim") return false;
  NXDKIT_ASSIGN(const Names names, look.ListIfThere(path));
  return Starts(names, "dp_rank_");
}

Status RefuseByName(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const bool is_optimizer, IsOptimizerFolder(path, look));
  if (is_optimizer)
    return Unsupported("optimizer state (optim/); it holds no weights")
        .in(path)
        .hint("name the tag folder, whose model/ holds the weights");
  NXDKIT_ASSIGN(const Names names, look.ListIfThere(path));
  for (const Row& row : kRows)
    if (row.is(names)) return Error(Errc::kUnsupported, row.what).in(path).hint(row.hint);
  if (Has(names, "optim") && !Has(names, "model"))
    return Unsupported("a tag folder with optimizer state (optim/) only; it holds no weights")
        .in(path);
  return OkStatus();
}

}  // namespace nxdkit::nxd
