#include "formats/ops/export/export.h"
#include "formats/kinds/builder.h"
#include "formats/kinds/decide.h"
#include "formats/kinds/rollout/decide_rollout.h"

#include <fmt/core.h>

#include <array>

#include "formats/compile_cache/slot.h"
#include "formats/ops/convert/standing.h"
#include "formats/ops/export/compile.h"
#include "formats/ops/export/make_blob.h"
#include "lib/base/errors.h"
#include "lib/system/command_text.h"
#include "lib/system/process.h"

namespace nxdkit::ops {
namespace {

Result<std::optional<neff::CacheSlot>> AskCache(const WantedBlob& wanted) {
  const neff::CachePlace& cache = wanted.request.cache;
  if (!cache.enabled) {
    wanted.Detail("the compile cache is not asked: " + cache.disabled_because);
    return std::optional<neff::CacheSlot>();
  }
  // An entry of a folder that cannot be listed may still be looked up.
  const Result<std::string> readable = neff::RootToRead(cache.root);
  const std::string root = readable.ok() ? *readable : cache.root;
  if (root != cache.root) wanted.Warn(neff::OldPlaceNote(cache.root));
  Result<std::optional<neff::CacheSlot>> slot = neff::CacheSlot::Use(
      root, wanted.cache_folder, wanted.key.module, wanted.request.convert.run.poll);
  Status usable = slot.ok() ? OkStatus() : Status(slot.error());
  if (slot.ok() && *slot) usable = CheckFits(wanted, (*slot)->path());
  if (usable.ok() || !IsOfTheBundle(usable.error())) {
    NXDKIT_TRY(std::move(usable));
    return slot;
  }
  wanted.Warn("the entry in the compile cache is passed over: " + usable.error().ToString());
  return std::optional<neff::CacheSlot>();
}

// The command is repeated, and its compiled blob is in the output: that is the one to compare with,
// as far as it is complete and fits. No compiler is run or needed for it.
Result<FoundBlob> FindStanding(const WantedBlob& wanted) {
  const std::string& standing = wanted.request.convert.output;
  const Status fits = CheckFits(wanted, standing);
  if (fits.ok()) return FoundBlob{BlobOrigin::kBundle, standing};
  const Error& error = fits.error();
  if (error.code() == Errc::kNotFound && wanted.request.no_blob) return FoundBlob{};
  if (!IsOfTheBundle(error)) return error;
  return InTheWay(standing, error);
}

Result<std::vector<std::string>> FindCompiler(const WantedBlob& wanted) {
  std::vector<std::string> words;
  if (wanted.request.compiler) {
    NXDKIT_ASSIGN(words, SplitCommand(*wanted.request.compiler));
    if (!FindProgram(words[0]))
      return NotFound("no such program, or it may not be executed").in(words[0]);
  } else if (wanted.neuron.flavor == rollout::Flavor::kOptimum && FindProgram(kOptimumCompiler)) {
    words = {kOptimumCompiler};
  }
  return words;
}

// A compiler that decides by itself would show only after an hour that it does not do as asked.
Status CheckSampling(const WantedBlob& wanted, const std::vector<std::string>& command) {
  OutputOptions options = wanted.request.convert.options;
  if (!options.Has("on-device-sampling") || IsToldOfSampling(command)) return OkStatus();
  options.Reset("on-device-sampling");
  NXDKIT_ASSIGN(const std::unique_ptr<Output> target,
                DecideOutput(wanted.source, kRollout, options));
  if (AsRollout(*target)->neuron.on_device_sampling == wanted.neuron.on_device_sampling)
    return OkStatus();
  return Unsupported("the compiler {} cannot be told whether to sample on the device", command[0])
      .hint("--compiler takes a command with {output} and {sampling}, which is device or host");
}

Error NoBlob(const WantedBlob& wanted) {
  const neff::CachePlace& cache = wanted.request.cache;
  std::string looked =
      cache.enabled ? fmt::format("the compile cache {} has no {}", cache.root, wanted.key.module)
                    : "the compile cache is not asked";
  return Unsupported("no compiled blob was found: {}, and there is no {}", looked,
                     wanted.neuron.flavor == rollout::Flavor::kOptimum
                         ? "optimum-cli in PATH"
                         : "compiler for NxDI bundles (--compiler)")
      .hint(
          "take one with --bundle, name a compiler with --compiler, use --target cpu for our "
          "own engine, or --no-blob for the weights alone");
}

Result<FoundBlob> Compile(const WantedBlob& wanted, const std::vector<std::string>& command,
                          ExportReport& report) {
  const ConvertRequest& convert = wanted.request.convert;
  const Status sampling = CheckSampling(wanted, command);
  if (sampling.ok() && wanted.request.dry_run) {
    report.command = CommandText(
        CompilerWords(command, {convert.input, wanted.neuron, convert.output + ".compile"}));
    return FoundBlob{BlobOrigin::kCompiler};
  }
  // The conversion reports what it refuses before the compiler runs for an hour.
  if (sampling.ok()) NXDKIT_TRY(DryRun(convert));
  Result<FoundBlob> made = sampling.ok() ? MakeBlob(wanted, command, report) : sampling.error();
  if (made.ok() || !wanted.request.no_blob || made.error().code() != Errc::kUnsupported)
    return made;
  report.compile_seconds.reset();
  wanted.Warn("there is no compiled blob: " + made.error().ToString());
  return FoundBlob{};
}

// The opened model is released once the blob is found: the conversion opens it again, and its
// buffers get the memory.
Result<FoundBlob> FindBlob(const ExportRequest& request, ExportReport& report) {
  if (request.cpu) return FoundBlob{BlobOrigin::kCpuPlan};
  if (const std::optional<std::string> bundle = request.convert.options.Text("bundle"))
    return FoundBlob{BlobOrigin::kBundle, bundle};
  NXDKIT_ASSIGN(const WantedBlob wanted, DecideBlob(request));
  if (request.cache.enabled) report.cache_entry = wanted.key.module;
  NXDKIT_ASSIGN(std::optional<neff::CacheSlot> slot, AskCache(wanted));
  if (slot) {
    report.compile_seconds = slot->CompileSeconds();
    return FoundBlob{BlobOrigin::kCache, slot->path(),
                     std::make_shared<const neff::CacheSlot>(*std::move(slot))};
  }
  NXDKIT_ASSIGN(const bool stands, FindsOutput(request.convert));
  if (stands) return FindStanding(wanted);
  NXDKIT_ASSIGN(const std::vector<std::string> command, FindCompiler(wanted));
  if (!command.empty()) return Compile(wanted, command, report);
  if (request.no_blob) return FoundBlob{};
  return NoBlob(wanted);
}

}  // namespace

std::string_view BlobOriginName(BlobOrigin origin) {
  constexpr std::array<std::string_view, 5> kNames = {"bundle", "cache", "compiler", "cpu_plan",
                                                      "none"};
  return kNames[static_cast<size_t>(origin)];
}

Result<ExportReport> Export(const ExportRequest& request) {
  ExportReport report;
  NXDKIT_ASSIGN(const FoundBlob blob, FindBlob(request, report));
  ConvertRequest convert = request.convert;
  if (request.cpu) convert.options.Set("cpu-plan", true);
  convert.options.Set("bundle", blob.bundle);
  NXDKIT_ASSIGN(report.convert, request.dry_run ? DryRun(convert) : Convert(convert));
  report.blob = blob.origin;
  // A blob that will be compiled is not missing.
  if (blob.origin == BlobOrigin::kCompiler) std::erase(report.convert.notes, kinds::kBlobMissing);
  // Without a cache the compiler's folder is removed now.
  if (blob.origin != BlobOrigin::kCompiler || request.cache.enabled)
    report.blob_path = blob.bundle.value_or("");
  return report;
}

}  // namespace nxdkit::ops
