// Shards a model for training on two tensor parallel ranks.   convert MODEL TAG
#include <cinttypes>
#include <cstdio>

#include "formats/ops/convert/convert.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  nxdkit::ops::ConvertRequest request;
  request.from = &nxdkit::kinds::kHf;
  request.to = &nxdkit::kinds::kNxd;
  request.input = argv[1];
  request.output = argv[2];
  request.options.Set("tp", 2);  // the options of nxd-convert, by their names
  request.run.jobs = 2;
  request.run.max_memory = uint64_t{256} << 20;
  request.verify = true;  // the output is read again before it gets its name
  const auto report = nxdkit::ops::Convert(request);
  if (!report) {
    const nxdkit::Error& error = report.error();
    std::fprintf(stderr, "%s\n", error.ToString().c_str());
    if (!error.hint().empty()) std::fprintf(stderr, "hint: %s\n", error.hint().c_str());
    return nxdkit::ExitCode(error.code());
  }
  for (const std::string& warning : report->warnings)
    std::fprintf(stderr, "warning: %s\n", warning.c_str());
  std::printf("%" PRIu64 " parameters in %" PRIu64 " tensors, %" PRIu64 " files\n",
              report->parameters, report->output_tensors, report->output_files);
  return 0;
}
