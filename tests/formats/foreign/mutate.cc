#include "tests/formats/foreign/mutate.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "lib/hash/crc32.h"

namespace nxdkit::testing_util {
namespace {

constexpr std::string_view kPickle = "/data.pkl";

uint32_t NumberAt(const std::string& file, size_t at, size_t bytes) {
  uint32_t number = 0;
  std::memcpy(&number, file.data() + at, bytes);
  return number;
}

// A record in a zip archive: where its bytes are, and its entries of the directory.
struct Record {
  size_t entry = 0;
  size_t local = 0;
  size_t data = 0;
  size_t size = 0;
};

// All data.pkl of the archives in the file.
std::vector<Record> PicklesIn(const std::string& file) {
  std::vector<Record> found;
  for (size_t at = file.find("PK\1\2"); at != file.npos; at = file.find("PK\1\2", at + 4)) {
    if (at + 46 > file.size()) break;
    const std::string_view name =
        std::string_view(file).substr(at + 46, NumberAt(file, at + 28, 2));
    if (!name.ends_with(kPickle)) continue;
    // The local header is the last one before the entry with this name.
    const size_t name_at = file.rfind(std::string(name), at - 1);
    if (name_at == file.npos || name_at < 30) continue;
    Record record{at, name_at - 30, 0, NumberAt(file, at + 24, 4)};
    record.data = name_at + name.size() + NumberAt(file, record.local + 28, 2);
    if (record.data + record.size <= at) found.push_back(record);
  }
  return found;
}

void MendCrc(std::string& file, const Record& record) {
  const uint32_t crc = Crc32(0, std::as_bytes(std::span(file).subspan(record.data, record.size)));
  const auto put = [&](size_t at) { std::memcpy(file.data() + at, &crc, sizeof(crc)); };
  put(record.entry + 16);
  put(record.local + 14);
  const size_t end = record.data + record.size;
  if (file.compare(end, 4, "PK\7\10") == 0) put(end + 4);
}

void Mutate(std::string& file, size_t first, size_t count, std::mt19937& random) {
  constexpr std::array<char, 12> kTelling = {0, 1, 2, 'K', 'M', 'J', 'R', 't', 'u', '(', 'q', -1};
  for (uint32_t n = random() % 4 + 1; n > 0; --n) {
    const size_t at = first + random() % count;
    switch (random() % 3) {
      case 0:
        file[at] = static_cast<char>(file[at] ^ (1 << random() % 8));
        break;
      case 1:
        file[at] = kTelling[random() % kTelling.size()];
        break;
      default:
        file[at] = file[first + random() % count];
    }
  }
}

}  // namespace

void MutatePickle(std::string& file, std::mt19937& random) {
  const std::vector<Record> pickles = PicklesIn(file);
  if (pickles.empty()) return Mutate(file, 0, file.size(), random);
  const Record& record = pickles[random() % pickles.size()];
  Mutate(file, record.data, record.size, random);
  MendCrc(file, record);
}

void ReplaceInPickle(std::string& file, std::string_view from, std::string_view to) {
  ASSERT_EQ(from.size(), to.size());
  const std::vector<Record> pickles = PicklesIn(file);
  ASSERT_FALSE(pickles.empty());
  const Record& record = pickles.front();
  const size_t at = std::string_view(file).substr(record.data, record.size).find(from);
  ASSERT_NE(at, std::string_view::npos);
  file.replace(record.data + at, to.size(), to);
  MendCrc(file, record);
}

}  // namespace nxdkit::testing_util
