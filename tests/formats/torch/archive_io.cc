#include "tests/formats/torch/archive_io.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <variant>

#include "lib/hash/digest.h"
#include "lib/json/json.h"

namespace nxdkit::torch {
namespace {

Json JsonOfValue(const PickleValue& value, const std::vector<Json>& tensors);

Json JsonOfItems(const char* kind, const PickleList& items, const std::vector<Json>& tensors) {
  Json list = Json::array();
  for (const PickleValue& item : items) list.push_back(JsonOfValue(item, tensors));
  return Json{{kind, std::move(list)}};
}

struct ToJson {
  const std::vector<Json>& tensors;

  Json operator()(const PickleValue::None&) const { return nullptr; }
  Json operator()(bool flag) const { return flag; }
  Json operator()(int64_t number) const { return number; }
  Json operator()(double number) const { return Json{{"float", PythonFloat(number)}}; }
  Json operator()(const std::string& text) const { return text; }
  Json operator()(const PickleValue::Bytes& bytes) const {
    return Json{{"bytes", HexText(std::as_bytes(std::span(bytes.bytes)))}};
  }
  Json operator()(const PickleValue::BigInt& number) const { return Json{{"int", number.decimal}}; }
  Json operator()(const PickleValue::List& list) const {
    return JsonOfItems("list", *list.items, tensors);
  }
  Json operator()(const PickleValue::Tuple& tuple) const {
    return JsonOfItems("tuple", *tuple.items, tensors);
  }
  Json operator()(const PickleValue::Set& set) const {
    return JsonOfItems("set", *set.items, tensors);
  }
  Json operator()(const PickleValue::Dict& dict) const {
    Json pairs = Json::array();
    for (const auto& [key, item] : *dict.items)
      pairs.push_back(Json::array({JsonOfValue(key, tensors), JsonOfValue(item, tensors)}));
    return Json{{dict.ordered ? "ordered_dict" : "dict", std::move(pairs)}};
  }
  Json operator()(Dtype dtype) const { return Json{{"dtype", std::string(TorchName(dtype))}}; }
  Json operator()(const TorchSize& size) const { return Json{{"size", size.dims}}; }
  Json operator()(const TensorIndex& tensor) const { return tensors.at(tensor.index); }
  Json operator()(const std::shared_ptr<const PickleRecord>& record) const {
    return {{"record", record->name}};  // not in an archive
  }
  Json operator()(const TensorReference& reference) const {
    return Json{{"reference", reference.tid}};
  }
  Json operator()(const GlobalName& global) const { return {{"global", global.qualified_name}}; }
  Json operator()(const OpaqueObject& object) const {
    return Json{{"opaque", object.qualified_name}};
  }
};

Json JsonOfValue(const PickleValue& value, const std::vector<Json>& tensors) {
  return std::visit(ToJson{tensors}, value.value);
}

}  // namespace

Result<std::string> LogicalBytes(const StoredTensor& tensor) {
  const auto element = static_cast<size_t>(ElementBytes(tensor.dtype));
  const int64_t count = ElementCount(tensor.shape).value();
  std::string out(static_cast<size_t>(count) * element, '\0');
  std::vector<int64_t> index(tensor.shape.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    uint64_t at = tensor.offset;
    for (size_t d = 0; d < index.size(); ++d)
      at += element * static_cast<uint64_t>(index[d] * tensor.strides[d]);
    const auto to =
        std::as_writable_bytes(std::span(out)).subspan(static_cast<size_t>(i) * element, element);
    NXDKIT_TRY(tensor.storage->ReadAt(at, to));
    if (tensor.big_endian) SwapBytes(to, Info(tensor.dtype).swap_bytes);
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < tensor.shape[d]) break;
      index[d] = 0;
    }
  }
  return out;
}

std::string PatternBytes(const OutputTensor& tensor, size_t index) {
  std::string bytes(static_cast<size_t>(PackedBytes(tensor.dtype, tensor.shape).value()), '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    const size_t byte = 131 * i + 17 * index + 7;
    bytes[i] = static_cast<char>(tensor.dtype == Dtype::kBool ? byte & 1 : byte & 0xff);
  }
  return bytes;
}

std::string EncodedFile(const FileEncoder& encoder) {
  std::string file(static_cast<size_t>(encoder.file_bytes()), '\xee');
  std::vector<uint32_t> crcs;
  for (size_t i = 0; i < encoder.tensors().size(); ++i) {
    const std::string bytes = PatternBytes(encoder.tensors()[i], i);
    file.replace(static_cast<size_t>(encoder.data_offset(i)), bytes.size(), bytes);
    uint32_t crc = 0xffffffff;  // bit by bit, without the code under test
    for (const char c : bytes) {
      crc ^= static_cast<unsigned char>(c);
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320 : 0);
    }
    crcs.push_back(~crc);
  }
  for (const Fragment& fragment : encoder.Frame(crcs))
    file.replace(static_cast<size_t>(fragment.offset), fragment.bytes.size(), fragment.bytes);
  return file;
}

void WriteFile(const std::string& path, std::string_view contents) {
  std::ofstream out(path, std::ios::binary);
  out.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  out.close();
  if (out) return;
  std::fprintf(stderr, "cannot write %s\n", path.c_str());
  std::abort();
}

Result<std::string> JsonOf(const Archive& archive) {
  std::vector<Json> tensors;
  for (const StoredTensor& tensor : archive.tensors) {
    NXDKIT_ASSIGN(const std::string bytes, LogicalBytes(tensor));
    tensors.push_back(Json{{"tensor", std::string(TorchName(tensor.dtype))},
                           {"shape", tensor.shape},
                           {"sha256", Sha256Hex(std::as_bytes(std::span(bytes)))}});
  }
  return JsonOfValue(archive.root, tensors).dump();
}

}  // namespace nxdkit::torch
