#include "trainer/rollout/expected_weights.h"

#include <fmt/core.h>

namespace nxdkit::trainer {
namespace {

std::string VersionText(const std::optional<rollout::WeightsVersion>& version) {
  if (!version) return "weights that were never refreshed";
  return fmt::format("version {} \"{}\" of {}", version->serial, version->label, version->source);
}

}  // namespace

Status CheckVersion(const ExpectedWeights& expect,
                    const std::optional<rollout::WeightsVersion>& found,
                    const std::string& bundle) {
  const bool serial = !expect.serial || (found && found->serial == *expect.serial);
  const bool label = !expect.label || (found && found->label == *expect.label);
  if (serial && label) return OkStatus();
  return Error(Errc::kFindings,
               fmt::format("stale weights: found {}, expected {}{}", VersionText(found),
                           expect.serial ? fmt::format("version {}", *expect.serial) : "",
                           expect.label ? fmt::format(" \"{}\"", *expect.label) : ""))
      .in(bundle);
}

Status CheckLoaded(const ExpectedWeights& expect, const EngineFacts& loaded,
                   const std::string& bundle) {
  NXDKIT_TRY(CheckVersion(expect, loaded.version, bundle));
  if (expect.digest.empty() || loaded.digest == expect.digest) return OkStatus();
  return Error(
             Errc::kFindings,
             fmt::format("stale weights: the model that was loaded has the digest {}, expected {}",
                         loaded.digest.empty() ? "of nothing" : loaded.digest, expect.digest))
      .in(bundle);
}

}  // namespace nxdkit::trainer
