#include "formats/torch/legacy_archive.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>

#include "formats/torch/byte_reader.h"
#include "formats/torch/pickle_convert.h"
#include "formats/torch/pickle_machine.h"
#include "formats/torch/pickle_opcodes.h"
#include "lib/base/errors.h"
#include "lib/base/little_endian.h"

namespace nxdkit::torch {
namespace {

constexpr std::string_view kMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);  // LONG1 operand
constexpr int64_t kProtocolVersion = 1001;
constexpr uint64_t kFirstRead = 64 << 10;

enum Part { kMagicPart, kProtocolPart, kSystemPart, kObjectPart, kKeysPart, kPartCount };
constexpr const char* kPartNames[] = {"magic number", "protocol version", "system information",
                                      "object", "storage keys"};

// The bytes of the five pickles, and the end of each.
struct Pickles {
  std::string bytes;
  size_t begins[kPartCount + 1] = {};

  std::string_view Part(int part) const {
    return std::string_view(bytes).substr(begins[part], begins[part + 1] - begins[part]);
  }
};

// The length of the pickles is not recorded, so twice as much is read each time until the fifth
// STOP is found.
Result<Pickles> ReadPickles(const File& file) {
  Pickles out;
  size_t position = 0;
  int part = 0;
  for (uint64_t want = kFirstRead;; want *= 2) {
    const size_t old = out.bytes.size();
    out.bytes.resize(static_cast<size_t>(std::min({want, file.bytes(), kMaxPickleBytes})));
    NXDKIT_TRY(file.ReadAt(old, std::as_writable_bytes(std::span(out.bytes).subspan(old))));
    for (; part < kPartCount; ++part) {
      NXDKIT_ASSIGN(const bool whole, SkipPickle(out.bytes, position).member(kPartNames[part]));
      if (!whole) break;
      out.begins[part + 1] = position;
    }
    if (part == kPartCount) return out;
    if (out.bytes.size() == file.bytes())
      return Corrupt("the file ends after {} bytes, inside the pickle", file.bytes())
          .member(kPartNames[part])
          .at(position);
    if (out.bytes.size() == kMaxPickleBytes)
      return Unsupported("the pickles have more than {} bytes", kMaxPickleBytes)
          .member(kPartNames[part])
          .at(position);
  }
}

// A part that has been run: its graph, and its result.
struct Ran {
  PickleGraph graph;
  NodeId root = 0;
};

struct LegacyReader {
  std::shared_ptr<const File> file;
  Pickles pickles = {};

  Result<Archive> Read() {
    NXDKIT_ASSIGN(pickles, ReadPickles(*file));
    NXDKIT_TRY(CheckHeader());
    NXDKIT_ASSIGN(Ran object, Run(kObjectPart));
    NXDKIT_ASSIGN(
        const std::vector<uint32_t> order,
        ReadKeys(object.graph).member(kPartNames[kKeysPart]).at(pickles.begins[kKeysPart]));
    NXDKIT_ASSIGN(const auto storages, FindStorages(object.graph, order));

    Archive archive;
    archive.format = "torch legacy";
    NXDKIT_ASSIGN(archive.root, ToValue(object.graph, object.root).member(kPartNames[kObjectPart]));
    archive.tensors = std::move(object.graph.tensors);
    for (size_t i = 0; i < archive.tensors.size(); ++i)
      archive.tensors[i].storage = storages[object.graph.tensor_storages[i]];
    return archive;
  }

  // An error in a part; `offset` is in its pickle.
  Error InPart(Part part, Error error, uint64_t offset = 0) const {
    return std::move(error).member(kPartNames[part]).at(pickles.begins[part] + offset);
  }

  Result<Ran> Run(Part part) const {
    PickleGraph graph(pickles.Part(part));
    const Result<PickleResult> run = RunPickle(graph, PickleFlavor::kLegacy);
    if (run.ok()) return Ran{std::move(graph), run->root};
    const Error& error = run.error();
    return InPart(part, Error(error.code(), error.message()), error.offset().value_or(0))
        .hint(error.hint());
  }

