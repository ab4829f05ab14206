// A Hugging Face model as a bundle that an engine can run: the conversion of convert.h, and before
// it the compiled blob, from any source.
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
  bool cpu = false;                      // nxdkit's own plan instead of a blob
  bool no_blob = false;                  // a bundle without a blob will do; a compiler that
                                         // fails is then a warning
  std::optional<std::string> compiler;   // a command; nullopt: optimum-cli, if it is in PATH
  std::vector<std::string> environment;  // more variables that the compiler gets
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
  std::string cache_entry;  // "MODULE_...", if the cache was asked
  std::string command;      // of the compiler, if it ran, or with dry_run would
  // The time that the compiler took for the blob: now, or when the entry of the cache was made,
  // which is then the time saved. nullopt if none was compiled, or the entry does not say.
  std::optional<double> compile_seconds;
};

// Takes the blob, in this order, from the option "bundle", the compile cache, the compiler; with
// `cpu` from none of them. If the command is repeated and its output exists, that output's own blob
// comes after the cache; nothing is compiled then. kUnsupported (with advice) if there is none and
// one is needed, if the compiler fails, failed before or makes a blob that does not fit, and if the
// blob of a bundle does not fit. Entries of the cache that do not fit are skipped with a warning. A
// blob that another process compiles while this one waits counts as the cache's.
Result<ExportReport> Export(const ExportRequest& request);

}  // namespace nxdkit::ops
