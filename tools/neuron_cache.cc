// neuron-cache: what is in a compile cache, is it whole, making room in it, and bringing entries
// from one to another.
#include <fmt/core.h>

#include <algorithm>

#include "formats/compile_cache/merge.h"
#include "formats/compile_cache/place.h"
#include "formats/compile_cache/tree.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/process.h"
#include "tools/cache/args.h"
#include "tools/cache/look.h"
#include "tools/cache/room.h"
#include "tools/cache/transfer.h"
#include "tools/cli/tool.h"

namespace nxdkit::tool {
namespace {

constexpr int kMaxDays = 36500;

const ToolInfo kInfo = {
    .name = "neuron-cache",
    .summary = "lists, verifies, prunes and merges compile caches",
    .details =
        "COMMAND is ls, verify, prune, clear; merge FROM INTO, push TO, pull FROM; or relocate OLD "
        "NEW. The cache is that of libneuronxla, of vLLM Neuron or of TorchNeuron: what lies there "
        "says which. prune removes failures, what died while it was made and, while the cache is "
        "over its size limit, what was not used for longest; clear removes every entry. merge "
        "copies entries that are whole and not there yet, push and pull do it from and to this "
        "machine's cache, and relocate changes the paths of kernels' binaries. What another "
        "process is using or making is left.",
    .findings = "verify found a damaged entry, or merge or relocate left one as it was",
    .common = kTakesDryRun,
    .examples = {{"neuron-cache ls", "what is in it"},
                 {"neuron-cache verify", "is all of it whole"},
                 {"neuron-cache prune --max-size 50G --ttl 7", "make room"},
                 {"neuron-cache clear --dry-run", "what would be removed"},
                 {"neuron-cache push /fsx/cache", "share what was compiled here"},
                 {"neuron-cache pull /fsx/cache", "take what was compiled elsewhere"},
                 {"neuron-cache relocate /mnt/a/nki /mnt/b/nki", "the binaries moved"}},
};

void AddOptions(OptionTable& table, CacheArgs& args) {
  table.Group("Arguments");
  table
      .Positional("COMMAND", &args.command,
                  "ls, verify, prune, clear, merge, push, pull or relocate")
      .completes(Completes::kNothing);
  table.Positionals("PATH", &args.paths, "of merge, push, pull and relocate");
  table.Group("Cache");
  table
      .Text("cache-dir", "DIR", &args.cache_dir,
            "the cache; without it that of NEURON_CC_FLAGS or NEURON_COMPILE_CACHE_URL")
      .completes(Completes::kFolderOrUrl);
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
  table.Group("What merge, push and pull copy");
  table
      .Text("kernels", "DIR", &args.kernels,
            "beside the trees, where binaries of kernels are taken from")
      .default_text(neff::kKernelBinaries)
      .completes(Completes::kFolder);
}

Status CheckCommand(const CacheArgs& args) {
  const std::vector<std::string> commands = {"ls",    "verify", "prune", "clear",
                                             "merge", "push",   "pull",  "relocate"};
  if (std::ranges::find(commands, args.command) == commands.end()) {
    const auto closest = ClosestWord(args.command, commands);
    return BadUsage(
               "COMMAND is \"{}\", expected ls, verify, prune, clear, merge, push, pull or "
               "relocate",
               args.command)
        .hint(closest ? fmt::format("did you mean {}?", *closest) : "");
  }
  const bool limits = args.max_size || args.ttl_days || args.empty || args.only_compiler;
  if (limits && args.command != "prune")
    return BadUsage("--max-size, --ttl, --empty and --only-compiler belong to prune");
  if (args.damaged && args.command != "prune" && !IsTransfer(args.command))
    return BadUsage("--damaged belongs to prune, merge, push and pull");
  if (args.cache_dir && args.command == "merge")
    return BadUsage("merge has FROM and INTO: --cache-dir does not belong to it");
  if (args.kernels && !IsTransfer(args.command))
    return BadUsage("--kernels belongs to merge, push and pull");
  return CheckPaths(args);
}

Result<ToolAnswer> Run(const CacheArgs& args, ToolContext& context) {
  NXDKIT_TRY(CheckCommand(args));
  NXDKIT_ASSIGN(const neff::CachePlace place,
                neff::FindCache(args.cache_dir, EnvironmentValue("NEURON_CC_FLAGS"),
                                EnvironmentValue("NEURON_COMPILE_CACHE_URL")));
  ToolAnswer answer;
  if (IsTransfer(args.command)) {
    NXDKIT_TRY(Transfer(args, place, context).To(answer));
  } else if (args.command == "relocate") {
    NXDKIT_TRY(Relocate(args, place, context).To(answer));
  } else {
    NXDKIT_ASSIGN(const std::string root, FolderOf(place));
    NXDKIT_ASSIGN(const neff::FoundTree tree, neff::FindTree(root));
    if (tree.is_old_place) context.Warn(neff::OldPlaceNote(root));
    const bool removes = args.command == "prune" || args.command == "clear";
    NXDKIT_TRY(
        (removes ? MakeRoom(args, place, tree, context) : LookAtCache(args, tree)).To(answer));
    answer.fields["root"] = tree.root;
    answer.fields["tree"] = TreeJson(tree);
  }
  answer.fields["command"] = args.command;
  return answer;
}

}  // namespace
}  // namespace nxdkit::tool

int main(int argc, char** argv) {
  return RunTool(argc, argv, nxdkit::tool::kInfo, nxdkit::tool::AddOptions, nxdkit::tool::Run);
}
