// neuron-cache: lists and verifies a compile cache, compiles what it lacks, makes room in it, and
// moves entries between caches.
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "formats/compile_cache/merge.h"
#include "formats/compile_cache/place.h"
#include "formats/compile_cache/tree.h"
#include "formats/ops/precompile/compiler.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/process.h"
#include "tools/cache/args.h"
#include "tools/cache/collect.h"
#include "tools/cache/compile.h"
#include "tools/cache/look.h"
#include "tools/cache/room.h"
#include "tools/cache/transfer.h"
#include "tools/cli/tool.h"
#include "tools/commands.h"

namespace nxdkit::tool {
namespace {

constexpr int kMaxDays = 36500;
constexpr int kMostRetries = 100;
constexpr int kMostSeconds = 7 * 24 * 3600;

// The names that neuron_parallel_compile --command takes.
struct OldWord {
  std::string_view theirs;
  std::string_view ours;
};
constexpr OldWord kOldWords[] = {
    {"analyze", "not supported: support by the compiler is not analyzed"},

    {"clean", "`neuron-cache clear`"},
    {"clear-locks", "`neuron-cache prune`, which leaves held locks"},
    {"parallel-compile", "`neuron-cache warm -- PROGRAM ...`"}};

const ToolInfo kInfo = {
    .name = "neuron-cache",
    .summary = "fills, lists, verifies, prunes and merges compile caches",
    .details =
        "The cache may be that of libneuronxla, vLLM Neuron or TorchNeuron. Entries in use by "
        "another process are skipped. COMMAND is one of:\n"
        "ls, verify: list the entries, or check them\n"
        "prune, clear: remove failures, unfinished and least recently used entries, or all\n"
        "compile: compile every graph without a result\n"
        "collect, warm, check -- PROGRAM: write a program's graphs, compile them too, or report "
        "what it would compile\n"
        "merge FROM INTO, push TO, pull FROM, pack INTO: copy complete entries between caches\n"
        "relocate OLD NEW: change the paths of kernel binaries",
    .findings =
        "an entry is damaged, a graph failed to compile or would be compiled, a program failed, or "
        "an entry was skipped",
    .common = kTakesDryRun,
    .usages = {"neuron-cache ls|verify|prune|clear|compile [options]",
               "neuron-cache collect|warm|check [options] -- PROGRAM [ARGUMENT ...]",
               "neuron-cache merge FROM INTO",
               "neuron-cache push TO | pull FROM | pack INTO | relocate OLD NEW"},
    .essentials = {"cache-dir", "jobs", "max-size", "ttl", "dry-run"},
    .examples = {{"neuron-cache ls", "list the cache"},
                 {"neuron-cache verify", "check every entry"},
                 {"neuron-cache warm --target trn1 -- torchrun train.py --max_steps=10",
                  "compile all graphs of a run beforehand"},
                 {"neuron-cache check -- torchrun --nproc_per_node=32 train.py",
                  "check that a run compiles nothing"},
                 {"neuron-cache prune --max-size 50G --ttl 7", "make room, but keep a week"},
                 {"neuron-cache clear --dry-run", "list what would be removed"},
                 {"neuron-cache push /fsx/cache", "share this machine's results"},
                 {"neuron-cache pull /fsx/cache", "fetch the results of others"},
                 {"neuron-cache relocate /mnt/a/nki /mnt/b/nki", "adapt to moved binaries"}},
};

void AddOptions(OptionTable& table, CacheArgs& args) {
  table.Group("Command");
  table
      .Positional(
          "COMMAND", &args.command,
          "ls, verify, prune, clear, compile, collect, warm, check, merge, push, pull, pack "
          "or relocate")
      .completes(Completes::kNothing);
  table
      .Positionals("WORD", &args.words,
                   "paths of the command; or after --, a program with its arguments")
      .completes(Completes::kPath);
  table.Group("Cache");
  table
      .Text("cache-dir", "DIR", &args.cache_dir,
            "folder of the cache; by default that of NEURON_CC_FLAGS or NEURON_COMPILE_CACHE_URL")
      .completes(Completes::kFolderOrUrl);
  table.Group("Compiling (compile, warm)");
  table.Text("compiler", "COMMAND", &args.compiler, "compiler to run")
      .default_text(ops::kGraphCompiler)
      .completes(Completes::kPath);
  table.Text("target", "NAME", &args.target,
             "target of graphs whose flags do not name it, such as trn1");
  table.Integer("jobs,j", "N", &args.jobs, {1, 256}, "maximum number of simultaneous compilers")
      .default_text("half of the processors, as memory allows");
  table.Text("memory-per-job", "SIZE", &args.memory_per_job,
             "memory to expect for each compiler, instead of by graph size");
  table
      .Integer("retries", "N", &args.retries, {0, kMostRetries},
               "number of tries after a failed compilation")
      .default_text("NEURON_PARALLEL_COMPILE_MAX_RETRIES, or 0");
  table.Integer("job-timeout", "SECONDS", &args.job_timeout, {1, kMostSeconds},
                "time limit of a compilation");
  table.Text("work-dir", "DIR", &args.work_dir, "folder for the compilers' temporary folders")
      .default_text("TMPDIR, or /tmp")
      .completes(Completes::kFolder);
  table.Group("Programs (collect, warm, check)");
  table.Flag("ignore-error", &args.ignore_error,
             "continue with the graphs that a failed program has traced");
  table
      .Text("used-by", "FILE", &args.used_by,
            "file that names entries: JSON of collect, warm or check, or a log")
      .completes(Completes::kPath);
  table.Group("Removing (prune)");
  table
      .Text("max-size", "SIZE", &args.max_size,
            "remove the least recently used entries above this size")
      .default_text("100G");
  table
      .Integer("ttl", "DAYS", &args.ttl_days, {0, kMaxDays},
               "keep entries used in the last DAYS days")
      .default_text("30");
  table.Flag("empty", &args.empty, "also remove unfinished entries that no process works on");
  table.Flag("damaged", &args.damaged,
             "also remove damaged entries; for merge, push and pull: replace them");
  table.Text("only-compiler", "VERSION", &args.only_compiler,
             "also remove entries of all compilers but this version");
  table.Group("Copying (merge, push, pull)");
  table
      .Text("kernels", "DIR", &args.kernels,
            "folder outside the trees with kernel binaries to copy")
      .default_text(neff::kKernelBinaries)
      .completes(Completes::kFolder);
}

using Answer = Result<ToolAnswer> (*)(const CacheArgs&, const neff::CachePlace&, ToolContext&);

Result<ToolAnswer> OfTree(const CacheArgs& args, const neff::CachePlace& place,
                          ToolContext& context) {
  NXDKIT_ASSIGN(const std::string root, FolderOf(place));
  NXDKIT_ASSIGN(const neff::FoundTree tree, neff::FindTree(root));
  if (tree.is_old_place) context.Warn(neff::OldPlaceNote(root));
  const bool removes = args.command == "prune" || args.command == "clear";
  ToolAnswer answer;
  if (args.command == "compile")
    NXDKIT_TRY(Compile(args, tree, std::nullopt, context).To(answer));
  else
    NXDKIT_TRY((removes ? MakeRoom(args, place, tree, context) : LookAtCache(args, tree, context))
                   .To(answer));
  answer.fields["root"] = tree.root;
  answer.fields["tree"] = TreeJson(tree);
  return answer;
}

struct Row {
  std::string_view command;
  Answer answer;
};
constexpr Row kRows[] = {{"ls", OfTree},        {"verify", OfTree},  {"prune", OfTree},
                         {"clear", OfTree},     {"compile", OfTree}, {"collect", Collect},
                         {"warm", Warm},        {"check", Check},    {"merge", Transfer},
                         {"push", Transfer},    {"pull", Transfer},  {"pack", Transfer},
                         {"relocate", Relocate}};

Result<const Row*> RowOf(const std::string& command) {
  const auto* row = std::ranges::find(kRows, command, &Row::command);
  if (row != std::end(kRows)) return row;
  const auto* old = std::ranges::find(kOldWords, command, &OldWord::theirs);
  if (old != std::end(kOldWords)) return BadUsage("{} is here {}", command, old->ours);
  if (FindProgram(command))
    return BadUsage("COMMAND is \"{}\", a program", command)
        .hint(fmt::format("`neuron-cache warm -- {} ...`", command));
  std::vector<std::string> commands;
  for (const Row& each : kRows) commands.emplace_back(each.command);
  const auto closest = ClosestWord(command, commands);
  return BadUsage("COMMAND is \"{}\", expected one of {}", command, fmt::join(commands, ", "))
      .hint(closest ? fmt::format("did you mean {}?", *closest) : "");
}

bool IsOneOf(const std::string& command, std::initializer_list<std::string_view> commands) {
  return std::ranges::find(commands, command) != commands.end();
}

Status CheckOptions(const CacheArgs& args) {
  const std::string& command = args.command;
  const bool limits = args.max_size || args.ttl_days || args.empty || args.only_compiler;
  if (limits && command != "prune")
    return BadUsage("--max-size, --ttl, --empty and --only-compiler belong to prune");
  if (args.damaged && command != "prune" && !IsTransfer(command))
    return BadUsage("--damaged belongs to prune, merge, push, pull and pack");
  if (args.cache_dir && command == "merge")
    return BadUsage("merge has FROM and INTO: --cache-dir does not belong to it");
  if (args.kernels && !IsTransfer(command))
    return BadUsage("--kernels belongs to merge, push, pull and pack");
  if (args.used_by && !IsOneOf(command, {"pack", "check"}))
    return BadUsage("--used-by belongs to pack and check");
  if (command == "pack" && !args.used_by)
    return BadUsage("pack needs --used-by, the entries to pack");
  if (args.ignore_error && !IsOneOf(command, {"collect", "warm", "check"}))
    return BadUsage("--ignore-error belongs to collect, warm and check");
  return CheckCompileOptions(args);
}

Result<ToolAnswer> Run(const CacheArgs& args, ToolContext& context) {
  NXDKIT_ASSIGN(const Row* const row, RowOf(args.command));
  NXDKIT_TRY(CheckOptions(args));
  NXDKIT_TRY(CheckWords(args));
  if (context.common().dry_run && IsOneOf(args.command, {"collect", "warm", "check"}))
    return BadUsage("--dry-run does not belong to {}, which runs a program", args.command);
  NXDKIT_ASSIGN(const neff::CachePlace place,
                neff::FindCache(args.cache_dir, EnvironmentValue("NEURON_CC_FLAGS"),
                                EnvironmentValue("NEURON_COMPILE_CACHE_URL")));
  NXDKIT_ASSIGN(ToolAnswer answer, row->answer(args, place, context));
  answer.fields["command"] = args.command;
  return answer;
}

}  // namespace

constinit const Command kNeuronCache = MakeCommand<AddOptions, Run>(kInfo);

}  // namespace nxdkit::tool
