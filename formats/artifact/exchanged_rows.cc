#include "formats/artifact/exchanged_rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::artifact {
namespace {

using models::Role;

constexpr int kMostParts = 1 << 20;

// The rows of a part, for each parameter of the artifact; nullopt if nothing is exchanged.
using PartRows = std::vector<std::optional<int64_t>>;

Result<PartRows> FindPartRows(const RowExchange& exchange, const BoundArtifact& bound) {
  PartRows rows(bound.params.size());
  const std::vector<models::Param>& params = bound.model->params;
  for (size_t i = 0; i < params.size(); ++i) {
    if (!IsCutTwice(*bound.model, params[i])) continue;
    if (params[i].shape[0] % exchange.parts() != 0)
      return Unsupported("{} rows are not {} parts of {}", params[i].shape[0], exchange.parts(),
                         exchange.Text())
          .in(bound.artifact.path)
          .on(params[i].name);
    rows[i] = params[i].shape[0] / exchange.parts();
  }
  if (!bound.optimizer) return rows;
  const auto add = [&](size_t param, const OptimizerEntry& entry) {
    if (entry.kind == OptimizerEntry::Kind::kLike) rows[entry.param] = rows[param];
  };
  const BoundOptimizer& optimizer = *bound.optimizer;
  for (size_t i = 0; i < params.size() && i < optimizer.entries.size(); ++i) {
    if (optimizer.entries[i])
      for (const OptimizerEntry& entry : *optimizer.entries[i]) add(i, entry);
    if (i < optimizer.masters.size() && optimizer.masters[i]) add(i, *optimizer.masters[i]);
  }
  return rows;
}

// Adds the piece as pieces of one part each, with the rows that they hold.
void AddPieces(const RowExchange& exchange, const Piece& piece, int64_t part_rows,
               std::vector<Piece>& out) {
  const int64_t first = piece.logical.lo[0];
  const int64_t end = first + piece.logical.extent[0];
  for (int64_t row = first; row < end;) {
    const int64_t place = row / part_rows;
    const int64_t next = std::min(end, (place + 1) * part_rows);
    Piece part = piece;
    part.stored_lo[piece.axes[0]] += row - first;
    part.logical.lo[0] = exchange.PartAt(static_cast<int>(place)) * part_rows + row % part_rows;
    part.logical.extent[0] = next - row;
    out.push_back(std::move(part));
    row = next;
  }
}

// Whether the embedding has transformers' name.
bool HasItsNames(const BoundArtifact& bound) {
  const std::vector<models::Param>& params = bound.model->params;
  return std::ranges::any_of(bound.bound.layout.tensors, [&](const TensorLayout& tensor) {
    if (tensor.pieces.empty() || tensor.pieces.front().param >= params.size()) return false;
    const models::Param& param = params[tensor.pieces.front().param];
    return param.role == Role::kEmbedding && tensor.name.ends_with(param.name);
  });
}

}  // namespace

std::string RowExchange::Text() const { return fmt::format("FSDP {} over TP {}", fsdp, tp); }

Result<RowExchange> ParseRowExchange(std::string_view text) {
  const auto wrong = [&] {
    return BadUsage("found \"{}\", expected fsdp=F,tp=T, each 2 or more", EscapeControl(text));
  };
  const size_t comma = text.find(',');
  if (comma == std::string_view::npos) return wrong();
  std::string_view fsdp = text.substr(0, comma);
  std::string_view tp = text.substr(comma + 1);
  if (fsdp.starts_with("tp=")) std::swap(fsdp, tp);
  if (!fsdp.starts_with("fsdp=") || !tp.starts_with("tp=")) return wrong();
  const auto f = ParseNumber<int>(fsdp.substr(5));
  const auto t = ParseNumber<int>(tp.substr(3));
  if (!f || !t || *f < 2 || *t < 2 || *f > kMostParts / *t) return wrong();
  return RowExchange{*f, *t};
}

bool IsCutTwice(const models::Model& model, const models::Param& param) {
  constexpr Role kRoles[] = {Role::kEmbedding, Role::kLmHead, Role::kQuery, Role::kKey,
                             Role::kValue,     Role::kGate,   Role::kUp};
  if (!model.config.family->training.tp_rows || param.axis != 0 || param.expert >= 0) return false;
  return std::ranges::count(kRoles, param.role) > 0;
}

Status UndoExchange(const RowExchange& exchange, BoundArtifact& bound) {
  if (!bound.model || bound.lora)
    return Unsupported("which rows were exchanged is known only for models of a known family")
        .in(bound.artifact.path);
  const models::Family& family = *bound.model->config.family;
  if (!family.training.tp_rows)
    return Unsupported("which rows of {} models transformers cuts is not known", family.model_type)
        .in(bound.artifact.path);
  if (!HasItsNames(bound))
    return Unsupported("the tensors do not have the names of transformers, which exchanges rows")
        .in(bound.artifact.path);
  NXDKIT_ASSIGN(const PartRows rows, FindPartRows(exchange, bound));
  for (TensorLayout& tensor : bound.bound.layout.tensors) {
    std::vector<Piece> pieces;
    for (const Piece& piece : tensor.pieces)
      if (rows[piece.param])
        AddPieces(exchange, piece, *rows[piece.param], pieces);
      else
        pieces.push_back(piece);
    tensor.pieces = std::move(pieces);
  }
  return OkStatus();
}

}  // namespace nxdkit::artifact
