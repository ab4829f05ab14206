// Is an artifact sound, and does it hold the weights of another one?   verify PATH [OTHER]
#include <cstdio>

#include "formats/ops/verify/verify.h"

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) return 2;
  nxdkit::ops::VerifyRequest request;
  request.path = argv[1];
  if (argc == 3) request.against = argv[2];
  request.run.jobs = 2;
  // An error: the artifact cannot be read. Findings: it can be read, and something is wrong.
  const auto report = nxdkit::ops::Verify(request);
  if (!report) {
    std::fprintf(stderr, "%s\n", report.error().ToString().c_str());
    return nxdkit::ExitCode(report.error().code());
  }
  for (const std::string& check : report->checks) std::printf("ok: %s\n", check.c_str());
  for (const nxdkit::artifact::Finding& finding : report->findings)
    std::printf("wrong: %s\n", finding.ToString().c_str());
  return report->findings.empty() ? 0 : nxdkit::ExitCode(nxdkit::Errc::kFindings);
}
