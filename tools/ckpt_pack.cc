// ckpt-pack: packs an artifact into one archive, and unpacks it.
#include <fmt/core.h>

#include "formats/nxd/tensor_files.h"
#include "formats/tar/pack.h"
#include "formats/tar/unpack.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/look.h"
#include "lib/system/places.h"
#include "tools/cli/tool.h"
#include "tools/commands.h"
#include "tools/conversions/sides.h"

namespace nxdkit::tool {
namespace {

struct Args {
  std::string input;
  std::string output;
  bool unpack = false;
  std::optional<std::string> format;
  std::optional<int> level;
  std::optional<int> strip;
  uint64_t max_unpacked = 0;  // 0: not given
  bool sync = true;
};

const ToolInfo kInfo = {
    .name = "ckpt-pack",
    .summary = "packs an artifact into one archive, and unpacks it",
    .details =
        "INPUT is a folder or file and OUTPUT an archive; with --unpack the reverse. An archive "
        "named - is standard output or input.\n"
        "An archive depends only on names and contents, and has a checksum that unpacking checks. "
        "Links and names outside OUTPUT are refused. OUTPUT appears complete or not at all.",
    .findings = "",
    .common = kTakesForce,
    .usages = {"ckpt-pack [options] INPUT ARCHIVE", "ckpt-pack --unpack [options] ARCHIVE OUTPUT"},
    .essentials = {"unpack", "format", "force"},
    .examples = {{"ckpt-pack bundle bundle.tar.zst", "pack a bundle, compressed"},
                 {"ckpt-pack --unpack bundle.tar.zst bundle", "unpack it"},
                 {"ckpt-pack step.delta step.delta.tar.gz", "pack a single file"},
                 {"ckpt-pack --format tar bundle -", "pack to standard output, for a pipe"}},
};

void AddOptions(OptionTable& table, Args& args) {
  table.Group("Input and output");
  table.Positional("INPUT", &args.input, "folder or file to pack, or archive to unpack");
  table.Positional("OUTPUT", &args.output, "archive to write, or folder or file to unpack to");
  table.Toggle("sync", &args.sync, "write the output to the disk before it is published");
  table.Group("Packing");
  table.Choice("format", {"tar", "tar.zst", "tar.gz"}, &args.format,
               "format of the archive, if its name does not say it");
  table.Integer("level", "N", &args.level, {0, 22},
                "compression level, up to 22 for zst and 9 for gz");
  table.Group("Unpacking");
  table.Flag("unpack", &args.unpack, "unpack INPUT to OUTPUT");
  table.Integer("strip", "N", &args.strip, {0, 64},
                "drop the first N components of every name in the archive");
  table.Size("max-unpacked", &args.max_unpacked, "maximum total size of the unpacked files")
      .default_text("100 times the archive's, at least 1G");
}

// The output may not replace the input, a folder around it, or a part of it.
Status CheckOutput(const Args& args) {
  if (args.output == tar::kStream || args.input == tar::kStream) return OkStatus();
  NXDKIT_TRY(CheckPlaces(args.output, {args.input}));
  return args.unpack ? OkStatus() : CheckNotAPart(args.output, args.input);
}

// A file of torch_xla's serialization is useless without the folder next to it.
Status CheckIsWhole(const std::string& input) {
  const std::string tensors = input + nxd::kTensorFolder;
  NXDKIT_ASSIGN(const bool is_file, IsFile(input));
  NXDKIT_ASSIGN(const bool has_tensors, IsFolder(tensors));
  if (!is_file || !has_tensors) return OkStatus();
  return BadUsage("the file's tensors are in {}", EscapeControl(tensors))
      .in(input)
      .hint("pack the folder that holds both");
}

tar::Hooks HooksOf(const artifact::RunOptions& run) {
  return {.poll = run.poll, .begin = run.begin, .on_bytes = run.on_bytes};
}

Result<tar::TransportReport> Pack(const Args& args, const ToolContext& context,
                                  const artifact::RunOptions& run) {
  if (args.strip || args.max_unpacked > 0)
    return BadUsage("{} is for --unpack", args.strip ? "--strip" : "--max-unpacked");
  NXDKIT_TRY(CheckIsWhole(args.input));
  tar::PackRequest request{.input = args.input, .output = args.output};
  const auto compression =
      args.format ? tar::CompressionFromName(*args.format) : tar::CompressionOf(args.output);
  if (!compression)
    return BadUsage("the name does not end in .tar, .tar.zst or .tar.gz")
        .in(args.output)
        .hint("say the kind of archive with --format");
  if (args.output == tar::kStream && context.json())
    return BadUsage("standard output cannot take both the archive and --json");
  if (args.level && *compression == Compression::kNone)
    return BadUsage("--level applies to a compressed archive, and this one is not");
  request.compression = *compression;
  request.level = args.level;
  request.force = context.common().force;
  request.sync = args.sync;
  request.hooks = HooksOf(run);
  return tar::Pack(request);
}

Result<tar::TransportReport> Unpack(const Args& args, const ToolContext& context,
                                    const artifact::RunOptions& run) {
  if (args.format || args.level)
    return BadUsage("--format and --level are for packing; unpacking needs neither");
  tar::UnpackRequest request{.archive = args.input, .output = args.output};
  request.strip = args.strip.value_or(0);
  if (args.max_unpacked > 0) request.max_bytes = args.max_unpacked;
  request.force = context.common().force;
  request.sync = args.sync;
  request.hooks = HooksOf(run);
  return tar::Unpack(request);
}

Result<ToolAnswer> Run(const Args& args, ToolContext& context) {
  NXDKIT_TRY(CheckOutput(args));
  if (!context.host().is_process() && (args.input == tar::kStream || args.output == tar::kStream))
    return BadUsage("only a command has standard input and output, and this is a call");
  const Runner runner(context);
  NXDKIT_ASSIGN(const tar::TransportReport report, args.unpack
                                                       ? Unpack(args, context, runner.options())
                                                       : Pack(args, context, runner.options()));
  if (!report.has_checksum)
    context.Warn(
        fmt::format("{}: the archive has no checksum over its bytes: only a digest or ckpt-verify "
                    "--against can tell whether they are those that were packed",
                    args.input));
  const double seconds = context.seconds();
  ToolAnswer answer;
  const bool piped = !args.unpack && args.output == tar::kStream;
  if (!piped)
    answer.text = fmt::format(
        "{} {}: {}, {}, {} as an archive\n{:.2f} s, {}\n", args.unpack ? "unpacked" : "packed",
        EscapeControl(args.output), Counted(report.files, "file"), HumanBytes(report.bytes),
        HumanBytes(report.archive_bytes), seconds, HumanRate(report.bytes, seconds));
  answer.fields = {{"input", args.input},
                   {"output", args.output},
                   {"kind", report.single_file ? "file" : "folder"},
                   {"files", report.files},
                   {"bytes", report.bytes},
                   {"archive_bytes", report.archive_bytes},
                   {"has_checksum", report.has_checksum},
                   {"seconds", seconds}};
  return answer;
}

}  // namespace

constinit const Command kCkptPack = MakeCommand<AddOptions, Run>(kInfo);

}  // namespace nxdkit::tool