  // The system information (byte order, sizes of C types) is not needed: torch converts storages
  // to little-endian when it writes this form on a big-endian machine.
  Status CheckHeader() const {
    NXDKIT_ASSIGN(const Ran magic, Run(kMagicPart));
    if (magic.graph.kind(magic.root) != NodeKind::kBigInt ||
        magic.graph.AsText(magic.root) != kMagic)
      return InPart(
          kMagicPart,
          Unsupported(
              "the first pickle is not torch's magic number; is this a plain pickle file?"));
    NXDKIT_ASSIGN(const Ran protocol, Run(kProtocolPart));
    if (protocol.graph.kind(protocol.root) != NodeKind::kInt)
      return InPart(kProtocolPart, Corrupt("the protocol version is a {}",
                                           protocol.graph.kind_name(protocol.root)));
    if (const int64_t version = protocol.graph.AsInt(protocol.root); version != kProtocolVersion)
      return InPart(kProtocolPart,
                    Unsupported("protocol version {}, expected {}", version, kProtocolVersion));
    NXDKIT_ASSIGN(const Ran system, Run(kSystemPart));
    if (system.graph.kind(system.root) == NodeKind::kDict) return OkStatus();
    return InPart(kSystemPart, Corrupt("the system information is a {}, expected a dict",
                                       system.graph.kind_name(system.root)));
  }

  // The storages' numbers in the object's graph, in the order in which they lie in the file.
  Result<std::vector<uint32_t>> ReadKeys(const PickleGraph& object) const {
    NXDKIT_ASSIGN(const Ran ran, Run(kKeysPart));
    const PickleGraph& keys = ran.graph;
    const NodeId list = ran.root;
    if (keys.kind(list) != NodeKind::kList)
      return Corrupt("the keys are a {}, expected a list", keys.kind_name(list));
    std::unordered_map<std::string_view, uint32_t> numbers;
    for (uint32_t i = 0; i < object.storages.size(); ++i)
      numbers.emplace(object.storages[i].key, i);
    std::vector<uint32_t> order;
    for (const NodeId key : keys.Items(list)) {
      if (keys.kind(key) != NodeKind::kString)
        return Corrupt("a key is a {}, expected a str", keys.kind_name(key));
      const auto found = numbers.find(keys.AsText(key));
      if (found == numbers.end())
        return Corrupt("no tensor uses the storage \"{}\", or the key is there twice",
                       keys.AsText(key));
      order.push_back(found->second);
      numbers.erase(found);
    }
    if (!numbers.empty())
      return Corrupt("{} of the {} storages of the tensors are not among the keys", numbers.size(),
                     object.storages.size());
    return order;
  }

  // Each storage is its number of elements (int64, little-endian) and then their bytes.
  Result<std::vector<std::shared_ptr<const Storage>>> FindStorages(
      const PickleGraph& object, const std::vector<uint32_t>& order) const {
    std::vector<std::shared_ptr<const Storage>> storages(object.storages.size());
    ReadWindow window(*file, file->bytes());
    uint64_t at = pickles.begins[kPartCount];
    for (const uint32_t number : order) {
      const StorageClaim& claim = object.storages[number];
      const std::string member = fmt::format("storage {}", claim.key);
      NXDKIT_ASSIGN(const std::string_view count, window.At(at, sizeof(uint64_t)).member(member));
      const auto elements = LoadLittle<uint64_t>(count);
      const uint64_t expected = claim.bytes / static_cast<uint64_t>(claim.element_bytes);
      if (elements != expected)
        return Corrupt("the storage says it has {} elements, the object {}", elements, expected)
            .member(member)
            .at(at);
      at += sizeof(uint64_t);
      if (claim.bytes > file->bytes() - at)
        return Corrupt("the storage has {} bytes, but the file ends {} bytes after this",
                       claim.bytes, file->bytes() - at)
            .member(member)
            .at(at);
      storages[number] = FileStorage(file, at, claim.bytes);
      at += claim.bytes;
    }
    if (at != file->bytes())
      return Corrupt("{} bytes are left over after the last storage", file->bytes() - at).at(at);
    return storages;
  }
};

}  // namespace

Result<Archive> ReadLegacyArchive(std::shared_ptr<const File> file) {
  return LegacyReader{std::move(file)}.Read();
}

}  // namespace nxdkit::torch
