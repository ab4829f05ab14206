#include "formats/ops/sample/make_model.h"

#include "formats/hf/split.h"
#include "formats/kinds/builder.h"
#include "formats/kinds/hf/output_hf.h"
#include "formats/models/model.h"
#include "formats/models/sample_model.h"
#include "lib/base/errors.h"
#include "lib/json/json.h"
#include "lib/sinks/write_sink.h"
#include "lib/system/file.h"
#include "lib/system/paths.h"
#include "lib/system/places.h"
#include "lib/system/staging.h"

namespace nxdkit::ops {
namespace {

// The published shapes of the Qwen3 line; the other families use the nearest ones.
struct Shapes {
  const char* size;
  int64_t hidden, intermediate, layers, heads, kv_heads, head_dim, vocab;
  bool tied;
};
constexpr Shapes kShapes[] = {
    {"tiny", 64, 160, 4, 8, 4, 16, 512, true},
    {"0.6b", 1024, 3072, 28, 16, 8, 128, 151936, true},
    {"1.7b", 2048, 6144, 28, 16, 8, 128, 151936, true},
    {"4b", 2560, 9728, 36, 32, 8, 128, 151936, true},
    {"8b", 4096, 12288, 36, 32, 8, 128, 151936, false},
};

Result<std::string> ConfigText(const MakeModelRequest& request) {
  if (request.config) return ReadSmallFile(*request.config, models::kMaxConfigBytes);
  const Shapes* shapes = nullptr;
  for (const Shapes& row : kShapes)
    if (request.size == row.size) shapes = &row;
  const std::string_view text = models::BuiltInFamilyText(request.family);
  if (!shapes || text.empty())
    return BadUsage("no shapes for family \"{}\", size \"{}\"", request.family, request.size);
  NXDKIT_ASSIGN(const models::Family family, models::ParseFamily(text, ""));
  // Only Qwen3 has heads wider than hidden / heads.
  const bool wide_heads = request.family.starts_with("qwen3");
  const int64_t heads = wide_heads ? shapes->heads : shapes->hidden / shapes->head_dim;
  const Json json = {{"architectures", {family.architecture}},
                     {"bos_token_id", 1},
                     {"eos_token_id", 2},
                     {"head_dim", shapes->head_dim},
                     {"hidden_act", "silu"},
                     {"hidden_size", shapes->hidden},
                     {"intermediate_size", shapes->intermediate},
                     {"max_position_embeddings", 40960},
                     {"model_type", family.model_type},
                     {"num_attention_heads", heads},
                     {"num_hidden_layers", shapes->layers},
                     {"num_key_value_heads", std::min(heads, shapes->kv_heads)},
                     {"rms_norm_eps", 1e-06},
                     {"rope_theta", 1000000.0},
                     {"tie_word_embeddings", shapes->tied},
                     {"torch_dtype", TorchName(request.dtype)},
                     {"vocab_size", shapes->vocab}};
  return models::SampleConfig(family, DumpPython(json));
}

}  // namespace

Result<uint64_t> MakeModel(const MakeModelRequest& request) {
  NXDKIT_ASSIGN(const std::string config_text, ConfigText(request));
  BoundArtifact source;
  NXDKIT_ASSIGN(source.artifact.config,
                models::ParseConfig(config_text, request.config.value_or("config.json")));
  NXDKIT_ASSIGN(source.model, models::MakeModel(*source.artifact.config));
  source.params = source.model->Logical();
  source.bound = models::SampleCheckpoint(*source.model, request.seed, request.dtype);
  HfOutput target{OutputOptions()};
  if (request.max_shard_size)
    NXDKIT_TRY(hf::ParseShardSize(*request.max_shard_size).To(target.max_shard_bytes));
  NXDKIT_ASSIGN(OutputPlan output,
                PlanOutput(source, target, BaseName(request.output), request.run.max_memory));
  output.texts.push_back({"config.json", config_text});
  NXDKIT_ASSIGN(const Plan plan, BuildPlan(source.params, source.bound, output.layout));
  NXDKIT_ASSIGN(const ExecuteOptions options, MakeExecuteOptions(request.run));
  NXDKIT_ASSIGN(const Executor executor,
                Executor::Make(plan, source.bound, output.layout, output.outputs, options));
  if (request.config) NXDKIT_TRY(CheckPlaces(request.output, {*request.config}));
  NXDKIT_ASSIGN(Staging staging,
                Staging::Begin(request.output, {.replace = request.force, .sync = false}));
  const uint64_t bytes = output.bytes();
  NXDKIT_ASSIGN(const std::unique_ptr<WriteSink> sink,
                WriteSink::Begin(staging.path(), output.layout, std::move(output.files),
                                 {.sync = false, .jobs = request.run.jobs, .fingerprint = {}}));
  if (request.run.begin) request.run.begin("making", executor.workload().bytes);
  NXDKIT_TRY(executor.Run(*sink));
  NXDKIT_TRY(sink->Finish());
  for (const auto& [path, contents] : output.texts)
    NXDKIT_TRY(WriteFileAtomic(JoinPath(staging.path(), path), contents));
  NXDKIT_TRY(staging.Publish());
  return bytes;
}

}  // namespace nxdkit::ops
