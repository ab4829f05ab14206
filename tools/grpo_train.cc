// grpo-train: the GRPO training loop, and the report of a run.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <string_view>
#include <thread>

#include "formats/hardware/resolve.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "lib/system/process.h"
#include "lib/system/signals.h"
#include "tools/cli/report.h"
#include "tools/cli/terminal.h"
#include "tools/cli/tool.h"
#include "tools/pictures/page_file.h"
#include "trainer/comm/mpi_transport.h"
#include "trainer/config/check.h"
#include "trainer/config/load.h"
#include "trainer/config/print.h"
#include "trainer/engines/make_engine.h"
#include "trainer/loop/attempt.h"
#include "trainer/loop/checkpoint.h"
#include "trainer/loop/init_from.h"
#include "trainer/loop/launch.h"
#include "trainer/loop/others_engine.h"
#include "trainer/loop/remote_workers.h"
#include "trainer/loop/run_folder.h"
#include "trainer/loop/setup.h"
#include "trainer/loop/trainer.h"
#include "trainer/report/bill_text.h"
#include "trainer/report/event_file.h"
#include "trainer/report/html.h"
#include "trainer/report/run_end.h"
#include "trainer/report/run_log.h"
#include "trainer/rollout/neuron_environment.h"
#include "trainer/rollout/worker.h"

