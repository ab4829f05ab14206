// The encoders of archive.h: a pickle, one record per tensor, and the zip around them.
#include <fmt/core.h>

#include <unordered_set>

#include "formats/torch/archive.h"
#include "formats/torch/pickle_writer.h"
#include "formats/torch/zip_writer.h"

namespace nxdkit::torch {
namespace {

class ZipEncoder : public FileEncoder {
 public:
  ZipEncoder(std::vector<OutputTensor> tensors, ZipLayout layout, size_t first_data)
      : tensors_(std::move(tensors)), layout_(std::move(layout)), first_data_(first_data) {}

  const std::vector<OutputTensor>& tensors() const override { return tensors_; }
  uint64_t file_bytes() const override { return layout_.file_bytes; }
  uint64_t data_offset(size_t index) const override {
    NXDKIT_CHECK(index < tensors_.size());
    return layout_.records[first_data_ + index].data_offset;
  }
  bool needs_crc() const override { return true; }
  std::vector<Fragment> Frame(std::span<const uint32_t> crcs) const override {
    NXDKIT_CHECK(crcs.size() == tensors_.size());
    return ZipFrame(layout_, crcs);
  }

 private:
  std::vector<OutputTensor> tensors_;
  ZipLayout layout_;
  size_t first_data_;  // layout_.records[first_data_ + i] is the record data/i
};

Status CheckTopFolder(const std::string& name) {
  if (!name.empty() && name.find('/') == std::string::npos) return OkStatus();
  return Error(Errc::kInternal,
               fmt::format("\"{}\" cannot be the folder inside a torch archive", name));
}

}  // namespace

Result<std::unique_ptr<FileEncoder>> EncodeValue(const PickleValue& root,
                                                 std::vector<OutputTensor> tensors,
                                                 const std::string& archive_name) {
  NXDKIT_TRY(CheckTopFolder(archive_name));
  NXDKIT_ASSIGN(std::string pickle, WritePickle(root, tensors));
  std::vector<OutputRecord> records;
  records.reserve(tensors.size() + 3);
  const auto add = [&](std::string_view name, std::string contents) {
    records.push_back({fmt::format("{}/{}", archive_name, name), std::move(contents)});
  };
  add("data.pkl", std::move(pickle));
  add("byteorder", "little");
  const size_t first_data = records.size();
  for (size_t i = 0; i < tensors.size(); ++i) {
    NXDKIT_ASSIGN(const uint64_t bytes, PackedBytes(tensors[i].dtype, tensors[i].shape));
    OutputRecord record;
    record.name = fmt::format("{}/data/{}", archive_name, i);
    record.bytes = bytes;
    record.external = true;
    records.push_back(std::move(record));
  }
  add("version", "3\n");
  NXDKIT_ASSIGN(ZipLayout layout, LayOutZip(std::move(records)));
  return std::unique_ptr<FileEncoder>(
      std::make_unique<ZipEncoder>(std::move(tensors), std::move(layout), first_data));
}

Result<std::unique_ptr<FileEncoder>> EncodeStateDict(std::vector<OutputTensor> tensors,
                                                     const std::string& archive_name) {
  PickleDict items;
  items.reserve(tensors.size());
  std::unordered_set<std::string_view> names;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!names.insert(tensors[i].name).second)
      return Error(Errc::kInternal, "two tensors of one state dict have this name")
          .on(tensors[i].name);
    items.emplace_back(PickleValue{tensors[i].name}, PickleValue{TensorIndex{i}});
  }
  return EncodeValue(PickleValue::MakeDict(std::move(items)), std::move(tensors), archive_name);
}

Result<std::unique_ptr<FileEncoder>> EncodeTensor(OutputTensor tensor,
                                                  const std::string& archive_name) {
  std::vector<OutputTensor> tensors;
  tensors.push_back(std::move(tensor));
  return EncodeValue(PickleValue{TensorIndex{0}}, std::move(tensors), archive_name);
}

}  // namespace nxdkit::torch
