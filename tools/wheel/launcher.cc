// A command as a wheel installs it: pip puts this program into the environment's bin under the name
// of each command. The library is in the package, whose folder is named after a Python version.
#include <dlfcn.h>
#include <glob.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "tools/library/nxdkit.h"

namespace {

constexpr const char* kLibrary = "nxdkit/libnxdkit.so.1";

std::string OwnFolder() {
  char path[PATH_MAX];
  const ssize_t bytes = readlink("/proc/self/exe", path, sizeof path);
  // Without /proc, as in a bare chroot: the path this process was started by.
  const char* const started = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  const std::string_view whole = bytes > 0 ? std::string_view(path, static_cast<size_t>(bytes))
                                           : std::string_view(started ? started : "");
  const size_t slash = whole.rfind('/');
  return std::string(slash == std::string_view::npos ? "." : whole.substr(0, slash));
}

// `path` as a literal part of a glob pattern.
std::string Escaped(const std::string& path) {
  std::string out;
  for (const char c : path) {
    if (std::string_view("\\*?[").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

// The places in the order of trying: pip --target, an unzipped wheel, environments.
std::vector<std::string> Places(const std::string& folder) {
  std::vector<std::string> places = {folder + "/../" + kLibrary, folder + "/../../" + kLibrary};
  for (const char* lib : {"lib", "lib64"}) {
    glob_t found = {};
    const std::string pattern = Escaped(folder) + "/../" + lib + "/python3*/*-packages/" + kLibrary;
    if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
      places.insert(places.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
    globfree(&found);
  }
  return places;
}

using Main = decltype(&nxdkit_main);
using Version = decltype(&nxdkit_version);

// nxdkit_main of a library of this version: an environment may have packages of several Pythons.
Main MainOf(const std::string& path) {
  if (access(path.c_str(), F_OK) != 0) return nullptr;
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "nxdkit: error: %s\n", dlerror());
    return nullptr;
  }
  const auto version = reinterpret_cast<Version>(dlsym(library, "nxdkit_version"));
  if (version == nullptr || std::string_view(version()) != NXDKIT_VERSION) return nullptr;
  return reinterpret_cast<Main>(dlsym(library, "nxdkit_main"));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = OwnFolder();
  for (const std::string& place : Places(folder))
    if (const Main run = MainOf(place)) return run(nullptr, argc, argv);
  std::fprintf(stderr,
               "nxdkit: error: %s of version %s is not found next to %s\n"
               "hint: install the wheel again, with pip, into one environment\n",
               kLibrary, NXDKIT_VERSION, folder.c_str());
  return 3;
}
