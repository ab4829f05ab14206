// grpo-train: the GRPO training loop, and the report of a run.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <string_view>

#include "lib/file.h"
#include "lib/signals.h"
#include "tools/common/tool.h"
#include "trainer/config/check.h"
#include "trainer/config/load.h"
#include "trainer/config/print.h"
#include "trainer/loop/setup.h"
#include "trainer/loop/trainer.h"
#include "trainer/report/console.h"
#include "trainer/report/html.h"
#include "trainer/rollout/neuron_environment.h"
#include "trainer/rollout/worker.h"

namespace nxdkit::tool {
namespace {

constexpr std::string_view kWorkerWord = "--rollout-worker";  // for our own processes only

struct Args {
  std::optional<std::string> config;
  std::vector<std::string> words;
  bool print_config = false;
  std::optional<std::string> out;
};

const ToolInfo kInfo = {
    .name = "grpo-train",
    .summary = "trains a language model with GRPO, and reports on a run",
    .details =
        "grpo-train --config FILE [KEY=VALUE ...] trains; it goes on from the run's last "
        "checkpoint, if there is one. Keys are those of EasyR1, with dots: "
        "worker.actor.optim.lr=1e-6. Values are YAML.\n"
        "grpo-train report RUN writes RUN/report.html: curves of the run, samples and its "
        "configuration on one page.\n"
        "SIGINT and SIGTERM end the run after the phase under way; the last whole step is saved. "
        "SIGUSR1 saves a checkpoint after the step under way, and the run goes on.",
    .findings = "the run was given up: gradients or filtering left nothing to learn from",
    .common = kTakesDryRun | kTakesForce,
    .examples = {{"grpo-train --config config.yaml", "train"},
                 {"grpo-train --config config.yaml trainer.max_steps=50 data.seed=7",
                  "with other values"},
                 {"grpo-train --config config.yaml --print-config", "what would be used"},
                 {"grpo-train --config config.yaml --dry-run", "check everything, train nothing"},
                 {"grpo-train report checkpoints/easy_r1/demo", "write the report"}},
};

void AddOptions(OptionTable& table, Args& args) {
  table.Group("Arguments");
  table.Positionals("WORD", &args.words, "KEY=VALUE; or: report RUN").completes = Completes::kPath;
  table.Group("Training");
  table.Text("config", "FILE", &args.config, "the configuration, YAML").completes =
      Completes::kPath;
  table.Flag("print-config", &args.print_config,
             "print the merged configuration with where each value came from, and end");
  table.Group("Report");
  table.Text("out", "FILE", &args.out, "where to write the page (RUN/report.html)").completes =
      Completes::kPath;
}

Result<ToolAnswer> Report(const Args& args, ToolContext& context) {
  if (args.words.size() != 2)
    return Error(Errc::kUsage, "report takes one argument: the folder of a run");
  const std::string path = args.out.value_or(JoinPath(args.words[1], "report.html"));
  NXDKIT_ASSIGN(const std::string page, trainer::WriteHtmlReport(args.words[1]));
  if (args.out && KindOf(path) != PathKind::kMissing && !context.common().force)
    return Error(Errc::kUsage, "it exists already").in(path).hint("--force replaces it");
  NXDKIT_TRY(WriteFileAtomic(path, page));
  ToolAnswer answer;
  answer.text = fmt::format("wrote {}\n", path);
  answer.fields = {{"report", path}, {"bytes", page.size()}};
  return answer;
}

// This program, whatever name it was called by.
Result<std::string> OwnPath() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return Error(Errc::kIo, "cannot find this program: " + error.message());
  return path.string();
}

// Phases and steps on the console.
class Display {
 public:
  explicit Display(ToolContext& context) : context_(context) {}

  trainer::TrainHooks Hooks() {
    return {.poll = StopIfInterrupted,
            .save = TakeSaveRequest,
            .phase = [this](int64_t step, int64_t steps,
                            const std::string& phase) { BeginPhase(step, steps, phase); },
            .step = [this](int64_t step, int64_t steps,
                           const trainer::MetricRecord& record) { Step(step, steps, record); },
            .note = [this](const std::string& line) { Line(line); }};
  }
  void Line(const std::string& line) {
    if (context_.common().quiet) return;
    if (console_)
      console_->Line(line);
    else
      Write(line + "\n");
  }
  void Close() { console_.reset(); }

