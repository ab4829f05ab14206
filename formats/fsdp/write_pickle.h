// PRIVATE to formats: distributed tensors and their mesh, as a release of torch pickles them. Other
// releases may not load such files; FORMAT.md lists which do.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formats/dtensor/mesh.h"
#include "formats/torch/pickle_value.h"
#include "lib/base/error.h"
#include "lib/tensor/dtype.h"

namespace nxdkit::fsdp {

// The releases that load the output.
struct Release {
  dtensor::MeshForm form = dtensor::MeshForm::kGroupInfos;
  bool before_2_5 = false;  // other modules
};
// "2.6"; nullopt for a release outside 2.4 to 2.15.
std::optional<Release> ReleaseFromName(std::string_view name);
// The release that loads meshes of this form.
Release ReleaseOf(dtensor::MeshForm form);
// "2.5 to 2.9": the releases that load it.
std::string_view LoadedBy(const Release& release);

// The pickles of one rank: its mesh of one dimension, "fsdp", over all ranks, and tensors on this
// mesh, cut along one dimension.
class PlacedWriter {
 public:
  // `ranks`: the int32 tensor of the file that lists them.
  PlacedWriter(const Release& release, std::string device, int world, int rank,
               torch::TensorIndex ranks);

  // `local`: the rank's part; `shape` is the whole tensor's.
  torch::PickleValue Tensor(Dtype dtype, const Shape& shape, int64_t dim,
                            torch::TensorIndex local) const;

 private:
  bool is_new() const { return release_.form >= dtensor::MeshForm::kLayout; }
  torch::PickleValue MeshState(int world, int rank, torch::TensorIndex ranks) const;

  Release release_;
  std::string device_;
  torch::PickleValue mesh_;
  torch::PickleValue layout_;  // torch.strided
  torch::PickleValue cpu_;
};

}  // namespace nxdkit::fsdp
