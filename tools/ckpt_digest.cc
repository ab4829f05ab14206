// ckpt-digest: which weights an artifact holds, whatever its layout.
#include <fmt/core.h>

#include "formats/kinds/open.h"
#include "formats/ops/digest/engine.h"
#include "formats/ops/digest/manifest.h"
#include "formats/ops/digest/neuron.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "tools/cli/tool.h"
#include "tools/commands.h"
#include "tools/conversions/findings.h"
#include "tools/conversions/kind_options.h"
#include "tools/conversions/sides.h"

namespace nxdkit::tool {
namespace {

struct Args {
  std::string path;
  bool tensors = false;
  std::optional<std::string> manifest;
  std::optional<std::string> check;
  bool files = true;
  std::optional<std::string> sign;
  std::optional<std::string> verify_signature;
  std::optional<std::string> from;
  std::optional<std::string> base;
  std::optional<std::string> as;
  std::optional<std::string> dtype;
  bool expert_parallel = false;
  std::optional<int> attention_dp;
  artifact::Arguments layout;
};

const ToolInfo kInfo = {
    .name = "ckpt-digest",
    .summary = "prints a digest of a model's weights, the same in every layout",
    .details =
        "Artifacts with the same weights give the same line, whatever the sharding, padding and "
        "copies. Names, shapes, dtypes and every bit of every value count.\n"
        "A manifest records the digests of all tensors and files, and can be signed with an "
        "Ed25519 "
        "key.\n"
        "--as predicts the digests on the ranks of a vLLM engine, or the cores of a vLLM Neuron "
        "engine (derived from its sources, not run).",
    .findings = "the artifact differs from the manifest, or the signature is wrong",
    .common = kTakesJobs | kTakesMaxMemory | kTakesForce,
    .essentials = {"manifest", "check", "sign", "verify-signature", "as", "tp"},
    .examples = {{"ckpt-digest model", "print the digest"},
                 {"ckpt-digest --manifest model.json --sign key.pem model",
                  "write a signed manifest: model.json, model.json.sig"},
                 {"ckpt-digest --check model.json --verify-signature pub.pem model",
                  "check every tensor and file"},
                 {"ckpt-digest --check model.json --no-files shards",
                  "check the weights of another layout"}},
};

void AddOptions(OptionTable& table, Args& args) {
  table.Group("Input");
  table.Positional("PATH", &args.path, "folder or file to digest");
  table.Choice("from", KindNames(), &args.from, "format of PATH; recognised by default");
  table.Text("base", "BASE", &args.base, "model to which the delta PATH applies")
      .completes(Completes::kPath);
  table.Group("Output");
  table.Flag("tensors", &args.tensors, "print the digest of each tensor too");
  table.Group("Manifest");
  table.Text("manifest", "FILE", &args.manifest, "write a manifest of digests and files")
      .completes(Completes::kPath);
  table.Text("check", "FILE", &args.check, "compare PATH with this manifest")
      .completes(Completes::kPath);
  table.Toggle("files", &args.files, "record and check the artifact's files").default_text("yes");
  table.Text("sign", "KEY", &args.sign, "sign the manifest with this Ed25519 private key (PEM)")
      .completes(Completes::kPath);
  table
      .Text("verify-signature", "PUB", &args.verify_signature,
            "check the manifest's signature with this public key (PEM)")
      .completes(Completes::kPath);
  table.Group("Engine");
  table.Choice("as", {"vllm", "vllm-neuron"}, &args.as,
               "print the digests on this engine's ranks; --tp and --ep are the engine's");
  table
      .Choice("dtype", {"auto", "bf16", "f16", "f32"}, &args.dtype,
              "with --as: element type of the engine")
      .default_text("auto");
  table.Flag("enable-expert-parallel", &args.expert_parallel,
             "with --as vllm: spread whole experts over the engine's ranks");
  table
      .Integer("attention-dp", "A", &args.attention_dp, kPositive,
               "with --as vllm-neuron: attention data parallel degree")
      .default_text("1");
  AddKindOptions(table, args.layout, OfReader(), "Layout of PATH");
}

artifact::InputHints HintsFor(const Args& args) {
  artifact::InputHints hints = HintsOf(args.layout);
  if (args.base != "") hints.Set("base", args.base);
  // A manifest and an engine's layout need the configuration.
  hints.config_optional = !args.as && !args.manifest && !args.check;
  return hints;
}

Status CheckArgs(const Args& args, const CommonArgs& common) {
  if (args.manifest && args.check)
    return BadUsage("--manifest writes and --check reads; give one of them");
  if (args.sign && !args.manifest)
    return BadUsage("--sign signs a manifest; name it with --manifest");
  if (args.verify_signature && !args.check)
    return BadUsage("--verify-signature applies to a manifest; name it with --check");
  if (!args.files && !args.manifest && !args.check)
    return BadUsage("--no-files applies to a manifest; give --manifest or --check");
  if (common.force && !args.manifest)
    return BadUsage("--force replaces a manifest; give --manifest");
  if (args.as && (args.tensors || args.manifest || args.check))
    return BadUsage("--as prints an engine's digests alone: no --tensors, --manifest or --check");
  if (!args.as && (args.dtype || args.expert_parallel))
    return BadUsage("{} applies to an engine; give --as vllm",
                    args.dtype ? "--dtype" : "--enable-expert-parallel");
  if (args.attention_dp && args.as != "vllm-neuron")
    return BadUsage("--attention-dp applies to vLLM Neuron; give --as vllm-neuron");
  if (args.expert_parallel && args.as != "vllm")
    return BadUsage("--enable-expert-parallel applies to vLLM; for vLLM Neuron give --ep");
  return OkStatus();
}

Status CheckBase(const Args& args, const ops::EngineSource& source) {
  if (!args.base) return OkStatus();
  NXDKIT_ASSIGN(const kinds::Kind* const kind, source.kind ? Result<const kinds::Kind*>(source.kind)
                                                           : kinds::Recognise(args.path));
  if (kind->reads_base) return OkStatus();
  return BadUsage("--base names the model that a delta changes, and this is {}", kind->name)
      .in(args.path);
}

std::string ReportText(const ops::DigestReport& report, const Args& args) {
  std::string text;
  if (args.tensors)
    for (const auto& param : report.model.params)
      text += fmt::format("{}  {} {} {}\n", manifest::DigestText(param.root), Name(param.dtype),
                          ShapeText(param.shape), EscapeControl(param.name));
  if (!args.check) return text + manifest::DigestText(report.model.digest) + "\n";
  const ComparedWith compared{"what " + *args.check + " records", report.differing};
  return text + FindingsText(report.checks, report.findings, args.path, "good", compared);
}

Json ReportJson(const ops::DigestReport& report, const Args& args) {
  Json json = {{"path", args.path}};
  if (args.manifest) json["manifest"] = *args.manifest;
  if (args.sign) json["signature"] = *args.manifest + ops::kSignatureSuffix;
  if (args.check) json["checked"] = *args.check;
  // With a wrong signature nothing was read.
  if (report.findings.empty() || report.findings.front().check != "signature") {
    json["kind"] = report.kind->name;
    json["model_type"] = report.model_type;
    json["digest"] = manifest::DigestText(report.model.digest);
    Json tensors = Json::array();
    for (const auto& param : report.model.params)
      tensors.push_back({{"name", param.name},
                         {"dtype", Name(param.dtype)},
                         {"shape", param.shape},
                         {"digest", manifest::DigestText(param.root)}});
    json["tensors"] = std::move(tensors);
    Json files = Json::array();
    for (const ops::FileDigest& file : report.files)
      files.push_back({{"path", file.path},
                       {"bytes", file.bytes},
                       {"digest", manifest::DigestText(file.digest)}});
    json["files"] = std::move(files);
  }
  json["checks"] = report.checks;
  json["findings"] = FindingsJson(report.findings);
  for (Json& finding : json["findings"]) finding.erase("tensor");  // here a tensor is a parameter
  return json;
}

Result<ops::EngineSource> PlainSource(const Args& args, const ToolContext& context) {
  ops::EngineSource source;
  source.path = args.path;
  if (args.from) source.kind = kinds::KindFromName(*args.from);
  source.hints = HintsFor(args);
  NXDKIT_TRY(TakeHeld(context, args.path, source.kind, source.hints));
  return source;
}

// The artifact to digest, as an engine of these sizes holds it.
Result<ops::EngineSource> SourceFor(const Args& args, const Runner& runner,
                                    const ToolContext& context) {
  NXDKIT_ASSIGN(ops::EngineSource source, PlainSource(args, context));
  source.hints.Reset("tp");
  if (args.dtype && *args.dtype != "auto") source.dtype = DtypeFromTorchName(*args.dtype);
  source.run = runner.options();
  return source;
}

// Adds the digests as /weight_checker takes them for a baseline, and as sha256sum prints them.
template <typename KeyOf>
ToolAnswer AnswerOf(const Args& args, const ops::EngineDigests& found, const KeyOf& key_of,
                    ToolContext& context) {
  context.Tell(found);
  for (const std::string& name : found.left_out)
    context.Detail(fmt::format("{} is not a parameter and is left out", name));
  ToolAnswer answer;
  Json checksums = Json::object();
  for (const ops::EngineParam& param : found.params) {
    const std::string key = key_of(param);
    checksums[key] = HexText(param.digest);
    answer.text += fmt::format("{}  {}\n", HexText(param.digest), EscapeControl(key));
  }
  answer.fields = {{"path", args.path},
                   {"kind", found.kind->name},
                   {"model_type", found.model_type},
                   {"engine", *args.as},
                   {"tp", args.layout.Number("tp").value_or(1)},
                   {"dtype", Name(found.dtype)},
                   {"checksums", std::move(checksums)}};
  return answer;
}

Result<ToolAnswer> RunAsVllm(const Args& args, ToolContext& context) {
  const Runner runner(context);
  NXDKIT_ASSIGN(ops::EngineSource source, SourceFor(args, runner, context));
  const ops::EngineRequest request{std::move(source),
                                   {args.layout.Number("tp").value_or(1), args.expert_parallel}};
  NXDKIT_ASSIGN(const ops::EngineDigests found, ops::DigestForEngine(request));
  const auto key_of = [](const ops::EngineParam& param) {
    return vllm::CheckerKey(param.rank, param.name);
  };
  ToolAnswer answer = AnswerOf(args, found, key_of, context);
  answer.fields["expert_parallel"] = args.expert_parallel;
  return answer;
}

Result<ToolAnswer> RunAsNeuron(const Args& args, ToolContext& context) {
  const Runner runner(context);
  const vllm_neuron::Geometry geometry{args.layout.Number("tp").value_or(1),
                                       args.layout.Number("ep").value_or(1),
                                       args.attention_dp.value_or(1)};
  NXDKIT_TRY(vllm_neuron::CheckCores(geometry));
  NXDKIT_ASSIGN(ops::EngineSource source, SourceFor(args, runner, context));
  ops::NeuronRequest request{std::move(source), geometry};
  request.hints.Reset("ep");
  NXDKIT_ASSIGN(const ops::EngineDigests found, ops::DigestForNeuron(request));
  const auto key_of = [&](const ops::EngineParam& param) {
    return vllm_neuron::ParamKey(geometry, param.rank, param.name);
  };
  ToolAnswer answer = AnswerOf(args, found, key_of, context);
  if (const std::string assumed = vllm_neuron::Assumed(geometry); !assumed.empty())
    context.Warn(assumed);
  answer.text = fmt::format("# {}\n", vllm_neuron::kDerived) + answer.text;
  answer.fields["derived"] = vllm_neuron::kDerived;
  answer.fields["ep"] = geometry.ep;
  answer.fields["attention_dp"] = geometry.attention_dp;
  return answer;
}

Result<ToolAnswer> Run(const Args& args, ToolContext& context) {
  NXDKIT_TRY(CheckArgs(args, context.common()));
  NXDKIT_ASSIGN(const ops::EngineSource source, PlainSource(args, context));
  NXDKIT_TRY(CheckBase(args, source));
  if (args.as == "vllm") return RunAsVllm(args, context);
  if (args.as) return RunAsNeuron(args, context);
  ops::DigestRequest request;
  request.path = args.path;
  request.kind = source.kind;
  request.hints = source.hints;
  request.files = args.files;
  request.write_manifest = args.manifest;
  request.check_manifest = args.check;
  request.sign_key = args.sign;
  request.public_key = args.verify_signature;
  request.force = context.common().force;
  const Runner runner(context);
  request.run = runner.options();
  NXDKIT_ASSIGN(const ops::DigestReport report, ops::Digest(request));
  context.Tell(report);
  context.DetailKind(args.path, report.kind, args.from.has_value());
  for (const std::string& name : report.left_out)
    context.Detail(fmt::format("{} is not a parameter and is left out", name));
  return ToolAnswer{ReportText(report, args), ReportJson(report, args), !report.findings.empty()};
}

}  // namespace

constinit const Command kCkptDigest = MakeCommand<AddOptions, Run>(kInfo);

}  // namespace nxdkit::tool
