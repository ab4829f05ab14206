// The part of ckpt-inspect's answer that a kind fills in (Kind::describe): what an artifact is and
// what is in it, as far as all kinds have it. What only one kind knows hangs on `facts`.
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

// A tensor of which only the name is here (xser); its file could not be read.
struct TensorReference {
  std::string name;
  std::string file;  // "tensor_12.pt"
};

// A file or folder beside the weights, or a record inside an archive.
struct Item {
  std::string name;
  uint64_t bytes = 0;
};

// Whose file it is.
struct FileRank {
  int64_t tp = 0;
  std::optional<int> pp, ep;
};

struct Survey {
  std::string_view form;    // "hf", "nxd_shard", ...: a static name, for --json
  std::string description;  // in plain words
  Artifact artifact;        // holds the tensors; before it is opened, its look alone counts
  bool is_whole = false;    // no parameter may lack
  // Why it is not compared with the layout of a model; "" when it is.
  std::string not_checked;
  std::vector<TensorReference> references;
  std::optional<FileRank> rank;      // of one rank's file
  std::vector<std::string> entries;  // values beside the tensors: "epoch"
  std::vector<std::string> blobs;    // paths of files in which compiled graphs are looked for
  std::vector<std::string> warnings;
  std::shared_ptr<KindState> facts;  // only its kind has them; see FactsAs
};

// The facts that only one kind has: NxdFacts (formats/kinds/nxd/facts_nxd.h) and their like.
// nullptr: it is of another kind, or has nothing of its own.
template <typename T>
const T* FactsAs(const Survey& survey) {
  return dynamic_cast<const T*>(survey.facts.get());
}

// Opens a whole artifact of the kind and takes its name for the form and the description.
Status SurveyWhole(Survey& survey, const Kind& kind, const std::string& path,
                   const InputHints& hints);

// Bytes of a file; 0 when there is none.
Result<uint64_t> BytesOfFile(const std::string& path);

}  // namespace nxdkit::kinds
