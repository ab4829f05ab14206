// The plan of an output while it is built, file by file: the layout, every file planned byte for
// byte, and the small files next to the weights.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "formats/kinds/output.h"
#include "lib/plan/executor.h"
#include "lib/sinks/write_sink.h"

namespace nxdkit::kinds {

struct OutputPlan {
  Layout layout;
  std::vector<OutputTensor> outputs;  // per layout.tensors
  std::vector<OutputFile> files;      // per layout.files, then files without tensors
  std::vector<std::pair<std::string, std::string>> texts;   // path, contents; written in this order
  std::vector<std::pair<std::string, std::string>> copies;  // path, source file
  std::string first_slot;    // folder of a new bundle's weights, which get their slot
  bool single_file = false;  // files[0] is the output itself

  uint64_t bytes() const;  // of the tensor files
};

// Lays out and encodes. `output_name` is the output's base name (torch names its archive's top
// folder after the file). kLimit for more ranks than a plan of `max_memory` bytes can hold.
Result<OutputPlan> PlanOutput(const BoundArtifact& source, const Output& output,
                              const std::string& output_name, uint64_t max_memory);

// The object to which a kind's Plan adds files and tensors.
class OutputBuilder {
 public:
  // `dtypes`: the output's, per parameter of the source.
  OutputBuilder(const BoundArtifact& source, const Output& output, std::string output_name,
                uint64_t max_memory, std::vector<Dtype> dtypes)
      : source_(source),
        output_(output),
        output_name_(std::move(output_name)),
        max_memory_(max_memory),
        dtypes_(std::move(dtypes)) {}

  const BoundArtifact& source() const { return source_; }
  const std::string& output_name() const { return output_name_; }
  const std::vector<Dtype>& dtypes() const { return dtypes_; }
  OutputPlan plan;

  // kUnsupported for parameters of several dtypes in one tensor.
  Result<Dtype> DtypeOf(const TensorLayout& tensor) const;
  uint32_t NewFile(std::string path, int64_t tp_rank, int64_t pp_rank);
  // Adds a tensor to the layout; returns the encoder's tensor.
  Result<OutputTensor> Add(TensorLayout tensor, uint32_t file);
  Result<std::vector<OutputTensor>> AddAll(std::vector<TensorLayout> tensors, uint32_t file);
  Status SetEncoder(uint32_t file, Result<std::unique_ptr<FileEncoder>> encoder);
  // Adds a file of these tensors.
  Status AddSafetensors(std::string path, int64_t rank, std::vector<TensorLayout> tensors,
                        const std::map<std::string, std::string>& metadata);
  // Copies configuration and tokenizer files to a folder of the output ("" is the output itself).
  Status CarrySideFiles(const std::string& to = "");
  // Copies `folder`/`name`, if it exists, to `to`: the contents of such a file of a training run do
  // not depend on the layout.
  Status CarryFile(const std::string& folder, const std::string& name, std::string to);
  // Refuses more ranks than memory can hold before they are planned: `bytes` is the least that the
  // plan of all ranks takes.
  Status CheckPlanBytes(uint64_t bytes, int64_t ranks,
                        std::string_view hint = "ask for fewer ranks, or raise --max-memory") const;

 private:
  const BoundArtifact& source_;
  const Output& output_;
  std::string output_name_;
  uint64_t max_memory_;
  std::vector<Dtype> dtypes_;
};

// The least memory that a tensor takes in a plan: its layout, its output, a copy for each piece.
uint64_t LeastPlanBytes(const TensorLayout& tensor);

// torch names the top folder of an archive after the file's stem, up to the last dot.
std::string Stem(const std::string& path);

}  // namespace nxdkit::kinds
