#include "formats/torch/pickle_writer.h"

#include <fmt/format.h>

#include <bit>
#include <limits>
#include <optional>
#include <unordered_map>

#include "formats/torch/pickle_convert.h"
#include "formats/torch/pickle_numbers.h"
#include "formats/torch/pickle_opcodes.h"

namespace nxdkit::torch {
namespace {

// Python writes the items of long lists and dicts in portions.
constexpr size_t kBatch = 1000;

struct StorageClass {
  Dtype dtype;
  const char* name;
};
// Other dtypes are stored untyped, and rebuilt by _rebuild_tensor_v3 (torch 2.1 and later).
constexpr StorageClass kStorageClasses[] = {
    {Dtype::kF64, "DoubleStorage"},       {Dtype::kF32, "FloatStorage"},
    {Dtype::kF16, "HalfStorage"},         {Dtype::kBF16, "BFloat16Storage"},
    {Dtype::kI64, "LongStorage"},         {Dtype::kI32, "IntStorage"},
    {Dtype::kI16, "ShortStorage"},        {Dtype::kI8, "CharStorage"},
    {Dtype::kU8, "ByteStorage"},          {Dtype::kBool, "BoolStorage"},
    {Dtype::kC64, "ComplexFloatStorage"}, {Dtype::kC128, "ComplexDoubleStorage"},
};

const char* StorageClassName(Dtype dtype) {
  for (const StorageClass& row : kStorageClasses)
    if (row.dtype == dtype) return row.name;
  return nullptr;
}

class Writer {
 public:
  explicit Writer(const std::vector<OutputTensor>& tensors)
      : tensors_(tensors), tensor_memo_(tensors.size()) {}

  Result<std::string> Write(const PickleValue& root);

 private:
  void Put(Op op) { out_.push_back(static_cast<char>(op)); }
  template <std::unsigned_integral T>
  void PutNumber(T value);
  void Memoize();
  void Get(uint32_t memo);
  // Writes the global or string the first time, and refers to it after that.
  void Global(const char* module, const std::string& name);
  void String(const std::string& text);
  void Int(int64_t value);
  void Long(const std::string& bytes);
  void Float(double value);
  void Bytes(const std::string& bytes);
  void Size(const Shape& dims);
  void IntTuple(const Shape& values);
  void Reference(const TensorReference& reference);
  // Ends a tuple whose `count` items were written (after a MARK when there are more than 3).
  void EndTuple(size_t count);
  void PersistentId(size_t index, uint64_t elements, const char* module, const char* storage_class);
  Status Tensor(size_t index);

  Status Value(const PickleValue& value, int depth);
  Status Tuple(const PickleList& items, int depth);
  Status List(const PickleList& items, int depth);
  Status Set(const PickleList& items, int depth);
  Status Dict(const PickleValue::Dict& dict, int depth);
  Status PlainItems(const PickleDict& items, int depth);
  Status OrderedItems(const PickleDict& items, int depth);
  Status Item(const std::pair<PickleValue, PickleValue>& item, int depth);
  // True when the container was written before, and is referred to now.
  bool Shared(const void* container);
  void Remember(const void* container) {
    container_memo_[container] = memo_used_;
    Memoize();
  }

