#include "trainer/text/word_cache.h"

#include <utility>

namespace nxdkit::trainer {
namespace {

constexpr size_t kMaxWordBytes = 64;
constexpr size_t kMaxWordsPerShard = 4096;

}  // namespace

bool WordCache::Find(std::string_view word, std::vector<int32_t>* ids) const {
  if (word.size() > kMaxWordBytes) return false;
  const Shard& shard = shards_[ShardOf(word)];
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.words.find(word);
  if (found == shard.words.end()) return false;
  ids->insert(ids->end(), found->second.begin(), found->second.end());
  return true;
}

void WordCache::Insert(std::string_view word, std::vector<int32_t> ids) {
  if (word.size() > kMaxWordBytes) return;
  Shard& shard = shards_[ShardOf(word)];
  const std::lock_guard lock(shard.mutex);
  if (shard.words.size() < kMaxWordsPerShard) shard.words.try_emplace(std::string(word), ids);
}

}  // namespace nxdkit::trainer
