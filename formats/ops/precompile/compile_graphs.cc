#include "formats/ops/precompile/compile_graphs.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <list>
#include <memory>
#include <thread>
#include <utility>

#include "formats/compile_cache/compile_result.h"
#include "formats/ops/precompile/compiler_run.h"
#include "formats/ops/precompile/room.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"
#include "lib/system/system.h"

namespace nxdkit::ops {
namespace {

constexpr auto kStep = std::chrono::milliseconds(50);
constexpr double kAskAgainSeconds = 0.5;  // for another process to finish
constexpr double kTellSeconds = 300;
constexpr uint64_t kLeastWork = 100'000;  // for the smallest graphs, in bytes: the compiler's start

struct Task {
  neff::Graph graph;
  std::string failure_stamp;                // of a failure that existed when we began
  std::unique_ptr<neff::CompileHold> hold;  // until it is done
  int retries = 0;                          // left
  bool was_alone = false;                   // nothing ran during its last try, on purpose
  CompileItem item;
};

struct RunningTask {
  Task task;
  CompilerRun run;
  uint64_t memory = 0;
  bool alone = false;
};

std::string FailurePath(const neff::Graph& graph) {
  return JoinPath(graph.path, neff::kFailureFile);
}

double WorkOf(const neff::Graph& graph) {
  return static_cast<double>(std::max(graph.bytes, kLeastWork));
}

class Compilation {
 public:
  Compilation(const CompilePlan& plan, const GraphCompiler& compiler, const CompileOptions& options)
      : tree_(plan.tree),
        compiler_(compiler),
        options_(options),
        moment_(neff::MomentOf(plan.tree.root)),
        room_(options.jobs, options.memory) {}

  Result<CompileReport> Run(const std::vector<neff::Graph>& graphs) {
    progress_.total = graphs.size();
    for (const neff::Graph& graph : graphs) {
      Task task;
      task.graph = graph;
      task.retries = options_.retries;
      task.item.entry = graph.name;
      NXDKIT_TRY(FileStamp(FailurePath(graph)).To(task.failure_stamp));
      queue_.push_back(std::move(task));
    }
    while (!queue_.empty() || !alone_.empty() || !waiting_.empty() || !running_.empty()) {
      if (options_.poll) NXDKIT_TRY(options_.poll());
      if (stopped_ && running_.empty()) return *stopped_;
      if (!stopped_) NXDKIT_TRY(StartWhatFits());
      if (!stopped_) AskAgain();
      NXDKIT_TRY(TakeEnded());
      TellNowAndThen();
    }
    if (stopped_) return *stopped_;
    std::ranges::sort(report_.items, {}, &CompileItem::entry);
    report_.seconds = watch_.Seconds();
    return std::move(report_);
  }

 private:
  uint64_t MemoryOf(const neff::Graph& graph) const {
    return options_.memory_per_job.value_or(LikelyCompilerMemory(graph.bytes));
  }

  // Starts the largest that fits, or, if nothing runs, one that has to run alone.
  Status StartWhatFits() {
    const bool one_is_alone = !running_.empty() && running_.front().alone;
    for (auto it = queue_.begin(); it != queue_.end() && !one_is_alone && !stopped_;) {
      if (!room_.Fits(MemoryOf(it->graph))) {
        ++it;
        continue;
      }
      Task task = std::move(*it);
      it = queue_.erase(it);
      NXDKIT_TRY(Begin(std::move(task), false));
    }
    if (queue_.empty() && running_.empty() && !alone_.empty()) {
      Task task = std::move(alone_.front());
      alone_.pop_front();
      return Begin(std::move(task), true);
    }
    return OkStatus();
  }

  Status Begin(Task task, bool alone) {
    if (!task.hold && !Hold(task)) return OkStatus();
    const uint64_t memory = MemoryOf(task.graph);
    Result<CompilerRun> run =
        CompilerRun::Start(compiler_, task.graph, options_.target, options_.work_folder);
    if (!run.ok()) {  // no other one could be started either
      if (!stopped_) stopped_ = run.error();
      return OkStatus();
    }
    task.was_alone = alone;
    ++task.item.tries;
    room_.Take(memory);
    running_.push_back({std::move(task), *std::move(run), memory, alone});
    return OkStatus();
  }

  // Takes the locks of the entry, and checks whether another process was faster. False: the task is
  // not to be run. Errors in the entry are reported for it alone.
  bool Hold(Task& task) {
    const Result<bool> held = TryToHold(task);
    if (held.ok()) return *held;
    task.item.message = held.error().ToString();
    End(std::move(task), "failed");
    return false;
  }

