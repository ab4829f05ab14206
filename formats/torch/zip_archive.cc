#include "formats/torch/zip_archive.h"

#include <fmt/core.h>

#include <algorithm>

#include "formats/torch/pickle_convert.h"
#include "formats/torch/pickle_machine.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::torch {
namespace {

constexpr uint64_t kMaxSmallRecord = 4096;
// The versions that torch 2.15 accepts: kMinSupportedFileFormatVersion and
// kMaxSupportedFileFormatVersion.
constexpr int kOldestVersion = 1;
constexpr int kNewestVersion = 10;

const GlobalTable& TableFor(ReadOptions::Allowed allowed) {
  switch (allowed) {
    case ReadOptions::Allowed::kPlain:
      return TorchGlobals();
    case ReadOptions::Allowed::kDistributed:
      return DistributedGlobals();
    case ReadOptions::Allowed::kRunState:
      return RunStateGlobals();
    case ReadOptions::Allowed::kAny:
      return AnyGlobals();
  }
  return TorchGlobals();
}

struct ZipArchiveReader {
  ArchivePlace place;
  ZipDirectory directory;
  std::string top = {};  // the folder inside the zip
  bool big_endian = false;
  Archive archive = {};

  Result<Archive> Read(const ReadOptions& options) {
    archive.format = "torch zip";
    NXDKIT_TRY(FindTopFolder());
    archive.folder = top;
    if (!options.only_records) NXDKIT_TRY(CheckHasPickle());
    NXDKIT_TRY(ReadVersion());
    NXDKIT_TRY(ReadByteOrder());
    if (!options.only_records) NXDKIT_TRY(ReadPickle(TableFor(options.allowed)));
    if (options.check_crc) NXDKIT_TRY(CheckCrcs(options.proved));
    WarnOfMissingCrcs();
    return std::move(archive);
  }

  std::string Name(std::string_view record) const { return fmt::format("{}/{}", top, record); }

  void Warn(std::string message) { archive.warnings.push_back(std::move(message)); }

  // Any name will do; torch takes it from the first record.
  Status FindTopFolder() {
    if (directory.records().empty()) return Corrupt("a zip archive without any record");
    const ZipRecord& first = directory.records().front();
    const size_t slash = first.name.find('/');
    if (first.name.ends_with(".npy"))
      return Unsupported("an archive of numpy arrays (.npz), not of torch")
          .member(first.name)
          .hint("safetensors.numpy.save_file writes arrays by name");
    if (slash == std::string_view::npos || slash == 0)
      return Unsupported("the first record is in no folder; torch puts all into one")
          .member(first.name)
          .at(first.header_offset);
    top = first.name.substr(0, slash);
    if (const ZipRecord* constants = directory.Find(Name("constants.pkl")))
      return Unsupported("this is a TorchScript archive (a compiled model?)")
          .member(constants->name)
          .at(constants->header_offset)
          .hint("save the module's state_dict with torch.save");
    return OkStatus();
  }

  // Torch refuses a file without a version, or with an unknown one.
  Status ReadVersion() {
    const ZipRecord* record = directory.Find(Name("version"));
    if (record == nullptr) record = directory.Find(Name(".data/version"));
    if (record == nullptr)
      return Corrupt("the archive has no version record").member(Name("version"));
    NXDKIT_ASSIGN(archive.version, ReadRecord(place.view(), *record, kMaxSmallRecord));
    std::string_view digits = archive.version;
    digits = digits.substr(0, digits.find_last_not_of("\r\n") + 1);
    const auto version = ParseNumber<int>(digits);
    if (!version)
      return InRecord(*record, Corrupt("the version \"{:.20}\" is not a number", digits));
    if (*version < kOldestVersion || *version > kNewestVersion)
      return InRecord(*record, Unsupported("file format version {}, supported are {} to {}",
                                           *version, kOldestVersion, kNewestVersion));
    return OkStatus();
  }

  // Absent before torch 2.1, in practice from little-endian machines.
  Status ReadByteOrder() {
    const ZipRecord* record = directory.Find(Name("byteorder"));
    if (record == nullptr) return OkStatus();
    NXDKIT_ASSIGN(const std::string order, ReadRecord(place.view(), *record, kMaxSmallRecord));
    big_endian = order == "big";
    if (big_endian || order == "little") return OkStatus();
    return InRecord(*record,
                    Unsupported("byte order \"{:.20}\", expected \"little\" or \"big\"", order));
  }

