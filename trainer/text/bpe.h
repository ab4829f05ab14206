// Byte pair encoding of one word, on bytes (GPT-2's alphabet) or on characters (SentencePiece's).
// PRIVATE header: it takes parsed JSON; include it from .cc files only.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/json/json.h"
#include "trainer/text/merge_table.h"
#include "trainer/text/word_cache.h"

namespace nxdkit::trainer {

// Thread-safe once made. Move-only.
class Bpe {
 public:
  // The value of "model". kCorrupt for a vocabulary or merges that do not fit together,
  // kUnsupported for options that change what words become (dropout, prefix, suffix).
  static Result<Bpe> FromJson(const Json& model, bool byte_level);

  // kUnsupported for a word with a byte or character that the vocabulary has no token for, no bytes
  // (byte_fallback) and no unknown token: the reference would leave it out. Small vocabularies of
  // toy models lack most bytes.
  Status CheckWord(std::string_view word) const;
  // Appends the ids of `word`: n log n in its bytes. Not empty, UTF-8, at most 2^31 bytes, and
  // CheckWord has passed.
  void Encode(std::string_view word, std::vector<int32_t>* ids) const;

  // -1 when there is none.
  int32_t IdOf(std::string_view token) const;
  // nullptr when there is none.
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
  // add(id) for what the word is made of before anything merges.
  template <typename Add>
  void ForSymbols(std::string_view word, const Add& add) const;

  std::unordered_map<std::string, int32_t, TextHash, std::equal_to<>> ids_;
  std::vector<const std::string*> tokens_;  // by id; keys of ids_, nullptr where an id is not used
  std::array<int32_t, 256> byte_ids_{};     // -1 for bytes without a token
  std::array<int32_t, 128> ascii_ids_{};    // of characters
  bool byte_level_ = true;
  bool byte_fallback_ = false;  // of characters: those without a token are bytes, "<0x0A>"
  int32_t unknown_ = -1;        // the token of what has none; -1: no such token
  bool fuse_unknown_ = false;   // several in a row are one
  bool complete_ = true;        // every byte of UTF-8 text has one
  std::unique_ptr<MergeTable> merges_;
  bool ignore_merges_ = false;  // a word that is a token stays whole
  std::unique_ptr<WordCache> cache_ = std::make_unique<WordCache>();
};

}  // namespace nxdkit::trainer
