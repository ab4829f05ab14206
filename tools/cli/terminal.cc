#include "tools/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "lib/system/process.h"
#include "lib/system/system.h"

namespace nxdkit::tool {
namespace {

// A container's CPU limit; affinity does not show it. cpu.max is "<quota> <period>" or "max ...".
int QuotaCpus(int otherwise) {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0;
  double period = 0;
  if (!(file >> quota >> period) || quota <= 0 || period <= 0) return otherwise;
  return std::max(1, static_cast<int>(std::ceil(std::min(quota / period, 1e6))));
}

int ColumnsOf(int descriptor) {
  constexpr int kOtherwise = 80;
  if (isatty(descriptor) != 1) return 0;
  winsize size = {};
  const bool known = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kOtherwise;
}

}  // namespace

bool StderrIsTerminal() { return isatty(STDERR_FILENO) == 1; }

bool StderrIsScreen() { return StderrIsTerminal() && EnvironmentValue("TERM") != "dumb"; }

bool ColorOnStderr(std::string_view color_option) {
  if (color_option == "always") return true;
  if (color_option == "never") return false;
  return StderrIsScreen() && EnvironmentValue("NO_COLOR").empty();
}

Status WriteStdout(std::string_view text, bool* closed) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return OkStatus();
  const int saved_errno = errno;
  *closed = saved_errno == EPIPE;
  if (*closed) return OkStatus();
  return Error(Errc::kIo,
               SystemError("write the answer to standard output", saved_errno).message());
}

void WriteStderr(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

int StdoutColumns() { return ColumnsOf(STDOUT_FILENO); }
int StderrColumns() { return ColumnsOf(STDERR_FILENO); }

bool LocaleIsUtf8() {
  std::string locale;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (locale.empty()) locale = EnvironmentValue(name);
  std::ranges::transform(locale, locale.begin(), [](unsigned char c) { return std::tolower(c); });
  return locale.find("utf-8") != locale.npos || locale.find("utf8") != locale.npos;
}

int UsableCpus() {
  const int cpus = std::max(1, static_cast<int>(AllowedProcessors().size()));
  return std::min(cpus, QuotaCpus(cpus));
}

}  // namespace nxdkit::tool
