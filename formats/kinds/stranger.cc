#include "formats/kinds/stranger.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "formats/kinds/nearby.h"
#include "formats/nxd/nxdt_strangers.h"
#include "lib/base/choice.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/broken_download.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "lib/yaml/yaml.h"

namespace nxdkit::kinds {
namespace {

using Names = std::vector<std::string>;

// --- files

struct FileRow {
  bool (*is)(std::string_view start, std::string_view name);
  const char* what;
  const char* hint;
};

bool IsTar(std::string_view start) { return start.size() > 262 && start.substr(257, 5) == "ustar"; }

constexpr const char* kWithTransformers =
    "transformers reads it: from_pretrained with its option for the format, then save_pretrained";

constexpr FileRow kFiles[] = {
    {[](auto start, auto) { return start.starts_with("GGUF"); }, "a GGUF model of llama.cpp",
     "from_pretrained(FOLDER, gguf_file=NAME).save_pretrained(MODEL) of transformers writes it as "
     "safetensors"},
    {[](auto start, auto) { return start.starts_with("\x93NUMPY"); }, "one numpy array (.npy)",
     "safetensors.numpy.save_file writes arrays by name"},
    {[](auto start, auto name) {
       return IsTar(start) || name.ends_with(".tar.zst") || name.ends_with(".tar.gz") ||
              name.ends_with(".tgz");
     },
     "a tar archive", "unpack it: ckpt-pack --unpack ARCHIVE FOLDER"},
    {[](auto start, auto) { return start.starts_with("\x89HDF\r\n"); },
     "an HDF5 file, as Keras writes weights", kWithTransformers},
    {[](auto, auto name) { return name.ends_with(".msgpack"); }, "weights of Flax",
     kWithTransformers},
    {[](auto, auto name) { return name.ends_with(".onnx"); }, "an ONNX graph",
     "name the model that it was exported from"},
    {[](auto start, auto) { return start.starts_with("PAR1"); },
     "a Parquet table, as data sets are", "data.train_files of grpo-train takes it"},
    {[](auto, auto name) { return name == "config.json" || name == "generation_config.json"; },
     "the configuration of a model, without its weights", "name its folder"},
    {[](auto, auto name) { return name == "adapter_config.json"; },
     "the configuration of an adapter, without its weights", "name its folder"},
    {[](auto, auto name) {
       return name.starts_with("tokenizer") || name == "vocab.json" || name == "merges.txt";
     },
     "a part of a tokenizer", "name the folder of the model"},
    {[](auto, auto name) { return name.ends_with(".yaml") || name.ends_with(".yml"); },
     "a configuration",
     "grpo-train --config FILE --dry-run reads one of EasyR1's kind, nxd-convert --layout-from "
     "FILE one of NxD Training's"},
    {[](auto, auto name) { return name.ends_with(".json") || name.ends_with(".jsonl"); },
     "a JSON text, not weights", ""},
};

// A YAML file, by whose configuration it is; nullopt if it is not known.
std::optional<Error> Configuration(const std::string& path) {
  constexpr uint64_t kMostYaml = 1 << 20;
  if (!path.ends_with(".yaml") && !path.ends_with(".yml")) return std::nullopt;
  const Result<std::string> text = ReadSmallFile(path, kMostYaml);
  const Result<Value> root = text.ok() ? ParseYaml(*text) : Result<Value>(text.error());
  if (!root.ok()) return std::nullopt;
  if (root->Find("distributed_strategy"))
    return Unsupported("a configuration of NxD Training")
        .hint("nxd-convert --layout-from takes the layout of its shards");
  if (root->Find("worker") && root->Find("data"))
    return Unsupported("a configuration in EasyR1's form")
        .hint("grpo-train --dry-run --config tries it");
  const std::string_view what = nxd::StrangerOf(*root).what;
  if (what.empty()) return std::nullopt;
  return Unsupported("{}", what)
      .hint(
          "grpo-train takes those of EasyR1's form; trainer/config/README.md has the keys of "
          "others");
}

// --- folders

// The first name with this beginning and end; "" if there is none.
std::string_view First(const Names& names, std::string_view begin, std::string_view end = "") {
  for (const std::string& name : names)
    if (name.starts_with(begin) && name.ends_with(end)) return name;
  return "";
}

struct FolderRow {
  // The name that identifies it; "" if there is none.
  std::string_view (*by)(const Names& names);
  const char* what;
  const char* hint;
  Errc code = Errc::kUnsupported;
};

constexpr FolderRow kFolders[] = {
    {[](const Names& names) {
       for (const char* end : {".incomplete", ".crdownload", ".aria2", ".part"})
         if (const auto found = First(names, "", end); !found.empty()) return found;
       return std::string_view();
     },
     "a download that is not finished", "start the download again", Errc::kCorrupt},
    {[](const Names& names) { return First(names, "zero_to_fp32.py"); },
     "what DeepSpeed puts beside its checkpoints, without one",
     "name the folder that has a tag, such as global_step20"},
    {[](const Names& names) {
       const auto shard = First(names, "mp_rank_");
       return shard.empty() ? First(names, "latest_checkpointed_iteration.txt") : shard;
     },
     "a checkpoint of Megatron-LM in its old form (torch), or without its iterations",
     "Megatron-LM writes the other one: --ckpt-convert-format torch_dist"},
    {[](const Names& names) { return First(names, "", ".gguf"); }, "a GGUF model of llama.cpp",
     kFiles[0].hint},
    {[](const Names& names) {
       const auto shard = std::ranges::find_if(names, [](const std::string& name) {
         return name.find("-of-0") != name.npos &&
                (name.ends_with(".safetensors") || name.ends_with(".bin"));
       });
       return shard == names.end() ? std::string_view() : *shard;
     },
     "shards of a model, without an index; some are missing, or have other names than model-...",
     "fetch the others, and their index", Errc::kCorrupt},
    {[](const Names& names) { return First(names, "consolidated.", ".pth"); },
     "a model in Meta's own form", "convert_llama_weights_to_hf.py of transformers converts it"},
    {[](const Names& names) { return First(names, "", ".nemo"); }, "a folder with a NeMo archive",
     "unpack it: it is a tar archive; its weights are a checkpoint of Megatron-LM"},
    {[](const Names& names) { return First(names, "flax_model"); }, "weights of Flax",
     kWithTransformers},
    {[](const Names& names) { return First(names, "tf_model"); }, "weights of TensorFlow",
     kWithTransformers},
    {[](const Names& names) { return First(names, "_CHECKPOINT_METADATA"); },
     "a checkpoint of Orbax (JAX)", "write it as safetensors with the program that made it"},
    {[](const Names& names) { return First(names, "model_index.json"); }, "a pipeline of diffusers",
     "name the folder of one of its models"},
    {[](const Names& names) { return First(names, "neuronxcc-"); },
     "a compile cache of the Neuron compiler", "neuron-cache lists what is in it"},
    {[](const Names& names) { return First(names, "", ".onnx"); }, "an ONNX graph",
     "name the model that it was exported from"},
    {[](const Names& names) {
       const auto arrow = First(names, "", ".arrow");
       return arrow.empty() ? First(names, "", ".parquet") : arrow;
     },
     "a data set", "data.train_files of grpo-train takes it"},
    {[](const Names& names) { return First(names, "config.json"); },
     "the configuration of a model, without its weights",
     "fetch them (hf download ORG/NAME --local-dir FOLDER), or name the folder that has them"},
    {[](const Names& names) {
       const auto json = First(names, "tokenizer.json");
       return json.empty() ? First(names, "tokenizer") : json;
     },
     "a tokenizer alone, without a model", "name the folder of the model"},
};

}  // namespace

Error NothingThere(const std::string& path) {
  const std::string folder = ParentPath(path);
  const bool is_here = folder == ".";
  Error error = NotFound("no such file or folder").in(path);
  const Result<Names> names = ListIfThere(folder);
  if (!names.ok() || names->empty()) return error;
  const std::optional<std::string> near = ClosestWord(BaseName(path), *names);
  if (near)
    return std::move(error).hint(
        fmt::format("did you mean {}?", is_here ? *near : JoinPath(folder, *near)));
  return std::move(error).hint(
      fmt::format("in {}: {}", is_here ? "this folder" : folder, FirstNames(*names, 4)));
}

std::optional<Error> KnownStranger(const std::string& path) {
  const Result<std::string> start = ReadStart(path, 512);
  if (!start.ok()) return Error(start.error()).in(path);
  if (std::optional<Error> broken = BrokenDownload(path)) return broken;
  if (std::optional<Error> configuration = Configuration(path))
    return std::move(*configuration).in(path);
  for (const FileRow& row : kFiles)
    if (row.is(*start, BaseName(path)))
      return Error(Errc::kUnsupported, row.what).in(path).hint(row.hint);
  return std::nullopt;
}

namespace {

Error WithAround(Error error, const std::string& path, const Looker& look) {
  const std::string around = ArtifactAround(path, look);
  if (around.empty()) return error;
  return std::move(error).hint(fmt::format("the folder around it is an artifact: name {}", around));
}

}  // namespace

Error StrangeFile(const std::string& path, const Looker& look) {
  if (std::optional<Error> known = KnownStranger(path)) return *std::move(known);
  return WithAround(
      Unsupported("neither a safetensors file nor a torch archive, nor another format known")
          .in(path),
      path, look);
}

Error StrangeFolder(const std::string& path, const Looker& look) {
  const Result<Names> names = look.ListIfThere(path);
  if (!names.ok()) return names.error();
  if (names->empty()) return Unsupported("the folder is empty").in(path);
  const std::vector<std::string> below = ArtifactsBelow(path, look);
  if (below.size() == 1)
    return Unsupported("not an artifact itself; there is one in {}", below.front())
        .in(path)
        .hint(fmt::format("name it: {}", JoinPath(path, below.front())));
  if (!below.empty())
    return Unsupported("not an artifact itself; there are {} in it: {}", below.size(),
                       FirstNames(below, 5))
        .in(path)
        .hint(fmt::format("name one: {}", JoinPath(path, below.front())));
  for (const FolderRow& row : kFolders)
    if (const std::string_view name = row.by(*names); !name.empty())
      return Error(row.code, fmt::format("{} ({})", row.what, EscapeControl(name)))
          .in(path)
          .hint(row.hint);
  return WithAround(
      Unsupported("no artifact recognised; there is {}", FirstNames(*names, 4)).in(path), path,
      look);
}

}  // namespace nxdkit::kinds
