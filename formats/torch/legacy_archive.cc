// The legacy form, torch 0.1.10 to 1.5, and torch.save(_use_new_zipfile_serialization=False):
// five pickles (magic, protocol, system, object, storage keys), then the storages.
#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>

#include "formats/torch/archive_readers.h"
#include "formats/torch/byte_reader.h"
#include "formats/torch/pickle_convert.h"
#include "formats/torch/pickle_machine.h"
#include "formats/torch/pickle_opcodes.h"
#include "formats/torch/read_window.h"

namespace nxdkit::torch {
namespace {

constexpr std::string_view kMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);  // LONG1 operand
constexpr int64_t kProtocolVersion = 1001;
constexpr uint64_t kFirstRead = 64 << 10;

enum Part { kMagicPart, kProtocolPart, kSystemPart, kObjectPart, kKeysPart, kPartCount };
constexpr const char* kPartNames[] = {"magic number", "protocol version", "system information",
                                      "object", "storage keys"};

// The bytes of the five pickles, and where each ends.
struct Pickles {
  std::string bytes;
  size_t begins[kPartCount + 1] = {};

  std::string_view Part(int part) const {
    return std::string_view(bytes).substr(begins[part], begins[part + 1] - begins[part]);
  }
};

// Nothing says how long the pickles are, so twice as much is read until the fifth STOP is seen.
Result<Pickles> ReadPickles(const File& file) {
  Pickles out;
  size_t position = 0;
  int part = 0;
  for (uint64_t want = kFirstRead;; want *= 2) {
    const size_t old = out.bytes.size();
    out.bytes.resize(static_cast<size_t>(std::min({want, file.bytes(), kMaxPickleBytes})));
    NXDKIT_TRY(file.ReadAt(old, std::as_writable_bytes(std::span(out.bytes).subspan(old))));
    for (; part < kPartCount; ++part) {
      Result<bool> whole = SkipPickle(out.bytes, position);
      if (!whole.ok()) return std::move(whole).error().member(kPartNames[part]);
      if (!*whole) break;
      out.begins[part + 1] = position;
    }
    if (part == kPartCount) return out;
    if (out.bytes.size() == file.bytes())
      return Error(Errc::kCorrupt,
                   fmt::format("the file ends after {} bytes, inside the pickle", file.bytes()))
          .member(kPartNames[part])
          .at(position);
    if (out.bytes.size() == kMaxPickleBytes)
      return Error(Errc::kUnsupported,
                   fmt::format("the pickles have more than {} bytes", kMaxPickleBytes))
          .member(kPartNames[part])
          .at(position);
  }
}

class LegacyReader {
 public:
  explicit LegacyReader(std::shared_ptr<const File> file) : file_(std::move(file)) {}
  Result<Archive> Read();

 private:
  // An error at an offset inside a pickle becomes one inside the file.
  Error InFile(Error error, Part part) const;
  Result<NodeId> Run(PickleGraph& graph, Part part) const;
  Status CheckHeader() const;
  Result<std::vector<uint32_t>> ReadKeys(const PickleGraph& object) const;
  Result<std::vector<std::shared_ptr<const Storage>>> FindStorages(
      const PickleGraph& object, const std::vector<uint32_t>& order) const;

