// NxD sets that live in memory: the shards of a generated model.
// PRIVATE header: it includes one; include it from .cc files only.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "formats/models/sample_model.h"
#include "formats/nxd/shard_set.h"
#include "formats/nxd/shards_in.h"
#include "tests/formats/memory_sink.h"
#include "tests/formats/model_layouts.h"

namespace nxdkit::testing_util {

inline nxd::ShardSet MemorySet(const models::Model& model, const nxd::Geometry& geometry,
                               const Layout& layout) {
  const BoundLayout bound =
      RunPlan(model.Logical(), models::SampleCheckpoint(model, 7, Dtype::kBF16), layout,
              Dtype::kBF16)
          .Bind(layout);
  nxd::ShardSet set;
  set.location.shard_folder = "set/model";
  set.location.tp = geometry.tp;
  set.location.pp = geometry.pp;
  set.location.ep = geometry.ep;
  for (const LayoutFile& file : layout.files) {
    nxd::Shard shard;
    const int ep = std::max(0, nxd::ParseRankName(file.path)->ep);
    shard.file = {file.path, static_cast<int>(file.tp_rank), static_cast<int>(file.pp_rank), ep};
    shard.tensors.path = file.path;
    set.shards.push_back(std::move(shard));
  }
  for (size_t i = 0; i < bound.stored.size(); ++i)
    set.shards[layout.tensors[i].file].tensors.tensors.push_back(bound.stored[i]);
  return set;
}

inline nxd::ShardSet MemorySet(const models::Model& model, const nxd::Geometry& geometry,
                               bool tied_head = false) {
  return MemorySet(model, geometry, NxdLayout(model, geometry, tied_head));
}

// The reference converter's output for trn2 with a multiplier above 1: queries and the columns of
// o_proj in natural order as on trn2, keys and values tiled as on trn1.
inline nxd::ShardSet ReferenceTrn2Set(const models::Model& model, nxd::Geometry geometry) {
  geometry.hardware = models::Hardware::kTrn1;
  Layout layout = NxdLayout(model, geometry);
  geometry.hardware = models::Hardware::kTrn2;
  const Layout natural = NxdLayout(model, geometry);
  for (size_t i = 0; i < layout.tensors.size(); ++i) {
    const std::string& name = layout.tensors[i].name;
    if (name.ends_with(".weight_q") || name.ends_with(".o_proj.weight"))
      layout.tensors[i] = natural.tensors[i];
  }
  return MemorySet(model, geometry, layout);
}

}  // namespace nxdkit::testing_util
