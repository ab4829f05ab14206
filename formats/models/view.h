// How an engine, or another spelling of the same checkpoint, names and joins the parameters: the
// lines of a view in the family's text (FAMILIES.md), applied to one rank's parts.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "formats/models/model.h"
#include "lib/plan/layout.h"

namespace nxdkit::models {

// Whether the family's text has a view, or a spelling, of this name.
bool HasView(const Family& family, std::string_view view);

// The family's spellings, in the order of the text.
std::vector<std::string> Spellings(const Family& family);

// A name after the "rename" lines of a view alone; unchanged if the family has no such view.
std::string RenamedBy(const Family& family, std::string_view view, std::string name);

// The names of the tensors that a view makes of the segments of one parameter, by its "split" and
// "rename" lines; empty if it stays whole.
std::vector<std::string> SplitBy(const Family& family, std::string_view view,
                                 std::string_view name);

// The whole parameters, and then the aliases, in a spelling; "": in the text's own rows.
Result<std::vector<TensorLayout>> SpelledTensors(const Model& model, std::string_view spelling,
                                                 bool with_aliases = true);

// `parts`: the rank's part of each parameter in order, under the parameter's name; nullopt for an
// expert on another rank. Tensors come in the order of their first parameters. kUnsupported where
// the family's text has no such view, or an operation in it computes values; kCorrupt where two
// tensors get one name.
Result<std::vector<TensorLayout>> ViewTensors(const Model& model, std::string_view view,
                                              std::vector<std::optional<TensorLayout>> parts,
                                              int64_t rank);

}  // namespace nxdkit::models
