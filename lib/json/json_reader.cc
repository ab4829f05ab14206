#include "lib/json/json_reader.h"

#include <fmt/core.h>

namespace nxdkit {

void JsonReader::Fail(std::string_view key, std::string what) {
  if (error_) return;
  error_ = Error(Errc::kCorrupt, std::move(what)).member(prefix_ + std::string(key)).in(path_);
}

template <typename Fits>
const Json* JsonReader::Value(std::string_view key, bool has_fallback, std::string_view expected,
                              Fits fits) {
  const Json* value = Find(key);
  if (value && fits(*value)) return value;
  if (value)
    Fail(key, fmt::format("found {}, expected {}", JsonExcerpt(*value), expected));
  else if (!has_fallback)
    Fail(key, fmt::format("missing; expected {}", expected));
  return nullptr;
}

int64_t JsonReader::Int(std::string_view key, std::optional<int64_t> fallback, int64_t least,
                        int64_t most) {
  const Json* value =
      Value(key, fallback.has_value(), fmt::format("an integer from {} to {}", least, most),
            [&](const Json& json) {
              return json.is_number_integer() && json.get<int64_t>() >= least &&
                     json.get<int64_t>() <= most;
            });
  return value ? value->get<int64_t>() : fallback.value_or(least);
}

bool JsonReader::Flag(std::string_view key, std::optional<bool> fallback) {
  const Json* value = Value(key, fallback.has_value(), "true or false",
                            [](const Json& json) { return json.is_boolean(); });
  return value ? value->get<bool>() : fallback.value_or(false);
}

std::string JsonReader::Text(std::string_view key, std::optional<std::string> fallback) {
  const Json* value = Value(key, fallback.has_value(), "a string",
                            [](const Json& json) { return json.is_string(); });
  return value ? value->get<std::string>() : fallback.value_or("");
}

}  // namespace nxdkit
