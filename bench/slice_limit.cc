// slice_limit FILE: reads the runs of a file that standard input lists, "offset bytes" a line, one
// after the other with pread into one buffer, and prints the seconds of the fastest of five rounds.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  const int file = argc == 2 ? open(argv[1], O_RDONLY) : -1;
  if (file < 0) return std::fprintf(stderr, "usage: slice_limit FILE < RUNS\n"), 2;
  struct Run {
    long offset;
    size_t bytes;
  };
  std::vector<Run> runs;
  size_t all = 0;
  for (Run run = {}; std::scanf("%ld %zu", &run.offset, &run.bytes) == 2; all += run.bytes)
    runs.push_back(run);
  std::vector<char> to(all, 1);
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    char* at = to.data();
    for (const Run& run : runs) {
      if (pread(file, at, run.bytes, run.offset) != static_cast<ssize_t>(run.bytes)) return 1;
      at += run.bytes;
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count());
  }
  std::printf("%.6f\n", best);
}
