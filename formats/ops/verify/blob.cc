#include "formats/ops/verify/blob.h"

#include <fmt/core.h>

#include "formats/neff/header.h"
#include "formats/torch/zip_format.h"
#include "formats/torch/zip_reader.h"
#include "formats/torch/zip_record.h"
#include "lib/base/text.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::ops {
namespace {

constexpr size_t kMaxNeffs = 10'000;

// torch.jit.load refuses a file without one of these.
constexpr const char* kNeeded[] = {"version", "data.pkl", "constants.pkl"};

// Whether the error is a fault of the file, rather than of the system.
bool IsOfTheFile(Errc code) {
  return code == Errc::kCorrupt || code == Errc::kUnsupported || code == Errc::kLimit;
}

struct BlobChecker {
  const std::string& path;
  const std::function<Status()>& poll;
  BlobReport report = {};

  Status Check(BlobDepth depth) {
    NXDKIT_ASSIGN(const bool is_file, IsFile(path));
    if (!is_file) return Add("it is not a file"), OkStatus();
    NXDKIT_ASSIGN(const File file, File::OpenRead(path));
    if (file.bytes() == 0) return Add("it is empty"), OkStatus();
    const Result<torch::ZipDirectory> directory = torch::ZipDirectory::Read(file);
    if (!directory.ok()) return Take(directory.error(), "it is not a whole TorchScript archive: ");
    CheckNames(*directory);
    if (depth == BlobDepth::kForm || !report.findings.empty()) return OkStatus();
    for (const torch::ZipRecord& record : directory->records())
      NXDKIT_TRY(CheckRecord(file, record));
    return OkStatus();
  }

  void Add(std::string message) {
    report.findings.push_back(Finding("blob", std::move(message)).in(path));
  }

  // Turns a fault of the file into a finding, with its place.
  Status Take(const Error& error, std::string_view before) {
    if (!IsOfTheFile(error.code())) return error;
    std::string place;
    if (!error.member().empty()) place += error.member() + ": ";
    if (error.offset()) place += fmt::format("offset {}: ", *error.offset());
    Add(fmt::format("{}{}{}", before, place, error.message()));
    return OkStatus();
  }

  // torch puts all records into one folder, of any name.
  void CheckNames(const torch::ZipDirectory& directory) {
    if (directory.records().empty())
      return Add("it is not a TorchScript archive: it has no records");
    const std::string_view first = directory.records().front().name;
    const std::string_view top = first.substr(0, first.find('/'));
    for (const char* needed : kNeeded) {
      const std::string name = fmt::format("{}/{}", top, needed);
      const torch::ZipRecord* record = directory.Find(name);
      if (record == nullptr)
        Add(fmt::format("it is not a TorchScript archive: the record {} is missing", name));
      else if (record->bytes == 0)
        Add(fmt::format("it is not a TorchScript archive: the record {} is empty", name));
    }
  }

  Status CheckRecord(const File& file, const torch::ZipRecord& record) {
    const auto pass = [&](std::span<const std::byte>) { return poll ? poll() : OkStatus(); };
    const Status read = torch::StreamRecord(file, record, pass);
    if (!read.ok()) return Take(read.error(), "");
    // torch compresses code; byte strings, such as NEFFs, are stored as they are.
    if (record.method != torch::zip::kStored) return OkStatus();
    std::vector<Error> damaged;
    const uint64_t end = record.data_offset + record.stored_bytes;
    const auto neffs = neff::Find(file, record.data_offset, end, kMaxNeffs, poll, &damaged);
    if (!neffs.ok()) return Take(neffs.error(), fmt::format("record {}: ", record.name));
    for (const Error& error : damaged)
      NXDKIT_TRY(Take(error, fmt::format("record {}: header of a NEFF: ", record.name)));
    for (const neff::Located& neff : *neffs) NXDKIT_TRY(CheckNeff(file, record, neff));
    return OkStatus();
  }

