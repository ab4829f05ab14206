// The vendor's packages installed on this machine, found without running Python: optimum-neuron
// compares their versions with a bundle's neuron_config.json when it loads it
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
  std::string optimum;    // version of optimum-neuron; "" if missing
  std::string compiler;   // neuronx-cc's, with its "+hash"
  bool editable = false;  // optimum-neuron runs from source: its version cannot be read
};

struct InstalledAt {
  std::string virtual_env{};   // the variable VIRTUAL_ENV; "" for none
  std::string conda_prefix{};  // likewise CONDA_PREFIX
  std::string path{};          // PATH, for environments of neuronx-cc and optimum-cli
  std::string opt = "/opt";    // the vendor's images have aws_neuronx_venv_* here
};
// In the order in which a program of this shell would find them. At most 64.
std::vector<Installation> FindInstallations(const InstalledAt& at);

// A Python package installed in an environment.
struct InstalledPackage {
  std::string name;  // as in its folder's name: "neuronx_cc"
  std::string version;
  std::string folder;  // of the environment
};
// The packages of `names` in the same environments, and then in those of `more`: "/usr/local".
std::vector<InstalledPackage> FindPackages(const InstalledAt& at,
                                           std::span<const std::string_view> names,
                                           std::span<const std::string> more);

}  // namespace nxdkit::rollout
