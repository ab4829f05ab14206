// PRIVATE to formats/ops/export: the blob that is wanted, what fits in its place, and its making by
// the compiler: in the compile cache or, without one, beside the output.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/compile_cache/cache.h"
#include "formats/ops/export/export.h"
#include "formats/rollout/neuron_config.h"

namespace nxdkit::ops {

struct WantedBlob {
  const ExportRequest& request;
  BoundArtifact source;          // blobs are held against it
  rollout::NeuronConfig neuron;  // as it is decided without a bundle
  neff::CacheKey key;
  std::string cache_folder;  // of the compiler that is installed; "" when none tells its version
  std::string summary;

  void Warn(const std::string& text) const {
    if (request.on_warning) request.on_warning(text);
  }
  void Detail(const std::string& text) const {
    if (request.on_detail) request.on_detail(text);
  }
};

// `request` must outlive it.
Result<WantedBlob> DecideBlob(const ExportRequest& request);

// A bundle of the cache or of the compiler against what was asked for and the model.
Status CheckFits(const WantedBlob& wanted, const std::string& folder);
// Whether that fault is the bundle's, rather than the system's.
bool IsOfTheBundle(const Error& error);

struct FoundBlob {
  BlobOrigin origin = BlobOrigin::kNone;
  std::optional<std::string> bundle{};  // the folder that has it
  std::shared_ptr<const void> held{};   // keeps the folder locked, or there at all
};

// `command`: as for CompilerWords. kUnsupported when the compiler fails, failed before, or makes
// what does not fit. Tells `report` the command that ran and how long it took; where another
// process has made the blob meanwhile none runs, and the blob is of the cache.
Result<FoundBlob> MakeBlob(const WantedBlob& wanted, const std::vector<std::string>& command,
                           ExportReport& report);

}  // namespace nxdkit::ops
