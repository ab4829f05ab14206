#include "formats/rollout/installed.h"

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include "lib/system/folders.h"

namespace nxdkit::rollout {
namespace {

constexpr std::string_view kInfo = ".dist-info";
constexpr size_t kMostEnvironments = 64;
constexpr size_t kMostPackages = 1024;

// "neuronx_cc-2.21.33363.0+82129205.dist-info" -> "2.21.33363.0+82129205" for "neuronx_cc".
std::optional<std::string> VersionIn(std::string_view name, std::string_view package) {
  if (!name.starts_with(package) || !name.ends_with(kInfo)) return std::nullopt;
  name.remove_prefix(package.size());
  name.remove_suffix(kInfo.size());
  if (!name.starts_with('-') || name.size() < 2) return std::nullopt;
  return std::string(name.substr(1));
}

// Whether this is left by `pip install -e` with current or older setuptools. The folder next to it
// has the version at the time of the installation.
bool IsEditable(std::string_view name) {
  return name.starts_with("__editable__.optimum_neuron-") || name == "optimum-neuron.egg-link" ||
         name == "optimum_neuron.egg-link";
}

// The names of all entries next to an environment's packages. Folders that cannot be read are
// skipped, here and below: the results are proposals, and are printed.
std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> found;
  for (const char* lib : {"lib", "lib64"}) {
    const std::string parent = JoinPath(folder, lib);
    const auto pythons = ListFolder(parent);
    if (!pythons.ok()) continue;
    for (const std::string& python : *pythons) {
      if (!python.starts_with("python3")) continue;
      for (const char* packages : {"site-packages", "dist-packages"}) {
        const auto names = ListFolder(JoinPath(JoinPath(parent, python), packages));
        if (names.ok()) found.insert(found.end(), names->begin(), names->end());
      }
    }
  }
  return found;
}

Installation Read(const std::string& folder) {
  Installation found{folder, "", ""};
  for (const std::string& name : NamesIn(folder)) {
    if (const auto version = VersionIn(name, "optimum_neuron")) found.optimum = *version;
    if (const auto version = VersionIn(name, "neuronx_cc")) found.compiler = *version;
    if (IsEditable(name)) found.editable = true;
  }
  return found;
}

// The folders around those bin folders in PATH that contain one of the vendor's commands.
std::vector<std::string> OnPath(const std::string& path) {
  std::vector<std::string> folders;
  std::istringstream words(path);
  std::set<std::string> seen;  // a shell may list a folder twice
  for (std::string bin; std::getline(words, bin, ':');)
    for (const char* command : {"neuronx-cc", "optimum-cli"})
      if (!bin.empty() && seen.insert(JoinPath(bin, command)).second &&
          KindForHint(JoinPath(bin, command)) == PathKind::kFile)
        folders.push_back(ParentPath(bin));
  return folders;
}

std::vector<std::string> OfTheVendor(const std::string& opt) {
  std::vector<std::string> folders;
  const auto names = ListFolder(opt);
  if (!names.ok()) return folders;
  for (const std::string& name : *names)
    if (name.starts_with("aws_neuronx_venv_") || name.starts_with("aws_neuron_venv_"))
      folders.push_back(JoinPath(opt, name));
  return folders;
}

// Each once, in the order in which a program of this shell would find them.
std::vector<std::string> EnvironmentsAt(const InstalledAt& at, std::span<const std::string> more) {
  std::vector<std::string> folders;
  const auto add = [&](const std::string& folder) {
    if (!folder.empty() && !std::ranges::count(folders, folder)) folders.push_back(folder);
  };
  add(at.virtual_env);
  add(at.conda_prefix);
  for (const std::string& folder : OnPath(at.path)) add(folder);
  for (const std::string& folder : OfTheVendor(at.opt)) add(folder);
  for (const std::string& folder : more) add(folder);
  return folders;
}

}  // namespace

std::vector<Installation> FindInstallations(const InstalledAt& at) {
  std::vector<Installation> found;
  for (const std::string& folder : EnvironmentsAt(at, {})) {
    if (found.size() == kMostEnvironments) break;
    Installation installation = Read(folder);
    if (installation.editable) installation.optimum.clear();
    if (installation.editable || !installation.optimum.empty() || !installation.compiler.empty())
      found.push_back(std::move(installation));
  }
  return found;
}

std::vector<InstalledPackage> FindPackages(const InstalledAt& at,
                                           std::span<const std::string_view> names,
                                           std::span<const std::string> more) {
  std::vector<InstalledPackage> found;
  for (const std::string& folder : EnvironmentsAt(at, more)) {
    if (found.size() >= kMostPackages) break;
    const std::vector<std::string> there = NamesIn(folder);
    for (const std::string_view name : names)
      for (const std::string& entry : there)
        if (const auto version = VersionIn(entry, name))
          found.push_back({std::string(name), *version, folder});
  }
  return found;
}

}  // namespace nxdkit::rollout
