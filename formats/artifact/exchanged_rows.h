// Rows exchanged by FSDP over tensor parallelism. With torch 2.9 and older, transformers gives rank
// (f, t) of a mesh of F by T the part f T + t of the F T parts of the rows of tensors that both cut
// in rows, and saves this part everywhere as part t F + f, moments too, without an error. Run with
// transformers 5.19, 5.20 and 5.24 on torch 2.8 and 2.9.1; fixed in torch 2.10.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "formats/artifact/bound.h"

namespace nxdkit::artifact {

struct RowExchange {
  int fsdp = 1;
  int tp = 1;

  int parts() const { return fsdp * tp; }
  // The part of the correct rows that is stored as part `place`.
  int PartAt(int place) const { return place % fsdp * tp + place / fsdp; }
  std::string Text() const;  // "FSDP 2 over TP 2"
  bool operator==(const RowExchange&) const = default;
};

// "fsdp=2,tp=2": two or more of each. kUsage for anything else.
Result<RowExchange> ParseRowExchange(std::string_view text);

// Whether FSDP and transformers' tensor parallelism both cut the parameter in rows. Always false
// for a family for which this is not known.
bool IsCutTwice(const models::Model& model, const models::Param& param);

// Lays out the artifact's tensors, and the optimizer's state of them, so that reading undoes the
// exchange. kUnsupported without the model's table, for a family for which it is not known what
// transformers cuts, for an adapter, for tensors without transformers' names, and for rows that the
// mesh does not divide, which transformers cannot load.
Status UndoExchange(const RowExchange& exchange, BoundArtifact& bound);

}  // namespace nxdkit::artifact
