#include "tools/library/source.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "formats/kinds/open.h"
#include "formats/kinds/table.h"
#include "formats/ops/read/memory.h"
#include "formats/vllm/engine_layout.h"
#include "formats/vllm_neuron/geometry.h"
#include "formats/vllm_neuron/rank_tensors.h"
#include "lib/base/errors.h"
#include "tools/conversions/kind_options.h"
#include "tools/conversions/sides.h"
#include "tools/library/request.h"

namespace nxdkit::tool {
namespace {

using artifact::BoundArtifact;

// An artifact described by a request, with ckpt-digest's options.
struct OpenArgs {
  std::optional<std::string> from;
  std::optional<std::string> base;
  bool optimizer = false;
  artifact::Arguments layout;
};

Result<OpenArgs> ReadOpenArgs(const Json& request) {
  OpenArgs args;
  OptionTable table;
  table.Choice("from", KindNames(), &args.from, "");
  table.Text("base", "BASE", &args.base, "").completes(Completes::kPath);
  table.Flag("optimizer", &args.optimizer, "");
  AddKindOptions(table, args.layout, OfReader(), "");
  NXDKIT_ASSIGN(const std::vector<std::string> words,
                OptionWords(JsonFind(request, "options"), table, nullptr));
  NXDKIT_TRY(table.Parse(words));
  return args;
}

artifact::InputHints HintsFor(const OpenArgs& args) {
  artifact::InputHints hints = HintsOf(args.layout, "");
  hints.origin = "the request";
  if (args.base) hints.Set("base", *args.base);
  hints.optimizer = args.optimizer;
  hints.config_optional = true;
  return hints;
}

// An optional number.
Result<int64_t> NumberIn(const Json& object, std::string_view key, int64_t otherwise) {
  const Json* const value = JsonFind(object, key);
  if (value == nullptr) return otherwise;
  if (!value->is_number_integer())
    return BadUsage("\"{}\" is {}, expected a whole number", key, JsonTypeText(*value));
  if (value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX)
    return BadUsage("\"{}\" is over the limit of {}", key, INT64_MAX);
  return value->get<int64_t>();
}

Result<int> RankNumberIn(const Json& object, std::string_view key) {
  constexpr int kMost = 1 << 20;
  NXDKIT_ASSIGN(const int64_t number, NumberIn(object, key, 0));
  if (number >= 0 && number <= kMost) return static_cast<int>(number);
  return BadUsage("\"{}\" is {}, expected a number from 0 to {}", key, number, kMost);
}

Result<Shape> ShapeIn(const Json& object, std::string_view key) {
  const Json* const list = JsonFind(object, key);
  if (list == nullptr) return BadUsage("a tensor has no \"{}\"", key);
  if (!list->is_array()) return BadUsage("\"{}\" is {}, expected a list", key, JsonTypeText(*list));
  Shape shape;
  for (const Json& entry : *list) {
    if (!entry.is_number_integer() ||
        (entry.is_number_unsigned() && entry.get<uint64_t>() > INT64_MAX))
      return BadUsage("\"{}\" has {}, expected whole numbers", key, JsonExcerpt(entry));
    shape.push_back(entry.get<int64_t>());
  }
  return shape;
}

Json ParallelJson(const std::vector<LayoutFile>& files) {
  int64_t tp = 0, pp = 0, ep = 0;
  for (const LayoutFile& file : files) {
    tp = std::max(tp, file.tp_rank + 1);
    pp = std::max(pp, file.pp_rank + 1);
    ep = std::max(ep, file.ep_rank + 1);
  }
  Json json = Json::object();
  if (tp > 0) json["tp"] = tp;
  if (pp > 0) json["pp"] = pp;
  if (ep > 0) json["ep"] = ep;
  return json;
}

Json TensorsJson(const std::vector<OutputTensor>& tensors) {
  Json list = Json::array();
  for (const OutputTensor& tensor : tensors)
    list.push_back({{"name", tensor.name}, {"dtype", Name(tensor.dtype)}, {"shape", tensor.shape}});
  return list;
}

Json MetadataJson(const artifact::Artifact& artifact) {
  Json json = Json::object();
  for (const TensorFile& file : artifact.files)
    for (const auto& [key, value] : file.metadata) json[key] = value;
  return json;
}

std::string IndexText(const std::string& format, const ops::TensorReader& reader) {
  const artifact::Artifact& artifact = reader.source().artifact;
  const Result<Json> config = ParseJson(artifact.config_text, kLikePython);
  Json chosen = Json::array();
  for (const Choice& choice : artifact.choices)
    chosen.push_back({{"path", choice.path}, {"of", choice.of}, {"by", choice.by}});
  const Json index = {
      {"path", artifact.path},
      {"format", format},
      {"model_type", artifact.config ? Json(artifact.config->model_type) : Json()},
      {"parallel", ParallelJson(artifact.ranks)},
      {"tensors", TensorsJson(reader.tensors())},
      {"metadata", MetadataJson(artifact)},
      {"config", config.ok() ? *config : Json()},
      {"config_path", artifact.config_path.empty() ? Json() : Json(artifact.config_path)},
      {"files", artifact.files.size()},
      {"file_bytes", artifact.file_bytes()},
      {"warnings", artifact.warnings},
      {"chosen", std::move(chosen)}};
  return index.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<SourcePointer> SourceOf(std::string name, HeldSource held) {
  NXDKIT_ASSIGN(BoundArtifact bound, kinds::OpenAndBind(name, held.kind, held.hints));
  const auto shared = std::make_shared<const BoundArtifact>(std::move(bound));
  NXDKIT_ASSIGN(ops::TensorReader reader, ops::TensorReader::OfParameters(shared));
  std::string index = IndexText(std::string(held.kind->name), reader);
  return std::make_unique<nxdkit_source>(
      nxdkit_source{std::move(name), shared, std::move(reader), std::move(held), std::move(index)});
}

Result<ops::MemoryTensor> MemoryTensorOf(const Json& entry, const void* data) {
  ops::MemoryTensor tensor;
  NXDKIT_ASSIGN(tensor.name, TextIn(entry, "name"));
  const auto named = [&](Status status) { return std::move(status).on(tensor.name); };
  NXDKIT_ASSIGN(const std::string dtype, TextIn(entry, "dtype"));
  const std::optional<Dtype> known = DtypeFromName(dtype);
  if (!known) return BadUsage("dtype \"{}\" is not known", dtype).on(tensor.name);
  tensor.dtype = *known;
  NXDKIT_TRY(named(ShapeIn(entry, "shape").To(tensor.shape)));
  if (JsonFind(entry, "strides")) NXDKIT_TRY(named(ShapeIn(entry, "strides").To(tensor.strides)));
  NXDKIT_ASSIGN(tensor.tp, RankNumberIn(entry, "rank"));
  NXDKIT_ASSIGN(tensor.pp, RankNumberIn(entry, "pp_rank"));
  NXDKIT_ASSIGN(tensor.ep, RankNumberIn(entry, "ep_rank"));
  tensor.data = static_cast<const std::byte*>(data);
  return tensor;
}

Result<ops::RankPlace> RankIn(const Json& request) {
  ops::RankPlace rank;
  NXDKIT_ASSIGN(rank.tp, NumberIn(request, "rank", 0));
  NXDKIT_ASSIGN(rank.pp, NumberIn(request, "pp_rank", 0));
  NXDKIT_ASSIGN(rank.ep, NumberIn(request, "ep_rank", 0));
  return rank;
}

// A rank of an engine, with the options of `ckpt-digest --as`.
Result<ops::TensorReader> ReaderOfEngine(const nxdkit_source& of, const std::string& engine,
                                         const Json& request) {
  int tp = 1, ep = 1, attention_dp = 1;
  bool expert_parallel = false;
  std::optional<std::string> dtype_word;
  const bool neuron = engine == "vllm-neuron";
  OptionTable table;
  table.Integer("tp,tensor-parallel-size", "N", &tp, kPositive, "");
  table.Choice("dtype", {"auto", "bf16", "f16", "f32"}, &dtype_word, "");
  if (neuron) table.Integer("ep", "N", &ep, kPositive, "");
  if (neuron) table.Integer("attention-dp", "N", &attention_dp, kPositive, "");
  if (!neuron) table.Flag("enable-expert-parallel", &expert_parallel, "");
  NXDKIT_ASSIGN(const std::vector<std::string> words,
                OptionWords(JsonFind(request, "options"), table, nullptr));
  NXDKIT_TRY(table.Parse(words));
  NXDKIT_ASSIGN(const ops::RankPlace rank, RankIn(request));
  const vllm_neuron::Geometry cores{tp, ep, attention_dp};
  if (neuron) NXDKIT_TRY(vllm_neuron::CheckCores(cores));
  const int ranks = neuron ? cores.cores() : tp;
  if (rank.tp < 0 || rank.tp >= ranks)
    return BadUsage("there is no rank {}: the engine has ranks 0 to {}", rank.tp, ranks - 1);
  const artifact::Artifact& source = of.bound->artifact;
  if (!source.config) return Unsupported("an engine's layout needs a config.json").in(of.name);
  const Dtype dtype = dtype_word && *dtype_word != "auto" ? *DtypeFromTorchName(*dtype_word)
                                                          : vllm::EngineDtype(*source.config);
  const vllm::Geometry geometry{tp, expert_parallel};
  const ops::RankLayout layout = [=](const models::Model& model, int of_rank) {
    return neuron ? vllm_neuron::CoreTensors(model, cores, of_rank)
                  : vllm::RankTensors(model, geometry, of_rank);
  };
  return ops::TensorReader::OfEngine(of.bound, layout, static_cast<int>(rank.tp), dtype,
                                     &of.reader);
}

Result<ops::TensorReader> ReaderOfKind(const nxdkit_source& of, const kinds::Kind& kind,
                                       const Json& request) {
  artifact::Arguments given;
  OptionTable table;
  AddKindOptions(table, given, {{{&kind, kinds::kAsTarget}}, {"dtype"}}, "");
  NXDKIT_ASSIGN(const std::vector<std::string> words,
                OptionWords(JsonFind(request, "options"), table, nullptr));
  NXDKIT_TRY(table.Parse(words));
  NXDKIT_ASSIGN(const kinds::OutputOptions options,
                OutputOptionsOf(given, *of.bound->artifact.kind, kind));
  NXDKIT_ASSIGN(const ops::RankPlace rank, RankIn(request));
  return ops::TensorReader::OfRank(of.bound, kind, options, rank, CommonArgs().max_memory,
                                   &of.reader);
}

}  // namespace

Result<SourcePointer> OpenPath(const Json& request) {
  NXDKIT_ASSIGN(std::string path, TextIn(request, "path"));
  NXDKIT_ASSIGN(const OpenArgs args, ReadOpenArgs(request));
  HeldSource held{args.from ? kinds::KindFromName(*args.from) : nullptr, HintsFor(args)};
  if (!held.kind) NXDKIT_TRY(kinds::Recognise(path).To(held.kind));
  return SourceOf(std::move(path), std::move(held));
}

Result<SourcePointer> OpenMemorySource(const Json& request, const void* const* data) {
  const Json* const tensors = JsonFind(request, "tensors");
  if (tensors == nullptr || !tensors->is_array())
    return BadUsage("the request has no list \"tensors\"");
  if (!tensors->empty() && data == nullptr)
    return BadUsage("`data` is NULL, and there are {} tensors", tensors->size());
  ops::MemoryModel model;
  model.name = "memory";
  if (JsonFind(request, "name")) NXDKIT_TRY(TextIn(request, "name").To(model.name));
  std::string layout = "hf";
  if (JsonFind(request, "layout")) NXDKIT_TRY(TextIn(request, "layout").To(layout));
  model.layout = kinds::KindFromName(layout);
  if (model.layout == nullptr) return BadUsage("there is no layout \"{}\"", layout);
  for (size_t i = 0; i < tensors->size(); ++i) {
    NXDKIT_ASSIGN(ops::MemoryTensor tensor, MemoryTensorOf((*tensors)[i], data[i]));
    model.tensors.push_back(std::move(tensor));
  }
  NXDKIT_ASSIGN(const OpenArgs args, ReadOpenArgs(request));
  if (args.from) return BadUsage("\"from\" names a format of files; \"layout\" that of memory");
  HeldSource held{model.layout, HintsFor(args)};
  std::string name = model.name;
  held.hints.memory = [model = std::move(model), hints = held.hints] {
    return ops::OpenMemory(model, hints);
  };
  return SourceOf(std::move(name), std::move(held));
}

Result<SourcePointer> OpenRankSource(const nxdkit_source& of, const Json& request) {
  if (!of.held)
    return BadUsage("it is one rank of a layout; a rank is made from a whole model").in(of.name);
  NXDKIT_ASSIGN(const std::string layout, TextIn(request, "layout"));
  const kinds::Kind* const kind = kinds::KindFromName(layout);
  const bool engine = layout == "vllm" || layout == "vllm-neuron";
  if (!engine && (kind == nullptr || kind->decide == nullptr))
    return BadUsage("there is no layout \"{}\" that has ranks", layout)
        .hint("nxd, rollout, nkipy, vllm or vllm-neuron");
  NXDKIT_ASSIGN(ops::TensorReader reader,
                engine ? ReaderOfEngine(of, layout, request) : ReaderOfKind(of, *kind, request));
  std::string index = IndexText(layout, reader);
  return std::make_unique<nxdkit_source>(
      nxdkit_source{of.name, of.bound, std::move(reader), std::nullopt, std::move(index)});
}

}  // namespace nxdkit::tool
