#include "formats/models/role_table.h"

#include <algorithm>
#include <array>

namespace nxdkit::models {
namespace {

using enum Role;

constexpr RoleRow kRows[] = {
    {kEmbedding, 0, Unit::kVocab, Fused::kAlone, Stage::kFirst},
    {kLmHead, 0, Unit::kVocab, Fused::kAlone, Stage::kLast},
    {kScore, kWhole, Unit::kElement, Fused::kAlone, Stage::kLast},
    {kFinalNorm, kWhole, Unit::kElement, Fused::kAlone, Stage::kLast},
    {kQuery, 0, Unit::kQueryHead, Fused::kQkv},
    {kKey, 0, Unit::kKeyHead, Fused::kQkv},
    {kValue, 0, Unit::kKeyHead, Fused::kQkv},
    {kOutput, 1, Unit::kQueryHead},
    {kQueryNorm, kWhole, Unit::kQueryHead},
    {kKeyNorm, kWhole, Unit::kKeyHead},
    {kGate, 0, Unit::kIntermediate, Fused::kGateUp},
    {kUp, 0, Unit::kIntermediate, Fused::kGateUp},
    {kDown, 1, Unit::kIntermediate},
    {kRouter, kWhole},
    {kExpertGate, 0, Unit::kElement, Fused::kExperts},
    {kExpertUp, 0, Unit::kElement, Fused::kExperts},
    {kExpertDown, 1, Unit::kElement, Fused::kExperts},
    {kHeadColumn, 0, Unit::kQkvHead},
    {kColumn, 0},
    {kRow, 1},
    {kReplicated, kWhole},
};

constexpr bool InOrder() {
  size_t at = 0;
  for (const RoleRow& row : kRows)
    if (static_cast<size_t>(row.role) != at++) return false;
  return at == static_cast<size_t>(kReplicated) + 1;
}
static_assert(InOrder());

}  // namespace

std::string_view FusedModule(Fused fused) {
  constexpr std::array<std::string_view, 4> kModules = {"", "qkv_proj", "gate_up_proj", ""};
  return kModules[static_cast<size_t>(fused)];
}

const RoleRow& RowOf(Role role) { return kRows[static_cast<size_t>(role)]; }

bool Leads(Role role) {
  const Fused fused = RowOf(role).fused;
  const auto is_fused = [&](const RoleRow& row) { return row.fused == fused; };
  return fused == Fused::kAlone || std::ranges::find_if(kRows, is_fused)->role == role;
}

}  // namespace nxdkit::models
