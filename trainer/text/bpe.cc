#include "trainer/text/bpe.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "trainer/base/characters.h"
#include "trainer/text/byte_level.h"

namespace nxdkit::trainer {
namespace {

// Tables are as large as the largest id, so a small file must not name a large one.
constexpr uint64_t kMaxTokens = uint64_t{1} << 24;
constexpr uint64_t kMostIdsPerToken = 8;
constexpr uint64_t kIdsForFree = 4096;

// null, absent, and for text empty, are the values of every byte-level tokenizer.
Status RefuseOption(const Json& model, std::string_view key) {
  const Json* value = JsonFind(model, key);
  if (value == nullptr || *value == "" || (value->is_number() && *value == 0)) return OkStatus();
  return Unsupported("{} {}, expected null", key, JsonExcerpt(*value)).member("model");
}

// A pair as [left, right], or as "left right".
Result<std::pair<std::string_view, std::string_view>> PairOf(const Json& merge, size_t index) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return std::pair(std::string_view(merge[0].get_ref<const std::string&>()),
                     std::string_view(merge[1].get_ref<const std::string&>()));
  if (merge.is_string()) {
    const std::string_view text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos)
      return std::pair(text.substr(0, space), text.substr(space + 1));
  }
  return Corrupt("merge {} is {}, expected two tokens", index, JsonExcerpt(merge))
      .member("model.merges");
}

// Bytes 0xc0, 0xc1 and from 0xf5 on never occur in UTF-8 text.
bool IsByteOfUtf8(size_t byte) { return byte < 0xc0 || (byte > 0xc1 && byte < 0xf5); }

constexpr uint32_t kNone = ~uint32_t{0};

// A token of the word, and its live neighbours. A token merged into its left neighbour is dead.
struct Symbol {
  int32_t id;
  uint32_t before;
  uint32_t after;
};
constexpr int32_t kDead = -1;

// Two neighbours that may merge; stale after a change of either.
struct Candidate {
  Merge merge;
  uint32_t place;  // of the left one
  int32_t left;
  int32_t right;
  bool operator>(const Candidate& other) const {
    return merge.rank != other.merge.rank ? merge.rank > other.merge.rank : place > other.place;
  }
};

class Word {
 public:
  explicit Word(const MergeTable& merges) : merges_(merges) {}

  void Add(int32_t id) {
    const auto at = static_cast<uint32_t>(symbols_.size());
    symbols_.push_back({id, at == 0 ? kNone : at - 1, at + 1});
  }

  void MergeAll() {
    if (symbols_.empty()) return;
    symbols_.back().after = kNone;
    for (uint32_t i = 0; i + 1 < symbols_.size(); ++i) AppendCandidate(i);
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      const Candidate candidate = heap_.back();
      heap_.pop_back();
      if (IsStale(candidate)) continue;
      Join(candidate);
    }
  }

  void AppendTo(std::vector<int32_t>* ids) const {
    for (const Symbol& symbol : symbols_)
      if (symbol.id != kDead) ids->push_back(symbol.id);
  }

 private:
  bool IsStale(const Candidate& candidate) const {
    const Symbol& left = symbols_[candidate.place];
    return left.id != candidate.left || left.after == kNone ||
           symbols_[left.after].id != candidate.right;
  }

  bool AppendCandidate(uint32_t place) {
    const Symbol& left = symbols_[place];
    if (left.after == kNone) return false;
    const Merge* merge = merges_.Find(left.id, symbols_[left.after].id);
    if (merge == nullptr) return false;
    heap_.push_back({*merge, place, left.id, symbols_[left.after].id});
    return true;
  }
  void Push(uint32_t place) {
    if (AppendCandidate(place)) std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  void Join(const Candidate& candidate) {
    Symbol& left = symbols_[candidate.place];
    Symbol& right = symbols_[left.after];
    left.id = candidate.merge.id;
    left.after = right.after;
    right.id = kDead;
    if (left.after != kNone) symbols_[left.after].before = candidate.place;
    if (left.before != kNone) Push(left.before);
    Push(candidate.place);
  }

  const MergeTable& merges_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

}  // namespace

