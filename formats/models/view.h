// How an engine, or another spelling of the same checkpoint, names and joins the parameters: the
// lines of a view in the family's text (FAMILIES.md), over the parts that one rank has.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "formats/models/model.h"
#include "lib/plan/layout.h"

namespace nxdkit::models {

// Whether the family's text has a view, or a spelling, of this name.
bool HasView(const Family& family, std::string_view view);

// The names of the family's spellings, in the order of the text.
std::vector<std::string> Spellings(const Family& family);

// A name by the "rename" lines of a view alone; as it is where the family has no such view.
std::string RenamedBy(const Family& family, std::string_view view, std::string name);

// The names of the tensors that a view makes of the segments of one parameter, by its "split" and
// "rename" lines; none where it stays in one.
std::vector<std::string> SplitBy(const Family& family, std::string_view view,
                                 std::string_view name);

// The whole parameters, and after them the aliases, as a spelling has them; "": as the text's own
// rows do.
Result<std::vector<TensorLayout>> SpelledTensors(const Model& model, std::string_view spelling,
                                                 bool with_aliases = true);

// `parts`: of each parameter in order what the rank has, under the parameter's name; nullopt of an
// expert that is on another rank. The tensors come in the order of their first parameters.
// kUnsupported where the family's text has no such view, or an operation of it computes values;
// kCorrupt where two tensors get one name.
Result<std::vector<TensorLayout>> ViewTensors(const Model& model, std::string_view view,
                                              std::vector<std::optional<TensorLayout>> parts,
                                              int64_t rank);

}  // namespace nxdkit::models
