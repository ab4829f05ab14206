// Words that were encoded before, with their ids: most of a text is words seen already.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace nxdkit::trainer {

// For maps that are asked with a part of a text.
struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// Thread-safe. Holds a bounded number of short words; once full it takes no more. What it answers
// never depends on what is in it: a word has one encoding.
class WordCache {
 public:
  // Appends the ids of `word`; false when it is not here.
  bool Find(std::string_view word, std::vector<int32_t>* ids) const {
    if (word.size() > kMaxWordBytes) return false;
    const Shard& shard = shards_[ShardOf(word)];
    const std::lock_guard lock(shard.mutex);
    const auto found = shard.words.find(word);
    if (found == shard.words.end()) return false;
    ids->insert(ids->end(), found->second.begin(), found->second.end());
    return true;
  }
  void Insert(std::string_view word, std::span<const int32_t> ids) {
    if (word.size() > kMaxWordBytes) return;
    Shard& shard = shards_[ShardOf(word)];
    const std::lock_guard lock(shard.mutex);
    if (shard.words.size() < kMaxWordsPerShard)
      shard.words.try_emplace(std::string(word), ids.begin(), ids.end());
  }

 private:
  struct Shard {
    mutable std::mutex mutex;
    std::unordered_map<std::string, std::vector<int32_t>, TextHash, std::equal_to<>> words;
  };
  static constexpr size_t kShards = 16;  // so that threads seldom meet
  static constexpr size_t kMaxWordBytes = 64, kMaxWordsPerShard = 4096;

  static size_t ShardOf(std::string_view word) { return TextHash()(word) >> 8 & (kShards - 1); }

  std::array<Shard, kShards> shards_;
};

}  // namespace nxdkit::trainer