Result<Bpe> Bpe::FromJson(const Json& model, bool byte_level) {
  NXDKIT_ASSIGN(const std::string type, JsonString(model, "type"));
  if (type != "BPE")
    return Unsupported("type '{}' is not known, expected BPE", type).member("model");
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"})
    NXDKIT_TRY(RefuseOption(model, key));
  const Json* vocabulary = JsonFind(model, "vocab");
  const Json* merges = JsonFind(model, "merges");
  if (vocabulary == nullptr || !vocabulary->is_object())
    return Corrupt("found no object of tokens and ids").member("model.vocab");
  if (merges == nullptr || !merges->is_array())
    return Corrupt("found no array of pairs").member("model.merges");
  Bpe bpe;
  bpe.byte_level_ = byte_level;
  if (JsonFind(model, "ignore_merges") != nullptr)
    NXDKIT_TRY(JsonBool(model, "ignore_merges").To(bpe.ignore_merges_));
  NXDKIT_TRY(bpe.ReadVocabulary(*vocabulary));
  if (!byte_level) NXDKIT_TRY(bpe.ReadUnknown(model));
  bpe.FindBytes();
  NXDKIT_TRY(bpe.ReadMerges(*merges));
  return bpe;
}

Status Bpe::ReadVocabulary(const Json& vocabulary) {
  if (vocabulary.size() > kMaxTokens)
    return Corrupt("{} tokens, the limit is {}", vocabulary.size(), kMaxTokens)
        .member("model.vocab");
  const uint64_t most = vocabulary.size() * kMostIdsPerToken + kIdsForFree;
  ids_.reserve(vocabulary.size());
  for (const auto& [token, value] : vocabulary.items()) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > most)
      return Corrupt("token '{}' has id {}, expected 0 to {}", EscapeControl(token),
                     JsonExcerpt(value), most)
          .member("model.vocab");
    const auto id = value.get<size_t>();
    const auto entry = ids_.emplace(token, static_cast<int32_t>(id)).first;
    if (id >= tokens_.size()) tokens_.resize(id + 1);
    if (tokens_[id] != nullptr)
      return Corrupt("id {} belongs to '{}' and to '{}'", id, EscapeControl(*tokens_[id]),
                     EscapeControl(token))
          .member("model.vocab");
    tokens_[id] = &entry->first;
  }
  return OkStatus();
}

Status Bpe::ReadUnknown(const Json& model) {
  for (const auto& [key, to] :
       {std::pair("byte_fallback", &byte_fallback_), std::pair("fuse_unk", &fuse_unknown_)})
    if (JsonFind(model, key) != nullptr) NXDKIT_TRY(JsonBool(model, key).To(*to));
  if (JsonFind(model, "unk_token") == nullptr) return OkStatus();
  NXDKIT_ASSIGN(const std::string token, JsonString(model, "unk_token"));
  unknown_ = IdOf(token);
  if (unknown_ >= 0) return OkStatus();
  return Corrupt("'{}' is not in the vocabulary", EscapeControl(token)).member("model.unk_token");
}

void Bpe::FindBytes() {
  for (size_t byte = 0; byte < 256; ++byte) {
    byte_ids_[byte] = IdOf(byte_level_ ? TokenOfByte(static_cast<uint8_t>(byte))
                                       : fmt::format("<0x{:02X}>", byte));
    complete_ = complete_ && (byte_ids_[byte] >= 0 || !IsByteOfUtf8(byte));
  }
  if (!byte_level_) complete_ = (complete_ && byte_fallback_) || unknown_ >= 0;
  for (size_t c = 0; c < ascii_ids_.size(); ++c)
    ascii_ids_[c] = IdOf(std::string(1, static_cast<char>(c)));
}

bool Bpe::HasBytes(std::string_view character) const {
  return byte_fallback_ && std::ranges::all_of(character, [&](char c) {
           return byte_ids_[static_cast<uint8_t>(c)] >= 0;
         });
}

