#include "lib/yaml/interpolate.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "lib/base/text.h"

namespace nxdkit {
namespace {

constexpr int kMaxDepth = 32;         // of one interpolation leading to another
constexpr size_t kMaxNodes = 10'000;  // made by all of them
constexpr size_t kNodeText = 64;      // this much text counts as one more

using Path = std::vector<std::string>;

std::string Joined(const Path& path) {
  std::string text;
  for (const std::string& part : path) text += (text.empty() ? "" : ".") + part;
  return text;
}

// The text of Python's str().
std::string TextOf(const Value& value) {
  if (value.kind == ValueKind::kBool) return value.boolean ? "True" : "False";
  return value.text;
}

bool IsScalar(const Value& value) {
  return value.kind != ValueKind::kList && value.kind != ValueKind::kMap;
}

const Value* Below(const Value& value, const std::string& part) {
  if (value.kind == ValueKind::kMap) return value.Find(part);
  const std::optional<size_t> index = ParseNumber<size_t>(part);
  if (value.kind != ValueKind::kList || !index || *index >= value.items.size()) return nullptr;
  return &value.items[*index];
}

// The parts of "a.b[0]".
Path PartsOf(std::string_view expression) {
  Path parts(1);
  for (const char c : expression) {
    if (c == ']') continue;
    if (c == '.' || c == '[')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

class Interpolator {
 public:
  Interpolator(const Value& root, std::vector<Unresolved>* left) : root_(root), left_(left) {}

  Value Resolve(const Value& value, Path& path, int depth) {
    if (depth > 0) nodes_ += 1 + value.text.size() / kNodeText;
    if (IsInterpolated(value)) return ResolveText(value, path, depth);
    if (depth > 0 && IsFull()) return value;
    Value out = value;
    for (ValueEntry& entry : out.entries) entry.value = Step(entry.value, path, entry.key, depth);
    for (size_t i = 0; i < out.items.size(); ++i)
      out.items[i] = Step(out.items[i], path, std::to_string(i), depth);
    return out;
  }

 private:
  Value Step(const Value& value, Path& path, const std::string& part, int depth) {
    path.push_back(part);
    Value out = Resolve(value, path, depth);
    path.pop_back();
    return out;
  }

  Value ResolveText(const Value& value, const Path& path, int depth) {
    std::optional<Value> out = WorkOut(value, path, depth);
    if (out) {
      out->place = value.place;
      return *std::move(out);
    }
    if (left_ && depth == 0) left_->push_back({Joined(path), value.text, reason_, value.place});
    return value;
  }

  // nullopt: it stays, for reason_.
  std::optional<Value> WorkOut(const Value& value, const Path& path, int depth) {
    if (IsFull()) return Fails("the values would be too large");
    const std::string_view text = value.text;
    std::string made;
    for (size_t at = 0; at < text.size();) {
      const size_t open = text.find(kInterpolation, at);
      made += text.substr(at, open - at);
      if (open == std::string_view::npos) break;
      const size_t close = text.find('}', open);
      if (close == std::string_view::npos) return Fails("it has no }");
      const std::string_view inside = text.substr(open + 2, close - open - 2);
      std::optional<Value> part = Lookup(inside, path, depth);
      if (!part) return std::nullopt;
      if (open == 0 && close + 1 == text.size()) return part;
      if (part->kind == ValueKind::kNull)
        return Fails(fmt::format("{} is not set", EscapeControl(inside)));
      if (!IsScalar(*part)) return Fails(fmt::format("{} is not a scalar", EscapeControl(inside)));
      made += TextOf(*part);
      at = close + 1;
    }
    Value out;
    out.kind = ValueKind::kString;
    out.text = std::move(made);
    return out;
  }

  std::optional<Value> Lookup(std::string_view inside, const Path& path, int depth) {
    if (inside.find(kInterpolation) != std::string_view::npos)
      return Fails("one interpolation stands inside another");
    if (inside.find(':') != std::string_view::npos)
      return Fails(
          fmt::format("{} is resolved by the program that the file is for", EscapeControl(inside)));
    if (depth >= kMaxDepth) return Fails("it leads back to itself");
    Path target;
    if (inside.starts_with('.')) {
      // One dot is the map that contains the value; each further one goes a level up.
      const size_t dots = std::min(inside.find_first_not_of('.'), inside.size());
      if (dots > path.size()) return Fails("it leads out of the file");
      target.assign(path.begin(), path.end() - static_cast<std::ptrdiff_t>(dots));
      inside.remove_prefix(dots);
    }
    for (std::string& part : PartsOf(inside)) target.push_back(std::move(part));
    const Value* found = &root_;
    for (const std::string& part : target) {
      found = Below(*found, part);
      if (!found) return Fails(fmt::format("there is no {}", EscapeControl(Joined(target))));
    }
    return Follow(*found, target, depth);
  }

  // The value found may have interpolations itself.
  std::optional<Value> Follow(const Value& found, Path& target, int depth) {
    const size_t before = failures_;
    Value value = Resolve(found, target, depth + 1);
    if (IsFull()) return Fails("the value would be too large");
    return failures_ == before ? std::optional(std::move(value)) : std::nullopt;
  }

  std::nullopt_t Fails(std::string why) {
    reason_ = std::move(why);
    ++failures_;
    return std::nullopt;
  }
  bool IsFull() const { return nodes_ >= kMaxNodes; }

  const Value& root_;
  std::vector<Unresolved>* left_;
  size_t nodes_ = 0;
  size_t failures_ = 0;
  std::string reason_;  // why the last one stays
};

}  // namespace

bool IsInterpolated(const Value& value) {
  return value.kind == ValueKind::kString && value.text.find(kInterpolation) != std::string::npos;
}

bool HasInterpolations(const Value& value) {
  return IsInterpolated(value) || std::ranges::any_of(value.items, HasInterpolations) ||
         std::ranges::any_of(
             value.entries, [](const ValueEntry& entry) { return HasInterpolations(entry.value); });
}

Value Interpolate(const Value& root, std::vector<Unresolved>* left) {
  Path path;
  return Interpolator(root, left).Resolve(root, path, 0);
}

}  // namespace nxdkit
