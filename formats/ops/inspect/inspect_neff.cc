// Compiled graphs: NEFFs, the archives they lie in, and the cache they are kept in.
#include <fmt/core.h>

#include "formats/ops/inspect/inspect_parts.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::ops {
namespace {

// Archives of real graphs are larger than anybody wants to wait for; a listing says where it ended.
constexpr uint64_t kMaxListedBytes = 512 << 20;
constexpr size_t kMaxNeffs = 10'000;

}  // namespace

bool LooksLikeNeff(const std::string& path) {
  if (KindOf(path) != PathKind::kFile) return false;
  const Result<File> file = File::OpenRead(path);
  if (!file.ok()) return false;
  const Result<neff::Located> neff = neff::ReadAt(*file, 0, file->bytes());
  // A name that says so is enough to be told what is wrong with the header.
  return path.ends_with(".neff") || (neff.ok() && neff->payload != neff::Payload::kUnknown);
}

Status AddNeffs(Inspection& inspection, const File& file, const std::string& record,
                uint64_t offset, uint64_t end, const InspectRequest& request, bool list_members) {
  std::vector<Error> damaged;
  NXDKIT_ASSIGN(const std::vector<neff::Located> found,
                neff::Find(file, offset, end, kMaxNeffs, request.poll, &damaged));
  for (const Error& error : damaged)
    inspection.warnings.push_back("header of a NEFF: " + error.ToString());
  for (const neff::Located& neff : found) {
    NeffFacts facts;
    facts.record = record;
    facts.neff = neff;
    facts.listed = list_members;
    if (list_members) {
      neff::ListLimits limits;
      limits.bytes = kMaxListedBytes;
      limits.poll = request.poll;
      NXDKIT_ASSIGN(facts.listing, neff::ListPayload(file, neff, limits));
    }
    if (!facts.listing.cut_short.empty())
      inspection.warnings.push_back(
          fmt::format("the NEFF at offset {}: its members are not all "
                      "listed: {}",
                      neff.offset, facts.listing.cut_short));
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

Status InspectNeff(Inspection& inspection, const InspectRequest& request) {
  NXDKIT_ASSIGN(const File file, File::OpenRead(request.path));
  NXDKIT_ASSIGN(const neff::Located neff, neff::ReadAt(file, 0, file.bytes()));
  inspection.form = Form::kNeff;
  inspection.description = "NEFF: a compiled graph, which is not run and holds no weights";
  inspection.artifact.path = request.path;
  inspection.artifact.files.push_back({request.path, "neff", file.bytes(), {}, {}});
  const uint64_t end = neff.data_offset() + neff.header.data_bytes;
  if (end != file.bytes())
    inspection.warnings.push_back(
        fmt::format("{} bytes follow the payload; they are not looked at", file.bytes() - end));
  return AddNeffs(inspection, file, "", 0, end, request);
}

Status InspectCache(Inspection& inspection, const InspectRequest& request) {
  NXDKIT_ASSIGN(inspection.cache, neff::ListCache(request.path));
  inspection.form = Form::kCompileCache;
  inspection.description = "compile cache; neuron-cache lists, verifies and prunes it";
  inspection.artifact.path = request.path;
  return OkStatus();
}

}  // namespace nxdkit::ops
