// The tokenizer of a model, from Hugging Face's tokenizer.json: byte-level BPE as used by Qwen2,
// Qwen3 and Llama 3. It gives the same ids as the library `tokenizers`; README.md lists the
// supported parts of the file. Anything else is refused when the file is opened, never ignored.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::trainer {

// Thread-safe once opened. Move-only.
class Tokenizer {
 public:
  // kNotFound, kIo, kCorrupt for a damaged file, kUnsupported naming the member that is not
  // supported.
  static Result<Tokenizer> Open(const std::string& path);
  static Result<Tokenizer> Parse(std::string_view json);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // `add_special_tokens` adds the post-processor's tokens around a text (BOS); a chat template has
  // already written them. Special tokens in `text` are recognised. kCorrupt with the offset for
  // text that is not UTF-8, kUnsupported for a byte that has no token in the vocabulary, kLimit for
  // more than 1 GiB.
  Result<std::vector<int32_t>> Encode(std::string_view text, bool add_special_tokens) const;

  // Unknown ids are left out. Bytes that are not UTF-8 become U+FFFD.
  std::string Decode(std::span<const int32_t> ids, bool skip_special_tokens) const;

  // Whether words are bytes, in GPT-2's alphabet; otherwise they are characters.
  bool byte_level() const;

  // The token in the file's notation, with byte-level characters.
  std::optional<int32_t> TokenId(std::string_view token) const;
  std::optional<std::string> Token(int32_t id) const;
  bool IsSpecial(int32_t id) const;
  int32_t id_limit() const;  // largest id + 1; a model's vocabulary is at least as large

 private:
  friend class TokenizerMaker;
  struct Parts;
  explicit Tokenizer(std::unique_ptr<const Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

}  // namespace nxdkit::trainer
