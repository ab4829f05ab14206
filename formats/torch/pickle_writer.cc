#include "formats/torch/pickle_writer.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "formats/torch/pickle_convert.h"
#include "formats/torch/pickle_emitter.h"
#include "formats/torch/pickle_globals.h"
#include "formats/torch/pickle_numbers.h"
#include "lib/base/errors.h"

namespace nxdkit::torch {
namespace {

// Python writes the items of long lists and dicts in batches.
constexpr size_t kBatch = 1000;

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

class Writer {
 public:
  explicit Writer(const std::vector<OutputTensor>& tensors)
      : tensors_(tensors), tensor_memo_(tensors.size()) {}

  Result<std::string> Write(const PickleValue& root) {
    Begin();
    NXDKIT_TRY(Value(root, 1));
    emit_.Put(Op::kStop);
    for (size_t i = 0; i < tensors_.size(); ++i)
      if (!tensor_memo_[i])
        return Error(Errc::kInternal,
                     fmt::format("the value does not use tensor {} of {}", i, tensors_.size()))
            .on(tensors_[i].name);
    return emit_.Take();
  }

  Result<std::string> Write(std::string_view class_name,
                            const std::vector<RecordAttribute>& attributes) {
    Begin();
    NXDKIT_TRY(Class(class_name));
    emit_.EndTuple(0);
    emit_.Put(Op::kNewObj);
    emit_.Memoize();
    emit_.Put(Op::kEmptyDict);
    emit_.Memoize();
    const auto attribute = [&](size_t i) {
      emit_.String(attributes[i].first);
      const auto* source = std::get_if<DictSource>(&attributes[i].second);
      return source ? Source(*source) : Value(std::get<PickleValue>(attributes[i].second), 3);
    };
    NXDKIT_TRY(PlainItems(attributes.size(), attribute));
    emit_.Put(Op::kBuild);
    emit_.Put(Op::kStop);
    return emit_.Take();
  }

 private:
  void Begin() {
    emit_.Put(Op::kProto);
    emit_.PutNumber(uint8_t{2});
  }

  void Remember(const void* container) { container_memo_[container] = emit_.Memoize(); }

  // True when the container was written before, and is now referred to.
  bool Shared(const void* container) {
    NXDKIT_CHECK(container != nullptr);  // PickleValue::MakeList and MakeDict always set it
    const auto found = container_memo_.find(container);
    if (found == container_memo_.end()) return false;
    emit_.Get(found->second);
    return true;
  }

  void PersistentId(size_t index, uint64_t elements, const char* module,
                    const char* storage_class) {
    emit_.Put(Op::kMark);
    emit_.String("storage");
    emit_.Global(module, storage_class);
    emit_.String(fmt::format("{}", index));
    emit_.String("cpu");
    emit_.Int(static_cast<int64_t>(elements));
    emit_.Put(Op::kTuple);
    emit_.Memoize();
    emit_.Put(Op::kBinPersId);
  }

