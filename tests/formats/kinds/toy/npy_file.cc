#include "tests/formats/kinds/toy/npy_file.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "lib/base/errors.h"
#include "lib/base/little_endian.h"
#include "lib/base/text.h"

namespace nxdkit::npy {
namespace {

constexpr std::string_view kMagic("\x93NUMPY\x01\x00", 8);  // including the version
constexpr uint64_t kHeaderBegin = 10;                       // after the header's length
constexpr size_t kMostDims = 64;                            // as in NumPy 2
constexpr std::pair<std::string_view, Dtype> kDtypes[] = {{"'<f4'", Dtype::kF32},
                                                          {"'<f2'", Dtype::kF16}};

// The rest of a header, and its offset in the file.
struct Rest {
  std::string_view text;
  uint64_t offset = kHeaderBegin;

  void Drop(size_t bytes) {
    text.remove_prefix(bytes);
    offset += bytes;
  }
  bool Take(std::string_view word) {
    if (!text.starts_with(word)) return false;
    Drop(word.size());
    return true;
  }
  Status Expect(std::string_view word) {
    if (Take(word)) return OkStatus();
    return Corrupt("\"{}\" in the header, expected \"{}\"",
                   EscapeControl(text.substr(0, word.size())), word)
        .at(offset);
  }
};

Result<Dtype> TakeDtype(Rest& rest) {
  for (const auto& [word, dtype] : kDtypes)
    if (rest.Take(word)) return dtype;
  return Unsupported("dtype {} found; '<f4' and '<f2' are read",
                     EscapeControl(rest.text.substr(0, rest.text.find(','))))
      .at(rest.offset);
}

Result<int64_t> TakeDim(Rest& rest) {
  const std::string_view digits = rest.text.substr(0, rest.text.find_first_not_of("0123456789"));
  const std::optional<int64_t> dim = ParseNumber<int64_t>(digits);
  if (!dim)
    return Corrupt("\"{}\" in the header, expected a dimension below 2^63", digits).at(rest.offset);
  rest.Drop(digits.size());
  return *dim;
}

// "()", "(3,)", "(3, 4)"
Result<Shape> TakeShape(Rest& rest) {
  Shape shape;
  NXDKIT_TRY(rest.Expect("("));
  while (!rest.Take(")")) {
    if (shape.size() == kMostDims)
      return Corrupt("more than {} dimensions", kMostDims).at(rest.offset);
    NXDKIT_ASSIGN(const int64_t dim, TakeDim(rest));
    shape.push_back(dim);
    if (shape.size() == 1 && rest.Take(",)")) break;
    if (shape.size() == 1 || !rest.text.starts_with(")")) NXDKIT_TRY(rest.Expect(", "));
  }
  return shape;
}

Status ParseHeader(Rest rest, StoredTensor& tensor) {
  NXDKIT_TRY(rest.Expect("{'descr': "));
  NXDKIT_ASSIGN(tensor.dtype, TakeDtype(rest));
  NXDKIT_TRY(rest.Expect(", 'fortran_order': "));
  if (rest.Take("True")) return Unsupported("Fortran order found; C order is read").at(rest.offset);
  NXDKIT_TRY(rest.Expect("False, 'shape': "));
  NXDKIT_ASSIGN(tensor.shape, TakeShape(rest));
  NXDKIT_TRY(rest.Expect(", }"));
  rest.Drop(std::min(rest.text.size(), rest.text.find_first_not_of(' ')));
  return rest.Expect("\n");
}

// The header's text; its length is checked against the file before memory is allocated.
Result<std::string> ReadHeader(const File& file) {
  std::string start(kHeaderBegin, '\0');
  if (file.bytes() < start.size())
    return Corrupt("the file has {} bytes, what precedes the header alone takes {}", file.bytes(),
                   start.size())
        .at(0);
  NXDKIT_TRY(file.ReadAt(0, std::as_writable_bytes(std::span(start))));
  if (!start.starts_with(kMagic)) return Corrupt("not a file of NumPy's format 1.0").at(0);
  const uint64_t length = LoadLittle<uint16_t>(start, kMagic.size());
  if (length > file.bytes() - kHeaderBegin)
    return Corrupt("header length {} is more than the {} bytes that follow it", length,
                   file.bytes() - kHeaderBegin)
        .at(kMagic.size());
  std::string header(length, '\0');
  NXDKIT_TRY(file.ReadAt(kHeaderBegin, std::as_writable_bytes(std::span(header))));
  return header;
}

Result<StoredTensor> ReadTensor(const std::shared_ptr<const File>& file,
                                const std::shared_ptr<FileCache>& cache) {
  StoredTensor tensor;
  NXDKIT_ASSIGN(const std::string header, ReadHeader(*file));
  NXDKIT_TRY(ParseHeader({header}, tensor));
  const uint64_t begin = kHeaderBegin + header.size();
  const uint64_t here = file->bytes() - begin;
  Result<uint64_t> bytes = PackedBytes(tensor.dtype, tensor.shape);
  if (!bytes.ok()) return std::move(bytes).error().at(kHeaderBegin);
  if (*bytes != here)
    return Corrupt("{} {} takes {} bytes, {} follow the header", Name(tensor.dtype),
                   ShapeText(tensor.shape), *bytes, here)
        .at(begin);
  tensor.strides = RowMajorStrides(tensor.shape);
  tensor.storage = Reopened(FileStorage(file, begin, here), cache);
  return tensor;
}

}  // namespace

Result<bool> LooksLikeNpy(const std::string& path) {
  NXDKIT_ASSIGN(const std::string start, ReadStart(path, kMagic.size()));
  return start == kMagic;
}

Result<TensorFile> OpenNpy(const std::string& path, std::string name,
                           const std::shared_ptr<FileCache>& cache) {
  NXDKIT_ASSIGN(File opened, File::OpenRead(path));
  const auto file = std::make_shared<const File>(std::move(opened));
  NXDKIT_ASSIGN(StoredTensor tensor, ReadTensor(file, cache).in(path).on(name));
  tensor.name = std::move(name);
  return TensorFile{path, "npy", file->bytes(), {std::move(tensor)}, {}};
}

}  // namespace nxdkit::npy
