// PRIVATE: reads the keys of a configuration file one after the other; keeps the first failure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lib/json/json.h"

namespace nxdkit {

// A missing or null key takes the value `fallback`, and is kCorrupt without one; so is a value of
// another type or out of bounds. A failed call returns a value within the bounds.
class JsonReader {
 public:
  // `object` must outlive the reader. `path` is the file, `prefix` comes before the keys in
  // messages ("neuron_config.").
  JsonReader(const Json& object, std::string path, std::string prefix = "")
      : object_(object), path_(std::move(path)), prefix_(std::move(prefix)) {}

  const Json* Find(std::string_view key) const { return JsonFind(object_, key); }
  int64_t Int(std::string_view key, std::optional<int64_t> fallback, int64_t least, int64_t most);
  bool Flag(std::string_view key, std::optional<bool> fallback = false);
  std::string Text(std::string_view key, std::optional<std::string> fallback = "");

  void Fail(std::string_view key, std::string what);  // kCorrupt
  Status status() const { return error_ ? Status(*error_) : OkStatus(); }

 private:
  // The value of a key that is present and for which `fits` is true; else null.
  template <typename Fits>
  const Json* Value(std::string_view key, bool has_fallback, std::string_view expected, Fits fits);

  const Json& object_;
  std::string path_;
  std::string prefix_;
  std::optional<Error> error_;
};

}  // namespace nxdkit
