// Never returns from its input: its failure shows that the time of an input is limited.
#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t*, size_t) {
  volatile bool endless = true;
  while (endless) {
  }
  return 0;
}
