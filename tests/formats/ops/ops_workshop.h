// PRIVATE to tests. The base of the tests of formats/ops: small artifacts of every kind, and ways
// to damage them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "formats/kinds/open.h"
#include "formats/ops/convert/convert.h"
#include "formats/ops/sample/make_model.h"
#include "formats/ops/verify/verify.h"
#include "tests/formats/mend_checksum.h"
#include "tests/formats/ops/sample_config.h"
#include "tests/formats/scratch.h"

namespace nxdkit::testing_util {

inline constexpr uint64_t kSeed = 7;

class OpsWorkshop {
 public:
  OpsWorkshop() {}  // clang makes no const one without it
  std::string operator/(const std::string& name) const { return scratch_.folder() + "/" + name; }

  // Makes a Hugging Face folder; returns its path.
  std::string MakeModel(const std::string& name, const TinyModel& model,
                        Dtype dtype = Dtype::kBF16) const {
    ops::MakeModelRequest request;
    request.config = scratch_.Write(name + ".json", model.Config());
    request.output = *this / name;
    request.dtype = dtype;
    request.seed = kSeed;
    const Result<uint64_t> made = ops::MakeModel(request);
    EXPECT_TRUE(made.ok()) << made.error().ToString();
    return request.output;
  }

  // Converts an artifact; returns the output's path.
  std::string Make(const std::string& name, const std::string& input, const ops::Kind* from,
                   const ops::Kind* to, const ops::OutputOptions& options = {}) const {
    const Result<ops::ConvertReport> report =
        ops::Convert(Request(input, from, *this / name, to, options));
    EXPECT_TRUE(report.ok()) << report.error().ToString();
    return *this / name;
  }

  static ops::ConvertRequest Request(const std::string& input, const ops::Kind* from,
                                     const std::string& output, const ops::Kind* to,
                                     const ops::OutputOptions& options = {}) {
    ops::ConvertRequest request;
    request.from = from;
    request.to = to;
    request.input = input;
    request.output = output;
    request.options = options;
    request.sync = false;
    return request;
  }

 private:
  Scratch scratch_;
};

inline Result<ops::VerifyReport> VerifyAgainst(const std::string& path,
                                               const std::optional<std::string>& against = {}) {
  ops::VerifyRequest request;
  request.path = path;
  request.against = against;
  return ops::Verify(request);
}

// The findings of a readable artifact.
inline std::vector<ops::Finding> FindingsOf(const std::string& path,
                                            const std::optional<std::string>& against = {}) {
  const Result<ops::VerifyReport> report = VerifyAgainst(path, against);
  EXPECT_TRUE(report.ok()) << report.error().ToString();
  if (!report.ok()) return {};
  return report->findings;
}

// One stored tensor of an opened artifact, with the rank of its file.
struct Stored {
  StoredTensor tensor;
  std::string file;
  int64_t rank = -1;
};

inline std::vector<Stored> StoredTensors(const std::string& path, const ops::Kind* kind) {
  std::vector<Stored> out;
  const Result<ops::Artifact> artifact = ops::OpenArtifact(path, kind, {});
  EXPECT_TRUE(artifact.ok()) << artifact.error().ToString();
  if (!artifact.ok()) return out;
  for (size_t f = 0; f < artifact->files.size(); ++f)
    for (const StoredTensor& tensor : artifact->files[f].tensors)
      out.push_back({tensor, tensor.storage->path(), artifact->ranks[f].tp_rank});
  return out;
}

inline Stored FindStored(const std::string& path, const ops::Kind* kind, const std::string& name,
                         int64_t rank) {
  for (Stored& stored : StoredTensors(path, kind))
    if (stored.tensor.name == name && stored.rank == rank) return std::move(stored);
  ADD_FAILURE() << "no tensor " << name << " on rank " << rank << " in " << path;
  return {};
}

// The bits of a two-byte element.
inline uint16_t BitsOf(const Stored& stored, int64_t element) {
  uint16_t bits = 0;
  const auto bytes = std::as_writable_bytes(std::span(&bits, 1));
  EXPECT_TRUE(stored.tensor.storage
                  ->ReadAt(stored.tensor.offset + static_cast<uint64_t>(element) * 2, bytes)
                  .ok());
  return bits;
}

inline uint64_t PlaceOf(const Stored& stored, int64_t element) {
  return stored.tensor.offset + static_cast<uint64_t>(element * ElementBytes(stored.tensor.dtype));
}

// Changes the lowest bit of one element of a packed tensor, as if it had been written so.
inline void FlipElement(const Stored& stored, int64_t element) {
  FlipStored(*stored.tensor.storage, PlaceOf(stored, element));
}
// The same as damage, which a checksum reveals.
inline void DamageElement(const Stored& stored, int64_t element) {
  FlipFile(stored.file, stored.tensor.storage->file_offset() + PlaceOf(stored, element));
}

}  // namespace nxdkit::testing_util
