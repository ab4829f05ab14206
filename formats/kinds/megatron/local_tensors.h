// PRIVATE to formats/kinds/megatron: each tensor's part on one model parallel rank, derived from
// how the model's tensors are cut into chunks.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "formats/dcp/folder.h"

namespace nxdkit::kinds {

// A part of one of the model's entries: its box, and where it is stored.
struct LocalPart {
  const dcp::StoredEntry* entry = nullptr;
  const dcp::StoredChunk* chunk = nullptr;
};
// A rank's tensor: its parts one below the other.
using LocalTensor = std::vector<LocalPart>;

class LocalTensors {
 public:
  explicit LocalTensors(const dcp::Folder& stored);

  // The numbers of ranks over which the layers, and the experts, are cut.
  int64_t tp() const { return tp_; }
  int64_t expert_tp() const { return expert_tp_; }
  int64_t experts() const { return experts_; }
  int64_t mtp_layers() const { return mtp_layers_; }

  // A tensor by one of its names (megatron::OtherName); `layer` -1: outside the layers, `mtp`: a
  // layer of multi-token prediction. nullopt: there is none, or it is cut otherwise.
  struct Place {
    std::string_view name;
    int64_t layer = -1;
    int64_t expert = -1;
    bool mtp = false;
  };
  std::optional<LocalTensor> Find(const Place& place, int64_t rank) const;

 private:
  struct Pieces {
    std::vector<LocalPart> halves[2];  // gate and up, if they are separate entries
  };
  using Id = std::tuple<std::string, int64_t, int64_t, bool>;
  std::map<Id, Pieces> pieces_;
  int64_t tp_ = 1;
  int64_t expert_tp_ = 1;
  int64_t experts_ = 0;
  int64_t mtp_layers_ = 0;
};

}  // namespace nxdkit::kinds
