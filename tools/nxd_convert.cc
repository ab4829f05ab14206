// nxd-convert: converts any artifact to any other.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "formats/kinds/hf/read_hf.h"
#include "formats/kinds/open.h"
#include "formats/kinds/table.h"
#include "formats/ops/convert/convert.h"
#include "formats/ops/convert/follow.h"
#include "lib/base/duration.h"
#include "lib/base/errors.h"
#include "lib/base/stopwatch.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"
#include "lib/system/paths.h"
#include "tools/cli/tool.h"
#include "tools/commands.h"
#include "tools/conversions/convert_report.h"
#include "tools/conversions/kind_options.h"
#include "tools/conversions/launcher.h"
#include "tools/conversions/sides.h"

namespace nxdkit::tool {
namespace {

struct DeltaArgs {
  std::optional<std::string> base;
  std::optional<std::string> coding;
  std::optional<std::string> delta_from;
  std::optional<std::string> apply;
};

// The formats and places on a command line.
struct Ends {
  std::string from;
  std::string to;
  std::string input;
  std::string output;
};

// Options of the training state, to and from torch distributed checkpoints.
struct StateArgs {
  std::optional<bool> optimizer;
  std::optional<int> dp;
  std::optional<std::string> param_order;
};

struct FollowArgs {
  bool follow = false;
  std::optional<int> until;
  std::optional<int> idle;
  std::optional<int> settle;
};

struct Args {
  Ends ends;
  artifact::Arguments layout;
  StateArgs state;
  DeltaArgs delta;
  ExplainArgs explain;
  bool verify = false;
  bool digest = false;
  std::optional<bool> sync;
  bool into = false;
  std::optional<std::string> label;
  std::optional<std::string> part;
  FollowArgs follow;
};

const ToolInfo kInfo = {
    .name = "nxd-convert",
    .summary = "converts model weights between layouts",
    .details =
        "Reads INPUT in one format and writes OUTPUT in another, in bounded memory. OUTPUT appears "
        "complete or not at all.\n"
        "Layout options describe OUTPUT, or INPUT if OUTPUT's format has no such option.",
    .findings =
        "--verify found a difference, a delta does not fit its base, or the output does not fit "
        "--instance",
    .common = kTakesJobs | kTakesMaxMemory | kTakesDryRun | kTakesForce | kTakesResume,
    .usages = {"nxd-convert --to FORMAT [options] INPUT OUTPUT",
               "nxd-convert --to rollout --into [options] INPUT BUNDLE",
               "nxd-convert --apply DELTA --into BUNDLE",
               "nxd-convert --to FORMAT --explain [TENSOR] [options] INPUT"},
    .essentials = {"from", "to", "tp", "pp", "kv-multiplier", "optimizer", "into", "verify",
                   "dry-run", "force"},
    .examples =
        {{"nxd-convert --from hf --to nxd --tp 8 Qwen3-4B shards/step_0",
          "shard a model for training"},
         {"nxd-convert --from nxd --to rollout --tp 8 --bs 64 --seq 4096 shards bundle",
          "make the weights of a rollout bundle"},
         {"nxd-convert --from nxd --to rollout --bundle compiled shards bundle",
          "add the compiled blob of another bundle"},
         {"nxd-convert --from nxd --to rollout --into shards bundle",
          "replace the weights of a bundle in use"},
         {"nxd-convert --from nxd --delta-from bundle shards step.delta",
          "write the changes since the bundle's weights"},
         {"nxd-convert --apply step.delta --into bundle", "apply these changes to the bundle"},
         {"nxd-convert --from hf --to rollout --merge-lora adapter --tp 8 Qwen3-4B bundle",
          "merge a LoRA adapter into its base"},
         {"nxd-convert --explain --html plan.html --to nxd --tp 8 Qwen3-4B",
          "draw which parts of which files each rank would get"},
         {"nxd-convert --from rollout --to hf bundle model",
          "convert a bundle back to Hugging Face"},
         {"nxd-convert --from nxd --to dcp --style torchtitan --mesh dp=4,tp=2 step_100 step-100",
          "convert a training tag for TorchTitan, with its optimizer state"},
         {"nxd-convert --follow --to hf checkpoints/run models",
          "convert each step of a live run"}},
};

// How long to wait for another step: a run may have ended without a sign.
constexpr int kIdleSeconds = 3600;
constexpr int kSettleSeconds = 30;

void AddDeltaOptions(OptionTable& table, DeltaArgs& args) {
  table.Group("Deltas");
  table
      .Text("base", "BASE", &args.base,
            "base of the delta that is made (--to delta) or applied (--from delta)")
      .completes(Completes::kPath);
  table
      .Choice("coding", {"raw", "ulp"}, &args.coding,
              "with --to delta: store new values, or differences in ulps")
      .default_text("raw");
  table.Text("delta-from", "PREV", &args.delta_from, "short for --to delta --base PREV")
      .completes(Completes::kPath);
  table
      .Text("apply", "DELTA", &args.apply,
            "apply DELTA to INPUT, or with --into to the bundle, the only path")
      .completes(Completes::kPath);
}

void AddStateOptions(OptionTable& table, StateArgs& args) {
  table.Group("Training state");
  table
      .Toggle("optimizer", &args.optimizer,
              "convert the optimizer's state, master weights and step too")
      .default_text("on if INPUT has it");
  table.Integer("dp,data-parallel-size", "N", &args.dp, kPositive,
                "data parallel ranks over which ZeRO-1 shards the optimizer's state");
  table.Choice("param-order", {"norms", "biases", "one"}, &args.param_order,
               "parameters in the second group of an NxD optimizer");
}

void AddFollowOptions(OptionTable& table, FollowArgs& args) {
  table.Group("Live runs");
  table.Flag("follow", &args.follow,
             "convert each complete step of the run INPUT to OUTPUT/STEP, and wait for more");
  table.Integer("until", "N", &args.until, kPositive, "with --follow: end after step N");
  table
      .Integer("idle", "SECONDS", &args.idle, kPositive,
               "with --follow: end after this time without a new step")
      .default_text(std::to_string(kIdleSeconds));
  table
      .Integer("settle", "SECONDS", &args.settle, kPositive,
               "with --follow: time without changes after which a step is complete")
      .default_text(std::to_string(kSettleSeconds));
}

void AddOptions(OptionTable& table, Args& args) {
  table.Group("Input and output");
  table.Positional("INPUT", &args.ends.input,
                   "folder to read, or a file for torch and safetensors")
      .required(false);  // --explain may have taken it
  table
      .Positional("OUTPUT", &args.ends.output,
                  "folder to write (for nxd, the tag folder), or a file for torch and delta")
      .required(false);  // not with --apply --into, nor with --explain
  table.Choice("from", KindNames(), &args.ends.from, "format of INPUT; recognised by default");
  table.Choice("to", KindNames(), &args.ends.to,
               "format of OUTPUT; required except with --delta-from and --apply --into");
  AddKindOptions(table, args.layout,
                 OfAllKinds(kinds::kAsSource | kinds::kAsTarget,
                            {"config", "family", "merge-lora", "lora-alpha", "dtype"}),
                 "Layout");
  AddStateOptions(table, args.state);
  AddDeltaOptions(table, args.delta);
  table.Group("Bundles in use");
  table.Flag("into", &args.into, "replace only the weights of the rollout bundle OUTPUT");
  table.Text("label", "TEXT", &args.label,
             "with --into: label in version.json, by default INPUT's tag or name");
  AddFollowOptions(table, args.follow);
  table.Group("Output");
  AddExplainOptions(table, args.explain);
  table.Flag("verify", &args.verify, "compare the output with INPUT before it is published");
  table.Flag("digest", &args.digest, "record the digest of INPUT in nxdkit.json (nxd and nkipy)");
  table.Toggle("sync", &args.sync, "write the output to the disk before it is published")
      .default_text("on; off with --into");
  AddPartOption(table, &args.part);
}

Json ReportJson(const ops::ConvertReport& report, const ops::ConvertRequest& request,
                double seconds, bool dry_run) {
  Json json = WithKeys({{"input", request.input},
                        {"output", request.output},
                        {"from", request.from->name},
                        {"to", request.to->name},
                        {"blob_missing", report.blob_missing}},
                       PlannedJson(report, seconds, dry_run));
  if (report.part) json["part"] = PartJson(*report.part);
  if (report.lora) json["lora"] = LoraJson(*report.lora);
  if (!report.source_digest.empty()) json["source_digest"] = report.source_digest;
  if (report.delta) {
    json["changed"] = report.delta->changed;
    json["dense_bytes"] = report.delta->dense_bytes;
    json["base_digest"] = report.delta->base;
    json["result_digest"] = report.delta->result;
  }
  if (!report.refreshed) return json;
  json["slot"] = report.refreshed->slot;
  json["overwritten"] = report.refreshed->overwritten;
  json["serial"] = report.refreshed->version.serial;
  json["label"] = report.refreshed->version.label;
  return json;
}

// A delta is small; the bytes compared for it count.
uint64_t WorkBytes(const ops::ConvertReport& report) {
  return std::max(report.output_bytes, report.delta ? report.delta->dense_bytes : 0);
}

std::string ReportText(const ops::ConvertReport& report, const ops::ConvertRequest& request,
                       double seconds, bool dry_run) {
  std::string text = WroteText(request.output, report, dry_run) + CountsText(report) +
                     CostText(report, WorkBytes(report), seconds, dry_run);
  if (report.lora) text += LoraText(*report.lora);
  if (!report.source_digest.empty()) text += "source: " + report.source_digest + "\n";
  if (report.part) text += PartText(*report.part, dry_run);
  if (report.refreshed)
    text += fmt::format("version {}, {}, in {}{}\n", report.refreshed->version.serial,
                        EscapeControl(report.refreshed->version.label), report.refreshed->slot,
                        report.refreshed->overwritten ? " (overwritten)" : "");
  if (report.delta)
    text += fmt::format("delta: {} of {} changed; {} to {}\n", Grouped(report.delta->changed),
                        Counted(report.parameters, "element"), report.delta->base,
                        report.delta->result);
  return text + NotesText(report);
}

Status ExpandDeltaFrom(DeltaArgs& args, Ends& ends) {
  if (args.base) return BadUsage("--delta-from names the base already: drop --base");
  if (!ends.to.empty() && ends.to != "delta")
    return BadUsage("--delta-from writes a delta: drop --to, or say --to delta");
  ends.to = "delta";
  args.base = args.delta_from;
  return OkStatus();
}

Status ExpandApply(bool into, DeltaArgs& args, Ends& ends) {
  if (args.base) return BadUsage("--apply changes INPUT: drop --base");
  if (!ends.from.empty())
    return BadUsage("--apply recognises the format of what it changes: drop --from");
  ends.from = "delta";
  const std::string changed = std::exchange(ends.input, *args.apply);
  if (!into) {
    args.base = changed;
    return OkStatus();
  }
  if (!ends.output.empty())
    return BadUsage("--apply with --into changes one bundle, and two paths are given");
  ends.output = changed;
  if (ends.to.empty()) ends.to = "rollout";
  return OkStatus();
}

// Writes out the two short forms:
//   --delta-from PREV INPUT OUTPUT    is --to delta --base PREV INPUT OUTPUT
//   --apply DELTA BASE OUTPUT         is --from delta --base BASE DELTA OUTPUT
//   --apply DELTA --into BUNDLE       is --from delta --to rollout --into DELTA BUNDLE
// kUsage where another option contradicts them.
Status ExpandDelta(bool into, DeltaArgs& args, Ends& ends) {
  if (args.delta_from && args.apply)
    return BadUsage("--delta-from makes a delta, --apply uses one: give one of them");
  if (args.delta_from) return ExpandDeltaFrom(args, ends);
  if (args.apply) return ExpandApply(into, args, ends);
  return OkStatus();
}

// Stores base and coding; kUsage where they do not apply.
Status TakeDelta(const DeltaArgs& args, bool dtype_given, const ToolContext& context,
                 ops::ConvertRequest& request) {
  const bool to_delta = request.to == &kinds::kDelta;
  if (args.base && !to_delta && !request.from->reads_base)
    return BadUsage("--base applies to --from delta and --to delta");
  if (args.coding && !to_delta) return BadUsage("--coding applies to --to delta");
  if (to_delta && dtype_given)
    return BadUsage("a delta has the dtypes of its base: --dtype does not apply");
  if (args.base != "") request.hints.Set("base", args.base);
  const HeldSource* const base = args.base ? context.host().Held(*args.base) : nullptr;
  if (base && base->hints.memory && !to_delta)
    return BadUsage("the base of an applied delta has to be a path, and this is memory")
        .in(*args.base);
  if (base) request.base_memory = OpenerOf(*base, *args.base);
  if (args.coding == "ulp") request.coding = delta::Coding::kUlp;
  return OkStatus();
}

// Checks that the option table cannot make, because the short forms for deltas imply the values.
Status CheckEnds(const Ends& ends) {
  const std::pair<std::string_view, const std::string&> rows[] = {
      {"INPUT", ends.input}, {"--to", ends.to}, {"OUTPUT", ends.output}};
  for (const auto& [name, value] : rows)
    if (value.empty()) return BadUsage("{} is missing", name).hint("--help shows the usage");
  return OkStatus();
}

// The format from --from, else recognised from the files of INPUT. An adapter has the format of its
// model.
Result<const kinds::Kind*> FormatOf(const Ends& ends, const ToolContext& context,
                                    const Looker& look) {
  if (!ends.from.empty()) return kinds::KindFromName(ends.from);
  if (const HeldSource* held = context.host().Held(ends.input)) return held->kind;
  NXDKIT_ASSIGN(const bool is_peft, kinds::LooksLikePeft(ends.input, look));
  if (is_peft) return &kinds::kHf;
  Result<const kinds::Kind*> kind = kinds::Recognise(ends.input, look);
  if (!kind.ok() && kind.error().code() == Errc::kUnsupported)
    return std::move(kind).error().hint("--from names the format of INPUT");
  if (kind.ok())
    context.Detail(
        fmt::format("{} is recognised as {}; --from says otherwise", ends.input, (*kind)->name));
  return kind;
}

// Formats for resuming training hold its state, which is carried along with the weights.
Status TakeState(const StateArgs& args, ops::ConvertRequest& request) {
  using kinds::StateForm;
  const StateForm from = request.from->state;
  const StateForm to = request.to->state;
  const bool with_names = from == StateForm::kNamed || to == StateForm::kNamed;
  const bool carries = with_names && from != StateForm::kNone && to != StateForm::kNone;
  const bool given = args.optimizer || args.dp || args.param_order;
  const bool by_number = from == StateForm::kNumbered && to == StateForm::kNumbered;
  if (given && !carries)
    return BadUsage(
               "--optimizer, --dp and --param-order apply to conversions to nxd, dcp or fsdp from "
               "a format with an optimizer's state, found {} to {}",
               request.from->name, request.to->name)
        .hint(by_number ? "nxd-reshard carries the state from an NxD tag to another" : "");
  request.hints.optimizer = carries && args.optimizer.value_or(true);
  if (!request.hints.optimizer && (args.dp || args.param_order))
    return BadUsage("--dp and --param-order do not apply with --no-optimizer");
  if (args.dp && to != StateForm::kNumbered)
    return BadUsage("--dp shards the state of an NxD tag; --mesh cuts a distributed checkpoint");
  if (args.param_order && from != StateForm::kNumbered && to != StateForm::kNumbered)
    return BadUsage("--param-order does not apply to a distributed checkpoint: it has names");
  request.hints.Set("param-order", args.param_order);
  request.state_required = args.optimizer.value_or(false) || args.dp || args.param_order;
  request.options.Set("dp", args.dp);
  if (to == StateForm::kNumbered && request.hints.optimizer)
    request.options.Set("training-tag", true);
  return OkStatus();
}

// One conversion between these ends.
Result<ops::ConvertRequest> RequestOf(const Args& args, Ends ends, const ToolContext& context) {
  ops::ConvertRequest request;
  DeltaArgs delta = args.delta;
  NXDKIT_TRY(ExpandDelta(args.into, delta, ends));
  NXDKIT_TRY(CheckEnds(ends));
  NXDKIT_ASSIGN(request.from, FormatOf(ends, context, request.look));
  request.to = kinds::KindFromName(ends.to);
  request.input = ends.input;
  request.output = ends.output;
  NXDKIT_ASSIGN(Sides sides, SidesOf(args.layout, *request.from, *request.to, context));
  SetSides(std::move(sides), request);
  NXDKIT_TRY(TakeHeld(context, ends.input, request.from, request.hints));
  NXDKIT_TRY(TakeState(args.state, request));
  request.verify = args.verify;
  request.digest = args.digest;
  if (args.digest && request.to != &kinds::kNxd && request.to != &kinds::kNkipy)
    return BadUsage("--digest is recorded in nxdkit.json of an NxD set or of NKIPy's files")
        .hint("ckpt-digest --manifest records the digest of anything");
  NXDKIT_TRY(TakeDelta(delta, args.layout.Has("dtype"), context, request));
  if (args.into) request.place = ops::Slot{args.label};
  if (args.label && !args.into) return BadUsage("--label names the weights that --into replaces");
  NXDKIT_TRY(TakePart(args.part, request));
  // Rollout weights can be made again; being readable soon matters more than surviving a crash.
  request.sync = args.sync.value_or(!args.into);
  return request;
}

// Refuses options that conflict with --follow, or need it.
Status CheckFollow(const Args& args, const ToolContext& context) {
  const FollowArgs& follow = args.follow;
  if (!follow.follow) {
    if (follow.until || follow.idle || follow.settle)
      return BadUsage("--until, --idle and --settle apply with --follow");
    return OkStatus();
  }
  if (args.explain.tensor || args.part || args.delta.base || args.delta.delta_from ||
      args.delta.apply || args.ends.to == "delta" || args.ends.from == "delta")
    return BadUsage("--follow converts steps one by one: no --explain, no --part, no deltas");
  if (context.common().dry_run || context.common().force)
    return BadUsage("--follow writes what is not there yet: no --dry-run, no --force");
  if (args.label) return BadUsage("--follow labels the weights by their step");
  return CheckEnds(args.ends);
}

std::string FollowedOutput(const Args& args, const ops::RunStep& step) {
  if (args.into) return args.ends.output;
  const std::string path = JoinPath(args.ends.output, step.name);
  return args.ends.to == kinds::kTorch.name ? path + ".pt" : path;
}

// The output must not look like a step of the run, and INPUT must be a run, not a checkpoint.
Status CheckFollowedPlaces(const Args& args) {
  NXDKIT_ASSIGN(const bool is_folder, IsFolder(args.ends.input));
  if (is_folder) {
    NXDKIT_ASSIGN(const std::vector<ops::RunStep> steps, ops::FindRunSteps(args.ends.input));
    if (steps.empty() && kinds::Recognise(args.ends.input, {}).ok())
      return BadUsage("it is a checkpoint itself: --follow takes the folder of a run")
          .in(args.ends.input);
  }
  NXDKIT_ASSIGN(const bool has_output, IsThere(args.ends.output));
  if (!is_folder || !has_output || args.into) return OkStatus();
  NXDKIT_ASSIGN(const std::string run, RealPath(args.ends.input));
  NXDKIT_ASSIGN(const std::string output, RealPath(args.ends.output));
  if (run == output || ParentPath(output) == run)
    return BadUsage("the output would be among the steps of the run").in(args.ends.output);
  return OkStatus();
}

// The work of --follow, told in three lines at its end.
class FollowLog {
 public:
  FollowLog(const Args& args, const ToolContext& context) : args_(args), context_(context) {}

