// A role is the function of a parameter in the formats: which parameters are fused, whose heads
// they hold and where in a pipeline they are. Layouts read the table and add their own names, order
// and padding. The cut of a parameter is defined by its family (family.h). A row is plain data.
#pragma once

#include <cstdint>
#include <string_view>

namespace nxdkit::models {

// A bias has the role of its weight; its rank tells them apart.
enum class Role : uint8_t {
  kEmbedding,   // [vocab, hidden]
  kLmHead,      // [vocab, hidden]
  kScore,       // [labels, hidden], replaces the lm_head
  kFinalNorm,   // [hidden]
  kQuery,       // [heads * head_dim, hidden]
  kKey,         // [kv_heads * head_dim, hidden]
  kValue,       //
  kOutput,      // [hidden, heads * head_dim]
  kQueryNorm,   // [head_dim]
  kKeyNorm,     //
  kGate,        // [intermediate, hidden]
  kUp,          //
  kDown,        // [hidden, intermediate]
  kRouter,      // [experts, hidden]
  kExpertGate,  // [expert intermediate, hidden], for each expert; see experts.h
  kExpertUp,    //
  kExpertDown,  // [hidden, expert intermediate]
  kColumn,      // [any, hidden], column parallel
  kRow,         // [hidden, any], row parallel
  kReplicated,  // norms and the like
};

// The units of a cut; a rank has whole ones.
enum class Unit : uint8_t {
  kElement,       // rows or columns
  kVocab,         // likewise, of the vocabulary
  kIntermediate,  // likewise, of an MLP
  kQueryHead,     // head_dim of them
  kKeyHead,       // likewise; with fewer heads than ranks, several ranks share one
};
constexpr bool IsHead(Unit unit) { return unit == Unit::kQueryHead || unit == Unit::kKeyHead; }

// Parameters of one layer that layouts can store as one tensor, in the order of their roles.
enum class Fused : uint8_t { kAlone, kQkv, kGateUp, kExperts };
// The module that holds them, "qkv_proj" or "gate_up_proj"; that of experts depends on the format.
std::string_view FusedModule(Fused fused);

// The stages of a pipeline that hold a parameter.
enum class Stage : uint8_t { kFirst, kLast, kLayer, kEvery };

inline constexpr int kWhole = -1;

struct RoleRow {
  Role role;
  // Each rank uses only its own heads of a whole parameter whose unit is a head.
  Unit unit = Unit::kElement;
  Fused fused = Fused::kAlone;
  Stage stage = Stage::kEvery;  // outside layers
};

const RoleRow& RowOf(Role role);

bool Leads(Role role);  // Whether it is the first of the fused roles.

}  // namespace nxdkit::models
