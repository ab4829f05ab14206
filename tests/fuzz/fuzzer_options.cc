// libFuzzer's own limit is twenty minutes for one input. It calls this before it reads its options;
// a -timeout= of the command line comes later and has precedence.
#include <string>
#include <vector>

#include "tests/fuzz/time_limit.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  static std::string limit = "-timeout=" + std::to_string(nxdkit::kMostSecondsPerInput);
  static std::vector<char*> words(*argv, *argv + *argc);
  words.insert(words.begin() + 1, limit.data());
  words.push_back(nullptr);
  *argc = static_cast<int>(words.size()) - 1;
  *argv = words.data();
  return 0;
}
