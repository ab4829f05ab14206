// PRIVATE: JSON texts in memory, and small files of them. It pulls in nlohmann/json.hpp: include it
// from .cc files only.
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
  // The last one wins, at the place of the first, as in Python; else they are an error.
  bool allow_duplicate_keys = false;
  int max_depth = 128;
};
inline constexpr JsonOptions kLikePython{.allow_nan = true, .allow_duplicate_keys = true};

// Strict RFC 8259: one value, UTF-8 without a byte order mark, no comments, no trailing commas.
// Integers beyond 64 bits become doubles. Every error is kCorrupt, with the byte offset where it
// shows, and line and column in the message.
Result<Json> ParseJson(std::string_view text, const JsonOptions& options = {});

Result<Json> ReadJsonFile(const std::string& path, uint64_t max_bytes,
                          const JsonOptions& options = {});

}  // namespace nxdkit