  // Comes before everything else: many programs write zip archives.
  Status CheckHasPickle() const {
    if (directory.Find(Name("data.pkl"))) return OkStatus();
    return Unsupported("a zip archive without this record is not from torch.save")
        .member(Name("data.pkl"))
        .hint("it is another program's: unpack it with unzip, and name its contents");
  }

  Status ReadPickle(const GlobalTable& globals) {
    const ZipRecord* record = directory.Find(Name("data.pkl"));
    NXDKIT_CHECK(record);  // see CheckHasPickle
    NXDKIT_ASSIGN(const std::string pickle, ReadRecord(place.view(), *record, kMaxPickleBytes));
    PickleGraph graph(pickle);
    NXDKIT_ASSIGN(const PickleResult run,
                  RunPickle(graph, PickleFlavor::kZip, globals).member(record->name));
    NXDKIT_ASSIGN(archive.root, ToValue(graph, run.root).member(record->name));
    if (run.bytes != pickle.size())
      Warn(fmt::format("record data.pkl: {} bytes after the end of the pickle",
                       pickle.size() - run.bytes));
    return BindStorages(graph);
  }

  // Torch reads a storage that is too short without complaint, and then has wrong numbers.
  Result<const ZipRecord*> StorageRecord(const StorageClaim& claim) const {
    const std::string name = Name(fmt::format("data/{}", claim.key));
    const ZipRecord* record = directory.Find(name);
    if (record == nullptr)
      return Corrupt("the record is missing; data.pkl names this storage at its offset {}",
                     claim.pickle_offset)
          .member(name);
    if (record->bytes == claim.bytes) return record;
    return InRecord(*record,
                    Corrupt("the record has {} bytes, but data.pkl says {} at its offset {}",
                            record->bytes, claim.bytes, claim.pickle_offset));
  }

  Status BindStorages(PickleGraph& graph) {
    std::vector<std::shared_ptr<const Storage>> storages;
    storages.reserve(graph.storages.size());
    for (const StorageClaim& claim : graph.storages) {
      NXDKIT_ASSIGN(const ZipRecord* record, StorageRecord(claim));
      storages.push_back(RecordStorage(place, *record));
    }
    for (size_t i = 0; i < graph.tensors.size(); ++i) {
      graph.tensors[i].storage = storages[graph.tensor_storages[i]];
      graph.tensors[i].big_endian = big_endian;
    }
    archive.tensors = std::move(graph.tensors);

    const std::string data_folder = Name("data/");
    const auto data_records = static_cast<size_t>(
        std::ranges::count_if(directory.records(), [&](const ZipRecord& record) {
          return record.name.starts_with(data_folder) && record.name.size() > data_folder.size();
        }));
    if (data_records > storages.size())
      Warn(fmt::format("{} of {} data records belong to no tensor", data_records - storages.size(),
                       data_records));
    return OkStatus();
  }

  Status CheckCrcs(const std::set<uint64_t>* proved) const {
    const ByteSink ignore = [](std::span<const std::byte>) { return OkStatus(); };
    for (const ZipRecord& record : directory.records())
      if (proved == nullptr || !proved->contains(place.start + record.data_offset))
        NXDKIT_TRY(StreamRecord(place.view(), record, ignore));
    return OkStatus();
  }

  // torch.serialization.set_crc32_options(False) writes 0, as did other zip writers of torch files.
  void WarnOfMissingCrcs() {
    const std::string folder = Name("");
    size_t missing = 0;
    std::string_view first;
    for (const ZipRecord& record : directory.records()) {
      if (record.crc != 0 || record.bytes == 0 || !record.name.starts_with(folder)) continue;
      if (missing++ == 0) first = record.name.substr(folder.size());
    }
    if (missing > 0)
      Warn(
          fmt::format("{} of {} records have no checksum (CRC 0), so damage to them cannot be "
                      "detected; the first is {}",
                      missing, directory.records().size(), first));
  }
};

}  // namespace

Result<Archive> ReadZipArchive(const ArchivePlace& place, const ReadOptions& options) {
  NXDKIT_ASSIGN(ZipDirectory directory, ZipDirectory::Read(place.view()));
  return ZipArchiveReader{place, std::move(directory)}.Read(options);
}

}  // namespace nxdkit::torch