 private:
  static void Write(std::string_view text) {
    // Progress is not the answer: what stderr does not take is lost.
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  }
  trainer::Console& Console(int64_t step, int64_t steps) {
    if (console_) return *console_;
    trainer::ConsoleOptions options;
    if (!context_.common().quiet) options.write = Write;
    options.terminal = ::isatty(STDERR_FILENO) == 1;
    options.total_steps = steps;
    options.first_step = step > 0 ? step - 1 : 0;
    return console_.emplace(std::move(options));
  }
  void BeginPhase(int64_t step, int64_t steps, const std::string& phase) {
    Console(step, steps).BeginPhase(step, phase, 0);
  }
  void Step(int64_t step, int64_t steps, const trainer::MetricRecord& record) {
    trainer::Console& console = Console(step, steps);
    console.EndPhase();
    const bool trained = std::ranges::any_of(
        record, [](const auto& entry) { return entry.first == "timing_s/step"; });
    if (trained) console.StepDone(step, record);
    const bool validated = std::ranges::any_of(
        record, [](const auto& entry) { return entry.first == "val/reward_score"; });
    if (validated) console.Validation(step, record);
  }

  ToolContext& context_;
  std::optional<trainer::Console> console_;
};

Json MetricsJson(const trainer::MetricRecord& record) {
  Json json = Json::object();
  for (const auto& [name, value] : record) json[name] = value;
  return json;
}

Result<ToolAnswer> Train(const trainer::LoadedConfig& loaded, const trainer::RunPlan& plan,
                         ToolContext& context) {
  InstallSaveSignal();
  trainer::SetupOptions setup;
  if (plan.separate) {
    const trainer::CoreSplit split{.train_cores = plan.train_cores,
                                   .workers = plan.rollout_workers,
                                   .cores_per_worker = plan.rollout_tp};
    NXDKIT_ASSIGN(setup.rollout_environment,
                  trainer::DivideNeuronVariables(trainer::TakeNeuronVariables(), split));
  }
  Display display(context);
  NXDKIT_ASSIGN(const std::string self, OwnPath());
  setup.worker_command = {self, std::string(kWorkerWord)};
  setup.poll = StopIfInterrupted;
  setup.note = [&](const std::string& line) { display.Line(line); };
  display.Line(trainer::RunPlanText(plan));
  NXDKIT_ASSIGN(trainer::RunParts parts, trainer::MakeParts(loaded, plan, setup));
  const trainer::TrainHooks hooks = display.Hooks();
  auto trained = trainer::Train(loaded.config, plan, std::move(parts),
                                trainer::ConfigJson(loaded.config), hooks);
  display.Close();
  if (!trained.ok()) return std::move(trained).error();
  ToolAnswer answer;
  const std::string& run = *loaded.config.trainer.save_checkpoint_path;
  answer.text = fmt::format("{} steps done, in {}\n", trained->last_step, run);
  answer.fields = {{"run", run},
                   {"first_step", trained->first_step},
                   {"last_step", trained->last_step},
                   {"metrics", MetricsJson(trained->last)}};
  return answer;
}

Result<ToolAnswer> Run(const Args& args, ToolContext& context) {
  if (!args.words.empty() && args.words[0] == "report") return Report(args, context);
  NXDKIT_ASSIGN(const trainer::LoadedConfig loaded,
                trainer::LoadConfig(args.config.value_or(""), args.words));
  ToolAnswer answer;
  if (args.print_config) {
    answer.text = trainer::PrintConfig(loaded);
    answer.fields = {{"config", answer.text}};
    return answer;
  }
  if (!args.config && args.words.empty())
    return Error(Errc::kUsage, "no configuration").hint("name one with --config FILE");
  const trainer::ConfigCheck check = trainer::CheckConfig(loaded);
  NXDKIT_TRY(check.status());
  for (const std::string& note : check.notes) context.Warn(note);
  if (!context.common().dry_run) return Train(loaded, check.plan, context);
  trainer::SetupOptions setup;
  setup.poll = StopIfInterrupted;
  setup.note = [&](const std::string& line) { Display(context).Line(line); };
  NXDKIT_TRY(trainer::CheckParts(loaded, check.plan, setup));
  answer.text = trainer::RunPlanText(check.plan) + "\n";
  answer.fields = {{"run", *loaded.config.trainer.save_checkpoint_path},
                   {"config", trainer::PrintConfig(loaded)}};
  return answer;
}

}  // namespace
}  // namespace nxdkit::tool

int main(int argc, char** argv) {
  if (argc == 2 && argv[1] == nxdkit::tool::kWorkerWord) {
    nxdkit::IgnoreSaveSignal();
    return nxdkit::trainer::RunRolloutWorker(0, 1).ok() ? 0 : 1;
  }
  return nxdkit::tool::RunTool<nxdkit::tool::Args>(argc, argv, nxdkit::tool::kInfo,
                                                   nxdkit::tool::AddOptions, nxdkit::tool::Run);
}
