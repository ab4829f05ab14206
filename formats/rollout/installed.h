// The vendor's packages that are installed on this machine, found without running Python: their
// versions are what optimum-neuron compares a bundle's neuron_config.json with when it loads one
// (optimum/neuron/configuration_utils.py: both must be equal, to the last character).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nxdkit::rollout {

// One Python environment that has at least one of the two.
struct Installation {
  std::string folder;     // of the environment: "/opt/aws_neuronx_venv_pytorch_2_8"
  std::string optimum;    // version of optimum-neuron; "" when it is not there
  std::string compiler;   // of neuronx-cc, with its "+hash"
  bool editable = false;  // optimum-neuron runs from its sources: no version can be read
};

struct InstalledAt {
  std::string virtual_env{};   // the variable VIRTUAL_ENV; "" for none
  std::string conda_prefix{};  // CONDA_PREFIX
  std::string path{};          // PATH: the environments of neuronx-cc and optimum-cli
  std::string opt = "/opt";    // where the vendor's images have aws_neuronx_venv_*
};
// In the order in which a program of this shell would meet them. At most
// 64.
std::vector<Installation> FindInstallations(const InstalledAt& at);

// A package of Python that is installed in an environment.
struct InstalledPackage {
  std::string name;  // as its folder spells it: "neuronx_cc"
  std::string version;
  std::string folder;  // of the environment
};
// Those of `names` in the same environments, and in `more` of them behind these: "/usr/local".
std::vector<InstalledPackage> FindPackages(const InstalledAt& at,
                                           std::span<const std::string_view> names,
                                           std::span<const std::string> more);

}  // namespace nxdkit::rollout
