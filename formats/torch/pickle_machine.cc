#include "formats/torch/pickle_machine.h"

#include <fmt/core.h>

#include <array>
#include <bit>
#include <optional>
#include <span>
#include <vector>

#include "formats/torch/pickle_calls.h"
#include "formats/torch/pickle_numbers.h"
#include "formats/torch/pickle_opcodes.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/base/utf8.h"

namespace nxdkit::torch {
namespace {

constexpr uint64_t kNewestProtocol = 5;
constexpr NodeId kNoNode = UINT32_MAX;

// A byte of a pickle can become a node of 60 bytes in memory, or a container of 250. A tensor needs
// 25 nodes, one of them a container, so two million tensors fit.
constexpr size_t kMaxNodes = 64 << 20;
constexpr size_t kMaxContainers = 4 << 20;

template <typename T>
Result<T> Parse(std::string_view text, std::string_view what) {
  if (const auto value = ParseNumber<T>(text)) return *value;
  return Corrupt("\"{:.40}\" is not {}", text, what);
}

struct Machine {
  PickleGraph& graph;
  PickleFlavor flavor;
  const GlobalTable& globals;
  std::vector<NodeId> stack = {};
  std::vector<size_t> marks = {};  // sizes of the stack at each MARK
  std::vector<NodeId> memo = {};
  size_t memo_used = 0;

  Result<PickleResult> Run() {
    const std::string_view pickle = graph.pickle();
    Instruction in;
    for (size_t offset = 0;; offset = in.next) {
      const Decoded decoded = DecodeInstruction(pickle, offset, in);
      if (decoded == Decoded::kUnknown) return UnknownOpcode(pickle, offset);
      if (decoded == Decoded::kCutOff)
        return Corrupt("the pickle ends after {} bytes, before its STOP", pickle.size()).at(offset);
      NXDKIT_TRY(CheckStack(in).at(offset));
      NXDKIT_TRY(Execute(in).at(offset));
      if (graph.size() > kMaxNodes || graph.containers() > kMaxContainers)
        return Unsupported("the pickle has more than {} values or {} containers", kMaxNodes,
                           kMaxContainers)
            .at(offset);
      if (in.info->op != Op::kStop) continue;
      if (stack.size() == 1 && marks.empty()) return PickleResult{stack.back(), in.next};
      return Corrupt("STOP with {} values and {} marks on the stack, expected one value",
                     stack.size(), marks.size())
          .at(offset);
    }
  }

  // Values above the topmost mark.
  size_t Depth() const { return stack.size() - (marks.empty() ? 0 : marks.back()); }
  NodeId Top(size_t below = 0) const { return stack[stack.size() - 1 - below]; }
  Status Push(NodeId id) {
    stack.push_back(id);
    return OkStatus();
  }

  // Pops `count`, pushes one.
  Status Replace(size_t count, Result<NodeId> id) {
    if (!id.ok()) return std::move(id).error();
    stack.resize(stack.size() - count);
    return Push(*id);
  }

  std::vector<NodeId> PopMarked() {
    const auto begin = stack.begin() + static_cast<std::ptrdiff_t>(marks.back());
    std::vector<NodeId> items(begin, stack.end());
    stack.erase(begin, stack.end());
    marks.pop_back();
    return items;
  }

  Status PushDecimal(std::string_view line) {
    NXDKIT_ASSIGN(const auto value, Parse<int64_t>(line, "a 64-bit integer"));
    return Push(graph.Int(value));
  }

  // Python 2 writes the booleans of protocol 1, and integers over 32 bits, this way.
  Status PushInt(std::string_view line) {
    return line == "00" || line == "01" ? Push(graph.Bool(line == "01")) : PushDecimal(line);
  }

  Status PushFloat(std::string_view line) {
    NXDKIT_ASSIGN(const auto value, Parse<double>(line, "a floating point number"));
    return Push(graph.Float(value));
  }

  Status PushLong(std::string_view bytes) {
    if (const std::optional<int64_t> small = LongToInt64(bytes)) return Push(graph.Int(*small));
    if (bytes.size() > kMaxLongBytes)
      return Unsupported("an integer of {} bytes, the limit is {}", bytes.size(), kMaxLongBytes);
    return Push(graph.Text(NodeKind::kBigInt, bytes));
  }

  Status PushString(std::string_view text) {
    if (const std::optional<size_t> bad = ValidateUtf8(text))
      return Corrupt("a string of {} bytes is not UTF-8 at its byte {}", text.size(), *bad);
    return Push(graph.Text(NodeKind::kString, text));
  }

