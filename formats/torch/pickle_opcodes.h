// PRIVATE: the instructions of a pickle, protocols 2 to 5: their codes, operands and stack needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lib/base/error.h"

namespace nxdkit::torch {

enum class Op : uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kFloat = 'F',
  kInt = 'I',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kLong = 'L',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersId = 'Q',
  kReduce = 'R',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kDict = 'd',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kList = 'l',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyTuple = ')',
  kEmptyList = ']',
  kEmptyDict = '}',
  kBinFloat = 'G',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  // Protocol 2.
  kProto = 0x80,
  kNewObj = 0x81,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  // Protocol 4.
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kNewObjEx = 0x92,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
  // Protocol 5.
  kByteArray8 = 0x96,
};

enum class OperandKind : uint8_t {
  kNone,
  kNumber1,
  kNumber2,
  kNumber4,
  kNumber8,  // little-endian, into `number`
  kLine,
  kTwoLines,  // text up to a newline, into `text` (and `text2`)
  kCounted1,
  kCounted4,
  kCounted8,  // a length of 1, 4 or 8 bytes, then that many bytes, into `text`
};

struct OpInfo {
  Op op;
  const char* name;  // as Python's pickletools calls it
  OperandKind operand;
  uint8_t pops;  // values needed on the stack (for marked ones, below the mark)
  bool marked;   // takes everything above the topmost MARK
};

struct Instruction {
  const OpInfo* info = nullptr;
  size_t offset = 0;  // of the opcode, from the start of the pickle
  size_t next = 0;    // of the instruction after it
  uint64_t number = 0;
  std::string_view text;  // points into the pickle
  std::string_view text2;
};

// kCutOff: the bytes end inside the instruction. kUnknown: see UnknownOpcode.
enum class Decoded : uint8_t { kInstruction, kCutOff, kUnknown };
Decoded DecodeInstruction(std::string_view pickle, size_t offset, Instruction& out);

// The error for the opcode at `offset`: kUnsupported for opcodes of Python that no torch file needs
// (the text forms of protocol 0, extensions), kCorrupt for a byte that is not an opcode.
Error UnknownOpcode(std::string_view pickle, size_t offset);

// Moves `position` over whole instructions: true once STOP was passed, false when `bytes` ends
// first (`position` is then at the incomplete instruction).
Result<bool> SkipPickle(std::string_view bytes, size_t& position);

}  // namespace nxdkit::torch