  Result<bool> TryToHold(Task& task) {
    NXDKIT_ASSIGN(const bool there, IsFolder(task.graph.path));
    if (!there) return NotFound("the entry was removed meanwhile").in(task.graph.path);
    NXDKIT_ASSIGN(std::optional<neff::CompileHold> hold,
                  neff::CompileHold::Try(tree_, task.graph, moment_));
    if (hold) {
      task.hold = std::make_unique<neff::CompileHold>(*std::move(hold));
    } else {
      waiting_.push_back({std::move(task), Stopwatch()});
      says_waiting_ = true;
      return false;
    }
    NXDKIT_ASSIGN(const neff::CacheEntry entry, neff::ReadEntryOf(tree_, task.graph.name, moment_));
    NXDKIT_ASSIGN(const std::optional<neff::Graph> graph, neff::GraphOfEntry(tree_, entry));
    if (graph && graph->has_result) {
      End(std::move(task), "elsewhere");
      return false;
    }
    NXDKIT_ASSIGN(const std::string stamp, FileStamp(FailurePath(task.graph)));
    if (stamp == task.failure_stamp || stamp == "-") {
      // A truncated graph is reported here, and not by the compiler an hour later, or never.
      NXDKIT_TRY(neff::CheckGraph(task.graph));
      return true;
    }
    task.item.log = FailurePath(task.graph);
    task.item.message = "another process tried meanwhile: " + TellingLineOf(task.item.log);
    End(std::move(task), "failed");
    return false;
  }

  // Looks again at the entries that other processes compile.
  void AskAgain() {
    const bool idle = queue_.empty() && alone_.empty();
    if (waiting_.empty() || asked_.Seconds() < kAskAgainSeconds || !(idle || running_.empty()))
      return;
    asked_ = Stopwatch();
    for (size_t left = waiting_.size(); left > 0; --left) {
      Waiting waiting = std::move(waiting_.front());
      waiting_.pop_front();
      const Stopwatch since = waiting.since;
      const bool said = std::exchange(says_waiting_, false);
      if (Hold(waiting.task)) {
        queue_.push_back(std::move(waiting.task));
      } else if (!waiting_.empty() && waiting_.back().task.item.entry == waiting.entry) {
        waiting_.back().since = since;
        if (options_.most_seconds > 0 && since.Seconds() > options_.most_seconds) GiveUpWaiting();
      }
      says_waiting_ = said;
    }
  }

  void GiveUpWaiting() {
    Task task = std::move(waiting_.back().task);
    waiting_.pop_back();
    task.item.message =
        "another process has been working on it for longer than one is allowed to run";
    End(std::move(task), "locked");
  }

  Status TakeEnded() {
    if (running_.empty()) {
      if (!waiting_.empty()) std::this_thread::sleep_for(kStep);
      return OkStatus();
    }
    running_.front().run.WaitForEnd(kStep);
    for (auto it = running_.begin(); it != running_.end();) {
      const bool too_long = options_.most_seconds > 0 && it->run.seconds() > options_.most_seconds;
      if (too_long) it->run.EndNow();
      if (!too_long && !it->run.WaitForEnd(std::chrono::milliseconds(0))) {
        ++it;
        continue;
      }
      RunningTask ended = std::move(*it);
      it = running_.erase(it);
      room_.GiveBack(ended.memory);
      NXDKIT_TRY(TakeOutcome(std::move(ended)));
    }
    return OkStatus();
  }

  Status TakeOutcome(RunningTask ended) {
    Result<CompilerOutcome> finished = ended.run.Finish();
    if (!finished.ok() && finished.error().code() == Errc::kInterrupted) return finished.error();
    if (!finished.ok()) {  // its work folder cannot be read; the others may finish
      if (!stopped_) stopped_ = finished.error();
      return OkStatus();
    }
    const CompilerOutcome outcome = *std::move(finished);
    // It was interrupted with us, and has not failed.
    if (options_.poll) NXDKIT_TRY(options_.poll());
    Task& task = ended.task;
    task.item.seconds += outcome.seconds;
    if (outcome.end == CompilerEnd::kDone) {
      Publish(std::move(task), ended.run, outcome);
      return OkStatus();
    }
    task.item.message = outcome.message;
    if (GoesOn(task, outcome.end)) return OkStatus();
    const bool remembered =
        outcome.end == CompilerEnd::kGaveUp || outcome.end == CompilerEnd::kExit70;
    Result<std::string> log = neff::KeepFailure(tree_, task.graph, outcome.log, remembered);
    if (log.ok()) task.item.log = *std::move(log);
    if (!log.ok()) StopIfFull(log.error());
    End(std::move(task), OutcomeName(outcome.end));
    return OkStatus();
  }

