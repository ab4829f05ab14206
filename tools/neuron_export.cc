// neuron-export: makes a Hugging Face model a rollout bundle that can run.
#include "formats/kinds/open.h"
#include "formats/ops/export/export.h"
#include "lib/base/duration.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/process.h"
#include "tools/cli/tool.h"
#include "tools/commands.h"
#include "tools/conversions/convert_report.h"
#include "tools/conversions/kind_options.h"
#include "tools/conversions/sides.h"

namespace nxdkit::tool {
namespace {

struct Args {
  std::string model;
  std::string output;
  std::optional<std::string> from;
  artifact::Arguments layout;
  std::string target = "neuron";
  std::optional<std::string> compiler;
  std::vector<std::string> pass_env;
  std::optional<std::string> cache_dir;
  bool cache = true;
  bool retry_failed = false;
  bool no_blob = false;
  bool verify = false;
  bool sync = true;
};

const ToolInfo kInfo = {
    .name = "neuron-export",
    .summary = "makes a runnable rollout bundle from a Hugging Face model",
    .details =
        "Writes the rank shards, neuron_config.json, the configuration and tokenizer files, and "
        "the compiled blob. The blob comes from --bundle, else from the compile cache, else from "
        "a compiler (--compiler, or optimum-cli in PATH); without any, the export is refused. "
        "--target cpu writes a plan for our own engine instead.\n"
        "OUTPUT appears complete or not at all.",
    .findings = "--verify found a difference",
    .common = kTakesJobs | kTakesMaxMemory | kTakesDryRun | kTakesForce | kTakesResume,
    .essentials = {"tp", "bs", "seq", "target", "bundle", "compiler", "verify", "dry-run", "force"},
    .examples = {{"neuron-export --tp 8 --bs 64 --seq 4096 Qwen3-4B bundle",
                  "use a blob from the cache or the compiler"},
                 {"neuron-export --bundle compiled Qwen3-4B bundle",
                  "use the blob of another bundle"},
                 {"neuron-export --merge-lora adapter --bundle compiled Qwen3-4B bundle",
                  "merge a LoRA adapter into the model"},
                 {"neuron-export --tp 2 --bs 8 --seq 1024 --target cpu Qwen3-4B bundle",
                  "make a bundle for our own engine"}},
};

void AddOptions(OptionTable& table, Args& args) {
  table.Group("Input and output");
  table.Positional("MODEL", &args.model, "Hugging Face model folder").completes(Completes::kFolder);
  table.Positional("OUTPUT", &args.output, "folder of the bundle to write")
      .completes(Completes::kFolder);
  table.Choice("from", KindNames({"delta"}), &args.from, "format of MODEL; recognised by default");
  AddKindOptions(table, args.layout,
                 {{{&kinds::kHf, kinds::kAsSource}, {&kinds::kRollout, kinds::kAsTarget}},
                  {"merge-lora", "lora-alpha", "dtype"}},
                 "Model and bundle");
  table.Group("Compiled blob");
  table.Choice("target", {"neuron", "cpu"}, &args.target, "platform that runs the bundle");
  table.Text("compiler", "CMD", &args.compiler,
             "compiler to run instead of optimum-cli; see the man page");
  table.TextList("pass-env", "NAME", &args.pass_env,
                 "environment variable to pass to the compiler");
  table.Flag("no-blob", &args.no_blob, "write the bundle even without a blob");
  table.Group("Compile cache");
  table.Text("cache-dir", "DIR", &args.cache_dir, "folder of the compile cache")
      .completes(Completes::kFolderOrUrl);
  table.Toggle("cache", &args.cache, "use the compile cache");
  table.Flag("retry-failed-compilation", &args.retry_failed,
             "compile again what the cache remembers as failed");
  table.Group("Output");
  table.Flag("verify", &args.verify, "compare the output with MODEL before it is published");
  table.Toggle("sync", &args.sync, "write the output to the disk before it is published");
}

Status CheckTogether(const Args& args) {
  if (args.layout.Has("bundle") && args.compiler)
    return BadUsage("--bundle and --compiler: the blob comes from only one of them");
  if (!args.layout.Has("bundle") && !args.layout.Has("tp"))
    return BadUsage("--tp is missing: the number of ranks of the bundle")
        .hint("--bundle takes it from a compiled bundle");
  // Options of compiling, which --bundle makes unnecessary.
  const char* const compiles = !args.pass_env.empty()       ? "--pass-env"
                               : args.retry_failed          ? "--retry-failed-compilation"
                               : args.cache_dir.has_value() ? "--cache-dir"
                                                            : nullptr;
  if (compiles && args.layout.Has("bundle"))
    return BadUsage("{} does not apply: the blob is from --bundle", compiles);
  if (!args.cache && (args.cache_dir || args.retry_failed))
    return BadUsage("{} does not apply with --no-cache",
                    args.cache_dir ? "--cache-dir" : "--retry-failed-compilation");
  if (args.target != "cpu") return OkStatus();
  const auto refuse = [](const char* option) {
    return BadUsage("{} does not apply to --target cpu", option);
  };
  if (compiles) return refuse(compiles);
  if (args.layout.Has("bundle")) return refuse("--bundle");
  if (args.compiler) return refuse("--compiler");
  if (args.no_blob) return refuse("--no-blob");
  return OkStatus();
}

Result<ops::ExportRequest> RequestOf(const Args& args, const Runner& runner, ToolContext& context) {
  ops::ExportRequest request;
  NXDKIT_TRY(CheckTogether(args));
  NXDKIT_ASSIGN(Sides sides, SidesOf(args.layout, kinds::kHf, kinds::kRollout, context));
  request.convert.to = &kinds::kRollout;
  if (args.from) request.convert.from = kinds::KindFromName(*args.from);
  request.convert.input = args.model;
  request.convert.output = args.output;
  SetSides(std::move(sides), request.convert);
  NXDKIT_TRY(TakeHeld(context, args.model, request.convert.from, request.convert.hints));
  request.convert.run = runner.options();
  request.convert.force = context.common().force;
  request.convert.resume = context.common().resume;
  request.convert.verify = args.verify;
  request.convert.sync = args.sync;
  request.cpu = args.target == "cpu";
  request.no_blob = args.no_blob;
  request.compiler = args.compiler;
  request.environment = args.pass_env;
  if (!request.cpu)
    NXDKIT_TRY(ops::DecideTarget(EnvironmentValue(ops::kTargetVariable), request.convert.instance,
                                 request.convert.here)
                   .To(request.target));
  if (args.cache) {
    NXDKIT_ASSIGN(request.cache,
                  neff::FindCache(args.cache_dir, EnvironmentValue("NEURON_CC_FLAGS"),
                                  EnvironmentValue("NEURON_COMPILE_CACHE_URL")));
    request.limits.max_bytes = request.cache.max_bytes.value_or(request.limits.max_bytes);
    request.limits.keep_seconds = request.cache.keep_seconds.value_or(request.limits.keep_seconds);
    request.cache.retry_failed |= args.retry_failed;
  } else {  // the cache's flags need not be readable
    request.cache.enabled = false;
    request.cache.disabled_because = "--no-cache was given";
  }
  request.dry_run = context.common().dry_run;
  request.on_warning = [&context](const std::string& text) { context.Warn(text); };
  request.on_detail = [&context](const std::string& text) { context.Detail(text); };
  return request;
}

Json ReportJson(const ops::ExportReport& report, const Args& args, double seconds, bool dry_run) {
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  Json json = WithKeys(
      {{"model", args.model},
       {"output", args.output},
       {"blob", ops::BlobOriginName(report.blob)},
       {"blob_path", or_null(report.blob_path)},
       {"cache_entry", or_null(report.cache_entry)},
       {"command", or_null(report.command)},
       {"compile_seconds", report.compile_seconds ? Json(*report.compile_seconds) : Json()}},
      WrittenJson(report.convert, seconds, dry_run));
  if (report.convert.lora) json["lora"] = LoraJson(*report.convert.lora);
  return json;
}

std::string CompiledText(const ops::ExportReport& report, bool dry_run) {
  if (dry_run) return "would be compiled: " + report.command;
  const std::string time =
      report.compile_seconds ? " in " + HumanDuration(*report.compile_seconds) : "";
  return "compiled" + time + ": " + report.command;
}

std::string CachedText(const ops::ExportReport& report) {
  const std::string place = "from the compile cache, " + report.blob_path;
  if (!report.compile_seconds) return place;
  return place + "; " + HumanDuration(*report.compile_seconds) + " of compiling saved";
}

std::string BlobText(const ops::ExportReport& report, bool dry_run) {
  switch (report.blob) {
    case ops::BlobOrigin::kBundle:
      return "from the bundle " + report.blob_path;
    case ops::BlobOrigin::kCache:
      return CachedText(report);
    case ops::BlobOrigin::kCompiler:
      return CompiledText(report, dry_run);
    case ops::BlobOrigin::kCpuPlan:
      return "none; nxdkit-cpu-plan.json, for our own engine";
    case ops::BlobOrigin::kNone:
      break;
  }
  return "none (--no-blob)";
}

std::string ReportText(const ops::ExportReport& report, const Args& args, double seconds,
                       bool dry_run) {
  const ops::ConvertReport& convert = report.convert;
  std::string text = WroteText(args.output, convert, dry_run) + CountsText(convert);
  if (convert.lora) text += LoraText(*convert.lora);
  text += "blob: " + EscapeControl(BlobText(report, dry_run)) + "\n";
  if (!dry_run) text += CostText(convert, convert.output_bytes, seconds, dry_run);
  return text + NotesText(convert);
}

Result<ToolAnswer> Run(const Args& args, ToolContext& context) {
  const Runner runner(context);
  NXDKIT_ASSIGN(const ops::ExportRequest request, RequestOf(args, runner, context));
  NXDKIT_ASSIGN(const ops::ExportReport report, ops::Export(request));
  const double seconds = context.seconds();
  context.Tell(report.convert);
  ToolAnswer answer{.text = ReportText(report, args, seconds, request.dry_run),
                    .fields = ReportJson(report, args, seconds, request.dry_run)};
  if (!request.dry_run) answer.brief = "";
  return answer;
}

}  // namespace

constinit const Command kNeuronExport = MakeCommand<AddOptions, Run>(kInfo);

}  // namespace nxdkit::tool
