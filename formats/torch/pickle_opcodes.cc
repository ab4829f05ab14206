#include "formats/torch/pickle_opcodes.h"

#include <array>
#include <utility>

#include "formats/torch/byte_reader.h"
#include "lib/base/errors.h"

namespace nxdkit::torch {
namespace {

using K = OperandKind;

constexpr OpInfo kTable[] = {
    {Op::kMark, "MARK", K::kNone, 0, false},
    {Op::kStop, "STOP", K::kNone, 1, false},
    {Op::kPop, "POP", K::kNone, 0, false},  // takes a value, or else the mark
    {Op::kPopMark, "POP_MARK", K::kNone, 0, true},
    {Op::kDup, "DUP", K::kNone, 1, false},
    {Op::kFloat, "FLOAT", K::kLine, 0, false},
    {Op::kInt, "INT", K::kLine, 0, false},
    {Op::kBinInt, "BININT", K::kNumber4, 0, false},
    {Op::kBinInt1, "BININT1", K::kNumber1, 0, false},
    {Op::kLong, "LONG", K::kLine, 0, false},
    {Op::kBinInt2, "BININT2", K::kNumber2, 0, false},
    {Op::kNone, "NONE", K::kNone, 0, false},
    {Op::kBinPersId, "BINPERSID", K::kNone, 1, false},
    {Op::kReduce, "REDUCE", K::kNone, 2, false},
    {Op::kBinString, "BINSTRING", K::kCounted4, 0, false},
    {Op::kShortBinString, "SHORT_BINSTRING", K::kCounted1, 0, false},
    {Op::kBinUnicode, "BINUNICODE", K::kCounted4, 0, false},
    {Op::kAppend, "APPEND", K::kNone, 2, false},
    {Op::kBuild, "BUILD", K::kNone, 2, false},
    {Op::kGlobal, "GLOBAL", K::kTwoLines, 0, false},
    {Op::kDict, "DICT", K::kNone, 0, true},
    {Op::kAppends, "APPENDS", K::kNone, 1, true},
    {Op::kBinGet, "BINGET", K::kNumber1, 0, false},
    {Op::kLongBinGet, "LONG_BINGET", K::kNumber4, 0, false},
    {Op::kList, "LIST", K::kNone, 0, true},
    {Op::kBinPut, "BINPUT", K::kNumber1, 1, false},
    {Op::kLongBinPut, "LONG_BINPUT", K::kNumber4, 1, false},
    {Op::kSetItem, "SETITEM", K::kNone, 3, false},
    {Op::kTuple, "TUPLE", K::kNone, 0, true},
    {Op::kSetItems, "SETITEMS", K::kNone, 1, true},
    {Op::kEmptyTuple, "EMPTY_TUPLE", K::kNone, 0, false},
    {Op::kEmptyList, "EMPTY_LIST", K::kNone, 0, false},
    {Op::kEmptyDict, "EMPTY_DICT", K::kNone, 0, false},
    {Op::kBinFloat, "BINFLOAT", K::kNumber8, 0, false},
    {Op::kBinBytes, "BINBYTES", K::kCounted4, 0, false},
    {Op::kShortBinBytes, "SHORT_BINBYTES", K::kCounted1, 0, false},
    {Op::kProto, "PROTO", K::kNumber1, 0, false},
    {Op::kNewObj, "NEWOBJ", K::kNone, 2, false},
    {Op::kTuple1, "TUPLE1", K::kNone, 1, false},
    {Op::kTuple2, "TUPLE2", K::kNone, 2, false},
    {Op::kTuple3, "TUPLE3", K::kNone, 3, false},
    {Op::kNewTrue, "NEWTRUE", K::kNone, 0, false},
    {Op::kNewFalse, "NEWFALSE", K::kNone, 0, false},
    {Op::kLong1, "LONG1", K::kCounted1, 0, false},
    {Op::kLong4, "LONG4", K::kCounted4, 0, false},
    {Op::kShortBinUnicode, "SHORT_BINUNICODE", K::kCounted1, 0, false},
    {Op::kBinUnicode8, "BINUNICODE8", K::kCounted8, 0, false},
    {Op::kBinBytes8, "BINBYTES8", K::kCounted8, 0, false},
    {Op::kEmptySet, "EMPTY_SET", K::kNone, 0, false},
    {Op::kAddItems, "ADDITEMS", K::kNone, 1, true},
    {Op::kNewObjEx, "NEWOBJ_EX", K::kNone, 3, false},
    {Op::kStackGlobal, "STACK_GLOBAL", K::kNone, 2, false},
    {Op::kMemoize, "MEMOIZE", K::kNone, 1, false},
    {Op::kFrame, "FRAME", K::kNumber8, 0, false},
    {Op::kByteArray8, "BYTEARRAY8", K::kCounted8, 0, false},
};

// Real opcodes that no torch file needs, listed so that a refusal can name them.
constexpr auto kRefused =
    std::to_array<std::pair<unsigned char, const char*>>({{'P', "PERSID"},
                                                          {'S', "STRING"},
                                                          {'V', "UNICODE"},
                                                          {'g', "GET"},
                                                          {'p', "PUT"},
                                                          {'i', "INST"},
                                                          {'o', "OBJ"},
                                                          {0x82, "EXT1"},
                                                          {0x83, "EXT2"},
                                                          {0x84, "EXT4"},
                                                          {0x91, "FROZENSET"},
                                                          {0x97, "NEXT_BUFFER"},
                                                          {0x98, "READONLY_BUFFER"}});

constexpr auto kByCode = [] {
  std::array<const OpInfo*, 256> by_code{};
  for (const OpInfo& info : kTable) by_code[static_cast<size_t>(info.op)] = &info;
  return by_code;
}();

// False when the bytes end inside the operand.
bool ReadOperand(ByteReader& reader, Instruction& out) {
  constexpr size_t kNumberBytes[] = {0, 1, 2, 4, 8, 0, 0, 1, 4, 8};  // by K
  const K kind = out.info->operand;
  if (kind == K::kLine) return reader.Line(out.text);
  if (kind == K::kTwoLines) return reader.Line(out.text) && reader.Line(out.text2);
  const size_t bytes = kNumberBytes[static_cast<size_t>(kind)];
  if (bytes > 0 && !reader.Number(bytes, out.number)) return false;
  return kind < K::kCounted1 || reader.Take(out.number, out.text);
}

}  // namespace

Error UnknownOpcode(std::string_view pickle, size_t offset) {
  const auto code = static_cast<unsigned char>(pickle[offset]);
  for (const auto& [refused, name] : kRefused)
    if (refused == code)
      return Unsupported("pickle opcode {} ({:#04x}) is not supported", name, code).at(offset);
  return Corrupt("{:#04x} is not a pickle opcode", code).at(offset);
}

Decoded DecodeInstruction(std::string_view pickle, size_t offset, Instruction& out) {
  if (offset >= pickle.size()) return Decoded::kCutOff;
  out.info = kByCode[static_cast<unsigned char>(pickle[offset])];
  out.offset = offset;
  if (out.info == nullptr) return Decoded::kUnknown;
  ByteReader reader(pickle, offset + 1);
  if (!ReadOperand(reader, out)) return Decoded::kCutOff;
  out.next = reader.position();
  return Decoded::kInstruction;
}

Result<bool> SkipPickle(std::string_view bytes, size_t& position) {
  Instruction instruction;
  for (;;) {
    const Decoded decoded = DecodeInstruction(bytes, position, instruction);
    if (decoded == Decoded::kUnknown) return UnknownOpcode(bytes, position);
    if (decoded == Decoded::kCutOff) return false;
    position = instruction.next;
    if (instruction.info->op == Op::kStop) return true;
  }
}

}  // namespace nxdkit::torch
