// Tokens that are found in a text before all other processing: "<|im_start|>".
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::trainer {

constexpr int32_t kCountedId = -1;  // the id in the vocabulary, or the next one

struct AddedToken {
  int32_t id = kCountedId;
  std::string content;
  bool special = false;      // left out by Decode on request
  bool single_word = false;  // only if not adjacent to a letter, digit or '_'
  bool lstrip = false;       // includes the white space before it
  bool rstrip = false;       // and after it
  bool normalized = false;   // its normalized content is searched in the normalized text
};

// A part of a text: one added token, or text between two.
struct TextPart {
  std::string_view text;
  int32_t id = -1;  // -1: text
};

// Finds the tokens of one list. At each position the longest one wins, and the text it covers is
// not searched again. Thread-safe once constructed.
class AddedTokenFinder {
 public:
  // `patterns[i]` is the text to search for `tokens[i]`; both must outlive this. The first of two
  // equal patterns wins.
  AddedTokenFinder(const std::vector<const AddedToken*>& tokens,
                   const std::vector<std::string>& patterns);

  // Appends the parts of `text`, in order; no text part is empty. If one token strips white space
  // that another one consists of, both are found, as in the library this follows.
  void Split(std::string_view text, std::vector<TextPart>* parts) const;

 private:
  struct Found {
    const AddedToken* token = nullptr;
    size_t bytes = 0;
  };
  struct Node {
    std::vector<std::pair<uint8_t, uint32_t>> next;  // sorted by byte
    const AddedToken* token = nullptr;
  };

  void Insert(std::string_view pattern, const AddedToken* token);
  const Node* Next(const Node& node, uint8_t byte) const;
  Found LongestAt(std::string_view text, size_t offset) const;

  std::vector<Node> nodes_;
  std::array<bool, 256> begins_{};  // whether any pattern begins with the byte
};

}  // namespace nxdkit::trainer
