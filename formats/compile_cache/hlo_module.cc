#include "formats/compile_cache/hlo_module.h"

#include <algorithm>
#include <iterator>

#include "lib/base/errors.h"

namespace nxdkit::neff {
namespace {

// The messages on the path to a configuration, and the text at its end.
enum class Node : uint8_t { kModule, kComputation, kInstruction, kPayload, kConfig };

struct Step {
  Node from;
  uint64_t field;
  Node to;
};
constexpr Step kSteps[] = {
    {Node::kModule, 3, Node::kComputation},  // computations
    {Node::kModule, 22, Node::kConfig},      // payloads: newer XLA keeps configurations here
    {Node::kComputation, 2, Node::kInstruction},
    {Node::kInstruction, 43, Node::kConfig},   // backend_config
    {Node::kInstruction, 99, Node::kPayload},  // backend_config_payload
    {Node::kPayload, 1, Node::kConfig},        // value
};

enum WireType : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
constexpr size_t kMaxVarintBytes = 10;
constexpr uint64_t kFieldsBetweenPolls = 1 << 16;

std::string VarintText(uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>(0x80 | (value & 0x7f));
  return text + static_cast<char>(value);
}

// One field of a message, as encoded.
struct Field {
  uint64_t number = 0;
  uint64_t type = 0;
  size_t tag_end = 0;  // where its length or value begins, from the start of the message
  size_t begin = 0;    // start of the contents
  size_t end = 0;
};

// The fields of one message, in order. Offsets of errors are relative to the graph.
class Fields {
 public:
  Fields(std::string_view message, uint64_t offset) : message_(message), offset_(offset) {}

  bool AtEnd() const { return at_ == message_.size(); }

  Result<Field> Next() {
    const size_t start = at_;
    NXDKIT_ASSIGN(const uint64_t tag, Varint());
    Field field{tag >> 3, tag & 7, at_, at_, at_};
    if (field.number == 0) return Corrupt("field 0 found, 1 or more expected").at(offset_ + start);
    NXDKIT_ASSIGN(const uint64_t bytes, Length(field, start));
    field.begin = at_;
    if (bytes > message_.size() - at_)
      return Corrupt("field {} has {} bytes, {} are left", field.number, bytes,
                     message_.size() - at_)
          .at(offset_ + start);
    at_ += static_cast<size_t>(bytes);
    field.end = at_;
    return field;
  }

 private:
  // The number of content bytes that follow.
  Result<uint64_t> Length(const Field& field, size_t start) {
    if (field.type == kFixed64) return uint64_t{8};
    if (field.type == kFixed32) return uint64_t{4};
    if (field.type == kBytes) return Varint();
    if (field.type != kVarint)
      return Corrupt("field {} has wire type {}, expected 0, 1, 2 or 5", field.number, field.type)
          .at(offset_ + start);
    NXDKIT_TRY(Varint());
    return uint64_t{0};
  }

  Result<uint64_t> Varint() {
    uint64_t value = 0;
    const size_t start = at_;
    for (size_t i = 0; i < kMaxVarintBytes && at_ < message_.size(); ++i) {
      const auto byte = static_cast<unsigned char>(message_[at_++]);
      value |= uint64_t{byte & 0x7fu} << (7 * i);
      if (byte < 0x80) return value;
    }
    return Corrupt("a number of more than {} bytes, or one that ends outside its message",
                   kMaxVarintBytes)
        .at(offset_ + start);
  }

  std::string_view message_;
  uint64_t offset_;
  size_t at_ = 0;
};

class Walker {
 public:
  Walker(const ReplaceConfig& replace, const std::function<Status()>& poll)
      : replace_(replace), poll_(poll) {}

  // The message with its replacements; nullopt if unchanged.
  Result<std::optional<std::string>> Walk(Node node, std::string_view message, uint64_t offset) {
    if (node == Node::kConfig) return replace_(BackendConfig{offset, message});
    std::optional<std::string> changed;
    size_t copied = 0;  // bytes of the message
    Fields fields(message, offset);
    while (!fields.AtEnd()) {
      NXDKIT_ASSIGN(const Field field, fields.Next());
      if (++fields_ % kFieldsBetweenPolls == 0 && poll_) NXDKIT_TRY(poll_());
      const auto* step = std::ranges::find_if(kSteps, [&](const Step& each) {
        return each.from == node && each.field == field.number && field.type == kBytes;
      });
      if (step == std::end(kSteps)) continue;
      computations_ += step->to == Node::kComputation;
      NXDKIT_ASSIGN(const std::optional<std::string> inner,
                    Walk(step->to, message.substr(field.begin, field.end - field.begin),
                         offset + field.begin));
      if (!inner) continue;
      if (!changed) changed.emplace();
      *changed += message.substr(copied, field.tag_end - copied);
      *changed += VarintText(inner->size());
      *changed += *inner;
      copied = field.end;
    }
    if (changed) *changed += message.substr(copied);
    return changed;
  }

  uint64_t computations() const { return computations_; }

 private:
  const ReplaceConfig& replace_;
  const std::function<Status()>& poll_;
  uint64_t computations_ = 0;
  uint64_t fields_ = 0;
};

}  // namespace

Result<std::optional<std::string>> ReplaceBackendConfigs(std::string_view graph,
                                                         const ReplaceConfig& replace,
                                                         const std::function<Status()>& poll) {
  if (graph.size() > kMaxGraphBytes)
    return OverLimit("a graph of {} bytes is over the limit of {}", graph.size(), kMaxGraphBytes);
  Walker walker(replace, poll);
  NXDKIT_ASSIGN(std::optional<std::string> changed, walker.Walk(Node::kModule, graph, 0));
  if (walker.computations() == 0)
    return Corrupt("{} bytes without a computation: it is not an HloModuleProto", graph.size())
        .at(0);
  return changed;
}

Result<std::vector<BackendConfig>> FindBackendConfigs(std::string_view graph) {
  std::vector<BackendConfig> found;
  const ReplaceConfig note =
      [&](const BackendConfig& config) -> Result<std::optional<std::string>> {
    if (found.size() == kMostConfigs)
      return Unsupported("more than {} configurations", kMostConfigs).at(config.offset);
    found.push_back(config);
    return std::optional<std::string>();
  };
  NXDKIT_TRY(ReplaceBackendConfigs(graph, note));
  return found;
}

}  // namespace nxdkit::neff