  void Publish(Task task, CompilerRun& run, const CompilerOutcome& outcome) {
    const Status published = neff::PublishResult(tree_, task.graph, run.neff(), outcome.log,
                                                 {compiler_.version, outcome.seconds});
    if (!published.ok()) {
      StopIfFull(published.error());
      run.KeepResult();  // perhaps hours of work
      task.item.message =
          fmt::format("{}; the result is kept, {}", published.error().ToString(), run.neff());
      return End(std::move(task), "not written");
    }
    compiled_work_ += WorkOf(task.graph);
    compiled_seconds_ += outcome.seconds;
    task.item.message.clear();  // from an earlier try
    End(std::move(task), "compiled");
  }

  // A cache that cannot be written takes no other result either.
  void StopIfFull(const Error& error) {
    constexpr std::string_view kSigns[] = {"No space left", "quota exceeded", "Read-only"};
    const bool full = std::ranges::any_of(kSigns, [&](std::string_view sign) {
      return error.message().find(sign) != std::string::npos;
    });
    if (full && !stopped_) stopped_ = error;
  }

  // Whether the task is tried again.
  bool GoesOn(Task& task, CompilerEnd end) {
    const bool by_chance = IsByChance(end);
    if (by_chance && !task.was_alone) {
      alone_.push_back(std::move(task));
      return true;
    }
    if (task.retries == 0 || end == CompilerEnd::kTimedOut) return false;
    --task.retries;
    (by_chance ? alone_ : queue_).push_back(std::move(task));
    return true;
  }

  static const char* OutcomeName(CompilerEnd end) {
    if (end == CompilerEnd::kKilled) return "killed";
    if (end == CompilerEnd::kTimedOut) return "too long";
    if (end == CompilerEnd::kCannotRun) return "cannot run";
    return end == CompilerEnd::kDiskIsFull ? "disk full" : "failed";
  }

  void End(Task task, const char* outcome) {
    task.item.outcome = outcome;
    const std::string_view name = outcome;
    ++(name == "compiled"    ? progress_.compiled
       : name == "elsewhere" ? progress_.elsewhere
                             : progress_.failed);
    task.hold.reset();
    report_.items.push_back(std::move(task.item));
    Tell(&report_.items.back());
  }

  void TellNowAndThen() {
    const bool waits = std::exchange(says_waiting_, false);
    if (waits || told_.Seconds() >= kTellSeconds) Tell(nullptr);
  }

  void Tell(const CompileItem* item) {
    told_ = Stopwatch();
    if (!options_.tell) return;
    progress_.running = running_.size();
    progress_.longest_seconds = 0;
    for (const RunningTask& each : running_)
      progress_.longest_seconds = std::max(progress_.longest_seconds, each.run.seconds());
    progress_.waiting.clear();
    for (const Waiting& each : waiting_) progress_.waiting.push_back(each.entry);
    progress_.seconds_left = SecondsLeft();
    options_.tell(item, progress_);
  }

  // At the rate so far, with as many at once as run now.
  std::optional<double> SecondsLeft() const {
    if (compiled_seconds_ <= 0) return std::nullopt;
    const double rate = compiled_seconds_ / compiled_work_;
    double seconds = 0;
    for (const auto* tasks : {&queue_, &alone_})
      for (const Task& task : *tasks) seconds += WorkOf(task.graph) * rate;
    double longest = 0;
    for (const RunningTask& each : running_) {
      const double left = std::max(0.0, WorkOf(each.task.graph) * rate - each.run.seconds());
      seconds += left;
      longest = std::max(longest, left);
    }
    const auto beside = static_cast<double>(std::max<size_t>(
        1, std::min(running_.size() + queue_.size(), static_cast<size_t>(room_.most()))));
    return std::max(longest, seconds / beside);
  }

  struct Waiting {
    Task task;
    Stopwatch since;
    std::string entry = task.item.entry;
  };

  const neff::FoundTree& tree_;
  const GraphCompiler& compiler_;
  const CompileOptions& options_;
  const neff::TreeMoment moment_;
  CompilerRoom room_;
  std::list<Task> queue_;
  std::list<Task> alone_;
  std::list<Waiting> waiting_;  // for other processes
  std::list<RunningTask> running_;
  CompileReport report_;
  CompileProgress progress_;
  std::optional<Error> stopped_;  // nothing more is started
  bool says_waiting_ = false;     // the wait for another process is reported
  double compiled_work_ = 0;
  double compiled_seconds_ = 0;
  Stopwatch watch_, asked_, told_;
};

}  // namespace

Result<CompileReport> CompileGraphs(const CompilePlan& plan, const GraphCompiler& compiler,
                                    const CompileOptions& options) {
  SweepScratchFolders(options.work_folder, kWorkFolder);
  // The locks of a process that died between writing the result and releasing its lock.
  for (const std::string& folder : plan.locked) neff::RemoveIdleLocks(folder);
  return Compilation(plan, compiler, options).Run(plan.graphs);
}

}  // namespace nxdkit::ops