  void AddExisting() { ++existing_; }

  void Add(const ops::RunStep& step, const ops::ConvertReport& report, const std::string& output,
           double seconds) {
    context_.Note(fmt::format("{} to {}, {} in {:.1f} s", step.name, output,
                              HumanBytes(report.output_bytes), seconds));
    bytes_ += report.output_bytes;
    seconds_ += seconds;
    last_ = step;
    steps_.push_back({{"step", step.number},
                      {"from", step.path},
                      {"to", output},
                      {"bytes", report.output_bytes}});
  }

  // `end`: why it has ended, a sentence.
  std::string Text(std::string_view end) const {
    std::string text =
        fmt::format("followed {} for {}: {} converted{}{}\n", EscapeControl(args_.ends.input),
                    HumanDuration(context_.seconds()), Counted(steps_.size(), "step"),
                    last_ ? ", the last is " + EscapeControl(last_->name) : "",
                    existing_ > 0 ? fmt::format("; {} existed", existing_) : "");
    if (last_)
      text += fmt::format("wrote {} to {}, {} on average\n", HumanBytes(bytes_),
                          EscapeControl(args_.ends.output), HumanRate(bytes_, seconds_));
    return text + std::string(end) + "\n";
  }

  // Why Follow has returned without an error.
  std::string EndText() const {
    if (args_.follow.until && last_ && last_->number >= *args_.follow.until)
      return fmt::format("ended: {} has come (--until {})", EscapeControl(last_->name),
                         *args_.follow.until);
    return fmt::format("ended: no step came for {} s (--idle)",
                       args_.follow.idle.value_or(kIdleSeconds));
  }

