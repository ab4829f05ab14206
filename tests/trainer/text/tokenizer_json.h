// A small tokenizer.json to break in tests.
// PRIVATE header: it makes parsed JSON; include it from .cc files only.
#pragma once

#include <string>

#include "lib/json/json.h"
#include "trainer/text/byte_level.h"

namespace nxdkit::trainer::testing {

inline Json AddedTokenJson(int id, const std::string& content, bool special = true) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

// Ids 0 to 255 are the bytes; 256 "he", 257 "ll", 258 "llo", 259 "hello", 260 <|end|>, 261 <t>.
inline Json SmallTokenizer() {
  Json vocabulary = Json::object();
  for (int byte = 0; byte < 256; ++byte) vocabulary[TokenOfByte(static_cast<uint8_t>(byte))] = byte;
  vocabulary["he"] = 256;
  vocabulary["ll"] = 257;
  vocabulary["llo"] = 258;
  vocabulary["hello"] = 259;
  return {
      {"added_tokens", {AddedTokenJson(260, "<|end|>"), AddedTokenJson(261, "<t>", false)}},
      {"normalizer", {{"type", "NFC"}}},
      {"pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Split"},
           {"pattern", {{"Regex", "\\s?\\p{L}+|\\s+"}}},
           {"behavior", "Isolated"},
           {"invert", false}},
          {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model",
       {{"type", "BPE"},
        {"vocab", vocabulary},
        {"merges", Json::parse(R"([["h","e"],["l","l"],["ll","o"],["he","llo"]])")}}},
  };
}

}  // namespace nxdkit::trainer::testing