template <typename Add>
void Bpe::ForSymbols(std::string_view word, const Add& add) const {
  if (byte_level_) {
    for (const char byte : word) add(byte_ids_[static_cast<uint8_t>(byte)]);
    return;
  }
  bool pending = false;  // an unknown one, which may be joined by more
  for (size_t at = 0; at < word.size();) {
    const size_t end = at + CharBytes(word, at);
    const std::string_view character = word.substr(at, end - at);
    at = end;
    const auto first = static_cast<uint8_t>(character[0]);
    const int32_t id = first < ascii_ids_.size() ? ascii_ids_[first] : IdOf(character);
    if (id < 0 && HasBytes(character)) {
      // The library does not end a run of unknown tokens here: they come after the bytes.
      for (const char byte : character) add(byte_ids_[static_cast<uint8_t>(byte)]);
      continue;
    }
    if (pending && (id >= 0 || !fuse_unknown_)) {
      add(unknown_);
      pending = false;
    }
    if (id >= 0)
      add(id);
    else
      pending = true;
  }
  if (pending) add(unknown_);
}

Status Bpe::CheckWord(std::string_view word) const {
  if (complete_) return OkStatus();
  for (size_t at = 0; at < word.size();) {
    const size_t end = byte_level_ ? at + 1 : at + CharBytes(word, at);
    const std::string_view symbol = word.substr(at, end - at);
    const auto byte = static_cast<uint8_t>(word[at]);
    at = end;
    if (byte_level_ && byte_ids_[byte] < 0)
      return Unsupported("no token '{}' for the byte 0x{:02x} of '{}'", TokenOfByte(byte), byte,
                         EscapeControl(word))
          .member("model.vocab");
    if (!byte_level_ && IdOf(symbol) < 0 && !HasBytes(symbol))
      return Unsupported("no token for the character '{}', and no unknown token",
                         EscapeControl(symbol))
          .member("model.vocab");
  }
  return OkStatus();
}

Status Bpe::ReadMerges(const Json& merges) {
  if (merges.size() > kMaxTokens)
    return Corrupt("{} merges, the limit is {}", merges.size(), kMaxTokens).member("model.merges");
  merges_ = std::make_unique<MergeTable>(merges.size());
  uint32_t rank = 0;
  for (const Json& merge : merges) {
    // The first line of a merges.txt, which old converters copied.
    if (merge.is_string() && merge.get_ref<const std::string&>().starts_with("#version")) continue;
    NXDKIT_ASSIGN(const auto pair, PairOf(merge, rank));
    NXDKIT_TRY(AddMerge(rank++, pair.first, pair.second));
  }
  return OkStatus();
}

Status Bpe::AddMerge(uint32_t rank, std::string_view left, std::string_view right) {
  const std::string whole = std::string(left).append(right);
  const int32_t left_id = IdOf(left), right_id = IdOf(right), id = IdOf(whole);
  if (left_id < 0 || right_id < 0 || id < 0)
    return Corrupt("merge {} of '{}' and '{}': '{}' is not in the vocabulary", rank,
                   EscapeControl(left), EscapeControl(right),
                   EscapeControl(left_id < 0    ? left
                                 : right_id < 0 ? right
                                                : std::string_view(whole)))
        .member("model.merges");
  merges_->Insert(left_id, right_id, {rank, id});
  return OkStatus();
}

int32_t Bpe::IdOf(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? -1 : found->second;
}

const std::string* Bpe::TokenOf(int32_t id) const {
  return id < 0 || id >= id_limit() ? nullptr : tokens_[static_cast<size_t>(id)];
}

void Bpe::Encode(std::string_view word, std::vector<int32_t>* ids) const {
  if (cache_->Find(word, ids)) return;
  const size_t before = ids->size();
  const int32_t whole =
      !ignore_merges_ ? -1 : IdOf(byte_level_ ? TokenOfBytes(word) : std::string(word));
  if (whole >= 0) {
    ids->push_back(whole);
  } else {
    Word merged(*merges_);
    ForSymbols(word, [&](int32_t id) { merged.Add(id); });
    merged.MergeAll();
    merged.AppendTo(ids);
  }
  cache_->Insert(word, std::span(*ids).subspan(before));
}

}  // namespace nxdkit::trainer
