#include "formats/dcp/metadata_writer.h"

#include "formats/dcp/metadata_globals.h"
#include "formats/torch/pickle_writer.h"

namespace nxdkit::dcp {
namespace {

using torch::DictSource;
using torch::PickleDict;
using torch::PickleList;
using torch::PickleRecord;
using torch::PickleValue;
using Put = DictSource::Put;

PickleValue Text(std::string text) { return {std::move(text)}; }
PickleValue Size(const Shape& dims) { return {torch::TorchSize{dims}}; }
PickleValue Number(uint64_t number) { return {static_cast<int64_t>(number)}; }

PickleValue Record(PickleRecord record) {
  return {std::make_shared<const PickleRecord>(std::move(record))};
}

// An object of a class, with these attributes.
PickleValue Object(const char* class_name, PickleDict attributes) {
  return Record({class_name, false, {}, PickleValue::MakeDict(std::move(attributes))});
}

// The five properties of torch before 2.15, which would reject the sixth, strides.
PickleValue Properties(Dtype dtype) {
  PickleList fields;
  fields.push_back({dtype});
  fields.push_back(Record({kGetLayout, true, {Text(kStrided)}, std::nullopt}));
  fields.push_back({false});  // requires_grad
  fields.push_back(Record({kMemoryFormatClass, true, {{int64_t{0}}}, std::nullopt}));  // contiguous
  fields.push_back({false});                                                           // pin_memory
  return Record({kPropertiesClass, false, {}, PickleValue::MakeTuple(std::move(fields))});
}

PickleValue Tensor(const TensorEntry& entry) {
  PickleList chunks;
  for (const Chunk& chunk : entry.chunks)
    chunks.push_back(Object(kChunkClass, {{Text("offsets"), Size(chunk.box.lo)},
                                          {Text("sizes"), Size(chunk.box.extent)}}));
  return Object(kTensorClass, {{Text("properties"), Properties(entry.dtype)},
                               {Text("size"), Size(entry.shape)},
                               {Text("chunks"), PickleValue::MakeList(std::move(chunks))}});
}

PickleValue Index(const TensorEntry& entry, size_t chunk) {
  return Object(kIndexClass, {{Text("fqn"), Text(entry.key)},
                              {Text("index"), Number(chunk)},
                              {Text("offset"), Size(entry.chunks[chunk].box.lo)}});
}
PickleValue Index(const ObjectEntry& entry) {
  return Object(kIndexClass, {{Text("fqn"), Text(entry.key)}, {Text("index"), {}}});
}

PickleValue Place(const ItemPlace& place) {
  PickleDict attributes = {{Text("relative_path"), Text(place.file)},
                           {Text("offset"), Number(place.offset)},
                           {Text("length"), Number(place.bytes)}};
  if (place.zstd)
    attributes.push_back({Text("transform_descriptors"), PickleValue::MakeList({Text(kZstd)})});
  return Object(kStorageInfoClass, std::move(attributes));
}

}  // namespace

Result<std::string> WriteMetadata(const Metadata& metadata) {
  const auto entries = [&](const Put& put) -> Status {
    for (const TensorEntry& entry : metadata.tensors)
      NXDKIT_TRY(put(Text(entry.key), Tensor(entry)));
    for (const ObjectEntry& entry : metadata.objects)
      NXDKIT_TRY(put(Text(entry.key), Record({kBytesClass, false, {}, std::nullopt})));
    return OkStatus();
  };
  const auto paths = [&](const Put& put) -> Status {
    for (const TensorEntry& entry : metadata.tensors)
      NXDKIT_TRY(put(Text(entry.key), metadata.PathOf(entry.key)));
    for (const ObjectEntry& entry : metadata.objects)
      NXDKIT_TRY(put(Text(entry.key), metadata.PathOf(entry.key)));
    return OkStatus();
  };
  const auto places = [&](const Put& put) -> Status {
    for (const TensorEntry& entry : metadata.tensors)
      for (size_t c = 0; c < entry.chunks.size(); ++c)
        NXDKIT_TRY(put(Index(entry, c), Place(entry.chunks[c].place)));
    for (const ObjectEntry& entry : metadata.objects)
      NXDKIT_TRY(put(Index(entry), Place(entry.place)));
    return OkStatus();
  };
  const size_t keys = metadata.tensors.size() + metadata.objects.size();
  size_t items = metadata.objects.size();
  for (const TensorEntry& entry : metadata.tensors) items += entry.chunks.size();
  return torch::WriteBareRecord(kMetadataClass, {{"state_dict_metadata", DictSource{keys, entries}},
                                                 {"planner_data", DictSource{keys, paths}},
                                                 {"storage_data", DictSource{items, places}},
                                                 {"version", Text("1.0.0")}});
}

}  // namespace nxdkit::dcp
