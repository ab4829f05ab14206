// PRIVATE to tests: checkpoints made by the real trainers, kept as one archive per kind, and the
// digests of their contents: testdata/zero/SOURCES.md, testdata/megatron/SOURCES.md.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "formats/artifact/bound.h"
#include "formats/kinds/kind.h"
#include "lib/base/error.h"

namespace nxdkit::testing_util {

// The folder with an archive's files; it is unpacked once per process.
const std::string& Unpacked(const std::string& archive);

struct TensorDigest {
  std::string dtype;  // as torch calls it: "bfloat16"
  Shape shape;
  std::string digest;  // the first 24 hex digits of SHA-256
  bool operator==(const TensorDigest&) const = default;
};

// The digest of every parameter, by its name; "NAME/exp_avg" for the optimizer's tensors.
Result<std::map<std::string, TensorDigest>> DigestsOf(const artifact::BoundArtifact& bound);

// Compares the weights of `path`, and then the master weights, moments and steps, with the JSON of
// one case: tensors {NAME: {shape, dtype, weight, f32, exp_avg, exp_avg_sq}}. `hints`: such as
// --config. `with_state`: the optimizer's state is there. `kind`: nullptr to recognise it.
void ExpectRun(const std::string& path, const artifact::InputHints& hints,
               const nlohmann::json& expected, bool with_state, const kinds::Kind* kind = nullptr);

}  // namespace nxdkit::testing_util
