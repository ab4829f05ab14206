// Replays a fuzz target over every file of a corpus folder; an empty corpus is a failure, and so is
// an input that takes too long.
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/time_limit.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

std::string now_read;  // for the handler, which may not allocate

void TellAndEnd(int) {
  constexpr char kWhat[] = " takes too long\n";
  if (::write(STDERR_FILENO, now_read.data(), now_read.size()) >= 0 &&
      ::write(STDERR_FILENO, kWhat, std::strlen(kWhat)) >= 0)
    ::_exit(1);
  ::_exit(1);
}

// The processor time of all threads of this process.
void LimitSeconds(int seconds) {
  const itimerval limit = {{0, 0}, {seconds, 0}};
  ::setitimer(ITIMER_PROF, &limit, nullptr);
}

void Replay(const std::filesystem::path& file, int seconds) {
  std::ifstream in(file, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), {});
  now_read = file.string();
  LimitSeconds(seconds);
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  LimitSeconds(0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER [SECONDS]\n", argv[0]);
    return 2;
  }
  const int seconds = argc == 3 ? std::atoi(argv[2]) : nxdkit::kMostSecondsPerInput;
  ::signal(SIGPROF, TellAndEnd);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1]))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) Replay(file, seconds);
  std::printf("%zu inputs replayed\n", files.size());
  return files.empty() ? 1 : 0;
}
