// A bound artifact: the place of every stored parameter is known.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/artifact/artifact.h"
#include "formats/artifact/training_state.h"
#include "formats/lora/config.h"
#include "formats/nxd/lora_layout.h"
#include "lib/plan/plan.h"

namespace nxdkit::artifact {

// The adapter's replacements for rows of one parameter of the base.
struct LoraRows {
  uint32_t param = 0;  // the adapter's: one row for each of
  std::vector<int64_t> rows;
};

// The relation of a LoRA adapter's parameters to its base's. If the base's family is known, the
// indices are those of Model::params, else of the base's BoundArtifact::params.
struct LoraParts {
  lora::Config config;
  std::string config_path;                          // of adapter_config.json, or what embeds it
  std::vector<std::optional<nxd::LoraPair>> pairs;  // a and b index the adapter's params
  // Parameters that the adapter stores whole (modules_to_save, biases), in its params.
  std::vector<std::optional<uint32_t>> wholes;
  std::vector<std::optional<uint32_t>> magnitudes;  // of DoRA, next to the pairs
  std::vector<std::optional<LoraRows>> rows;        // trainable_token_indices
  // The embedding that the adapter stores whole is also the head of its tied base.
  bool ties_head = false;
  nxd::LoraSharing sharing;  // the modules that share one A

  size_t pair_count() const;
  size_t whole_count() const;
};

// The artifact with every stored tensor laid out.
struct BoundArtifact {
  Artifact artifact;
  std::optional<models::Model> model;  // nullopt: no table; each tensor is a parameter
  std::vector<LogicalTensor> params;
  BoundLayout bound;
  std::shared_ptr<const KindState> state;  // the kind's findings from binding
  std::vector<std::string> left_out;       // ignorable tensors
  // Tensors that the family's text keeps unchanged: params after the model's, one for each.
  std::vector<std::string> carried;
  // The reason why the tensors can only be copied unchanged; nullopt: they are numbers.
  std::optional<Error> quantised;
  // The artifact whose parameters a delta or a merged adapter changes.
  std::shared_ptr<const BoundArtifact> base;
  std::optional<LoraParts> lora;                // this is an adapter, not a model
  std::shared_ptr<const BoundArtifact> merged;  // the adapter that is merged when base is read
  // The dtypes of parameters that are stored as another one: as F32 with `merged`, so that a sum is
  // rounded once; or only as master weights. Per parameter; those past its end have none.
  std::vector<std::optional<Dtype>> own_dtypes;
  uint64_t reading_bytes = 0;  // memory that each thread needs to read it
  std::optional<BoundOptimizer> optimizer;
  std::vector<RunTensor> run;  // only with its optimizer: the last of params
  // The keys of objects that are copied to another checkpoint of the kind byte for byte.
  std::vector<std::string> run_objects;
  std::shared_ptr<const RunObjects> objects;  // null: the state is not stored by names
  // params from here on are the optimizer's and the run's.
  size_t model_params() const {
    return optimizer ? optimizer->entries.size() : params.size() - run.size();
  }
};

// Whether the embedding of a tied model is stored a second time, as the head.
bool StoresHead(const BoundArtifact& artifact);

}  // namespace nxdkit::artifact
