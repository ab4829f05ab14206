// PRIVATE to formats/kinds/fsdp: rank files of an FSDP run as an output.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "formats/fsdp/open.h"
#include "formats/fsdp/write_pickle.h"
#include "formats/kinds/dcp/decide_dcp.h"
#include "formats/kinds/output.h"

namespace nxdkit::kinds {

class FsdpOutput : public Output {
 public:
  using Output::Output;
  Status Plan(OutputBuilder& builder) const override;
  StateLayout State() const override { return {nxd::OptimizerStyle::kNamed, 1}; }

  std::unique_ptr<Output> named;  // a DcpOutput: names and contents, which the files share
  int world = 1;
  bool verl = true;  // else for EasyR1
  int fsdp = 1;      // FSDP1 or FSDP2
  fsdp::OptimizerForm form = fsdp::OptimizerForm::kFlatUnits;
  fsdp::Release release;
  std::string device = "cuda";
  bool by_divisible = false;  // cut the first dimension that the ranks divide evenly, else rows
  int64_t step = 0;           // of the folder
  int64_t last_epoch = 0;     // of the schedule, if the source does not have it
  std::string role = "actor";
};

Result<std::unique_ptr<Output>> DecideFsdp(const BoundArtifact& source,
                                           const OutputOptions& options);
Status CheckFsdpOptions(const Arguments& given);

}  // namespace nxdkit::kinds
