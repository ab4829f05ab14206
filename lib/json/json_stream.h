// PRIVATE: JSON texts of any size as a stream of events, read from a file in blocks: no tree, and
// memory that does not grow with the text. For headers and indexes of 100 MB; for small configs use
// json.h.
#pragma once

#include <cstdint>
#include <string_view>

#include "lib/system/file.h"

namespace nxdkit {

enum class JsonKind { kNull, kBoolean, kNegative, kUnsigned, kFloat, kString, kArray, kObject };
std::string_view JsonKindName(JsonKind kind);  // with its article: "an array"

// Receives the events in text order. An error ends the parse and is returned by ReadJsonStream,
// with the offset of the byte read last, unless it has one. Views are valid for the call only.
class JsonHandler {
 public:
  virtual ~JsonHandler() = default;
  virtual Status Key(std::string_view key) = 0;
  virtual Status String(std::string_view value) = 0;
  virtual Status Unsigned(uint64_t value) = 0;
  // A value known by its kind only: kNull, kBoolean, kNegative (also "-0"), kFloat (also integers
  // over 2^64-1).
  virtual Status Scalar(JsonKind kind) = 0;
  // `offset` of the bracket, from the start of the file; `kind` is kArray or kObject.
  virtual Status Begin(JsonKind kind, uint64_t offset) = 0;
  virtual Status End(JsonKind kind) = 0;
};

struct JsonStreamLimits {
  int depth = 127;  // open brackets at once; serde_json refuses the 128th
  // The longest run of bytes without a string or number, and so the longest string: kLimit beyond.
  // The lexer keeps all bytes since the last of them.
  uint64_t run_bytes = uint64_t{16} << 20;
};

// Parses exactly the bytes [offset, offset + bytes) of the file as one JSON value with white space
// around it. As strict as RFC 8259: no byte order mark, comment, NUL or second value; strings are
// UTF-8 without lone surrogates. kCorrupt with the offset on a syntax error or too deep a nest.
Status ReadJsonStream(const File& file, uint64_t offset, uint64_t bytes, JsonHandler& handler,
                      const JsonStreamLimits& limits = {});
// The same for a text in memory; a tree would take twenty times as much memory.
Status ReadJsonStream(std::string_view text, JsonHandler& handler,
                      const JsonStreamLimits& limits = {});

}  // namespace nxdkit
