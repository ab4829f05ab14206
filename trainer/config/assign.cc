#include "trainer/config/assign.h"

#include <fmt/core.h>

#include "lib/base/text.h"

namespace nxdkit::trainer {
namespace {

bool IsScalar(const Value& value) {
  return value.kind != ValueKind::kNull && value.kind != ValueKind::kList &&
         value.kind != ValueKind::kMap;
}

bool Take(const Value& value, bool* to) {
  if (value.kind != ValueKind::kBool) return false;
  *to = value.boolean;
  return true;
}

bool Take(const Value& value, int64_t* to) {
  if (value.kind != ValueKind::kInt) return false;
  *to = value.integer;
  return true;
}

bool Take(const Value& value, double* to) {
  if (value.kind != ValueKind::kInt && value.kind != ValueKind::kDouble) return false;
  *to = value.number;
  return true;
}

bool Take(const Value& value, std::string* to) {
  if (!IsScalar(value)) return false;
  *to = value.text;
  return true;
}

bool Take(const Value& value, std::array<double, 2>* to) {
  std::array<double, 2> pair;
  if (value.kind != ValueKind::kList || value.items.size() != 2) return false;
  if (!Take(value.items[0], &pair[0]) || !Take(value.items[1], &pair[1])) return false;
  *to = pair;
  return true;
}

bool Take(const Value& value, std::vector<std::string>* to) {
  if (value.kind != ValueKind::kList) return false;
  std::vector<std::string> list(value.items.size());
  for (size_t i = 0; i < list.size(); ++i)
    if (!Take(value.items[i], &list[i])) return false;
  *to = std::move(list);
  return true;
}

bool Take(const Value& value, Value* to) {
  if (value.kind != ValueKind::kMap) return false;
  MergeValue(*to, value);
  return true;
}

template <typename T>
bool Take(const Value& value, std::optional<T>* to) {
  if (value.kind == ValueKind::kNull) {
    to->reset();
    return true;
  }
  T inner{};
  if (!Take(value, &inner)) return false;
  *to = std::move(inner);
  return true;
}

std::string Found(const Value& value) {
  constexpr size_t kLongest = 60;
  std::string text = EscapeControl(ValueText(value));
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  if (value.kind == ValueKind::kNull) return "null";
  return fmt::format("{} {}", ValueKindText(value.kind), text);
}

}  // namespace

std::string AssignSlot(const ConfigSlot& slot, const Value& value) {
  const bool taken = std::visit([&](auto* to) { return Take(value, to); }, slot);
  return taken ? "" : fmt::format("expected {}, found {}", TypeText(slot), Found(value));
}

}  // namespace nxdkit::trainer
