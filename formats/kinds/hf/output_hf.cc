#include "formats/kinds/hf/output_hf.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/adapter/lora_config.h"
#include "formats/adapter/lora_forms.h"
#include "formats/artifact/canonical.h"
#include "formats/hf/hf.h"
#include "formats/hf/split.h"
#include "formats/kinds/bind.h"
#include "formats/kinds/builder.h"
#include "formats/kinds/table.h"
#include "formats/models/view.h"
#include "lib/base/errors.h"

namespace nxdkit::kinds {
namespace {

Status PlanAdapter(OutputBuilder& builder) {
  const BoundArtifact& adapter = builder.source();
  const bool is_peft = adapter.artifact.kind == &kHf;
  builder.plan.texts.push_back({kLoraConfigFile, PeftConfig(adapter, is_peft)});
  return builder.AddSafetensors(kPeftFile, -1, PeftTensors(adapter), {{"format", "pt"}});
}

// The tensors in the model's order; a tied head is stored once.
Result<std::vector<TensorLayout>> TensorsOf(const BoundArtifact& source,
                                            const std::string& spelling) {
  std::vector<TensorLayout> whole = WholeTensors(source);
  if (spelling.empty()) return whole;
  NXDKIT_ASSIGN(std::vector<TensorLayout> tensors,
                models::SpelledTensors(*source.model, spelling, /*aliases=*/false));
  const auto beside = whole.begin() + static_cast<std::ptrdiff_t>(source.model->params.size());
  std::move(beside, whole.end(), std::back_inserter(tensors));
  return tensors;
}

// The list of buffers in a file of these tensors.
std::string BuffersIn(const BoundArtifact& source, const std::vector<TensorLayout>& tensors) {
  std::vector<std::string> names;
  for (const TensorLayout& tensor : tensors) names.push_back(tensor.name);
  return source.carried.empty() ? "" : BuffersText(source, names);
}

Status CheckSpelling(const BoundArtifact& source, const std::string& spelling) {
  if (!source.model || source.lora)
    return Unsupported("--style {} needs a model whose family is known", spelling);
  const std::vector<std::string> known = models::Spellings(*source.model->config.family);
  if (std::ranges::count(known, spelling) > 0) return OkStatus();
  return Unsupported("the family {} has no spelling \"{}\"; it has {}",
                     source.model->config.family->model_type, spelling,
                     known.empty() ? "one alone" : fmt::format("{}", fmt::join(known, ", ")));
}

}  // namespace

Status HfOutput::Plan(OutputBuilder& builder) const {
  if (builder.source().lora) return PlanAdapter(builder);
  NXDKIT_ASSIGN(std::vector<TensorLayout> tensors, TensorsOf(builder.source(), spelling));
  std::vector<uint64_t> bytes;
  uint64_t total = 0;
  uint64_t parameters = 0;
  for (const TensorLayout& tensor : tensors) {
    NXDKIT_ASSIGN(const Dtype stored_as, builder.DtypeOf(tensor));
    NXDKIT_ASSIGN(const uint64_t size, PackedBytes(stored_as, tensor.shape));
    bytes.push_back(size);
    total += size;
    parameters += static_cast<uint64_t>(*ElementCount(tensor.shape));
  }
  const std::vector<std::vector<size_t>> shards = hf::SplitShards(bytes, max_shard_bytes);
  std::vector<std::pair<std::string, std::string>> weight_map;
  for (size_t s = 0; s < shards.size(); ++s) {
    const std::string name = hf::ShardName(s, shards.size());
    std::vector<TensorLayout> here;
    for (size_t t : shards[s]) {
      weight_map.push_back({tensors[t].name, name});
      here.push_back(std::move(tensors[t]));
    }
    const std::string buffers = BuffersIn(builder.source(), here);
    std::map<std::string, std::string> metadata = {{"format", "pt"}};
    if (!buffers.empty()) metadata[kBuffersKey] = buffers;
    NXDKIT_TRY(builder.AddSafetensors(name, -1, std::move(here), metadata));
  }
  if (shards.size() > 1)
    builder.plan.texts.push_back(
        {"model.safetensors.index.json", hf::IndexJson(weight_map, total, parameters)});
  return builder.CarrySideFiles();
}

Result<std::unique_ptr<Output>> DecideHf(const BoundArtifact& source,
                                         const OutputOptions& options) {
  std::unique_ptr<Output> decided = std::make_unique<HfOutput>(options);
  auto& output = static_cast<HfOutput&>(*decided);
  if (const std::optional<std::string> size = options.Text("max-shard-size"))
    NXDKIT_TRY(hf::ParseShardSize(*size).To(output.max_shard_bytes));
  if (const std::string style = options.Text("style").value_or("saved"); style != "saved") {
    NXDKIT_TRY(CheckSpelling(source, style).in(source.artifact.path));
    output.spelling = style;
  }
  if (!source.lora && !source.artifact.config)
    output.notes.push_back(
        "the source has no config.json: without one the model cannot be loaded or converted "
        "further (--config)");
  return decided;
}

}  // namespace nxdkit::kinds
