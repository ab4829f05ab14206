// The part of ckpt-inspect's answer that a kind fills in (Kind::describe): the artifact's form and
// contents, as far as all kinds have them. Facts of a single kind are in `facts`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/artifact/bound.h"

namespace nxdkit::kinds {

struct KindFacts;  // formats/kinds/facts.h

// A tensor known only by name (xser); its file could not be read.
struct TensorReference {
  std::string name;
  std::string file;  // "tensor_12.pt"
};

// A file or folder next to the weights, or a record inside an archive.
struct Item {
  std::string name;
  uint64_t bytes = 0;
};

// The rank that a file belongs to.
struct FileRank {
  int64_t tp = 0;
  std::optional<int> pp, ep;
};

struct Survey {
  std::string_view form;    // "hf", "nxd_shard", ...: a static name, for --json
  std::string description;  // in plain words
  Artifact artifact;        // holds the tensors; before opening, only its look is used
  bool is_whole = false;    // no parameter may be missing
  // The reason why it is not compared with the layout of a model; "" if it is.
  std::string not_checked;
  std::vector<TensorReference> references;
  std::optional<FileRank> rank;      // for one rank's file
  std::vector<std::string> entries;  // values besides the tensors: "epoch"
  std::vector<std::string> blobs;    // files to search for compiled graphs
  std::vector<std::string> warnings;
  std::shared_ptr<KindState> facts;  // of one kind only; see FactsAs
};

// The facts of one kind: NxdFacts (formats/kinds/nxd/facts_nxd.h) and the like. nullptr if it is of
// another kind, or has none.
template <typename T>
const T* FactsAs(const Survey& survey) {
  return dynamic_cast<const T*>(survey.facts.get());
}

// Opens a whole artifact of the kind and uses its name for the form and the description.
Status SurveyWhole(Survey& survey, const Kind& kind, const std::string& path,
                   const InputHints& hints);

// The bytes of a file; 0 if there is none.
Result<uint64_t> BytesOfFile(const std::string& path);

}  // namespace nxdkit::kinds
