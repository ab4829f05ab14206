#include "trainer/text/added_tokens.h"

#include <algorithm>

#include "lib/base/utf8.h"
#include "trainer/base/characters.h"

namespace nxdkit::trainer {
namespace {

bool StartsWithWord(std::string_view text) {
  if (text.empty()) return false;
  const std::optional<CodePoint> point = DecodeUtf8(text, 0);
  return point && IsWordCharacter(point->value);
}

bool EndsWithWord(std::string_view text) {
  return !text.empty() && StartsWithWord(text.substr(CharBegin(text, text.size() - 1)));
}

// The beginning of the white space before `end`, not before `floor`.
size_t SpaceBefore(std::string_view text, size_t floor, size_t end) {
  while (end > floor) {
    const size_t begin = CharBegin(text, end - 1);
    const std::optional<CodePoint> point = DecodeUtf8(text, begin);
    if (!point || !IsWhiteSpace(point->value)) break;
    end = begin;
  }
  return end;
}

size_t SpaceAfter(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const std::optional<CodePoint> point = DecodeUtf8(text, begin);
    if (!point || !IsWhiteSpace(point->value)) break;
    begin += static_cast<size_t>(point->bytes);
  }
  return begin;
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(const std::vector<const AddedToken*>& tokens,
                                   const std::vector<std::string>& patterns) {
  nodes_.emplace_back();
  for (size_t i = 0; i < tokens.size(); ++i) Insert(patterns[i], tokens[i]);
}

void AddedTokenFinder::Insert(std::string_view pattern, const AddedToken* token) {
  if (pattern.empty()) return;
  begins_[static_cast<uint8_t>(pattern[0])] = true;
  uint32_t at = 0;
  for (const char c : pattern) {
    const auto byte = static_cast<uint8_t>(c);
    const Node* next = Next(nodes_[at], byte);
    if (next != nullptr) {
      at = static_cast<uint32_t>(next - nodes_.data());
      continue;
    }
    const auto made = static_cast<uint32_t>(nodes_.size());
    auto& edges = nodes_[at].next;
    edges.insert(std::ranges::upper_bound(edges, std::pair(byte, uint32_t{0})), {byte, made});
    nodes_.emplace_back();
    at = made;
  }
  if (nodes_[at].token == nullptr) nodes_[at].token = token;
}

const AddedTokenFinder::Node* AddedTokenFinder::Next(const Node& node, uint8_t byte) const {
  const auto edge = std::ranges::lower_bound(node.next, std::pair(byte, uint32_t{0}));
  return edge == node.next.end() || edge->first != byte ? nullptr : &nodes_[edge->second];
}

AddedTokenFinder::Found AddedTokenFinder::LongestAt(std::string_view text, size_t offset) const {
  Found found;
  const Node* node = &nodes_[0];
  for (size_t i = offset; i < text.size(); ++i) {
    node = Next(*node, static_cast<uint8_t>(text[i]));
    if (node == nullptr) break;
    if (node->token != nullptr) found = {node->token, i + 1 - offset};
  }
  return found;
}

void AddedTokenFinder::Split(std::string_view text, std::vector<TextPart>* parts) const {
  size_t done = 0;       // everything before belongs to a part
  size_t space_end = 0;  // a run of white space is measured once, however many tokens it contains
  for (size_t at = 0; at < text.size();) {
    const Found found = begins_[static_cast<uint8_t>(text[at])] ? LongestAt(text, at) : Found{};
    if (found.token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at;
    size_t end = at + found.bytes;
    at = end;
    if (found.token->single_word &&
        (EndsWithWord(text.substr(0, begin)) || StartsWithWord(text.substr(end))))
      continue;
    if (found.token->lstrip && begin > done) begin = SpaceBefore(text, done, begin);
    if (found.token->rstrip) {
      if (end >= space_end) space_end = SpaceAfter(text, end);
      end = space_end;
    }
    if (done < begin) parts->push_back({text.substr(done, begin - done)});
    parts->push_back({text.substr(begin, end - begin), found.token->id});
    done = end;
  }
  if (done < text.size()) parts->push_back({text.substr(done)});
}

}  // namespace nxdkit::trainer
