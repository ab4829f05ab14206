// nxdkit-make-model: a Hugging Face folder with a real model's shapes and made-up weights.
#include <fmt/core.h>

#include "formats/models/family.h"
#include "formats/ops/sample/make_model.h"
#include "lib/base/text.h"
#include "tools/cli/tool.h"
#include "tools/commands.h"
#include "tools/conversions/sides.h"

namespace nxdkit::tool {
namespace {

struct Args {
  std::string family = "qwen3";
  std::string size = "tiny";
  std::optional<std::string> config;
  std::string out;
  std::string dtype = "bf16";
  int seed = 1;
  std::optional<std::string> max_shard_size;
};

const ToolInfo kInfo = {
    .name = "nxdkit-make-model",
    .summary = "makes a model folder with real shapes and made-up weights",
    .details =
        "For trials without a real checkpoint. The same options give the same bytes everywhere.",
    .findings = "",
    .common = kTakesJobs | kTakesMaxMemory | kTakesForce,
    .essentials = {"family", "size", "out", "seed"},
    .examples = {{"nxdkit-make-model --family qwen3 --size 0.6b --out model",
                  "make a model with the shapes of Qwen3-0.6B, 1.2 GB"}},
};

void AddOptions(OptionTable& table, Args& args) {
  table.Group("Model");
  std::vector<std::string> families;
  for (const models::FamilyHead& head : models::BuiltInFamilies()) families.push_back(head.name);
  table.Choice("family", families, &args.family, "model family");
  table.Choice("size", {"tiny", "0.6b", "1.7b", "4b", "8b"}, &args.size, "size of the model");
  table.Text("config", "FILE", &args.config, "config.json with the shapes to use instead")
      .completes(Completes::kPath);
  table.Choice("dtype", {"bf16", "f32"}, &args.dtype, "element type of the weights");
  table.Integer("seed", "N", &args.seed, {0, 1'000'000'000}, "seed of the weights");
  table.Group("Output");
  table.Text("max-shard-size", "SIZE", &args.max_shard_size, "maximum size of a weight file")
      .default_text("5GB");
  table.Text("out", "FOLDER", &args.out, "folder to write")
      .required(true)
      .completes(Completes::kFolder);
}

Result<ToolAnswer> Run(const Args& args, ToolContext& context) {
  const Runner runner(context);
  ops::MakeModelRequest request;
  request.family = args.family;
  request.size = args.size;
  request.config = args.config;
  request.output = args.out;
  request.dtype = args.dtype == "f32" ? Dtype::kF32 : Dtype::kBF16;
  request.seed = static_cast<uint64_t>(args.seed);
  request.max_shard_size = args.max_shard_size;
  request.force = context.common().force;
  request.run = runner.options();
  NXDKIT_ASSIGN(const uint64_t bytes, ops::MakeModel(request));
  return ToolAnswer{.text = fmt::format("wrote {}: {}\n", args.out, HumanBytes(bytes)),
                    .fields = {{"output", args.out}, {"output_bytes", bytes}},
                    .brief = ""};
}

}  // namespace

constinit const Command kMakeModel = MakeCommand<AddOptions, Run>(kInfo);

}  // namespace nxdkit::tool
