// PRIVATE to tests. The batch of testdata/decoder and of tests/interop, in the form of make.py
// there:
// {"ids": [[...], ...], "targets": [[token, label], ...], ...}; tokens count through all sequences.
#pragma once

#include <nlohmann/json.hpp>

#include "trainer/model/decoder.h"

namespace nxdkit::trainer {

inline Batch ReadBatch(const nlohmann::json& json) {
  Batch batch;
  batch.starts.push_back(0);
  for (const auto& sequence : json.at("ids")) {
    int32_t position = 0;
    for (const auto& id : sequence) {
      batch.ids.push_back(id.get<int32_t>());
      batch.positions.push_back(position++);
    }
    batch.starts.push_back(static_cast<int32_t>(batch.ids.size()));
  }
  for (const auto& target : json.at("targets"))
    batch.targets.push_back({target.at(0).get<int32_t>(), target.at(1).get<int32_t>()});
  return batch;
}

}  // namespace nxdkit::trainer
