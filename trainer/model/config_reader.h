// PRIVATE to trainer/model. Reads keys of a config.json; keeps the first failure.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "lib/base/error.h"
#include "lib/json/json.h"

namespace nxdkit::trainer {

class ConfigReader {
 public:
  ConfigReader(const Json& json, std::string path) : json_(json), path_(std::move(path)) {}

  const Json& json() const { return json_; }

  // A positive number if the key is present; null is an error, as in transformers.
  double Number(const Json& object, const char* key, double fallback) {
    const auto found = object.find(key);
    if (found == object.end()) return fallback;
    if (found->is_number() && std::isfinite(found->get<double>()) && found->get<double>() > 0)
      return found->get<double>();
    Fail(Errc::kCorrupt, key,
         fmt::format("found {}, expected a positive number", JsonExcerpt(*found)));
    return fallback;
  }
  double Number(const char* key, double fallback) { return Number(json_, key, fallback); }
  // For keys that may be null in transformers, which then count as missing.
  double NumberOrNull(const Json& object, const char* key, double fallback) {
    return JsonFind(object, key) ? Number(object, key, fallback) : fallback;
  }
  bool Flag(const Json& object, const char* key, bool fallback) {
    const auto found = object.find(key);
    if (found == object.end()) return fallback;
    if (found->is_boolean()) return found->get<bool>();
    Fail(Errc::kCorrupt, key, fmt::format("found {}, expected true or false", JsonExcerpt(*found)));
    return fallback;
  }
  // Requires that the key is missing or has one of the harmless values.
  void Require(const char* key, std::initializer_list<Json> harmless) {
    const auto found = json_.find(key);
    if (found == json_.end() || std::ranges::find(harmless, *found) != harmless.end()) return;
    NotBuilt(key, JsonExcerpt(*found));
  }
  void NotBuilt(const char* key, const std::string& what) {
    Fail(Errc::kUnsupported, key, fmt::format("{} is not supported by this trainer", what));
  }
  void Fail(Errc code, const char* key, std::string what) {
    if (!error_) error_ = Error(code, std::move(what)).in(path_).member(key);
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  const Json& json_;
  std::string path_;
  std::optional<Error> error_;
};

}  // namespace nxdkit::trainer
