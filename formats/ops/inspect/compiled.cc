#include "formats/ops/inspect/compiled.h"

#include <fmt/core.h>

#include <algorithm>

#include "formats/compile_cache/place.h"
#include "formats/compile_cache/tree.h"
#include "formats/ops/verify/blob.h"
#include "formats/torch/zip_format.h"
#include "formats/torch/zip_reader.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "lib/system/paths.h"

namespace nxdkit::ops {
namespace {

// Archives of real graphs are larger than anybody wants to wait for; a listing says where it ended.
constexpr uint64_t kMaxListedBytes = 512 << 20;
constexpr size_t kMaxNeffs = 10'000;

Status AddNeffs(Inspection& inspection, const File& file, const std::string& record,
                uint64_t offset, uint64_t end, const InspectRequest& request, bool list_members) {
  std::vector<Error> damaged;
  NXDKIT_ASSIGN(const std::vector<neff::Located> found,
                neff::Find(file, offset, end, kMaxNeffs, request.poll, &damaged));
  for (const Error& error : damaged)
    inspection.warnings.push_back("header of a NEFF: " + error.ToString());
  for (const neff::Located& neff : found) {
    NeffFacts facts{record, neff, list_members, {}, {}};
    if (list_members)
      NXDKIT_TRY(neff::ListPayload(file, neff, {.bytes = kMaxListedBytes, .poll = request.poll})
                     .To(facts.listing));
    if (!facts.listing.cut_short.empty())
      inspection.warnings.push_back(
          fmt::format("the NEFF at offset {}: its members are not all listed: {}", neff.offset,
                      facts.listing.cut_short));
    if (request.check_hashes) {
      NXDKIT_ASSIGN(facts.hash_matches, neff::HashMatches(file, neff, request.poll));
      if (!*facts.hash_matches)
        inspection.warnings.push_back(
            fmt::format("the NEFF at offset {}: the payload does not have the hash of the header",
                        neff.offset));
    }
    inspection.neffs.push_back(std::move(facts));
  }
  return OkStatus();
}

// The NEFFs in the stored records of an archive; `prefix` is put before the records' names. With
// `list_members` their contents are listed, not only the headers.
Status AddNeffsOfRecords(Inspection& inspection, const File& file,
                         const torch::ZipDirectory& directory, const std::string& prefix,
                         const InspectRequest& request, bool list_members) {
  for (const torch::ZipRecord& record : directory.records()) {
    // torch compresses code; byte strings, such as NEFFs, are stored as they are.
    if (record.method != torch::zip::kStored) continue;
    NXDKIT_TRY(AddNeffs(inspection, file, prefix + std::string(record.name), record.data_offset,
                        record.data_offset + record.stored_bytes, request, list_members));
  }
  return OkStatus();
}

// The NEFFs in the records of a TorchScript archive, or in any file.
Status AddBlob(Inspection& inspection, const std::string& path, const InspectRequest& request) {
  NXDKIT_ASSIGN(const BlobReport form, CheckBlob(path, BlobDepth::kForm, request.poll));
  for (const Finding& finding : form.findings)
    inspection.warnings.push_back(finding.ToString() + "; ckpt-verify says more");
  NXDKIT_ASSIGN(const File file, File::OpenRead(path));
  const std::string name = BaseName(path);
  const Result<torch::ZipDirectory> directory = torch::ZipDirectory::Read(file);
  if (!directory.ok()) return AddNeffs(inspection, file, name, 0, file.bytes(), request, false);
  const size_t before = inspection.neffs.size();
  NXDKIT_TRY(AddNeffsOfRecords(inspection, file, *directory, name + ": ", request, false));
  if (form.findings.empty() && inspection.neffs.size() == before)
    inspection.warnings.push_back(NoNeffText(path));
  return OkStatus();
}

}  // namespace

Result<bool> LooksLikeNeff(const std::string& path) {
  NXDKIT_ASSIGN(const bool is_file, IsFile(path));
  if (!is_file) return false;
  NXDKIT_ASSIGN(const File file, File::OpenRead(path));
  const Result<neff::Located> neff = neff::ReadAt(file, 0, file.bytes());
  if (!neff.ok() && neff.error().code() == Errc::kIo) return neff.error();
  // With such a name, an error in the header is reported.
  return path.ends_with(".neff") || (neff.ok() && neff->payload != neff::Payload::kUnknown);
}

Status InspectNeff(Inspection& inspection, const InspectRequest& request) {
  NXDKIT_ASSIGN(const File file, File::OpenRead(request.path));
  NXDKIT_ASSIGN(const neff::Located neff, neff::ReadAt(file, 0, file.bytes()));
  inspection.form = "neff";
  inspection.not_checked = "compiled graphs hold no weights";
  inspection.description = "NEFF: a compiled graph, which is not run and holds no weights";
  inspection.artifact.path = request.path;
  inspection.artifact.files.push_back({request.path, "neff", file.bytes(), {}, {}});
  const uint64_t end = neff.data_offset() + neff.header.data_bytes;
  if (end != file.bytes())
    inspection.warnings.push_back(
        fmt::format("{} bytes follow the payload; they are not read", file.bytes() - end));
  return AddNeffs(inspection, file, "", 0, end, request, true);
}

Result<bool> IsCompileCache(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const bool of_compiler, neff::LooksLikeCache(path, look));
  if (of_compiler) return true;
  NXDKIT_ASSIGN(const bool folder, look.IsFolder(path));
  if (!folder) return false;
  NXDKIT_ASSIGN(const neff::FoundTree tree, neff::FindTree(path));
  if (!tree.is_old_place) return !tree.is_empty;
  // If there are other files too, it is a run's cache, and the folder is whatever those are.
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListFolder(path));
  return names.size() == 1;
}

