// PRIVATE to tools/: a part of the answer of nxdkit-env: lines for people, and the same as JSON.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lib/json/json.h"

namespace nxdkit::tool {

struct Section {
  std::vector<std::pair<std::string, std::string>> rows;  // name and value
  Json json;

  void Add(std::string what, std::string value) {
    rows.emplace_back(std::move(what), std::move(value));
  }
};

inline Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace nxdkit::tool