  Status Tensor(size_t index) {
    if (index >= tensors_.size())
      return Error(Errc::kInternal,
                   fmt::format("the value names tensor {}, there are {}", index, tensors_.size()));
    if (tensor_memo_[index]) {
      emit_.Get(*tensor_memo_[index]);
      return OkStatus();
    }
    const OutputTensor& tensor = tensors_[index];
    NXDKIT_ASSIGN(const uint64_t bytes, PackedBytes(tensor.dtype, tensor.shape));
    const int64_t element_bytes = ElementBytes(tensor.dtype);
    if (element_bytes == 0 || TorchName(tensor.dtype).empty())
      return Unsupported("a torch file cannot hold elements of {}", Name(tensor.dtype))
          .on(tensor.name);
    const char* storage_class = StorageClassName(tensor.dtype);

    emit_.Global("torch._utils",
                 storage_class != nullptr ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    emit_.Put(Op::kMark);
    if (storage_class != nullptr)
      PersistentId(index, bytes / static_cast<uint64_t>(element_bytes), "torch", storage_class);
    else
      PersistentId(index, bytes, "torch.storage", "UntypedStorage");
    emit_.Int(0);  // offset
    emit_.IntTuple(tensor.shape);
    emit_.IntTuple(RowMajorStrides(tensor.shape));
    emit_.Put(Op::kNewFalse);                    // requires_grad
    emit_.Global("collections", "OrderedDict");  // backward hooks
    emit_.Put(Op::kEmptyTuple);
    emit_.Put(Op::kReduce);
    emit_.Memoize();
    if (storage_class == nullptr) emit_.Global("torch", std::string(TorchName(tensor.dtype)));
    emit_.Put(Op::kTuple);
    emit_.Memoize();
    emit_.Put(Op::kReduce);
    tensor_memo_[index] = emit_.Memoize();
    return OkStatus();
  }

  Status Item(const std::pair<PickleValue, PickleValue>& item, int depth) {
    NXDKIT_TRY(Value(item.first, depth));
    return Value(item.second, depth);
  }

  Status Tuple(const PickleList& items, int depth) {
    if (items.size() > 3) emit_.Put(Op::kMark);
    for (const PickleValue& item : items) NXDKIT_TRY(Value(item, depth + 1));
    const uint32_t memo = emit_.EndTuple(items.size());
    if (!items.empty()) container_memo_[&items] = memo;
    return OkStatus();
  }

  Status List(const PickleList& items, int depth) {
    emit_.Put(Op::kEmptyList);
    Remember(&items);
    if (items.size() == 1) {
      NXDKIT_TRY(Value(items[0], depth + 1));
      emit_.Put(Op::kAppend);
      return OkStatus();
    }
    for (size_t i = 0; i < items.size(); ++i) {
      if (i % kBatch == 0) emit_.Put(Op::kMark);
      NXDKIT_TRY(Value(items[i], depth + 1));
      if (i % kBatch == kBatch - 1 || i + 1 == items.size()) emit_.Put(Op::kAppends);
    }
    return OkStatus();
  }

  Status Set(const PickleList& items, int depth) {
    emit_.Global("__builtin__", "set");
    emit_.Put(Op::kEmptyList);
    emit_.Memoize();
    if (items.size() > 1) emit_.Put(Op::kMark);
    for (const PickleValue& item : items) NXDKIT_TRY(Value(item, depth + 1));
    if (!items.empty()) emit_.Put(items.size() > 1 ? Op::kAppends : Op::kAppend);
    emit_.EndTuple(1);
    emit_.Put(Op::kReduce);
    Remember(&items);
    return OkStatus();
  }

  // The batches of a plain dict of more than one item: they end with an empty one when their number
  // is a multiple of kBatch.
  void BeginItems(size_t count) {
    if (count > 1) emit_.Put(Op::kMark);
  }
  void AfterItem(size_t i, size_t count) {
    if (count == 1 || i % kBatch != kBatch - 1) return;
    emit_.Put(Op::kSetItems);
    emit_.Put(Op::kMark);
  }
  void EndItems(size_t count) {
    if (count > 0) emit_.Put(count == 1 ? Op::kSetItem : Op::kSetItems);
  }

  // `item` writes key and value.
  template <typename WriteItem>
  Status PlainItems(size_t count, WriteItem item) {
    BeginItems(count);
    for (size_t i = 0; i < count; ++i) {
      NXDKIT_TRY(item(i));
      AfterItem(i, count);
    }
    EndItems(count);
    return OkStatus();
  }

  // An item is destroyed before the next is made, possibly at the same address: nothing is shared.
  Status Source(const DictSource& source) {
    emit_.Put(Op::kEmptyDict);
    emit_.Memoize();
    BeginItems(source.count);
    size_t written = 0;
    const auto put = [&](const PickleValue& key, const PickleValue& value) -> Status {
      NXDKIT_TRY(Value(key, 3));
      NXDKIT_TRY(Value(value, 3));
      container_memo_.clear();
      AfterItem(written++, source.count);
      return OkStatus();
    };
    NXDKIT_TRY(source.each(put));
    NXDKIT_CHECK(written == source.count);
    EndItems(source.count);
    return OkStatus();
  }

  // An OrderedDict has no empty last batch, and a last batch of one item is written as SETITEM.
  Status OrderedItems(const PickleDict& items, int depth) {
    for (size_t begin = 0; begin < items.size(); begin += kBatch) {
      const size_t end = std::min(begin + kBatch, items.size());
      if (end - begin > 1) emit_.Put(Op::kMark);
      for (size_t i = begin; i < end; ++i) NXDKIT_TRY(Item(items[i], depth));
      emit_.Put(end - begin > 1 ? Op::kSetItems : Op::kSetItem);
    }
    return OkStatus();
  }

  Status Dict(const PickleValue::Dict& dict, int depth) {
    if (!dict.ordered) {
      emit_.Put(Op::kEmptyDict);
      Remember(dict.items.get());
      return PlainItems(dict.items->size(),
                        [&](size_t i) { return Item((*dict.items)[i], depth + 1); });
    }
    emit_.Global("collections", "OrderedDict");
    emit_.Put(Op::kEmptyTuple);
    emit_.Put(Op::kReduce);
    Remember(dict.items.get());
    return OrderedItems(*dict.items, depth + 1);
  }

  Status Class(std::string_view name) {
    const size_t dot = name.rfind('.');
    if (dot == std::string_view::npos)
      return Error(Errc::kInternal, fmt::format("a record of {}, which is in no module", name));
    emit_.Global(std::string(name.substr(0, dot)).c_str(), std::string(name.substr(dot + 1)));
    return OkStatus();
  }

  Status Record(const PickleRecord& record, int depth) {
    NXDKIT_TRY(Class(record.name));
    if (record.arguments.size() > 3) emit_.Put(Op::kMark);
    for (const PickleValue& item : record.arguments) NXDKIT_TRY(Value(item, depth + 1));
    emit_.EndTuple(record.arguments.size());
    emit_.Put(record.called ? Op::kReduce : Op::kNewObj);
    Remember(&record);
    if (!record.state) return OkStatus();
    NXDKIT_TRY(Value(*record.state, depth + 1));
    emit_.Put(Op::kBuild);
    return OkStatus();
  }

  Status Value(const PickleValue& value, int depth) {
    if (depth > kMaxNesting)
      return Unsupported("values are nested more than {} levels deep", kMaxNesting);
    return std::visit(
        Overloaded{
            [&](const PickleValue::None&) { return emit_.Put(Op::kNone), OkStatus(); },
            [&](bool flag) { return emit_.Put(flag ? Op::kNewTrue : Op::kNewFalse), OkStatus(); },
            [&](int64_t number) { return emit_.Int(number), OkStatus(); },
            [&](double number) { return emit_.Float(number), OkStatus(); },
            [&](const std::string& text) { return emit_.String(text), OkStatus(); },
            [&](const PickleValue::Bytes& bytes) { return emit_.Bytes(bytes.bytes), OkStatus(); },
            [&](const PickleValue::BigInt& number) -> Status {
              const std::optional<std::string> bytes = DecimalToLong(number.decimal);
              if (!bytes)
                return Unsupported("\"{:.40}\" is not an integer of at most {} bytes",
                                   number.decimal, kMaxLongBytes);
              return emit_.Long(*bytes), OkStatus();
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
            [&](const TorchSize& size) { return emit_.Size(size.dims), OkStatus(); },
            [&](const TensorIndex& tensor) { return Tensor(tensor.index); },
            [&](const TensorReference& reference) {
              return emit_.Reference(reference), OkStatus();
            },
            [&](Dtype dtype) -> Status {
              if (TorchName(dtype).empty())
                return Unsupported("torch has no dtype {}", Name(dtype));
              return emit_.Global("torch", std::string(TorchName(dtype))), OkStatus();
            },
            [&](const std::shared_ptr<const PickleRecord>& record) {
              return Shared(record.get()) ? OkStatus() : Record(*record, depth);
            },
            [&](const GlobalName& global) { return Class(global.qualified_name); },
            [&](const OpaqueObject& object) -> Status {
              return Unsupported("an object of {} cannot be written", object.qualified_name);
            },
        },
        value.value);
  }

  const std::vector<OutputTensor>& tensors_;
  PickleEmitter emit_;
  std::unordered_map<const void*, uint32_t> container_memo_;
  std::vector<std::optional<uint32_t>> tensor_memo_;
};

}  // namespace

Result<std::string> WritePickle(const PickleValue& root, const std::vector<OutputTensor>& tensors) {
  return Writer(tensors).Write(root);
}

Result<std::string> WriteBareRecord(std::string_view class_name,
                                    const std::vector<RecordAttribute>& attributes) {
  return Writer({}).Write(class_name, attributes);
}

}  // namespace nxdkit::torch
