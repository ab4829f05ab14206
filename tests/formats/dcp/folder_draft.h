// PRIVATE to tests. A distributed checkpoint in memory: read whole, changed by hand, and written as
// one file again.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "formats/dcp/encoder.h"
#include "formats/dcp/folder.h"
#include "formats/dcp/metadata_writer.h"
#include "formats/torch/encoder.h"
#include "lib/hash/crc32.h"

namespace nxdkit::testing_util {

struct DcpDraft {
  struct Tensor {
    std::string key;
    Dtype dtype = Dtype::kF32;
    Shape shape;
    std::string bytes;
  };
  struct Object {
    std::string key;
    torch::PickleValue value;
  };
  std::vector<Tensor> tensors;
  std::vector<Object> objects;

  // Only for tensors of one packed chunk each.
  static DcpDraft Read(const std::string& path) {
    DcpDraft draft;
    const auto folder = dcp::Open(path);
    EXPECT_TRUE(folder.ok()) << folder.error().ToString();
    if (!folder.ok()) return draft;
    for (const dcp::StoredEntry& entry : folder->tensors) {
      const StoredTensor& stored = entry.chunks.at(0).stored;
      EXPECT_EQ(entry.chunks.size(), 1u) << entry.key;
      std::string bytes(*PackedBytes(entry.dtype, entry.shape), '\0');
      EXPECT_TRUE(
          stored.storage->ReadAt(stored.offset, std::as_writable_bytes(std::span(bytes))).ok());
      draft.tensors.push_back({entry.key, entry.dtype, entry.shape, std::move(bytes)});
    }
    for (const dcp::ObjectEntry& object : folder->metadata.objects)
      draft.objects.push_back({object.key, *dcp::ReadObjectValue(*folder, object)});
    return draft;
  }

  Tensor& Find(const std::string& key) {
    const auto found = std::ranges::find(tensors, key, &Tensor::key);
    if (found == tensors.end()) throw std::out_of_range(key);
    return *found;
  }
  Object& FindObject(const std::string& key) {
    const auto found = std::ranges::find(objects, key, &Object::key);
    if (found == objects.end()) throw std::out_of_range(key);
    return *found;
  }
  // All keys with this prefix.
  void Remove(const std::string& prefix) {
    const auto begins = [&](const auto& item) { return item.key.starts_with(prefix); };
    std::erase_if(tensors, begins);
    std::erase_if(objects, begins);
  }

  void Write(const std::string& folder) const {
    std::vector<OutputTensor> outputs;
    std::vector<dcp::ObjectArchive> archives;
    std::vector<uint32_t> crcs;
    for (const Tensor& tensor : tensors) {
      outputs.push_back({tensor.key, tensor.dtype, tensor.shape});
      crcs.push_back(Crc32(0, std::as_bytes(std::span(tensor.bytes))));
    }
    for (const Object& object : objects)
      archives.push_back(std::make_shared<const std::string>(*torch::EncodeObject(object.value)));
    const auto encoded = dcp::EncodeItems(archives, outputs);
    ASSERT_TRUE(encoded.ok()) << encoded.error().ToString();
    const std::string name = dcp::DataFileName(0);
    std::string file(encoded->encoder->file_bytes(), '\0');
    for (const Fragment& fragment : encoded->encoder->Frame(crcs))
      file.replace(fragment.offset, fragment.bytes.size(), fragment.bytes);
    dcp::Metadata metadata;
    for (size_t i = 0; i < tensors.size(); ++i) {
      file.replace(encoded->encoder->data_offset(i), tensors[i].bytes.size(), tensors[i].bytes);
      const auto& [offset, bytes] = encoded->tensors[i];
      metadata.tensors.push_back({tensors[i].key,
                                  tensors[i].dtype,
                                  tensors[i].shape,
                                  {{WholeBox(tensors[i].shape), {name, offset, bytes}}}});
    }
    for (size_t i = 0; i < objects.size(); ++i)
      metadata.objects.push_back(
          {objects[i].key, {name, encoded->objects[i].offset, encoded->objects[i].bytes}});
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/" + name, std::ios::binary) << file;
    std::ofstream(folder + "/.metadata", std::ios::binary) << *dcp::WriteMetadata(metadata);
  }
};

}  // namespace nxdkit::testing_util
