// PRIVATE to formats/ops/export: the blob that is wanted, the check that one fits, and making one
// with the compiler: in the compile cache or, without one, next to the output.
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
  BoundArtifact source;          // blobs are compared with it
  rollout::NeuronConfig neuron;  // as decided without a bundle
  neff::CacheKey key;
  std::string cache_folder;  // of the installed compiler; "" if its version is not known
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

// Compares a bundle of the cache or of the compiler with the request and the model.
Status CheckFits(const WantedBlob& wanted, const std::string& folder);
// Whether the error is a fault of the bundle, rather than of the system.
bool IsOfTheBundle(const Error& error);

struct FoundBlob {
  BlobOrigin origin = BlobOrigin::kNone;
  std::optional<std::string> bundle{};  // the folder that has it
  std::shared_ptr<const void> held{};   // keeps the folder locked, or in existence
};

// `command`: as for CompilerWords. kUnsupported if the compiler fails, failed before, or makes a
// blob that does not fit. Sets in `report` the command that ran and how long it took; if another
// process has made the blob meanwhile none runs, and the blob comes from the cache.
Result<FoundBlob> MakeBlob(const WantedBlob& wanted, const std::vector<std::string>& command,
                           ExportReport& report);

}  // namespace nxdkit::ops
