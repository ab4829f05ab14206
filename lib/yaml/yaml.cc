#include "lib/yaml/yaml.h"

#include <fmt/core.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>

#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit {
namespace {

size_t CountNodes(const Value& value) {
  size_t count = 1;
  for (const Value& item : value.items) count += CountNodes(item);
  for (const ValueEntry& entry : value.entries) count += 1 + CountNodes(entry.value);
  return count;
}

int Depth(const Value& value) {
  int depth = 0;
  for (const Value& item : value.items) depth = std::max(depth, 1 + Depth(item));
  for (const ValueEntry& entry : value.entries) depth = std::max(depth, 1 + Depth(entry.value));
  return depth;
}

Place PlaceOf(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }

Error ErrorAt(const YAML::Mark& mark, Errc code, const std::string& message) {
  const std::string place = PlaceText(PlaceOf(mark));
  return Error(code, place.empty() ? message : place + ": " + message);
}

// Builds the tree from the parser's events. After the first error all further events are dropped:
// the parser offers no other way to stop it.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const YamlLimits& limits) : limits_(limits) {}

  std::optional<Error>& error() { return error_; }
  Value& root() { return root_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Take(mark, anchor, ResolveScalar(""));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (error_) return;
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end())
      return Fail(mark, Errc::kCorrupt, "an alias is inside the value it names");
    if (static_cast<int>(open_.size()) + Depth(found->second) > limits_.depth)
      return FailDepth(mark);
    Take(mark, 0, found->second, CountNodes(found->second));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    if (!TagIsPlain(mark, tag)) return;
    if (!limits_.interpolations && text.find("${") != std::string::npos)
      return Fail(mark, Errc::kUnsupported,
                  fmt::format("interpolations are not supported: {}", EscapeControl(text)));
    Value value = tag == "?" ? ResolveScalar(text) : Value{};
    if (tag != "?") {
      value.kind = ValueKind::kString;
      value.text = text;
    }
    Take(mark, anchor, std::move(value));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, ValueKind::kList);
  }
  void OnSequenceEnd() override { Close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, ValueKind::kMap);
  }
  void OnMapEnd() override { Close(); }

 private:
  struct OpenNode {
    Value value;
    YAML::anchor_t anchor = 0;
    YAML::Mark mark;
    std::optional<ValueEntry> key;  // of a map: read, and waiting for its value
  };

  void Fail(const YAML::Mark& mark, Errc code, const std::string& message) {
    if (!error_) error_ = ErrorAt(mark, code, message);
  }
  void FailDepth(const YAML::Mark& mark) {
    Fail(mark, Errc::kLimit,
         fmt::format("lists and maps are nested over the limit of {}", limits_.depth));
  }

  bool TagIsPlain(const YAML::Mark& mark, const std::string& tag) {
    if (error_) return false;
    if (tag.empty() || tag == "?" || tag == "!") return true;
    Fail(mark, Errc::kUnsupported, fmt::format("tags are not supported: {}", EscapeControl(tag)));
    return false;
  }

  void Open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, ValueKind kind) {
    if (!TagIsPlain(mark, tag)) return;
    if (static_cast<int>(open_.size()) >= limits_.depth) return FailDepth(mark);
    OpenNode& node = open_.emplace_back();
    node.value.kind = kind;
    node.anchor = anchor;
    node.mark = mark;
  }

  void Close() {
    if (error_) return;
    OpenNode node = std::move(open_.back());
    open_.pop_back();
    Take(node.mark, node.anchor, std::move(node.value));
  }

  // Takes a complete value: of the root, of the list, or the key or the value of the open map.
  // `added`: the number of values that are new with it.
  void Take(const YAML::Mark& mark, YAML::anchor_t anchor, Value value, size_t added = 1) {
    if (error_) return;
    value.place = PlaceOf(mark);
    nodes_ += added;
    if (nodes_ > limits_.nodes)
      return Fail(mark, Errc::kLimit,
                  fmt::format("the document has more than {} values", limits_.nodes));
    if (anchor != 0) anchors_[anchor] = value;
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().value.kind == ValueKind::kList) {
      open_.back().value.items.push_back(std::move(value));
    } else if (!open_.back().key) {
      TakeKey(mark, value);
    } else {
      open_.back().key->value = std::move(value);
      open_.back().value.entries.push_back(*std::move(open_.back().key));
      open_.back().key.reset();
    }
  }

  void TakeKey(const YAML::Mark& mark, const Value& key) {
    if (key.kind == ValueKind::kList || key.kind == ValueKind::kMap)
      return Fail(mark, Errc::kCorrupt, fmt::format("{} cannot be a key", ValueKindText(key.kind)));
    if (key.text == "<<") return Fail(mark, Errc::kUnsupported, "merge keys are not supported");
    for (const ValueEntry& entry : open_.back().value.entries)
      if (entry.key == key.text)
        return Fail(mark, Errc::kCorrupt,
                    fmt::format("key {} is here and on line {}", EscapeControl(key.text),
                                entry.place.line));
    open_.back().key = ValueEntry{key.text, PlaceOf(mark), {}};
  }

  const YamlLimits limits_;
  std::vector<OpenNode> open_;
  std::map<YAML::anchor_t, Value> anchors_;
  size_t nodes_ = 0;
  Value root_;
  std::optional<Error> error_;
};

}  // namespace

std::string PlaceText(const Place& place) {
  return place.line > 0 ? fmt::format("line {} column {}", place.line, place.column) : "";
}

Result<Value> ParseYaml(std::string_view text, const YamlLimits& limits) {
  if (text.size() > limits.bytes)
    return OverLimit("{} bytes are over the limit of {}", text.size(), limits.bytes);
  TreeBuilder builder(limits);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    if (builder.error()) return *std::move(builder.error());
    TreeBuilder rest(limits);
    if (parser.HandleNextDocument(rest)) return Corrupt("a second document follows the first");
  } catch (const YAML::Exception& exception) {
    if (builder.error()) return *std::move(builder.error());
    return ErrorAt(exception.mark, Errc::kCorrupt, EscapeControl(exception.msg));
  } catch (const std::exception& exception) {  // from its use of the standard library
    return Corrupt("not YAML: {}", EscapeControl(exception.what()));
  }
  return std::move(builder.root());
}

}  // namespace nxdkit
