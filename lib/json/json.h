// JSON as the formats use it: strict in, and out the bytes that Python would write.
// PRIVATE header: it pulls in nlohmann/json.hpp; include it from .cc files only.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit {

// Keeps the order of keys. Its find() is linear: walk big objects, do not look up in them.
using Json = nlohmann::ordered_json;

struct JsonOptions {
  // The bare words NaN, Infinity and -Infinity, which Python's json writes and reads.
  bool allow_nan = false;
  // The last one counts, at the place of the first, as in Python; else they are an error.
  bool allow_duplicate_keys = false;
  int max_depth = 128;
};

// Strict RFC 8259: one value, UTF-8 without a byte order mark, no comments, no trailing commas.
// Integers beyond 64 bits become doubles. Every error is kCorrupt, with the byte offset of where it
// shows, and line and column in the message.
Result<Json> ParseJson(std::string_view text, const JsonOptions& options = {});

// ParseJson of a whole file of at most `max_bytes`.
Result<Json> ReadJsonFile(const std::string& path, uint64_t max_bytes,
                          const JsonOptions& options = {});

// The bytes of Python's json.dumps(value, indent=2, sort_keys=sort_keys), without a line feed at
// the end. Bytes of a string that are not UTF-8 come out as \udcXX, Python's surrogateescape.
std::string DumpPython(const Json& value, bool sort_keys = true);

// As Python's repr(float), and with NaN, Infinity and -Infinity as its json module.
std::string PythonFloat(double value);

// The value under `key` of an object, of one type. kCorrupt with member = key when it is missing or
// of another type; `object` that is no object is kCorrupt too. JsonDouble takes integers as well.
Result<std::string> JsonString(const Json& object, std::string_view key);
Result<int64_t> JsonInt(const Json& object, std::string_view key);
Result<double> JsonDouble(const Json& object, std::string_view key);
Result<bool> JsonBool(const Json& object, std::string_view key);

// The value under `key`; nullptr when it is missing, null, or `object` is no object.
const Json* JsonFind(const Json& object, std::string_view key);

// "a string", "an object", ...: for messages.
std::string_view JsonTypeText(const Json& value);

// The value as one line of JSON in ASCII, cut to some 60 characters: for messages.
std::string JsonExcerpt(const Json& value);

}  // namespace nxdkit
