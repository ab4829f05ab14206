// An artifact, bound: where every parameter is stored.
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

// Rows of one parameter of the base that the adapter has in their place.
struct LoraRows {
  uint32_t param = 0;  // of the adapter: a row for each of
  std::vector<int64_t> rows;
};

// What the parameters of a LoRA adapter are to those of its base. Where the base's family is known,
// the indices are those of Model::params, else of the base's BoundArtifact::params.
struct LoraParts {
  lora::Config config;
  std::string config_path;                          // of adapter_config.json, or of what embeds it
  std::vector<std::optional<nxd::LoraPair>> pairs;  // a and b index the adapter's params
  // Parameters that the adapter holds whole (modules_to_save, biases), in its params.
  std::vector<std::optional<uint32_t>> wholes;
  std::vector<std::optional<uint32_t>> magnitudes;  // of DoRA, beside the pairs
  std::vector<std::optional<LoraRows>> rows;        // trainable_token_indices
  // The embedding that the adapter holds whole is the head of its tied base too.
  bool ties_head = false;
  nxd::LoraSharing sharing;  // which modules have one A

  size_t pair_count() const;
  size_t whole_count() const;
};

// The artifact with every stored tensor laid out.
struct BoundArtifact {
  Artifact artifact;
  std::optional<models::Model> model;  // nullopt: no table; parameters are the tensors themselves
  std::vector<LogicalTensor> params;
  BoundLayout bound;
  std::shared_ptr<const KindState> state;  // what the kind has found out on the way
  std::vector<std::string> left_out;       // ignorable tensors
  // Tensors that the family's text keeps as they are: params after those of the model, each itself.
  std::vector<std::string> carried;
  // Why the tensors may only be copied as they are; nullopt: they are numbers.
  std::optional<Error> quantised;
  // The artifact whose parameters a delta or a merged adapter changes.
  std::shared_ptr<const BoundArtifact> base;
  std::optional<LoraParts> lora;                // this is an adapter, not a model
  std::shared_ptr<const BoundArtifact> merged;  // the adapter that is merged as base is read
  // The dtypes of parameters that are stored as another one: with `merged` as F32, so that a sum is
  // rounded once; or as master weights alone. Per parameter; those past its end have none.
  std::vector<std::optional<Dtype>> own_dtypes;
  uint64_t reading_bytes = 0;  // memory that each thread takes to read it
  std::optional<BoundOptimizer> optimizer;
  std::vector<RunTensor> run;  // with its optimizer only: the last of params
  // The keys of objects that go to another checkpoint of the kind byte for byte.
  std::vector<std::string> run_objects;
  std::shared_ptr<const RunObjects> objects;  // null: the state is not kept by names
  // params from here on are the optimizer's and the run's.
  size_t model_params() const {
    return optimizer ? optimizer->entries.size() : params.size() - run.size();
  }
};

// Whether the embedding of a tied model is stored a second time, as the head.
bool StoresHead(const BoundArtifact& artifact);

}  // namespace nxdkit::artifact
