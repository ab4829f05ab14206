#include "formats/torch/pickle_value.h"

namespace nxdkit::torch {

PickleValue PickleValue::MakeDict(PickleDict items) {
  return PickleValue{Dict{std::make_shared<PickleDict>(std::move(items)), false}};
}

PickleValue PickleValue::MakeList(PickleList items) {
  return PickleValue{List{std::make_shared<PickleList>(std::move(items))}};
}

PickleValue PickleValue::MakeTuple(PickleList items) {
  return PickleValue{Tuple{std::make_shared<PickleList>(std::move(items))}};
}

const PickleDict* PickleValue::dict() const {
  const Dict* dict = std::get_if<Dict>(&value);
  return dict != nullptr ? dict->items.get() : nullptr;
}

const PickleList* PickleValue::list() const {
  if (const List* list = std::get_if<List>(&value)) return list->items.get();
  if (const Tuple* tuple = std::get_if<Tuple>(&value)) return tuple->items.get();
  return nullptr;
}

const std::string* PickleValue::string() const { return std::get_if<std::string>(&value); }
const int64_t* PickleValue::integer() const { return std::get_if<int64_t>(&value); }
std::optional<double> PickleValue::number() const {
  if (const int64_t* number = integer()) return static_cast<double>(*number);
  if (const double* number = std::get_if<double>(&value)) return *number;
  return std::nullopt;
}
const TensorIndex* PickleValue::tensor() const { return std::get_if<TensorIndex>(&value); }
const TensorReference* PickleValue::reference() const {
  return std::get_if<TensorReference>(&value);
}

const PickleRecord* PickleValue::record() const {
  const auto* record = std::get_if<std::shared_ptr<const PickleRecord>>(&value);
  return record != nullptr ? record->get() : nullptr;
}

const PickleValue* PickleValue::Find(std::string_view key) const {
  const PickleDict* items = dict();
  if (items == nullptr) return nullptr;
  for (const auto& [name, item] : *items)
    if (name.string() != nullptr && *name.string() == key) return &item;
  return nullptr;
}

}  // namespace nxdkit::torch
