#include "formats/ops/digest/manifest.h"
#include "formats/kinds/open.h"

#include <fmt/core.h>

#include <unistd.h>
#include <algorithm>

#include <cerrno>

#include "formats/ops/digest/files.h"
#include "formats/ops/verify/compare.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/hash/signature.h"
#include "lib/system/folders.h"
#include "lib/system/places.h"

namespace nxdkit::ops {
namespace {

using manifest::Manifest;

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string SignaturePath(const std::string& manifest) { return manifest + kSignatureSuffix; }

Result<bool> IsManifest(const std::string& path) {
  const Result<std::string> text = ReadSmallFile(path, manifest::kMaxManifestBytes);
  if (!text.ok() && text.error().code() == Errc::kIo) return text.error();
  return text.ok() && manifest::ReadManifest(*text).ok();
}

// Before the work: refuses files that the manifest or its signature would overwrite, and a key that
// is not one.
Status CheckOutputs(const DigestRequest& request, const Artifact& artifact) {
  const std::string& path = *request.write_manifest;
  const std::string signature = SignaturePath(path);
  std::vector<std::string> read = PathsOf(artifact);
  if (!request.hints.memory) read.push_back(request.path);
  if (request.sign_key) {
    read.push_back(*request.sign_key);
    NXDKIT_TRY(SignEd25519({}, *request.sign_key));
  }
  NXDKIT_TRY(CheckPlaces(path, read));
  NXDKIT_TRY(CheckPlaces(signature, read));
  NXDKIT_ASSIGN(const bool there, IsThere(path));
  NXDKIT_ASSIGN(const bool has_signature, IsThere(signature));
  if ((there || has_signature) && !request.force)
    return BadUsage("the output exists").in(there ? path : signature).hint("--force replaces it");
  NXDKIT_ASSIGN(const bool replaceable, there ? IsManifest(path) : Result<bool>(true));
  if (!replaceable)
    return BadUsage("--force replaces a manifest, and this file is not one").in(path);
  return OkStatus();
}

// The signature of an older manifest would not fit the new one: it is removed first, and the new
// one is written last.
Status Write(const DigestRequest& request, const std::string& text) {
  const std::string signature = SignaturePath(*request.write_manifest);
  NXDKIT_ASSIGN(const bool has_signature, IsFile(signature));
  if (has_signature && ::unlink(signature.c_str()) != 0)
    return OutputError("remove the old signature", errno).in(signature);
  NXDKIT_TRY(WriteFileAtomic(*request.write_manifest, text));
  if (!request.sign_key) return OkStatus();
  NXDKIT_ASSIGN(const std::string bytes, SignEd25519(BytesOf(text), *request.sign_key));
  return WriteFileAtomic(signature, bytes);
}

Status CheckSignature(const DigestRequest& request, const std::string& text, DigestReport& report) {
  const std::string path = SignaturePath(*request.check_manifest);
  NXDKIT_ASSIGN(const std::string signature, ReadSmallFile(path, 4096));
  Status good = VerifyEd25519(BytesOf(text), signature, *request.public_key);
  if (good.ok()) {
    report.checks.push_back(fmt::format("the manifest is signed by {}", *request.public_key));
    return OkStatus();
  }
  if (good.error().code() != Errc::kFindings) return std::move(good).error().in(path);
  report.findings.push_back(Finding("signature", good.error().message()).in(path));
  return OkStatus();
}

std::string AsRecorded(size_t count, std::string_view noun) {
  return count == 1 ? fmt::format("the {} is as recorded", noun)
                    : fmt::format("all {} are as recorded", Counted(count, noun));
}

Status CheckFiles(const DigestRequest& request, const Artifact& artifact, const Manifest& recorded,
                  DigestReport& report) {
  if (recorded.kind.empty() || !request.files) return OkStatus();
  if (recorded.kind != report.kind->name)
    return BadUsage(
               "the manifest records the files of an artifact of kind {}, this one is of kind {}",
               recorded.kind, report.kind->name)
        .in(request.path)
        .hint("--no-files compares only the weights");
  const std::string& path = *request.check_manifest;
  NXDKIT_ASSIGN(report.files, DigestFiles(artifact, {path, SignaturePath(path)}, request.run));
  const std::vector<Finding> findings = CompareFiles(recorded.files, report.files);
  if (findings.empty()) report.checks.push_back(AsRecorded(report.files.size(), "file"));
  report.findings.insert(report.findings.end(), findings.begin(), findings.end());
  return OkStatus();
}

Status Check(const DigestRequest& request, const Artifact& artifact, const Manifest& recorded,
             DigestReport& report) {
  report.findings = CompareModels(recorded.model, report.model);
  report.differing = artifact::CountDiffering(
      report.findings, std::max(recorded.model.params.size(), report.model.params.size()));
  if (report.findings.empty())
    report.checks.push_back(AsRecorded(report.model.params.size(), "parameter"));
  return CheckFiles(request, artifact, recorded, report);
}

}  // namespace

Result<DigestReport> Digest(const DigestRequest& request) {
  NXDKIT_CHECK(!request.write_manifest || !request.check_manifest);
  DigestReport report;
  // Before anything large is read: a manifest that cannot be trusted ends the check.
  Manifest recorded;
  if (request.check_manifest) {
    NXDKIT_ASSIGN(const std::string text,
                  ReadSmallFile(*request.check_manifest, manifest::kMaxManifestBytes));
    if (request.public_key) NXDKIT_TRY(CheckSignature(request, text, report));
    if (!report.findings.empty()) return report;
    NXDKIT_ASSIGN(recorded, manifest::ReadManifest(text).in(*request.check_manifest));
  }
  NXDKIT_ASSIGN(const BoundArtifact bound, OpenAndBind(request.path, request.kind, request.hints));
  const Artifact& artifact = bound.artifact;
  report.kind = artifact.kind;
  report.AddSaid(artifact);
  report.left_out = bound.left_out;
  if (artifact.config) report.model_type = artifact.config->model_type;
  if (request.write_manifest) NXDKIT_TRY(CheckOutputs(request, artifact));
  NXDKIT_TRY(RequireSound(bound, request.run));
  NXDKIT_ASSIGN(report.model, DigestModel(bound, request.run));
  if (request.check_manifest) NXDKIT_TRY(Check(request, artifact, recorded, report));
  if (!request.write_manifest) return report;

  const std::string& path = *request.write_manifest;
  Manifest manifest;
  manifest.model = report.model;
  if (artifact.config && artifact.config->family) {
    manifest.family = artifact.config->family->model_type;
    manifest.family_sha256 = artifact.config->family->digest;
  }
  if (request.files) {
    manifest.kind = report.kind->name;
    NXDKIT_ASSIGN(report.files, DigestFiles(artifact, {path, SignaturePath(path)}, request.run));
    manifest.files = report.files;
  }
  NXDKIT_ASSIGN(const std::string text, manifest::WriteManifest(manifest));
  NXDKIT_TRY(Write(request, text));
  return report;
}

}  // namespace nxdkit::ops
