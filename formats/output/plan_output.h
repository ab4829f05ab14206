// What a conversion will write: the layout, every file byte for byte planned, the small files that
// go with the weights.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "formats/output/decide_output.h"
#include "lib/plan/executor.h"
#include "lib/sinks/write_sink.h"

namespace nxdkit::ops {

struct OutputPlan {
  Layout layout;
  std::vector<OutputTensor> outputs;  // per layout.tensors
  std::vector<OutputFile> files;      // per layout.files, and after them files without tensors
  std::vector<std::pair<std::string, std::string>> texts;   // path, contents; written in this order
  std::vector<std::pair<std::string, std::string>> copies;  // path, source file
  std::string first_slot;    // a folder of the output: a new bundle's weights, which get their slot
  bool single_file = false;  // kTorch: files[0] is the output itself

  uint64_t bytes() const;  // of the files of tensors
};

// Lays out and encodes. `output_name` is the output's base name (torch names its archive's top
// folder after the file). kLimit for more ranks than a plan of `max_memory` bytes can hold.
Result<OutputPlan> PlanOutput(const BoundArtifact& source, const OutputSpec& spec,
                              const std::string& output_name, uint64_t max_memory);

}  // namespace nxdkit::ops