  Status PushGlobal(std::string_view module, std::string_view name) {
    NXDKIT_ASSIGN(const Global* global, globals.Find(module, name));
    return Push(graph.OfGlobal(NodeKind::kGlobal, global));
  }

  Status PushStackGlobal() {
    const NodeId module = Top(1);
    const NodeId name = Top(0);
    if (graph.kind(module) != NodeKind::kString || graph.kind(name) != NodeKind::kString)
      return Corrupt("STACK_GLOBAL of {} and {}, expected two strings", graph.kind_name(module),
                     graph.kind_name(name));
    stack.resize(stack.size() - 2);
    return PushGlobal(graph.AsText(module), graph.AsText(name));
  }

  Status PushMemo(uint64_t index) {
    if (index >= memo.size() || memo[index] == kNoNode)
      return Corrupt("nothing was stored under memo number {}", index);
    return Push(memo[index]);
  }

  // Picklers number the memo 0, 1, 2..., and every number costs them a byte, so no pickler writes a
  // number larger than the offset; without this check a large one would cost memory.
  Status StoreMemo(uint64_t index, size_t offset) {
    if (index > offset)
      return Unsupported(
          "memo number {} at offset {} of the pickle: numbers this sparse are not supported", index,
          offset);
    if (index >= memo.size()) memo.resize(static_cast<size_t>(index) + 1, kNoNode);
    if (memo[index] == kNoNode) ++memo_used;
    memo[index] = Top();
    return OkStatus();
  }

  Status PushTuple(size_t count) {
    return Replace(count, graph.Tuple(std::span(stack).last(count)));
  }

  Status PushMarkedTuple() {
    const NodeId tuple = graph.Tuple(std::span(stack).subspan(marks.back()));
    stack.resize(marks.back());
    marks.pop_back();
    return Push(tuple);
  }

  Status PushMarked(NodeKind kind) {
    std::vector<NodeId> items = PopMarked();
    if (kind == NodeKind::kDict && items.size() % 2 != 0)
      return Corrupt("DICT of {} values, expected pairs", items.size());
    const NodeId container = graph.Container(kind);
    graph.Items(container) = std::move(items);
    return Push(container);
  }

  // Adds `items` to the container on top of the stack, which must be of the instruction's kind.
  Status AddToContainer(const Instruction& in, std::span<const NodeId> items) {
    const NodeId target = Top();
    if (IsInert(graph, target)) return OkStatus();
    const NodeKind kind = graph.kind(target);
    const Op op = in.info->op;
    const bool pairs = op == Op::kSetItem || op == Op::kSetItems;
    const bool fits = pairs ? kind == NodeKind::kDict || kind == NodeKind::kOrderedDict
                            : kind == (op == Op::kAddItems ? NodeKind::kSet : NodeKind::kList);
    if (!fits) return Corrupt("{} on a value of type {}", in.info->name, KindName(kind));
    if (pairs && items.size() % 2 != 0)
      return Corrupt("{} with {} values, expected pairs", in.info->name, items.size());
    std::vector<NodeId>& into = graph.Items(target);
    into.insert(into.end(), items.begin(), items.end());
    return OkStatus();
  }

  Status AddTopmost(const Instruction& in, size_t count) {
    const std::array<NodeId, 2> items = {Top(count - 1), Top()};
    stack.resize(stack.size() - count);
    return AddToContainer(in, std::span(items).first(count));
  }

  Status NewObjectEx() {
    const NodeId keywords = Top();
    if (IsInert(graph, Top(2))) return Replace(3, NewObject(graph, Top(2), Top(1)));
    if (graph.kind(keywords) != NodeKind::kDict || !graph.Items(keywords).empty())
      return Unsupported("NEWOBJ_EX with keyword arguments");
    return Replace(3, NewObject(graph, Top(2), Top(1)));
  }

  Status Pop() {
    if (Depth() == 0 && marks.empty()) return Corrupt("POP needs a value on the stack, found none");
    Depth() > 0 ? stack.pop_back() : marks.pop_back();
    return OkStatus();
  }

  Status CheckFrame(const Instruction& in) const {
    const size_t left = graph.pickle().size() - in.next;
    if (in.number <= left) return OkStatus();
    return Corrupt("FRAME of {} bytes, but only {} are left", in.number, left);
  }

