// Opens an artifact through the installed library and prints how many tensors it has.
#include <cstdio>

#include "formats/kinds/open.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto kind = nxdkit::ops::Recognise(argv[1]);
  if (!kind.ok()) return nxdkit::ExitCode(kind.error().code());
  const auto artifact = nxdkit::ops::OpenArtifact(argv[1], *kind, {});
  if (!artifact.ok()) return nxdkit::ExitCode(artifact.error().code());
  std::printf("%s %zu\n", std::string((*kind)->name).c_str(), artifact->tensor_count());
  return 0;
}
