// JSON as the formats use it: strict input, and the bytes that Python would write as output.
// PRIVATE header: it pulls in nlohmann/json.hpp; include it from .cc files only.
#pragma once

#include "lib/json/json_parse.h"

namespace nxdkit {

// The bytes of Python's json.dumps(value, indent=2, sort_keys=sort_keys), without a line feed at
// the end. Bytes of a string that are not UTF-8 come out as \udcXX, Python's surrogateescape.
std::string DumpPython(const Json& value, bool sort_keys = true);

// Python's repr(float); NaN, Infinity and -Infinity as its json module writes them.
std::string PythonFloat(double value);

// The value under `key` of an object, of one type. kCorrupt with member = key if it is missing or
// has another type, or if `object` is not an object. JsonDouble accepts integers too.
Result<std::string> JsonString(const Json& object, std::string_view key);
Result<int64_t> JsonInt(const Json& object, std::string_view key);
Result<double> JsonDouble(const Json& object, std::string_view key);
Result<bool> JsonBool(const Json& object, std::string_view key);
Result<const Json*> JsonArray(const Json& object, std::string_view key);
Result<const Json*> JsonObject(const Json& object, std::string_view key);

// The value under `key`; nullptr if it is missing or null, or `object` is not an object.
const Json* JsonFind(const Json& object, std::string_view key);

std::string_view JsonTypeText(const Json& value);  // "a string", "an object": for messages

std::string JsonExcerpt(const Json& value);  // a line of ASCII, cut to some 60 characters

}  // namespace nxdkit