  const std::vector<OutputTensor>& tensors_;
  std::string out_;
  uint32_t memo_used_ = 0;
  std::unordered_map<std::string, uint32_t> global_memo_;
  std::unordered_map<std::string, uint32_t> string_memo_;
  std::unordered_map<const void*, uint32_t> container_memo_;
  std::vector<std::optional<uint32_t>> tensor_memo_;
};

template <std::unsigned_integral T>
void Writer::PutNumber(T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out_.push_back(static_cast<char>(value >> (8 * i)));
}

void Writer::Memoize() {
  const uint32_t memo = memo_used_++;
  if (memo < 256) {
    Put(Op::kBinPut);
    PutNumber(static_cast<uint8_t>(memo));
  } else {
    Put(Op::kLongBinPut);
    PutNumber(memo);
  }
}

void Writer::Get(uint32_t memo) {
  if (memo < 256) {
    Put(Op::kBinGet);
    PutNumber(static_cast<uint8_t>(memo));
  } else {
    Put(Op::kLongBinGet);
    PutNumber(memo);
  }
}

bool Writer::Shared(const void* container) {
  const auto found = container_memo_.find(container);
  if (found == container_memo_.end()) return false;
  Get(found->second);
  return true;
}

void Writer::Global(const char* module, const std::string& name) {
  const std::string spelled = fmt::format("{}\n{}\n", module, name);
  const auto [entry, added] = global_memo_.emplace(spelled, memo_used_);
  if (!added) return Get(entry->second);
  Put(Op::kGlobal);
  out_ += spelled;
  Memoize();
}

void Writer::String(const std::string& text) {
  const auto [entry, added] = string_memo_.emplace(text, memo_used_);
  if (!added) return Get(entry->second);
  Put(Op::kBinUnicode);
  PutNumber(static_cast<uint32_t>(text.size()));
  out_ += text;
  Memoize();
}

void Writer::Int(int64_t value) {
  if (value >= 0 && value <= 0xff) {
    Put(Op::kBinInt1);
    PutNumber(static_cast<uint8_t>(value));
  } else if (value >= 0 && value <= 0xffff) {
    Put(Op::kBinInt2);
    PutNumber(static_cast<uint16_t>(value));
  } else if (value >= std::numeric_limits<int32_t>::min() &&
             value <= std::numeric_limits<int32_t>::max()) {
    Put(Op::kBinInt);
    PutNumber(static_cast<uint32_t>(static_cast<int32_t>(value)));
  } else {
    Long(Int64ToLong(value));
  }
}

void Writer::Long(const std::string& bytes) {
  Put(Op::kLong1);  // kMaxLongBytes is below 256
  PutNumber(static_cast<uint8_t>(bytes.size()));
  out_ += bytes;
}

void Writer::Float(double value) {
  Put(Op::kBinFloat);
  PutNumber(__builtin_bswap64(std::bit_cast<uint64_t>(value)));  // big-endian, alone among them all
}

void Writer::EndTuple(size_t count) {
  constexpr Op kShort[] = {Op::kEmptyTuple, Op::kTuple1, Op::kTuple2, Op::kTuple3};
  Put(count <= 3 ? kShort[count] : Op::kTuple);
  if (count != 0) Memoize();
}

void Writer::IntTuple(const Shape& values) {
  if (values.size() > 3) Put(Op::kMark);
  for (const int64_t value : values) Int(value);
  EndTuple(values.size());
}

// Protocol 2 has no bytes: Python encodes a string of code points below 256. For b"" it would name
// the global bytes, which torch's weights_only refuses; the same call does it too.
void Writer::Bytes(const std::string& bytes) {
  Global("_codecs", "encode");
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      text.push_back(c);
    } else {
      text.push_back(static_cast<char>(0xc0 | (byte >> 6)));
      text.push_back(static_cast<char>(0x80 | (byte & 0x3f)));
    }
  }
  String(text);
  String("latin1");
  EndTuple(2);
  Put(Op::kReduce);
  Memoize();
}

void Writer::Size(const Shape& dims) {
  Global("torch", "Size");
  IntTuple(dims);
  EndTuple(1);
  Put(Op::kReduce);
  Memoize();
}

void Writer::Reference(const TensorReference& reference) {
  Global("torch_xla.utils.serialization", "TensorReference");
  Put(Op::kEmptyTuple);
  Put(Op::kNewObj);
  Memoize();
  Put(Op::kEmptyDict);
  Memoize();
  String("tid");
  Int(reference.tid);
  Put(Op::kSetItem);
  Put(Op::kBuild);
}

void Writer::PersistentId(size_t index, uint64_t elements, const char* module,
                          const char* storage_class) {
  Put(Op::kMark);
  String("storage");
  Global(module, storage_class);
  String(fmt::format("{}", index));
  String("cpu");
  Int(static_cast<int64_t>(elements));
  Put(Op::kTuple);
  Memoize();
  Put(Op::kBinPersId);
}

