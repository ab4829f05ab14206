// The digest of a model, and the manifest: a file that records it, with the files of one artifact.
// Definitions and format: FORMAT.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/hash/digest.h"
#include "lib/tensor/dtype.h"

namespace nxdkit::manifest {

struct ParamDigest {
  std::string name;
  Dtype dtype = Dtype::kF32;
  Shape shape;
  Sha256Bytes root{};  // TreeRoot of the parameter's bytes, lib/hash/tree_digest.h
  bool operator==(const ParamDigest&) const = default;
};

// The identity of a model's weights, whatever their layout.
struct ModelDigest {
  Sha256Bytes digest{};             // over the lines of all parameters
  std::vector<ParamDigest> params;  // sorted by the bytes of their names, which are unique
};

// "<root> <dtype> [<dims>] <bytes of the name>:<name>\n"
std::string ParamLine(const ParamDigest& param);

// Sorts the parameters, and digests their lines.
ModelDigest MakeModelDigest(std::vector<ParamDigest> params);

struct FileDigest {
  std::string path;  // relative to the artifact's folder, "/" between parts
  uint64_t bytes = 0;
  Sha256Bytes digest{};  // SHA-256 of the file
};

struct Manifest {
  ModelDigest model;
  // The family's text by which the parameters were identified; "" without one. Not compared.
  std::string family;
  std::string family_sha256;
  std::string kind;               // "hf", "nxd", ...; "" when no files are recorded
  std::vector<FileDigest> files;  // sorted by path
};

inline constexpr uint64_t kMaxManifestBytes = uint64_t{256} << 20;

// Same manifest, same bytes. kUnsupported for a name or path that is not UTF-8.
Result<std::string> WriteManifest(const Manifest& manifest);

// Everything is checked: digests, shapes, order, and that the model's digest follows from its
// parameters'. kCorrupt naming the place, kUnsupported for another version.
Result<Manifest> ReadManifest(std::string_view text);

std::string DigestText(const Sha256Bytes& digest);  // "sha256:<64 hexadecimal digits>"
Result<Sha256Bytes> ParseDigest(std::string_view text);

}  // namespace nxdkit::manifest
