#include "formats/dcp/encoder.h"

#include <fmt/core.h>

#include <utility>

#include "formats/torch/encoder.h"
#include "lib/base/checked.h"
#include "lib/base/errors.h"

namespace nxdkit::dcp {
namespace {

constexpr char kArchiveName[] = "archive";  // torch.save's name when it writes into a stream

class ItemsEncoder : public FileEncoder {
 public:
  Status AddObject(ObjectArchive archive) {
    NXDKIT_ASSIGN(const uint64_t offset, Grow(archive->size()));
    objects_.push_back({offset, std::move(archive)});
    return OkStatus();
  }

  Status AddTensor(OutputTensor tensor) {
    NXDKIT_ASSIGN(std::unique_ptr<FileEncoder> archive, torch::EncodeTensor(tensor, kArchiveName));
    NXDKIT_ASSIGN(const uint64_t offset, Grow(archive->file_bytes()));
    archives_.push_back({offset, std::move(archive)});
    tensors_.push_back(std::move(tensor));
    return OkStatus();
  }

  std::vector<ItemRange> ObjectRanges() const {
    std::vector<ItemRange> ranges;
    for (const Object& object : objects_) ranges.push_back({object.offset, object.archive->size()});
    return ranges;
  }
  std::vector<ItemRange> TensorRanges() const {
    std::vector<ItemRange> ranges;
    for (const Item& item : archives_) ranges.push_back({item.offset, item.archive->file_bytes()});
    return ranges;
  }

  const std::vector<OutputTensor>& tensors() const override { return tensors_; }
  uint64_t file_bytes() const override { return bytes_; }
  uint64_t data_offset(size_t index) const override {
    return archives_[index].offset + archives_[index].archive->data_offset(0);
  }
  bool needs_crc() const override { return true; }

  std::vector<Fragment> Frame(std::span<const uint32_t> crcs) const override {
    std::vector<Fragment> fragments;
    const Status taken = ForEachFragment(crcs, [&](uint64_t offset,
                                                   std::span<const std::byte> bytes) {
      fragments.push_back({offset, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}});
      return OkStatus();
    });
    NXDKIT_CHECK(taken.ok());
    return fragments;
  }

  Status ForEachFragment(std::span<const uint32_t> crcs, const TakeFragment& take) const override {
    NXDKIT_CHECK(crcs.size() == archives_.size());
    for (const Object& object : objects_)
      NXDKIT_TRY(take(object.offset, std::as_bytes(std::span(*object.archive))));
    for (size_t i = 0; i < archives_.size(); ++i) {
      const uint64_t begin = archives_[i].offset;
      NXDKIT_TRY(archives_[i].archive->ForEachFragment(
          crcs.subspan(i, 1), [&](uint64_t offset, std::span<const std::byte> bytes) {
            return take(begin + offset, bytes);
          }));
    }
    return OkStatus();
  }

 private:
  struct Object {
    uint64_t offset = 0;
    ObjectArchive archive;
  };
  struct Item {
    uint64_t offset = 0;
    std::unique_ptr<FileEncoder> archive;
  };

  // Reserves `bytes` for an item; returns its offset.
  Result<uint64_t> Grow(uint64_t bytes) {
    constexpr uint64_t kMaxFileBytes = uint64_t{1} << 63;
    const auto end = CheckedAdd(bytes_, bytes);
    if (!end || *end > kMaxFileBytes)
      return Unsupported("the file would have more than {} bytes", kMaxFileBytes);
    return std::exchange(bytes_, *end);
  }

  std::vector<Object> objects_;
  std::vector<Item> archives_;
  std::vector<OutputTensor> tensors_;  // parallel to archives_
  uint64_t bytes_ = 0;
};

}  // namespace

std::string DataFileName(int rank) { return fmt::format("__{}_0.distcp", rank); }

Result<EncodedFile> EncodeItems(std::vector<ObjectArchive> objects,
                                std::vector<OutputTensor> tensors) {
  auto encoder = std::make_unique<ItemsEncoder>();
  for (ObjectArchive& object : objects) NXDKIT_TRY(encoder->AddObject(std::move(object)));
  for (OutputTensor& tensor : tensors) NXDKIT_TRY(encoder->AddTensor(std::move(tensor)));
  EncodedFile file;
  file.objects = encoder->ObjectRanges();
  file.tensors = encoder->TensorRanges();
  file.encoder = std::move(encoder);
  return file;
}

}  // namespace nxdkit::dcp
