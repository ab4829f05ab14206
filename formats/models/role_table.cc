#include "formats/models/role_table.h"

#include <algorithm>
#include <array>

namespace nxdkit::models {
namespace {

using enum Role;

constexpr RoleRow kRows[] = {
    {kEmbedding, Unit::kVocab, Fused::kAlone, Stage::kFirst},
    {kLmHead, Unit::kVocab, Fused::kAlone, Stage::kLast},
    {kScore, Unit::kElement, Fused::kAlone, Stage::kLast},
    {kFinalNorm, Unit::kElement, Fused::kAlone, Stage::kLast},
    {kQuery, Unit::kQueryHead, Fused::kQkv},
    {kKey, Unit::kKeyHead, Fused::kQkv},
    {kValue, Unit::kKeyHead, Fused::kQkv},
    {kOutput, Unit::kQueryHead},
    {kQueryNorm, Unit::kQueryHead},
    {kKeyNorm, Unit::kKeyHead},
    {kGate, Unit::kIntermediate, Fused::kGateUp},
    {kUp, Unit::kIntermediate, Fused::kGateUp},
    {kDown, Unit::kIntermediate},
    {kRouter},
    {kExpertGate, Unit::kElement, Fused::kExperts},
    {kExpertUp, Unit::kElement, Fused::kExperts},
    {kExpertDown, Unit::kElement, Fused::kExperts},
    {kColumn},
    {kRow},
    {kReplicated},
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