namespace nxdkit::tool {
namespace {

constexpr std::string_view kWorkerWord = "--rollout-worker";  // for our own processes only

struct Args {
  std::optional<std::string> config;
  std::vector<std::string> words;
  bool print_config = false;
  std::optional<std::string> instance;
  std::optional<std::string> init_from;
  std::optional<std::string> out;
  std::optional<std::string> price;
};

const ToolInfo kInfo = {
    .name = "grpo-train",
    .summary = "trains a language model with GRPO, and reports on a run",
    .details =
        "grpo-train --config FILE [KEY=VALUE ...] trains, from the run's last checkpoint if it has "
        "one. Keys are EasyR1's, such as worker.actor.optim.lr=1e-6; values are YAML.\n"
        "grpo-train report RUN writes RUN/report.html, one page with the run's curves, samples and "
        "configuration; several runs are compared on one page, the FILE of --out.\n"
        "SIGINT and SIGTERM end the run after the current phase; the last complete step is saved. "
        "SIGUSR1 saves a checkpoint after the current step.",
    .findings =
        "gradients or filtering left nothing to learn from, or the run does not fit the "
        "instance",
    .lost = "another process of the run was lost; the same command continues",
    .common = kTakesDryRun | kTakesForce,
    .usages = {"grpo-train --config FILE [KEY=VALUE ...]", "grpo-train report RUN",
               "grpo-train report RUN RUN ... --out FILE"},
    .essentials = {"config", "init-from", "print-config", "dry-run", "instance"},
    .examples = {{"grpo-train --config config.yaml", "train"},
                 {"grpo-train --config config.yaml trainer.max_steps=50 data.seed=7",
                  "override values"},
                 {"grpo-train --config config.yaml --print-config", "show the configuration"},
                 {"grpo-train --config config.yaml --dry-run", "check everything without training"},
                 {"grpo-train --config config.yaml --init-from checkpoints/verl/run",
                  "continue from another trainer's run"},
                 {"grpo-train report checkpoints/easy_r1/demo", "write the report of a run"},
                 {"grpo-train report checkpoints/easy_r1/demo checkpoints/easy_r1/demo2 --out "
                  "compared.html",
                  "compare two runs"}},
};

void AddOptions(OptionTable& table, Args& args) {
  table.Group("Arguments");
  table.Positionals("WORD", &args.words, "KEY=VALUE of the configuration; or: report RUN ...");
  table.Group("Training");
  table.Text("config", "FILE", &args.config, "YAML configuration").completes(Completes::kPath);
  table
      .Text("init-from", "RUN", &args.init_from,
            "start with the weights, optimizer's state and configuration of a verl or EasyR1 run")
      .completes(Completes::kFolder);
  table.Flag("print-config", &args.print_config,
             "print the merged configuration with the source of each value");
  table.Text("instance", "NAME", &args.instance,
             "instance that the run must fit: trn1.32xlarge, auto or a neuron-ls file");
  table.Group("Report");
  table.Text("price-per-hour", "PRICE", &args.price,
             "price of a node for an hour, to print costs in training and report");
  table.Text("out", "FILE", &args.out, "page to write instead of RUN/report.html")
      .completes(Completes::kPath);
}

Result<std::optional<double>> PriceOf(const Args& args) {
  constexpr double kMost = 1e12;
  if (!args.price) return std::optional<double>();
  const std::optional<double> price = ParseNumber<double>(*args.price);
  if (price && *price >= 0 && *price <= kMost) return price;
  return BadUsage("--price-per-hour {}: expected a number from 0 to {}", *args.price, kMost);
}

constexpr std::string_view kReportName = "report.html";

// The page to write: of one run below it, of several as told.
Result<std::string> PagePath(const Args& args) {
  const size_t runs = args.words.size() - 1;
  if (runs == 0) return BadUsage("report takes the folder of a run, or of several to compare");
  if (runs > trainer::kMostReported)
    return BadUsage("report compares at most {} runs, and there are {}", trainer::kMostReported,
                    runs);
  if (args.out) return *args.out;
  if (runs == 1) return JoinPath(args.words[1], kReportName);
  return BadUsage("the report of several runs belongs to none of their folders")
      .hint("name the page with --out FILE");
}

// The report of a run may be replaced at any time; nothing else in its folder.
Status CheckReport(const Args& args, const ToolContext& context) {
  const std::vector<std::string> runs(args.words.begin() + 1, args.words.end());
  if (!args.out || (runs.size() == 1 && *args.out == JoinPath(runs[0], kReportName)))
    return OkStatus();
  return CheckPage(args.out, runs, context);
}

Result<ToolAnswer> Report(const Args& args, ToolContext& context) {
  NXDKIT_ASSIGN(const std::string path, PagePath(args));
  if (args.config || args.instance || args.print_config || context.common().dry_run)
    return BadUsage("report takes --out, --force and --price-per-hour; {} applies to training",
                    args.config         ? "--config"
                    : args.instance     ? "--instance"
                    : args.print_config ? "--print-config"
                                        : "--dry-run");
  NXDKIT_TRY(CheckReport(args, context));
  NXDKIT_ASSIGN(const std::optional<double> price, PriceOf(args));
  std::vector<trainer::ReportedRun> runs;
  Json list = Json::array();
  for (size_t i = 1; i < args.words.size(); ++i) {
    NXDKIT_ASSIGN(trainer::RunFiles files, trainer::ReadRunFiles(args.words[i]));
    const trainer::Bill bill = trainer::BillOf(files, price);
    list.push_back({{"run", args.words[i]}, {"bill", trainer::BillJson(bill)}});
    runs.push_back({std::move(files), bill});
  }
  std::string page = trainer::HtmlReport(runs);
  ToolAnswer answer;
  answer.fields = {{"report", path}, {"bytes", page.size()}};
  NXDKIT_TRY(AddPage(path, std::move(page), answer));
  if (runs.size() == 1)
    answer.fields["bill"] = list[0]["bill"];
  else
    answer.fields["runs"] = std::move(list);
  return answer;
}

// The path of this program, under any name.
Result<std::string> OwnPath() { return ReadLink("/proc/self/exe"); }

trainer::DisplayOptions DisplayFor(const trainer::Config& config, const trainer::BillTerms& terms,
                                   bool quiet) {
  const std::vector<std::string>& loggers = config.trainer.logger;
  trainer::DisplayOptions options;
  if (!quiet) options.write = WriteStderr;
  options.terminal = StderrIsTerminal();
  options.columns = static_cast<size_t>(StderrColumns());
  options.steps = std::ranges::find(loggers, "console") != loggers.end();
  options.terms = terms;
  options.terms.validates_first = false;  // the validation before the first step is over by then
  return options;
}

// Requests to save, by SIGUSR1. Slurm sends it to every process of a step, and the others forward
// it.
class SaveWishes {
 public:
  bool Take() {
    if (!TakeSaveRequest()) return false;
    taken_ = Clock::now();
    return true;
  }
  void TakeForeign(int signal) {
    if (signal == SIGUSR1 && Clock::now() - taken_.load() < kSameWish) return;
    TakeForeignSignal(signal);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kSameWish = std::chrono::seconds(2);  // beats are half a second apart
  std::atomic<Clock::time_point> taken_{Clock::now() - kSameWish};
};

using Tell = std::function<void(const std::string& line)>;

// A warning of the run goes into its log and into the answer.
Tell WarnHook(trainer::RunDisplay& display, ToolContext& context) {
  return [&](const std::string& line) {
    display.Line("warning: " + line);
    context.KeepWarning(line);
  };
}

trainer::TrainHooks HooksOf(trainer::RunDisplay& display, SaveWishes& wishes, const Tell& warn) {
  return {.poll = StopIfInterrupted,
          .save = [&] { return wishes.Take(); },
          .phase = [&](int64_t step, int64_t steps,
                       const std::string& phase) { display.BeginPhase(step, steps, phase); },
          .step = [&](int64_t step, int64_t steps,
                      const trainer::MetricRecord& record) { display.Step(step, steps, record); },
          .progress = [&](int64_t done, int64_t units) { display.Progress(done, units); },
          .note = [&](const std::string& line) { display.Line(line); },
          .warn = warn,
          .record = [&](const std::string& line) { display.Record(line); }};
}

Json MetricsJson(const trainer::MetricRecord& record) {
  Json json = Json::object();
  for (const auto& [name, value] : record) json[name] = value;
  return json;
}

// mpirun takes the exit code of the process that ends first, and ends the others. It should be the
// process that saw the cause; one that was only informed waits this long. srun takes the highest
// code.
constexpr auto kOriginHeadStart = std::chrono::seconds(10);

constexpr auto kReportTime = std::chrono::seconds(5);

// Not through MPI, which needs the failed network. `tell` gets some time: a terminal may be
// stopped, and a file system gone.
[[noreturn]] void LeaveAtOnce(const Error& error, bool own, const std::function<void()>& tell) {
  const bool by_srun = EnvironmentValue("OMPI_COMM_WORLD_SIZE").empty();
  const int code = !own && by_srun ? 0 : ExitCode(error.code());
  std::thread([code] {
    std::this_thread::sleep_for(kReportTime + kOriginHeadStart);
    ::_exit(code);
  }).detach();
  tell();
  if (!own && !by_srun) std::this_thread::sleep_for(kOriginHeadStart);
  ::_exit(code);
}

Result<trainer::LaunchOptions> LaunchOptionsOfTool() {
  trainer::LaunchOptions options;
  options.plugin = EnvironmentValue("NXDKIT_MPI_PLUGIN");
  if (options.plugin.empty()) {
    NXDKIT_ASSIGN(const std::string self, OwnPath());
    options.plugin = JoinPath(ParentPath(ParentPath(self)), "lib/nxdkit/nxdkit-mpi.so");
  }
  return options;
}

// Launches the leading process; `display` shows why it ends.
Result<trainer::Launch> LeadLaunch(const trainer::Config& config, const trainer::RunPlan& plan,
                                   trainer::RunDisplay& display, SaveWishes& wishes) {
  NXDKIT_ASSIGN(trainer::LaunchOptions options, LaunchOptionsOfTool());
  options.heartbeat.silence = std::chrono::seconds(config.trainer.peer_timeout);
  options.heartbeat.on_signal = [&wishes](int signal) { wishes.TakeForeign(signal); };
  options.heartbeat.on_lost = [&display](const Error& error, bool own) {
    LeaveAtOnce(error, own, [&] {
      const std::string line = fmt::format("{}: {}", kInfo.name, EscapeControl(error.ToString()));
      own ? display.Line(line) : display.Record(line);
    });
  };
  return trainer::Launch::Start(plan, options);
}

Result<trainer::TrainResult> TrainShown(const trainer::LoadedConfig& loaded,
                                        const trainer::RunPlan& plan, trainer::SetupOptions setup,
                                        trainer::RunDisplay& display, const Tell& warn) {
  const std::string& run = *loaded.config.trainer.save_checkpoint_path;
  NXDKIT_ASSIGN(FolderLock lock, trainer::LockRunFolder(run));
  NXDKIT_ASSIGN(trainer::RunLog log, trainer::RunLog::Open(run));
  display.LogTo(std::move(log));
  SaveWishes wishes;
  const trainer::TrainHooks hooks = HooksOf(display, wishes, warn);
  NXDKIT_ASSIGN(const std::string self, OwnPath());
  setup.worker_command = {self, std::string(kWorkerWord)};
  if (plan.worker_processes() || trainer::OthersEngine(loaded.config.worker.rollout))
    setup.worker_logs = trainer::WorkerLogPaths(run, plan.rollout_workers);
  NXDKIT_ASSIGN(trainer::Launch launch, LeadLaunch(loaded.config, plan, display, wishes));
  setup.transport = launch.transport();
  setup.leader = launch.leader();
  const trainer::SetupContext context{{loaded.config, plan, hooks}, loaded, setup};
  const auto train = [&]() -> Result<trainer::TrainResult> {
    NXDKIT_ASSIGN(trainer::RunParts parts, trainer::MakeParts(context));
    parts.record.lock.emplace(std::move(lock));
    // Only now, when nothing can be refused any more: it takes the run from an earlier attempt.
    NXDKIT_ASSIGN(trainer::Attempt attempt, trainer::Attempt::Claim(run));
    parts.record.attempt.emplace(std::move(attempt));
    return trainer::Train(context, std::move(parts), trainer::ConfigJson(loaded.config));
  };
  Result<trainer::TrainResult> result = train();
  if (!result.ok())
    launch.Fail(result.error());
  else
    NXDKIT_TRY(launch.End());
  return result;
}

bool StartsWorkers(const trainer::RunPlan& plan, const trainer::RolloutConfig& rollout) {
  return (plan.separate || trainer::OthersEngine(rollout)) && rollout.url.empty();
}

// The division of this machine's cores.
trainer::CoreSplit SplitHere(const trainer::RunPlan& plan, const trainer::RolloutConfig& rollout) {
  trainer::CoreSplit split = trainer::SplitOfMachine(plan, 0, StartsWorkers(plan, rollout));
  // Without separate cores for training, another program's engine gets all of them.
  if (trainer::OthersEngine(rollout) && !plan.separate) split.train_cores = 0;
  return split;
}

// The part of the environment that the workers get; without workers it stays as it is.
Result<trainer::RolloutEnvironment> TakeRolloutEnvironment(const trainer::RunPlan& plan,
                                                           const trainer::RolloutConfig& rollout,
                                                           const hardware::Instance* instance) {
  const bool workers = StartsWorkers(plan, rollout);
  const trainer::CoreSplit split = SplitHere(plan, rollout);
  const int64_t there = instance ? instance->cores : 0;
  if (workers) return trainer::DivideNeuronVariables(trainer::TakeNeuronVariables(), split, there);
  NXDKIT_ASSIGN(const trainer::GivenCores given, trainer::GivenCoresOfProcess());
  NXDKIT_TRY(trainer::CoresOfRun(given, split, there));
  return trainer::RolloutEnvironment{};
}

trainer::Bill BillNow(const trainer::RunFiles& files, const trainer::BillTerms& terms,
                      trainer::BillProgress progress) {
  progress.clock = files.clock;
  return trainer::MakeBill(terms, progress, files.metrics);
}

std::string TensorboardOf(const trainer::TrainerConfig& trainer) {
  if (std::ranges::find(trainer.logger, "tensorboard") == trainer.logger.end()) return "";
  return trainer::TensorboardFolder(trainer.tensorboard_dir.value_or(""), trainer.project_name,
                                    trainer.experiment_name);
}

// Where a run that has ended left what it made.
trainer::RunEnd EndOf(const trainer::TrainerConfig& trainer, int64_t step,
                      const trainer::RunFiles& files) {
  trainer::RunEnd end{.run = *trainer.save_checkpoint_path,
                      .checkpoint = trainer::CheckpointFolder(*trainer.save_checkpoint_path, step),
                      .tensorboard = TensorboardOf(trainer),
                      .best = trainer::BestValidation(files.metrics)};
  if (KindForHint(end.checkpoint) != PathKind::kFolder) end.checkpoint.clear();
  return end;
}

Result<ToolAnswer> Train(const trainer::LoadedConfig& loaded, const trainer::RunPlan& plan,
                         trainer::SetupOptions setup, const Args& args,
                         const trainer::BillTerms& terms,
                         const std::vector<std::string>& first_lines, ToolContext& context) {
  InstallSaveSignal();
  if (trainer::LaunchedProcesses() > 1 || !EnvironmentValue("SLURM_JOB_ID").empty())
    OutliveTermSignals();
  trainer::RunDisplay display(DisplayFor(loaded.config, terms, context.common().quiet));
  display.Record(fmt::format("{} {}{}{}: --config {} {}", kInfo.name, ToolVersion(),
                             trainer::kAttemptBegins, ::getpid(), args.config.value_or("none"),
                             fmt::join(args.words, " ")));
  for (const std::string& warning : context.said().warnings) display.Record("warning: " + warning);
  for (const std::string& line : first_lines) display.Line(line);
  display.Line(trainer::RunPlanText(plan));
  const auto trained =
      TrainShown(loaded, plan, std::move(setup), display, WarnHook(display, context));
  display.Close();
  if (!trained.ok()) {
    const Error& error = trained.error();
    display.Record("error: " + error.ToString());
    if (!error.hint().empty()) display.Record("hint: " + error.hint());
    return error;
  }
  ToolAnswer answer;
  const std::string& run = *loaded.config.trainer.save_checkpoint_path;
  const trainer::RunFiles files = trainer::ReadRunTimes(run);
  const trainer::Bill bill =
      BillNow(files, terms, {.done = trained->last_step, .all = trained->last_step, .ended = true});
  answer.text = trainer::RunEndText(EndOf(loaded.config.trainer, trained->last_step, files), bill);
  answer.fields = {{"run", run},
                   {"first_step", trained->first_step},
                   {"last_step", trained->last_step},
                   {"metrics", MetricsJson(trained->last)},
                   {"bill", trainer::BillJson(bill)}};
  display.Record(answer.text);
  return answer;
}

// Refuses early a run that could not write its results hours later.
Status CheckPlaces(const trainer::Config& config) {
  const trainer::TrainerConfig& trainer = config.trainer;
  NXDKIT_TRY(trainer::CheckFolderWritable(*trainer.save_checkpoint_path));
  const std::string tensorboard = TensorboardOf(trainer);
  return tensorboard.empty() ? OkStatus() : trainer::CheckFolderWritable(tensorboard);
}

// A rollout worker: its messages go to standard error, which is a file of the run.
int Work() {
  IgnoreSaveSignal();
  std::signal(SIGPIPE, SIG_IGN);  // when the trainer is gone, the engine still ends in order
  std::signal(SIGXFSZ, SIG_IGN);  // a log that reaches `ulimit -f` does not end the worker
  WriteStderr(fmt::format("{} rollout worker begins, process {}\n",
                          trainer::TimeText(trainer::SecondsNow()), ::getpid()));
  const Status status = trainer::RunRolloutWorker(STDIN_FILENO, STDOUT_FILENO, trainer::MakeEngine);
  if (status.ok()) return 0;
  WriteStderr(fmt::format("{} {}\n", trainer::TimeText(trainer::SecondsNow()),
                          EscapeControl(status.error().ToString())));
  return 1;
}

// Sets the machine's number of cores, unless trainer.cores is given. EasyR1's key, which counts
// GPUs, is ignored with a warning.
void SetCores(int64_t cores, const std::string& from, trainer::LoadedConfig& loaded,
              ToolContext& context) {
  constexpr const char* kGpus = "trainer.n_gpus_per_node";
  const int64_t gpus = loaded.config.trainer.n_gpus_per_node;
  if (loaded.SourceOf(kGpus).kind != trainer::SourceKind::kDefault && gpus != cores)
    context.Warn(fmt::format("{} cores, by {}: {}={} ({}) is not used; trainer.cores would be",
                             cores, from, kGpus, gpus, loaded.PlaceOf(kGpus)));
  loaded.SetCores(cores, from);
}

// The cores assigned to this process, else all of the instance.
Status TakeCores(const hardware::Instance* instance, trainer::LoadedConfig& loaded,
                 ToolContext& context) {
  if (loaded.config.trainer.cores) return OkStatus();
  NXDKIT_ASSIGN(const trainer::GivenCores given, trainer::GivenCoresOfProcess());
  if (given.any()) {
    SetCores(given.size(), given.text, loaded, context);
  } else if (instance) {
    SetCores(instance->cores, fmt::format("--instance {}", instance->name), loaded, context);
  }
  return OkStatus();
}

Result<std::optional<hardware::ResolvedInstance>> AskedInstance(const Args& args,
                                                                ToolContext& context) {
  std::optional<hardware::ResolvedInstance> found;
  if (!args.instance) return found;
  NXDKIT_TRY(
      hardware::ResolveInstance(*args.instance, hardware::SourcesOfProcess(StopIfInterrupted))
          .To(found));
  for (const std::string& note : found->notes) context.Note("--instance: " + note);
  return found;
}

// Warns where this machine is not the one that the run is meant for.
Status WarnOfMachine(const Args& args, const std::optional<hardware::ResolvedInstance>& resolved,
                     const trainer::RunPlan& plan, const trainer::RolloutConfig& rollout,
                     ToolContext& context) {
  NXDKIT_ASSIGN(const trainer::GivenCores given, trainer::GivenCoresOfProcess());
  const bool starts_engine = trainer::OthersEngine(rollout) && rollout.url.empty();
  if (!resolved && !given.any() && !starts_engine) return OkStatus();  // the run uses no devices
  const bool asked_here = args.instance == hardware::kAuto;
  std::optional<hardware::Machine> machine;
  if (asked_here)
    machine = resolved->machine;
  else
    NXDKIT_TRY(hardware::MachineHere(hardware::SourcesOfProcess(StopIfInterrupted)).To(machine));
  if (!machine) return OkStatus();
  const hardware::DeviceRun run{.asked = resolved && !asked_here ? &resolved->instance : nullptr,
                                .cores = SplitHere(plan, rollout).all()};
  for (const std::string& text : hardware::Disagreements(*machine, run)) context.Warn(text);
  return OkStatus();
}

Result<ToolAnswer> Run(const Args& args, ToolContext& context) {
  if (!args.words.empty() && args.words[0] == "report") return Report(args, context);
  if (args.out || (context.common().force))
    return BadUsage("{} applies to the page that `grpo-train report` writes",
                    args.out ? "--out" : "--force");
  NXDKIT_ASSIGN(const std::optional<double> price, PriceOf(args));
  NXDKIT_ASSIGN(const std::optional<hardware::ResolvedInstance> resolved,
                AskedInstance(args, context));
  const hardware::Instance* const instance = resolved ? &resolved->instance : nullptr;
  std::optional<trainer::InitFrom> init;
  if (args.init_from) NXDKIT_TRY(trainer::ReadInitFrom(*args.init_from).in("--init-from").To(init));
  NXDKIT_ASSIGN(
      trainer::LoadedConfig loaded,
      trainer::LoadConfig(args.config.value_or(""), args.words, init ? &init->inherited : nullptr));
  if (init) NXDKIT_TRY(trainer::KeepOrigin(loaded, init->lines));
  for (const std::string& note : loaded.notes) context.Warn(note);
  NXDKIT_TRY(TakeCores(instance, loaded, context));
  if (args.print_config) {
    std::string text;
    if (init)
      for (const std::string& line : init->lines) text += "# " + line + "\n";
    text += trainer::PrintConfig(loaded);
    return ToolAnswer{text, {{"config", text}}};
  }
  if (!args.config && args.words.empty() && !init)
    return BadUsage("no configuration").hint("name one with --config FILE");
  NXDKIT_TRY(trainer::CheckLauncher());
  const trainer::ConfigCheck check = trainer::CheckConfig(loaded);
  NXDKIT_TRY(check.status());
  for (const std::string& note : check.notes) context.Warn(note);
  NXDKIT_TRY(WarnOfMachine(args, resolved, check.plan, loaded.config.worker.rollout, context));
  trainer::UseHubCache(loaded.config);
  NXDKIT_TRY(CheckPlaces(loaded.config));
  trainer::SetupOptions setup;
  setup.instance = instance;
  setup.on_choice = [&context](const Choice& choice) { context.Record(choice); };
  NXDKIT_ASSIGN(setup.rollout_environment,
                TakeRolloutEnvironment(check.plan, loaded.config.worker.rollout, instance));
  const trainer::BillTerms terms = trainer::TermsOf(loaded.config, check.plan, price);
  const std::vector<std::string> first = init ? init->lines : std::vector<std::string>();
  if (!context.common().dry_run)
    return Train(loaded, check.plan, std::move(setup), args, terms, first, context);
  trainer::RunDisplay display(DisplayFor(loaded.config, terms, context.common().quiet));
  for (const std::string& line : first) display.Line(line);
  trainer::TrainHooks hooks;
  hooks.poll = StopIfInterrupted;
  hooks.note = [&](const std::string& line) { display.Line(line); };
  hooks.warn = WarnHook(display, context);
  NXDKIT_ASSIGN(const trainer::CheckedRun checked,
                trainer::CheckParts({{loaded.config, check.plan, hooks}, loaded, setup}));
  const std::string& run = *loaded.config.trainer.save_checkpoint_path;
  const trainer::Bill bill =
      BillNow(trainer::ReadRunTimes(run), terms, {checked.done, checked.training_steps});
  return ToolAnswer{
      trainer::RunPlanText(check.plan) + "\n" + trainer::BillSoFarText(bill) +
          trainer::BillLeftText(bill),
      {{"run", run}, {"config", trainer::PrintConfig(loaded)}, {"bill", trainer::BillJson(bill)}}};
}

void TellAsFollower(const Error& error) {
  const std::string text = EscapeControl(error.ToString());
  const std::string who = fmt::format("process {}: ", trainer::LaunchedProcess());
  WriteStderr(fmt::format("{}: {}{}\n", kInfo.name, text.starts_with(who) ? "" : who, text));
}

// The signal that this process got since the last call. Process 0 acts on it: it saves, and reports
// when everything has ended.
int TakeSignal() {
  if (TakeSaveRequest()) return SIGUSR1;
  const std::optional<int> signal = Interrupted();
  if (!signal) return 0;
  std::signal(SIGINT, SIG_IGN);  // a second one would end it while process 0 saves
  ClearInterrupted();
  return *signal;
}

Status FollowFirst() {
  trainer::FollowOptions options;
  options.neuron_variables = trainer::TakeNeuronVariables();
  NXDKIT_ASSIGN(options.launch, LaunchOptionsOfTool());
  NXDKIT_ASSIGN(const std::string self, OwnPath());
  options.worker_command = {self, std::string(kWorkerWord)};
  options.launch.heartbeat.take_signal = TakeSignal;
  options.launch.heartbeat.on_lost = [](const Error& error, bool own) {
    LeaveAtOnce(error, own, [&] {
      if (own) TellAsFollower(error);
    });
  };
  return trainer::FollowLaunch(options);
}

// The first process of a launcher's runs the command; the others hold their ranks of the models.
// The first one alone does the work that needs no models.
int FollowOther(int argc, char** argv) {
  Args args;
  const std::optional<CommonArgs> common =
      ParseTool(argc, argv, kInfo, [&](OptionTable& table) { AddOptions(table, args); });
  const bool report = !args.words.empty() && args.words[0] == "report";
  if (!common || common->dry_run || args.print_config || report) return 0;
  PrepareSignals(kInfo, false);
  OutliveTermSignals();
  InstallSaveSignal();
  const Status status = FollowFirst();
  if (status.ok()) return 0;
  LeaveAtOnce(status.error(), true, [&] { TellAsFollower(status.error()); });
}

constinit const Command kGrpoTrain = MakeCommand<AddOptions, Run>(kInfo);

}  // namespace
}  // namespace nxdkit::tool

int main(int argc, char** argv) {
  if (argc == 2 && argv[1] == nxdkit::tool::kWorkerWord) return nxdkit::tool::Work();
  if (nxdkit::trainer::LaunchedProcesses() > 1 && nxdkit::trainer::LaunchedProcess() > 0)
    return nxdkit::tool::FollowOther(argc, argv);
  return RunTool(argc, argv, nxdkit::tool::kGrpoTrain);
}
