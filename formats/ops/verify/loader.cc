#include "formats/ops/verify/loader.h"

#include <fmt/core.h>

#include "lib/system/paths.h"

namespace nxdkit::ops {
namespace {

// Compared as optimum-neuron does: as texts, its own version first.
std::string WhyRefused(const rollout::VersionStamp& stamp, const rollout::Installation& at) {
  if (at.editable) return "has an editable optimum-neuron, of a version that is unknown";
  if (at.optimum.empty()) return "has no optimum-neuron";
  if (at.optimum != stamp.optimum) return "has optimum-neuron " + at.optimum;
  if (at.compiler.empty()) return "has no neuronx-cc";
  if (at.compiler != stamp.compiler) return "has neuronx-cc " + at.compiler;
  return "";
}

}  // namespace

void NameLoaders(const rollout::Bundle& bundle,
                 const std::vector<rollout::Installation>& installations, VerifyReport& report) {
  if (!bundle.config || bundle.config->flavor != rollout::Flavor::kOptimum || bundle.has_cpu_plan)
    return;
  const rollout::VersionStamp& stamp = bundle.config->stamp;
  if (stamp.optimum.empty() || stamp.compiler.empty()) {
    report.findings.push_back(
        Finding("config",
                fmt::format("optimum-neuron does not load it: there is no {}",
                            stamp.optimum.empty() ? "optimum_neuron_version" : "neuronxcc_version"))
            .in(JoinPath(bundle.folder, "neuron_config.json")));
    return;
  }
  report.stamp = stamp;
  report.checks.push_back(fmt::format("optimum-neuron {} beside neuronx-cc {} loads it, no other",
                                      stamp.optimum, stamp.compiler));
  for (const rollout::Installation& at : installations) {
    const std::string why = WhyRefused(stamp, at);
    report.loaders.push_back({at, why});
    if (why.empty())
      report.checks.push_back(fmt::format("the installation in {} accepts it", at.folder));
    else
      report.warnings.push_back(
          fmt::format("the installation in {} refuses it: it {}", at.folder, why));
  }
}

}  // namespace nxdkit::ops
