// The limit of writing: writes files with the sizes of those below IN to OUT from one hot buffer,
// with the space allocated first. Prints seconds and GB/s.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "lib/system/file.h"

namespace {

constexpr size_t kBuffer = 1 << 20;

nxdkit::Status WriteOne(const std::string& path, uint64_t bytes,
                        const std::vector<std::byte>& buffer) {
  NXDKIT_ASSIGN(nxdkit::File file, nxdkit::File::OpenWrite(path));
  NXDKIT_TRY(file.Allocate(bytes));
  for (uint64_t at = 0; at < bytes; at += kBuffer)
    NXDKIT_TRY(file.WriteAt(at, std::span(buffer).first(std::min<uint64_t>(kBuffer, bytes - at))));
  return file.Close();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: write_limit IN OUT THREADS\n");
    return 2;
  }
  namespace fs = std::filesystem;
  std::vector<std::pair<std::string, uint64_t>> files;
  uint64_t total = 0;
  for (const auto& entry : fs::recursive_directory_iterator(argv[1])) {
    if (!entry.is_regular_file()) continue;
    files.push_back(
        {(fs::path(argv[2]) / fs::relative(entry.path(), argv[1])).string(), entry.file_size()});
    total += entry.file_size();
  }
  const auto start = std::chrono::steady_clock::now();
  for (const auto& [path, bytes] : files) fs::create_directories(fs::path(path).parent_path());
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  const auto work = [&] {
    const std::vector<std::byte> buffer(kBuffer, std::byte{0x5a});
    for (size_t i = next++; i < files.size(); i = next++) {
      const nxdkit::Status status = WriteOne(files[i].first, files[i].second, buffer);
      if (status.ok()) continue;
      std::fprintf(stderr, "%s\n", status.error().ToString().c_str());
      failed = true;
    }
  };
  std::vector<std::thread> threads;
  for (int t = 1; t < std::stoi(argv[3]); ++t) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%.3f %.2f\n", seconds, static_cast<double>(total) / seconds / 1e9);
  return failed ? 1 : 0;
}