  const Json& steps() const { return steps_; }

 private:
  const Args& args_;
  const ToolContext& context_;
  Json steps_ = Json::array();
  size_t existing_ = 0;
  uint64_t bytes_ = 0;
  double seconds_ = 0;
  std::optional<ops::RunStep> last_;
};

// Converts a step; one whose output exists was converted before.
Status ConvertFollowed(const Args& args, const ops::RunStep& step, FollowLog& log,
                       ToolContext& context) {
  Ends ends = args.ends;
  ends.input = step.path;
  ends.output = FollowedOutput(args, step);
  NXDKIT_ASSIGN(const bool exists, IsThere(ends.output));
  if (exists && !args.into) {
    log.AddExisting();
    return OkStatus();
  }
  const Result<const kinds::Kind*> kind = FormatOf(ends, context, {});
  if (!kind.ok() && kind.error().code() == Errc::kUnsupported) {
    context.Warn(fmt::format("{} is skipped: {}", step.path, kind.error().message()));
    return OkStatus();
  }
  NXDKIT_ASSIGN(ops::ConvertRequest request, RequestOf(args, ends, context));
  if (args.into) request.place = ops::Slot{step.name};
  const Runner runner(context);
  request.run = runner.options();
  request.resume = !args.into;
  const Stopwatch watch;
  NXDKIT_ASSIGN(const ops::ConvertReport report, ops::Convert(request));
  context.Tell(report);
  log.Add(step, report, request.output, watch.Seconds());
  return OkStatus();
}

Result<ToolAnswer> RunFollow(const Args& args, ToolContext& context) {
  NXDKIT_TRY(CheckFollowedPlaces(args));
  NXDKIT_TRY(args.into ? OkStatus() : MakeFolders(args.ends.output));
  ops::FollowRequest request;
  request.run = args.ends.input;
  if (args.follow.until) request.until = *args.follow.until;
  request.idle = std::chrono::seconds(args.follow.idle.value_or(kIdleSeconds));
  request.settle = std::chrono::seconds(args.follow.settle.value_or(kSettleSeconds));
  request.newest_only = args.into;
  request.poll = context.poll();
  request.warn = [&](const std::string& text) { context.Warn(text); };
  FollowLog log(args, context);
  context.Note(fmt::format(
      "following {}: each complete step goes to {}; it ends after {} without one", args.ends.input,
      args.ends.output, HumanDuration(static_cast<double>(request.idle.count()))));
  const Result<ops::FollowReport> report = ops::Follow(
      request, [&](const ops::RunStep& step) { return ConvertFollowed(args, step, log, context); });
  if (!report.ok()) {
    // Slurm ends a job like this: its log should still say how far it came.
    std::string text = log.Text("ended by the error below");
    text.pop_back();  // the last line feed
    for (const std::string_view line : Split(text, '\n')) context.Note(line);
    return report.error();
  }
  if (!report->failed.empty())
    return Error(report->failed.front().second)
        .hint(fmt::format("{} of {} could not be converted, the first is {}",
                          Grouped(report->failed.size()),
                          Counted(report->failed.size() + report->made.size(), "step"),
                          report->failed.front().first.name));
  return ToolAnswer{
      .text = log.Text(log.EndText()), .fields = {{"steps", log.steps()}}, .brief = ""};
}

// An OUTPUT that holds a checkpoint of another format may be the INPUT of a user who swapped them.
Error AboutSwapped(const Error& error, const ops::ConvertRequest& request) {
  const bool deletes = error.hint().starts_with("--force");
  if (error.file() != request.output || !request.to || !(deletes || error.hint().empty()))
    return error;
  const Result<const kinds::Kind*> there = kinds::Recognise(request.output);
  if (!there.ok() || *there == request.to) return error;
  return Error(error.code(), error.message())  // its own hint, --force, says less
      .in(error.file())
      .hint(fmt::format("it is a checkpoint of format {}{}; INPUT comes before OUTPUT",
                        (*there)->name, deletes ? ", which --force would delete" : ""));
}

Result<ToolAnswer> Run(const Args& args, ToolContext& context) {
  NXDKIT_TRY(CheckFollow(args, context));
  if (args.follow.follow) return RunFollow(args, context);
  Ends ends = args.ends;
  ExplainArgs explain = args.explain;
  NXDKIT_TRY(SettleExplain(explain, ends.input, ends.output));
  NXDKIT_ASSIGN(ops::ConvertRequest request, RequestOf(args, ends, context));
  Result<ToolAnswer> answer = AnswerConvert(request, explain, {ReportText, ReportJson}, context);
  if (!answer.ok()) return AboutSwapped(answer.error(), request);
  return answer;
}

}  // namespace

constinit const Command kNxdConvert = MakeCommand<AddOptions, Run>(kInfo);

}  // namespace nxdkit::tool
