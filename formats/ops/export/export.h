// A Hugging Face model as a bundle that an engine can run: the conversion of convert.h, and before
// it the compiled blob, from wherever one can be had.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "formats/compile_cache/place.h"
#include "formats/compile_cache/prune.h"
#include "formats/ops/convert/convert.h"
#include "formats/ops/export/target.h"

namespace nxdkit::ops {

enum class BlobOrigin : uint8_t { kBundle, kCache, kCompiler, kCpuPlan, kNone };
std::string_view BlobOriginName(BlobOrigin origin);  // "bundle", "cache", "compiler", ...

struct ExportRequest {
  ConvertRequest convert;                // to a rollout bundle; option "bundle": --bundle
  bool cpu = false;                      // our own plan in the place of a blob
  bool no_blob = false;                  // a bundle without a blob is good enough; a compiler that
                                         // fails is a warning then
  std::optional<std::string> compiler;   // a command; nullopt: optimum-cli, when it is in PATH
  std::vector<std::string> environment;  // names of variables that the compiler gets as well
  ExportTarget target;
  neff::CachePlace cache;
  neff::PruneOptions limits;  // of the cache, after an entry was added
  bool dry_run = false;
  std::function<void(const std::string&)> on_warning;
  std::function<void(const std::string&)> on_detail;
};

struct ExportReport {
  ConvertReport convert;
  BlobOrigin blob = BlobOrigin::kNone;
  std::string blob_path;    // the folder it came from; "" for none and kCpuPlan
  std::string cache_entry;  // "MODULE_...", when the cache was asked
  std::string command;      // of the compiler, when it ran, or with dry_run would
  // How long the compiler ran that made the blob: now, or when the entry of the cache was made, and
  // that is what the cache saved. nullopt where none was, or the entry does not say.
  std::optional<double> compile_seconds;
};

// The blob, in this order: the option "bundle", the compile cache, the compiler; with
// `cpu` none of them. Where the command is repeated and its output stands, that output's own blob
// comes after the cache; nothing is compiled then. kUnsupported (with what can be done) when there
// is none and none is not good enough, when the compiler fails, failed before or makes what does
// not fit, and when the blob of a bundle does not fit. What the cache has and does not fit is
// passed over with a warning. What another process compiles while this one waits is from the cache.
Result<ExportReport> Export(const ExportRequest& request);

}  // namespace nxdkit::ops