Status InspectCache(Inspection& inspection, const InspectRequest& request) {
  NXDKIT_ASSIGN(const neff::FoundTree tree, neff::FindTree(request.path));
  NXDKIT_ASSIGN(inspection.cache, neff::ListTreeOf(tree, neff::MomentOf(tree.root)));
  inspection.form = "compile_cache";
  inspection.not_checked = "compiled graphs hold no weights";
  inspection.description = fmt::format(
      "compile cache of {}; neuron-cache lists, verifies and prunes it", neff::TreeName(tree.kind));
  inspection.artifact.path = request.path;
  if (tree.is_old_place) inspection.warnings.push_back(neff::OldPlaceNote(request.path));
  return OkStatus();
}

Status InspectProgram(Inspection& inspection, const InspectRequest& request) {
  const std::string& path = inspection.artifact.path;
  NXDKIT_ASSIGN(const File file, File::OpenRead(path));
  NXDKIT_ASSIGN(const torch::ZipDirectory directory, torch::ZipDirectory::Read(file).in(path));
  inspection.description =
      "TorchScript archive: a program, such as the compiled model.pt of a rollout bundle; it is "
      "not run, and holds no weights that could be converted";
  inspection.not_checked = "not a state dict of a model";
  for (const torch::ZipRecord& record : directory.records())
    inspection.records.push_back({std::string(record.name), record.bytes});
  NXDKIT_TRY(AddNeffsOfRecords(inspection, file, directory, "", request, true));
  std::ranges::stable_sort(inspection.records, std::greater(), &Item::bytes);
  inspection.artifact.files.push_back({path, "torch zip", file.bytes(), {}, {}});
  return OkStatus();
}

Status AddBlobs(Inspection& inspection, const InspectRequest& request) {
  for (const std::string& blob : inspection.blobs) {
    const Status added = AddBlob(inspection, blob, request);
    if (added.ok()) continue;
    if (added.error().code() == Errc::kInterrupted) return added;
    inspection.warnings.push_back("the blob cannot be read: " + added.error().ToString());
  }
  return OkStatus();
}

}  // namespace nxdkit::ops