  Status CheckNeff(const File& file, const torch::ZipRecord& record, const neff::Located& neff) {
    ++report.neffs;
    NXDKIT_ASSIGN(const bool matches, neff::HashMatches(file, neff, poll));
    if (!matches)
      Add(
          fmt::format("record {}: the NEFF at offset {}: the payload does not have the hash of the "
                      "header, {}",
                      record.name, neff.offset, neff::HashText(neff.header)));
    return OkStatus();
  }
};

// Compared as optimum-neuron does: as texts, its own version first.
std::string WhyRefused(const rollout::VersionStamp& stamp, const rollout::Installation& at) {
  if (at.editable) return "has an editable optimum-neuron, with an unknown version";
  if (at.optimum.empty()) return "has no optimum-neuron";
  if (at.optimum != stamp.optimum) return "has optimum-neuron " + at.optimum;
  if (at.compiler.empty()) return "has no neuronx-cc";
  if (at.compiler != stamp.compiler) return "has neuronx-cc " + at.compiler;
  return "";
}

}  // namespace

std::string NoNeffText(const std::string& path) {
  return path + ": no NEFF was found in it; it may not be a compiled model";
}

Result<BlobReport> CheckBlob(const std::string& path, BlobDepth depth,
                             const std::function<Status()>& poll) {
  BlobChecker checker{path, poll};
  NXDKIT_TRY(checker.Check(depth));
  return std::move(checker.report);
}

Status CheckBlobs(const rollout::Bundle& bundle, const std::function<Status()>& poll,
                  VerifyReport& report) {
  for (const std::string& name : bundle.blobs) {
    const std::string path = JoinPath(bundle.folder, name);
    NXDKIT_ASSIGN(BlobReport blob, CheckBlob(path, BlobDepth::kContents, poll));
    if (blob.findings.empty())
      report.checks.push_back(
          fmt::format("{}: a whole TorchScript archive, {} in it, checksums and hashes hold", name,
                      Counted(blob.neffs, "NEFF")));
    if (blob.findings.empty() && blob.neffs == 0) report.warnings.push_back(NoNeffText(path));
    for (Finding& finding : blob.findings) report.findings.push_back(std::move(finding));
  }
  return OkStatus();
}

Status RequireBlobs(const rollout::Bundle& bundle, const std::function<Status()>& poll) {
  VerifyReport report;
  NXDKIT_TRY(CheckBlobs(bundle, poll, report));
  if (report.findings.empty()) return OkStatus();
  const Finding& first = report.findings.front();
  return Error(Errc::kCorrupt, "the compiled blob: " + first.message)
      .in(first.file)
      .hint("compile it again, or take the blob of another bundle");
}

Result<std::vector<std::string>> BlobFaults(const std::string& path,
                                            const std::function<Status()>& poll) {
  NXDKIT_ASSIGN(const BlobReport report, CheckBlob(path, BlobDepth::kContents, poll));
  std::vector<std::string> lines;
  for (const Finding& finding : report.findings) lines.push_back(finding.message);
  return lines;
}

void NameLoaders(const rollout::Bundle& bundle,
                 const std::vector<rollout::Installation>& installations, VerifyReport& report) {
  if (!bundle.config || bundle.config->flavor != rollout::Flavor::kOptimum || bundle.has_cpu_plan)
    return;
  const rollout::VersionStamp& stamp = bundle.config->stamp;
  if (stamp.optimum.empty() || stamp.compiler.empty()) {
    report.findings.push_back(
        Finding("config",
                fmt::format("optimum-neuron does not load it: there is no {}",
                            stamp.optimum.empty() ? "optimum_neuron_version" : "neuronxcc_version"))
            .in(JoinPath(bundle.folder, "neuron_config.json")));
    return;
  }
  report.stamp = stamp;
  report.checks.push_back(fmt::format("only optimum-neuron {} with neuronx-cc {} loads it",
                                      stamp.optimum, stamp.compiler));
  for (const rollout::Installation& at : installations) {
    const std::string why = WhyRefused(stamp, at);
    report.loaders.push_back({at, why});
    if (why.empty())
      report.checks.push_back(fmt::format("the installation in {} accepts it", at.folder));
    else
      report.warnings.push_back(
          fmt::format("the installation in {} refuses it: it {}", at.folder, why));
  }
}

}  // namespace nxdkit::ops
