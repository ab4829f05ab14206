// PRIVATE to tests. A compile cache with entries of every state and age.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "formats/compile_cache/cache.h"
#include "formats/compile_cache/prune.h"
#include "formats/compile_cache/slot.h"
#include "lib/hash/digest.h"
#include "tests/formats/neff/neff_bytes.h"
#include "tests/formats/scratch.h"

namespace nxdkit::testing_util {

class CacheWorkshop {
 public:
  static constexpr int64_t kSecond = 1'000'000'000;
  static constexpr int64_t kNow = int64_t{1'800'000'000} * kSecond;

  CacheWorkshop() { std::filesystem::create_directory(root()); }

  std::string root() const { return scratch_.Path("cache"); }
  std::string Entry(const std::string& module, const std::string& compiler = "neuronxcc-1") const {
    return root() + "/" + compiler + "/" + module;
  }
  void Write(const std::string& module, const std::string& name, const std::string& contents,
             const std::string& compiler = "neuronxcc-1") const {
    std::filesystem::create_directories(Entry(module, compiler));
    scratch_.Write("cache/" + compiler + "/" + module + "/" + name, contents);
  }

  // A finished entry of the vendor's kind with a payload of `bytes` bytes, used `days` ago.
  std::string Done(char key, size_t bytes, int days) const {
    const std::string flags = "[]";
    const std::string module = Module(key);
    Write(module, "compile_flags.json", flags);
    Write(module, "model.neff", std::string(bytes, 'x'));
    Write(module, "model.done", "");
    Age(module, days);
    return module;
  }
  static std::string Module(char key) {
    return "MODULE_" + std::string(20, key) + "+" + Md5Hex("[]").substr(0, 8);
  }

  void Age(const std::string& module, int days) const {
    const timespec then{(kNow / kSecond) - int64_t{days} * 24 * 3600, 0};
    const timespec times[2] = {then, then};
    for (const auto& entry : std::filesystem::directory_iterator(Entry(module)))
      EXPECT_EQ(::utimensat(AT_FDCWD, entry.path().c_str(), times, 0), 0);
    EXPECT_EQ(::utimensat(AT_FDCWD, Entry(module).c_str(), times, 0), 0);
  }

  neff::PruneReport Prune(neff::PruneOptions options = {}) const {
    if (options.now_ns == 0) options.now_ns = kNow;
    const auto report = neff::Prune(root(), options);
    EXPECT_TRUE(report.ok()) << report.error().ToString();
    return report.ok() ? *report : neff::PruneReport();
  }

  // The existing modules, by the last character of their keys.
  std::string Left() const {
    std::string left;
    const auto listing = neff::ListCache(root());
    EXPECT_TRUE(listing.ok()) << listing.error().ToString();
    for (const neff::CacheEntry& entry : listing->entries) left += entry.module[7];
    return left;
  }

  neff::CacheEntry Read(const std::string& module) const {
    const auto entry = neff::ReadEntry(Entry(module));
    EXPECT_TRUE(entry.ok()) << entry.error().ToString();
    return *entry;
  }

 private:
  Scratch scratch_;
};

// A flock on a file or folder, as another process would hold it.
class Held {
 public:
  Held(const std::string& path, int operation) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    EXPECT_GE(fd_, 0) << path;
    EXPECT_EQ(::flock(fd_, operation | LOCK_NB), 0) << path;
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { ::close(fd_); }

 private:
  int fd_;
};

inline std::vector<std::string> ReasonsOf(const std::vector<neff::Pruned>& list) {
  std::vector<std::string> reasons;
  for (const neff::Pruned& pruned : list)
    reasons.push_back(pruned.entry.substr(pruned.entry.find("MODULE_") + 7, 1) + " " +
                      pruned.reason);
  return reasons;
}

}  // namespace nxdkit::testing_util
