#include "trainer/model/weights.h"

namespace nxdkit::trainer {
namespace {

bool IsVector(const Slot& slot) { return slot.shape.size() == 1 || slot.shape[0] == 1; }

}  // namespace

Weights::Weights(const ParamTable& table, Dtype dtype) : table_(&table), dtype_(dtype) {
  bytes_.resize(static_cast<size_t>(table.size * ElementBytes(dtype)));
  int64_t end = 0;
  for (const Slot& slot : table.slots) {
    vector_at_.push_back(end);
    if (IsVector(slot)) end += slot.size();
  }
  vectors_.resize(static_cast<size_t>(end));
}

std::span<float> Weights::f32() {
  if (dtype_ != Dtype::kF32) return {};
  return {reinterpret_cast<float*>(bytes_.data()), static_cast<size_t>(table_->size)};
}

std::span<uint16_t> Weights::bf16() {
  if (dtype_ != Dtype::kBF16) return {};
  return {reinterpret_cast<uint16_t*>(bytes_.data()), static_cast<size_t>(table_->size)};
}

const std::byte* Weights::at(const Slot& slot) const {
  return bytes_.data() + slot.offset * ElementBytes(dtype_);
}

const float* Weights::vector(const Slot& slot) const {
  const size_t index = static_cast<size_t>(&slot - table_->slots.data());
  return vectors_.data() + vector_at_[index];
}

void Weights::Changed() {
  for (size_t i = 0; i < table_->slots.size(); ++i) {
    const Slot& slot = table_->slots[i];
    if (!IsVector(slot)) continue;
    ConvertElements(dtype_, at(slot), Dtype::kF32,
                    reinterpret_cast<std::byte*>(vectors_.data() + vector_at_[i]), slot.size());
  }
}

}  // namespace nxdkit::trainer