  std::shared_ptr<const File> file_;
  Pickles pickles_;
};

Error LegacyReader::InFile(Error error, Part part) const {
  const uint64_t offset = pickles_.begins[part] + error.offset().value_or(0);
  return Error(error.code(), error.message())
      .member(kPartNames[part])
      .at(offset)
      .hint(error.hint());
}

Result<NodeId> LegacyReader::Run(PickleGraph& graph, Part part) const {
  Result<PickleResult> run = RunPickle(graph, PickleFlavor::kLegacy);
  if (!run.ok()) return InFile(std::move(run).error(), part);
  return run->root;
}

// The system information (byte order, sizes of C types) is not needed: torch converts storages
// to little-endian when it writes this form on a big-endian machine.
Status LegacyReader::CheckHeader() const {
  PickleGraph magic(pickles_.Part(kMagicPart));
  NXDKIT_ASSIGN(const NodeId number, Run(magic, kMagicPart));
  if (magic.kind(number) != NodeKind::kBigInt || magic.AsText(number) != kMagic)
    return InFile(Error(Errc::kUnsupported,
                        "the first pickle is not torch's magic number; is this "
                        "a plain pickle file?"),
                  kMagicPart);
  PickleGraph protocol(pickles_.Part(kProtocolPart));
  NXDKIT_ASSIGN(const NodeId version, Run(protocol, kProtocolPart));
  if (protocol.kind(version) != NodeKind::kInt)
    return InFile(Error(Errc::kCorrupt, fmt::format("the protocol version is a {}",
                                                    KindName(protocol.kind(version)))),
                  kProtocolPart);
  if (protocol.AsInt(version) != kProtocolVersion)
    return InFile(Error(Errc::kUnsupported, fmt::format("protocol version {}, expected {}",
                                                        protocol.AsInt(version), kProtocolVersion)),
                  kProtocolPart);
  PickleGraph system(pickles_.Part(kSystemPart));
  NXDKIT_ASSIGN(const NodeId info, Run(system, kSystemPart));
  if (system.kind(info) != NodeKind::kDict)
    return InFile(
        Error(Errc::kCorrupt, fmt::format("the system information is a {}, expected a dict",
                                          KindName(system.kind(info)))),
        kSystemPart);
  return OkStatus();
}

// The storages' numbers in the object's graph, in the order in which they lie in the file.
Result<std::vector<uint32_t>> LegacyReader::ReadKeys(const PickleGraph& object) const {
  PickleGraph keys(pickles_.Part(kKeysPart));
  NXDKIT_ASSIGN(const NodeId list, Run(keys, kKeysPart));
  const auto corrupt = [&](std::string message) {
    return InFile(Error(Errc::kCorrupt, std::move(message)), kKeysPart);
  };
  if (keys.kind(list) != NodeKind::kList)
    return corrupt(fmt::format("the keys are a {}, expected a list", KindName(keys.kind(list))));
  std::unordered_map<std::string_view, uint32_t> numbers;
  for (uint32_t i = 0; i < object.storages.size(); ++i) numbers.emplace(object.storages[i].key, i);
  std::vector<uint32_t> order;
  for (const NodeId key : keys.Items(list)) {
    if (keys.kind(key) != NodeKind::kString)
      return corrupt(fmt::format("a key is a {}, expected a str", KindName(keys.kind(key))));
    const auto found = numbers.find(keys.AsText(key));
    if (found == numbers.end())
      return corrupt(fmt::format("no tensor uses the storage \"{}\", or the key is there twice",
                                 keys.AsText(key)));
    order.push_back(found->second);
    numbers.erase(found);
  }
  if (!numbers.empty())
    return corrupt(fmt::format("{} of the {} storages of the tensors are not among the keys",
                               numbers.size(), object.storages.size()));
  return order;
}

// Each storage is its number of elements (int64, little-endian) and then their bytes.
Result<std::vector<std::shared_ptr<const Storage>>> LegacyReader::FindStorages(
    const PickleGraph& object, const std::vector<uint32_t>& order) const {
  std::vector<std::shared_ptr<const Storage>> storages(object.storages.size());
  ReadWindow window(*file_, file_->bytes());
  uint64_t at = pickles_.begins[kPartCount];
  for (const uint32_t number : order) {
    const StorageClaim& claim = object.storages[number];
    const std::string member = fmt::format("storage {}", claim.key);
    Result<std::string_view> count = window.At(at, sizeof(uint64_t));
    if (!count.ok()) return std::move(count).error().member(member);
    const auto elements = LittleEndian<uint64_t>(*count);
    const uint64_t expected = claim.bytes / static_cast<uint64_t>(claim.element_bytes);
    if (elements != expected)
      return Error(Errc::kCorrupt, fmt::format("the storage says it has {} elements, the object {}",
                                               elements, expected))
          .member(member)
          .at(at);
    at += sizeof(uint64_t);
    if (claim.bytes > file_->bytes() - at)
      return Error(Errc::kCorrupt,
                   fmt::format("the storage has {} bytes, but the file ends {} bytes "
                               "after this",
                               claim.bytes, file_->bytes() - at))
          .member(member)
          .at(at);
    storages[number] = FileStorage(file_, at, claim.bytes);
    at += claim.bytes;
  }
  if (at != file_->bytes())
    return Error(Errc::kCorrupt,
                 fmt::format("{} bytes are left over after the last storage", file_->bytes() - at))
        .at(at);
  return storages;
}

Result<Archive> LegacyReader::Read() {
  NXDKIT_ASSIGN(pickles_, ReadPickles(*file_));
  NXDKIT_TRY(CheckHeader());
  PickleGraph object(pickles_.Part(kObjectPart));
  NXDKIT_ASSIGN(const NodeId root, Run(object, kObjectPart));
  NXDKIT_ASSIGN(const std::vector<uint32_t> order, ReadKeys(object));
  NXDKIT_ASSIGN(const auto storages, FindStorages(object, order));

  Archive archive;
  archive.format = "torch legacy";
  Result<PickleValue> value = ToValue(object, root);
  if (!value.ok()) return std::move(value).error().member(kPartNames[kObjectPart]);
  archive.root = std::move(*value);
  archive.tensors = std::move(object.tensors);
  for (size_t i = 0; i < archive.tensors.size(); ++i)
    archive.tensors[i].storage = storages[object.tensor_storages[i]];
  return archive;
}

}  // namespace

Result<Archive> ReadLegacyArchive(std::shared_ptr<const File> file) {
  return LegacyReader(std::move(file)).Read();
}

}  // namespace nxdkit::torch
