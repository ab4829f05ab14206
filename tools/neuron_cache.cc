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
        "COMMAND is ls, verify, prune, clear; compile; collect, warm or check with -- and a "
        "program; merge FROM INTO, push TO, pull FROM, pack INTO; or relocate OLD NEW. The cache "
        "is that of libneuronxla, of vLLM Neuron or of TorchNeuron: what lies there "
        "says which. collect runs a program so that it only "
        "writes its graphs, compile compiles every graph that has no result, warm does both, and "
        "check says what the program would compile. prune removes failures, what died while it was "
        "made and, while the cache is "
        "over its size limit, what was not used for longest; clear removes every entry. merge "
        "copies entries that are whole and not there yet, push and pull do it from and to this "
        "machine's cache, and relocate changes the paths of kernels' binaries. What another "
        "process is using or making is left.",
    .findings =
        "verify found a damaged entry, a graph failed to compile or would be compiled, the program "
        "of collect failed, or merge or relocate left an entry as it was",
    .common = kTakesDryRun,
    .examples = {{"neuron-cache ls", "what is in it"},
                 {"neuron-cache verify", "is all of it whole"},
                 {"neuron-cache warm -- torchrun --nproc_per_node=32 train.py --max_steps=10",
                  "compile all that a run needs, before it"},
                 {"neuron-cache check -- torchrun --nproc_per_node=32 train.py",
                  "would this run compile anything"},
                 {"neuron-cache prune --max-size 50G --ttl 7", "make room"},
                 {"neuron-cache clear --dry-run", "what would be removed"},
                 {"neuron-cache push /fsx/cache", "share what was compiled here"},
                 {"neuron-cache pull /fsx/cache", "take what was compiled elsewhere"},
                 {"neuron-cache relocate /mnt/a/nki /mnt/b/nki", "the binaries moved"}},
};

void AddOptions(OptionTable& table, CacheArgs& args) {
  table.Group("Arguments");
  table
      .Positional(
          "COMMAND", &args.command,
          "ls, verify, prune, clear, compile, collect, warm, check, merge, push, pull, pack "
          "or relocate")
      .completes(Completes::kNothing);
  table
      .Positionals("WORD", &args.words,
                   "paths of merge, push, pull, pack and relocate; behind --, the program of "
                   "collect, warm and check")
      .completes(Completes::kPath);
  table.Group("Cache");
  table
      .Text("cache-dir", "DIR", &args.cache_dir,
            "the cache; without it that of NEURON_CC_FLAGS or NEURON_COMPILE_CACHE_URL")
      .completes(Completes::kFolderOrUrl);
  table.Group("What compile and warm do");
  table.Text("compiler", "COMMAND", &args.compiler, "the compiler")
      .default_text(ops::kGraphCompiler)
      .completes(Completes::kPath);
  table.Text("target", "NAME", &args.target,
             "the target of graphs whose flags do not say it, such as trn1");
  table.Integer("jobs,j", "N", &args.jobs, {1, 256}, "compilers that run at once, at most")
      .default_text("half of the processors, and no more than the memory allows");
  table.Text("memory-per-job", "SIZE", &args.memory_per_job,
             "memory that is reckoned for each compiler, in the place of a table by graph size");
  table
      .Integer("retries", "N", &args.retries, {0, kMostRetries},
               "tries after a compilation that failed")
      .default_text("NEURON_PARALLEL_COMPILE_MAX_RETRIES, or 0");
  table.Integer("job-timeout", "SECONDS", &args.job_timeout, {1, kMostSeconds},
                "how long one compilation may take");
  table.Text("work-dir", "DIR", &args.work_dir, "where each compiler has a folder of its own")
      .default_text("TMPDIR, or /tmp")
      .completes(Completes::kFolder);
  table.Flag("ignore-error", &args.ignore_error,
             "go on with what a program had traced when it failed");
  table.Group("What prune removes");
  table.Text("max-size", "SIZE", &args.max_size, "entries not used lately, while there is more")
      .default_text("100G");
  table
      .Integer("ttl", "DAYS", &args.ttl_days, {0, kMaxDays},
               "but none that was used in the last DAYS days")
      .default_text("30");
  table.Flag("empty", &args.empty, "unfinished entries that nobody works on, too");
  table.Flag("damaged", &args.damaged,
             "entries that verify finds damaged, too; merge, push and pull replace them");
  table.Text("only-compiler", "VERSION", &args.only_compiler,
             "entries of all compilers but this one, too");
  table.Group("What merge, push, pull and pack copy");
  table
      .Text("used-by", "FILE", &args.used_by,
            "with pack and check: entries that it names, the JSON of collect, warm or check, or "
            "the log of "
            "a run")
      .completes(Completes::kPath);
  table
      .Text("kernels", "DIR", &args.kernels,
            "beside the trees, where binaries of kernels are taken from")
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
