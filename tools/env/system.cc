#include "tools/env/system.h"

#include <archive.h>
#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <isa-l.h>
#include <openssl/crypto.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <fstream>

#include "formats/hardware/fit.h"
#include "lib/base/text.h"
#include "lib/net/http.h"
#include "lib/system/look.h"
#include "lib/system/system.h"
#include "tools/cli/report.h"
#include "tools/cli/terminal.h"

namespace nxdkit::tool {
namespace {

constexpr char kSanitizers[] =
#if defined(__SANITIZE_ADDRESS__)
    ", address sanitizer"
#elif defined(__SANITIZE_THREAD__)
    ", thread sanitizer"
#else
    ""
#endif
    ;

constexpr char kCompiler[] =
#if defined(__clang__)
    "clang " __clang_version__
#else
    "g++ " __VERSION__
#endif
    ;

// The value of `key` in a file of KEY=VALUE or "key : value" lines; "" where there is none.
std::string ValueIn(const char* path, std::string_view key, char separator) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    size_t at = line.find(separator);
    if (at == line.npos) continue;
    at = line.find_first_not_of(" \t\"", at + 1);
    if (at == line.npos) return "";
    std::string value = line.substr(at);
    while (!value.empty() && (value.back() == '"' || value.back() == ' ')) value.pop_back();
    return value;
  }
  return "";
}

uint64_t MachineBytes() {
  const int64_t pages = ::sysconf(_SC_PHYS_PAGES), size = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(size) : 0;
}

// "3.6.2" from "libarchive 3.6.2"
std::string FirstNumber(std::string_view text) {
  const size_t at = std::min(text.find_first_of("0123456789"), text.size());
  return std::string(text.substr(at, text.find(' ', at) - at));
}

}  // namespace

Section BuildSection() {
  const Result<std::string> path = ReadLink("/proc/self/exe");
  const std::string build = fmt::format("{}{}", kCompiler, kSanitizers);
  Section section;
  section.Add("nxdkit", fmt::format("{}, {}", ToolVersion(), build));
  if (path.ok()) section.Add("program", *path);
  section.json = {
      {"version", ToolVersion()}, {"compiler", build}, {"path", path.ok() ? Json(*path) : Json()}};
  return section;
}

Section LibrariesSection() {
  const std::string curl = HttpLibrary();
  const std::pair<const char*, std::string> libraries[] = {
      {"glibc", ::gnu_get_libc_version()},
      {"zstd", ::ZSTD_versionString()},
      {"zlib", ::zlibVersion()},
      {"openssl", ::OpenSSL_version(OPENSSL_VERSION_STRING)},
      {"libarchive", FirstNumber(::archive_version_string())},
      {"isa-l",
       fmt::format("{}.{}.{}", ISAL_MAJOR_VERSION, ISAL_MINOR_VERSION, ISAL_PATCH_VERSION)},
      {"fmt",
       fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
      {"libcurl", curl}};
  Section section;
  section.json = Json::object();
  std::string text;
  for (const auto& [name, version] : libraries) {
    section.json[name] = TextOrNull(version);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name,
                        version.empty() ? "none" : FirstNumber(version));
  }
  section.Add("libraries", text);
  return section;
}

Section SystemSection() {
  utsname name{};
  const bool named = ::uname(&name) == 0;
  const std::string kernel = named ? fmt::format("{} {}", name.sysname, name.release) : "";
  const std::string distribution = ValueIn("/etc/os-release", "PRETTY_NAME=", '=');
  const std::string model = ValueIn("/proc/cpuinfo", "model name", ':');
  const int64_t cpus = std::max<int64_t>(::sysconf(_SC_NPROCESSORS_ONLN), 0);
  const uint64_t memory = MachineBytes();
  const std::optional<uint64_t> limit = MemoryLimitBytes();
  Section section;
  section.Add("system", fmt::format("{}, {}{}", distribution.empty() ? "unknown" : distribution,
                                    kernel, named ? fmt::format(" {}", name.machine) : ""));
  section.Add("processors",
              fmt::format("{} of {}{}", UsableCpus(), cpus, model.empty() ? "" : ", " + model));
  section.Add("memory", fmt::format("{}{}", hardware::GibText(memory),
                                    limit && *limit < memory
                                        ? fmt::format(", limited to {}", hardware::GibText(*limit))
                                        : ""));
  section.json = {{"kernel", TextOrNull(kernel)},
                  {"architecture", named ? Json(name.machine) : Json()},
                  {"distribution", TextOrNull(distribution)},
                  {"processor", TextOrNull(model)},
                  {"cpus", cpus},
                  {"usable_cpus", UsableCpus()},
                  {"memory_bytes", memory},
                  {"memory_limit_bytes", limit ? Json(*limit) : Json()}};
  return section;
}

}  // namespace nxdkit::tool