Status Writer::Tensor(size_t index) {
  if (index >= tensors_.size())
    return Error(Errc::kInternal,
                 fmt::format("the value names tensor {}, there are {}", index, tensors_.size()));
  if (tensor_memo_[index]) {
    Get(*tensor_memo_[index]);
    return OkStatus();
  }
  const OutputTensor& tensor = tensors_[index];
  NXDKIT_ASSIGN(const uint64_t bytes, PackedBytes(tensor.dtype, tensor.shape));
  const int64_t element_bytes = ElementBytes(tensor.dtype);
  if (element_bytes == 0 || TorchName(tensor.dtype).empty())
    return Error(Errc::kUnsupported,
                 fmt::format("a torch file cannot hold elements of {}", Name(tensor.dtype)))
        .on(tensor.name);
  const char* storage_class = StorageClassName(tensor.dtype);

  Global("torch._utils", storage_class != nullptr ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
  Put(Op::kMark);
  if (storage_class != nullptr)
    PersistentId(index, bytes / static_cast<uint64_t>(element_bytes), "torch", storage_class);
  else
    PersistentId(index, bytes, "torch.storage", "UntypedStorage");
  Int(0);  // offset
  IntTuple(tensor.shape);
  IntTuple(RowMajorStrides(tensor.shape));
  Put(Op::kNewFalse);                    // requires_grad
  Global("collections", "OrderedDict");  // backward hooks
  Put(Op::kEmptyTuple);
  Put(Op::kReduce);
  Memoize();
  if (storage_class == nullptr) Global("torch", std::string(TorchName(tensor.dtype)));
  Put(Op::kTuple);
  Memoize();
  Put(Op::kReduce);
  tensor_memo_[index] = memo_used_;
  Memoize();
  return OkStatus();
}

Status Writer::Item(const std::pair<PickleValue, PickleValue>& item, int depth) {
  NXDKIT_TRY(Value(item.first, depth));
  return Value(item.second, depth);
}

Status Writer::Tuple(const PickleList& items, int depth) {
  if (items.size() > 3) Put(Op::kMark);
  for (const PickleValue& item : items) NXDKIT_TRY(Value(item, depth + 1));
  if (!items.empty()) container_memo_[&items] = memo_used_;
  EndTuple(items.size());
  return OkStatus();
}

Status Writer::List(const PickleList& items, int depth) {
  Put(Op::kEmptyList);
  Remember(&items);
  if (items.size() == 1) {
    NXDKIT_TRY(Value(items[0], depth + 1));
    Put(Op::kAppend);
    return OkStatus();
  }
  for (size_t i = 0; i < items.size(); ++i) {
    if (i % kBatch == 0) Put(Op::kMark);
    NXDKIT_TRY(Value(items[i], depth + 1));
    if (i % kBatch == kBatch - 1 || i + 1 == items.size()) Put(Op::kAppends);
  }
  return OkStatus();
}

Status Writer::Set(const PickleList& items, int depth) {
  Global("__builtin__", "set");
  Put(Op::kEmptyList);
  Memoize();
  if (items.size() > 1) Put(Op::kMark);
  for (const PickleValue& item : items) NXDKIT_TRY(Value(item, depth + 1));
  if (!items.empty()) Put(items.size() > 1 ? Op::kAppends : Op::kAppend);
  EndTuple(1);
  Put(Op::kReduce);
  Remember(&items);
  return OkStatus();
}

// The portions of a plain dict end with an empty one when its size is a multiple of kBatch.
Status Writer::PlainItems(const PickleDict& items, int depth) {
  if (items.size() == 1) {
    NXDKIT_TRY(Item(items[0], depth));
    Put(Op::kSetItem);
    return OkStatus();
  }
  if (items.empty()) return OkStatus();
  Put(Op::kMark);
  for (size_t i = 0; i < items.size(); ++i) {
    NXDKIT_TRY(Item(items[i], depth));
    if (i % kBatch != kBatch - 1) continue;
    Put(Op::kSetItems);
    Put(Op::kMark);
  }
  Put(Op::kSetItems);
  return OkStatus();
}

// Those of an OrderedDict do not, and a last portion of one item is written as SETITEM.
Status Writer::OrderedItems(const PickleDict& items, int depth) {
  for (size_t begin = 0; begin < items.size(); begin += kBatch) {
    const size_t end = std::min(begin + kBatch, items.size());
    if (end - begin > 1) Put(Op::kMark);
    for (size_t i = begin; i < end; ++i) NXDKIT_TRY(Item(items[i], depth));
    Put(end - begin > 1 ? Op::kSetItems : Op::kSetItem);
  }
  return OkStatus();
}

Status Writer::Dict(const PickleValue::Dict& dict, int depth) {
  if (!dict.ordered) {
    Put(Op::kEmptyDict);
    Remember(dict.items.get());
    return PlainItems(*dict.items, depth + 1);
  }
  Global("collections", "OrderedDict");
  Put(Op::kEmptyTuple);
  Put(Op::kReduce);
  Remember(dict.items.get());
  return OrderedItems(*dict.items, depth + 1);
}

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

Status Writer::Value(const PickleValue& value, int depth) {
  if (depth > kMaxNesting)
    return Error(Errc::kUnsupported,
                 fmt::format("values are nested more than {} levels deep", kMaxNesting));
  return std::visit(
      Overloaded{
          [&](const PickleValue::None&) { return Put(Op::kNone), OkStatus(); },
          [&](bool flag) { return Put(flag ? Op::kNewTrue : Op::kNewFalse), OkStatus(); },
          [&](int64_t number) { return Int(number), OkStatus(); },
          [&](double number) { return Float(number), OkStatus(); },
          [&](const std::string& text) { return String(text), OkStatus(); },
          [&](const PickleValue::Bytes& bytes) { return Bytes(bytes.bytes), OkStatus(); },
          [&](const PickleValue::BigInt& number) -> Status {
            const std::optional<std::string> bytes = DecimalToLong(number.decimal);
            if (!bytes)
              return Error(Errc::kUnsupported,
                           fmt::format("\"{:.40}\" is no integer of at most {} bytes",
                                       number.decimal, kMaxLongBytes));
            return Long(*bytes), OkStatus();
          },
          [&](const PickleValue::List& list) {
            return Shared(list.items.get()) ? OkStatus() : List(*list.items, depth);
          },
          [&](const PickleValue::Tuple& tuple) {
            return Shared(tuple.items.get()) ? OkStatus() : Tuple(*tuple.items, depth);
          },
          [&](const PickleValue::Set& set) {
            return Shared(set.items.get()) ? OkStatus() : Set(*set.items, depth);
          },
          [&](const PickleValue::Dict& dict) {
            return Shared(dict.items.get()) ? OkStatus() : Dict(dict, depth);
          },
          [&](const TorchSize& size) { return Size(size.dims), OkStatus(); },
          [&](const TensorIndex& tensor) { return Tensor(tensor.index); },
          [&](const TensorReference& reference) { return Reference(reference), OkStatus(); },
          [&](Dtype dtype) -> Status {
            if (TorchName(dtype).empty())
              return Error(Errc::kUnsupported, fmt::format("torch has no dtype {}", Name(dtype)));
            return Global("torch", std::string(TorchName(dtype))), OkStatus();
          },
          [&](const OpaqueObject& object) -> Status {
            return Error(Errc::kUnsupported,
                         fmt::format("an object of {} cannot be written", object.qualified_name));
          },
      },
      value.value);
}

Result<std::string> Writer::Write(const PickleValue& root) {
  Put(Op::kProto);
  PutNumber(uint8_t{2});
  NXDKIT_TRY(Value(root, 1));
  Put(Op::kStop);
  for (size_t i = 0; i < tensors_.size(); ++i)
    if (!tensor_memo_[i])
      return Error(Errc::kInternal,
                   fmt::format("the value does not use tensor {} of {}", i, tensors_.size()))
          .on(tensors_[i].name);
  return std::move(out_);
}

}  // namespace

Result<std::string> WritePickle(const PickleValue& root, const std::vector<OutputTensor>& tensors) {
  return Writer(tensors).Write(root);
}

}  // namespace nxdkit::torch
