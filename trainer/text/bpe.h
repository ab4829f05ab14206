// Byte pair encoding of one word, on bytes (GPT-2's alphabet) or on characters (SentencePiece's).
// PRIVATE header: it uses parsed JSON; include it from .cc files only.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/json/json.h"

namespace nxdkit::trainer {

struct Merge {
  uint32_t rank = 0;  // the lowest is applied first
  int32_t id = 0;     // of the resulting token
};

// The pairs of tokens that merge, with their rank and result. Filled once, then thread-safe. Open
// addressing, at most half full.
class MergeTable {
 public:
  explicit MergeTable(size_t most) : slots_(std::bit_ceil(std::max<size_t>(2, most * 2))) {}

  // The last one of equal pairs wins. Ids are not negative. At most `most` pairs fit.
  void Insert(int32_t left, int32_t right, Merge merge) {
    const uint64_t key = KeyOf(left, right);
    slots_[SlotOf(key)] = {key, merge};
  }
  const Merge* Find(int32_t left, int32_t right) const {
    const Slot& slot = slots_[SlotOf(KeyOf(left, right))];
    return slot.key == kEmpty ? nullptr : &slot.merge;
  }

 private:
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};

  static uint64_t KeyOf(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  // The finalizer of MurmurHash3.
  static uint64_t Mix(uint64_t key) {
    key = (key ^ key >> 33) * 0xff51afd7ed558ccd;
    key = (key ^ key >> 33) * 0xc4ceb9fe1a85ec53;
    return key ^ key >> 33;
  }
  // The slot of the key, or the empty one where it belongs.
  size_t SlotOf(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    size_t slot = Mix(key) & mask;
    while (slots_[slot].key != kEmpty && slots_[slot].key != key) slot = (slot + 1) & mask;
    return slot;
  }

  std::vector<Slot> slots_;  // a power of two
};

// For maps that are searched for parts of a text.
struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// Words encoded earlier, with their ids: most words of a text repeat. Thread-safe. Holds a bounded
// number of short words; a full cache takes no more. Results never depend on its contents: a word
// has one encoding.
class WordCache {
 public:
  // Appends the ids of `word`; false if it is not cached.
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
  static constexpr size_t kShards = 16;  // so that threads rarely contend
  static constexpr size_t kMaxWordBytes = 64, kMaxWordsPerShard = 4096;

  static size_t ShardOf(std::string_view word) { return TextHash()(word) >> 8 & (kShards - 1); }

  std::array<Shard, kShards> shards_;
};

// Thread-safe once loaded. Move-only.
class Bpe {
 public:
  // The value of "model". kCorrupt when vocabulary and merges do not match, kUnsupported for
  // options that change the encoding (dropout, prefix, suffix).
  static Result<Bpe> FromJson(const Json& model, bool byte_level);

  // kUnsupported for a word with a byte or character that has no token in the vocabulary, no bytes
  // (byte_fallback) and no unknown token: the reference would drop it. Small vocabularies of toy
  // models lack most bytes.
  Status CheckWord(std::string_view word) const;
  // Appends the ids of `word`, in O(n log n) for n bytes. The word must be non-empty UTF-8 of at
  // most 2^31 bytes that has passed CheckWord.
  void Encode(std::string_view word, std::vector<int32_t>* ids) const;

  // -1 if there is none.
  int32_t IdOf(std::string_view token) const;
  // nullptr if there is none.
  const std::string* TokenOf(int32_t id) const;
  int32_t id_limit() const { return static_cast<int32_t>(tokens_.size()); }  // largest id + 1
  size_t vocab_size() const { return ids_.size(); }

 private:
  Bpe() = default;
  Status ReadVocabulary(const Json& vocabulary);
  Status ReadMerges(const Json& merges);
  Status AddMerge(uint32_t rank, std::string_view left, std::string_view right);
  Status ReadUnknown(const Json& model);
  void FindBytes();
  bool HasBytes(std::string_view character) const;
  // Calls add(id) for the parts of the word before any merge.
  template <typename Add>
  void ForSymbols(std::string_view word, const Add& add) const;

  std::unordered_map<std::string, int32_t, TextHash, std::equal_to<>> ids_;
  std::vector<const std::string*> tokens_;  // by id; keys of ids_, nullptr for unused ids
  std::array<int32_t, 256> byte_ids_{};     // -1 for bytes without a token
  std::array<int32_t, 128> ascii_ids_{};    // for characters
  bool byte_level_ = true;
  bool byte_fallback_ = false;  // for characters: those without a token are bytes, "<0x0A>"
  int32_t unknown_ = -1;        // the token for everything without one; -1: none
  bool fuse_unknown_ = false;   // consecutive ones are one
  bool complete_ = true;        // every byte of UTF-8 text has one
  std::unique_ptr<MergeTable> merges_;
  bool ignore_merges_ = false;  // a word that is a token stays whole
  std::unique_ptr<WordCache> cache_ = std::make_unique<WordCache>();
};

}  // namespace nxdkit::trainer