  Status CheckStack(const Instruction& in) const {
    const OpInfo& info = *in.info;
    size_t depth = Depth();
    if (info.marked) {
      if (marks.empty()) return Corrupt("{} without a MARK", info.name);
      depth = marks.back() - (marks.size() > 1 ? marks[marks.size() - 2] : 0);
    }
    if (depth >= info.pops) return OkStatus();
    return Corrupt("{} needs {} values on the stack, found {}", info.name, info.pops, depth);
  }

  Status Execute(const Instruction& in) {
    switch (in.info->op) {
      case Op::kProto:
        if (in.number > kNewestProtocol)
          return Unsupported("pickle protocol {}, the newest known is {}", in.number,
                             kNewestProtocol);
        return OkStatus();
      case Op::kFrame:
        return CheckFrame(in);
      case Op::kStop:
        return OkStatus();

      case Op::kNone:
        return Push(graph.None());
      case Op::kNewTrue:
        return Push(graph.Bool(true));
      case Op::kNewFalse:
        return Push(graph.Bool(false));
      case Op::kInt:
        return PushInt(in.text);
      case Op::kLong:
        return PushDecimal(in.text.substr(0, in.text.size() - in.text.ends_with('L')));
      case Op::kBinInt:
        return Push(graph.Int(static_cast<int32_t>(in.number)));
      case Op::kBinInt1:
      case Op::kBinInt2:
        return Push(graph.Int(static_cast<int64_t>(in.number)));
      case Op::kLong1:
      case Op::kLong4:
        return PushLong(in.text);
      case Op::kFloat:
        return PushFloat(in.text);
      // The only big-endian number of a pickle.
      case Op::kBinFloat:
        return Push(graph.Float(std::bit_cast<double>(__builtin_bswap64(in.number))));

      // Python 2's str: torch.load reads it as UTF-8.
      case Op::kBinString:
      case Op::kShortBinString:
      case Op::kBinUnicode:
      case Op::kShortBinUnicode:
      case Op::kBinUnicode8:
        return PushString(in.text);
      case Op::kBinBytes:
      case Op::kShortBinBytes:
      case Op::kBinBytes8:
      case Op::kByteArray8:
        return Push(graph.Text(NodeKind::kBytes, in.text));

      case Op::kEmptyTuple:
        return Push(graph.Tuple({}));
      case Op::kEmptyList:
        return Push(graph.Container(NodeKind::kList));
      case Op::kEmptyDict:
        return Push(graph.Container(NodeKind::kDict));
      case Op::kEmptySet:
        return Push(graph.Container(NodeKind::kSet));
      case Op::kTuple1:
      case Op::kTuple2:
      case Op::kTuple3:
        return PushTuple(in.info->pops);
      case Op::kTuple:
        return PushMarkedTuple();
      case Op::kList:
        return PushMarked(NodeKind::kList);
      case Op::kDict:
        return PushMarked(NodeKind::kDict);

      case Op::kAppend:
      case Op::kSetItem:
        return AddTopmost(in, in.info->pops - size_t{1});
      case Op::kAppends:
      case Op::kSetItems:
      case Op::kAddItems:
        return AddToContainer(in, PopMarked());

      case Op::kMark:
        marks.push_back(stack.size());
        return OkStatus();
      case Op::kPop:
        return Pop();
      case Op::kPopMark:
        PopMarked();
        return OkStatus();
      case Op::kDup:
        return Push(Top());
      case Op::kBinPut:
      case Op::kLongBinPut:
        return StoreMemo(in.number, in.offset);
      case Op::kMemoize:
        return StoreMemo(memo_used, in.offset);
      case Op::kBinGet:
      case Op::kLongBinGet:
        return PushMemo(in.number);

      case Op::kGlobal:
        return PushGlobal(in.text, in.text2);
      case Op::kStackGlobal:
        return PushStackGlobal();
      case Op::kReduce:
        return Replace(2, Call(graph, Top(1), Top()));
      case Op::kNewObj:
        return Replace(2, NewObject(graph, Top(1), Top()));
      case Op::kNewObjEx:
        return NewObjectEx();
      case Op::kBinPersId:
        return Replace(1, LoadStorage(graph, Top(), flavor, in.offset));
      case Op::kBuild: {
        NXDKIT_TRY(Build(graph, Top(1), Top()));
        stack.pop_back();
        return OkStatus();
      }
    }
    return Error(Errc::kInternal, fmt::format("no code for opcode {}", in.info->name));
  }
};

}  // namespace

Result<PickleResult> RunPickle(PickleGraph& graph, PickleFlavor flavor,
                               const GlobalTable& globals) {
  return Machine{graph, flavor, globals}.Run();
}

}  // namespace nxdkit::torch
