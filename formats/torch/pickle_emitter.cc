#include "formats/torch/pickle_emitter.h"

#include <fmt/core.h>

#include <bit>
#include <limits>

#include "formats/torch/pickle_numbers.h"

namespace nxdkit::torch {

void PickleEmitter::PutMemo(Op small, Op large, uint32_t memo) {
  Put(memo < 256 ? small : large);
  if (memo < 256)
    PutNumber(static_cast<uint8_t>(memo));
  else
    PutNumber(memo);
}

uint32_t PickleEmitter::Memoize() {
  PutMemo(Op::kBinPut, Op::kLongBinPut, memo_used_);
  return memo_used_++;
}

void PickleEmitter::Get(uint32_t memo) { PutMemo(Op::kBinGet, Op::kLongBinGet, memo); }

void PickleEmitter::Global(const char* module, const std::string& name) {
  const std::string spelled = fmt::format("{}\n{}\n", module, name);
  const auto [entry, added] = global_memo_.emplace(spelled, memo_used_);
  if (!added) return Get(entry->second);
  Put(Op::kGlobal);
  out_ += spelled;
  Memoize();
}

void PickleEmitter::String(const std::string& text) {
  const auto [entry, added] = string_memo_.emplace(text, memo_used_);
  if (!added) return Get(entry->second);
  Put(Op::kBinUnicode);
  PutNumber(static_cast<uint32_t>(text.size()));
  out_ += text;
  Memoize();
}

void PickleEmitter::Int(int64_t value) {
  if (value >= 0 && value <= 0xff) {
    Put(Op::kBinInt1);
    PutNumber(static_cast<uint8_t>(value));
  } else if (value >= 0 && value <= 0xffff) {
    Put(Op::kBinInt2);
    PutNumber(static_cast<uint16_t>(value));
  } else if (value >= std::numeric_limits<int32_t>::min() &&
             value <= std::numeric_limits<int32_t>::max()) {
    Put(Op::kBinInt);
    PutNumber(static_cast<uint32_t>(static_cast<int32_t>(value)));
  } else {
    Long(Int64ToLong(value));
  }
}

void PickleEmitter::Long(const std::string& bytes) {
  Put(Op::kLong1);  // kMaxLongBytes is below 256
  PutNumber(static_cast<uint8_t>(bytes.size()));
  out_ += bytes;
}

void PickleEmitter::Float(double value) {
  Put(Op::kBinFloat);
  PutNumber(__builtin_bswap64(std::bit_cast<uint64_t>(value)));  // big-endian, unlike all others
}

uint32_t PickleEmitter::EndTuple(size_t count) {
  constexpr Op kShort[] = {Op::kEmptyTuple, Op::kTuple1, Op::kTuple2, Op::kTuple3};
  Put(count <= 3 ? kShort[count] : Op::kTuple);
  return count != 0 ? Memoize() : 0;
}

void PickleEmitter::IntTuple(const Shape& values) {
  if (values.size() > 3) Put(Op::kMark);
  for (const int64_t value : values) Int(value);
  EndTuple(values.size());
}

// Protocol 2 has no bytes: Python encodes a string of code points below 256. For b"" it would name
// the global bytes, which torch's weights_only refuses; the same call works for b"" too.
void PickleEmitter::Bytes(const std::string& bytes) {
  Global("_codecs", "encode");
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      text.push_back(c);
    } else {
      text.push_back(static_cast<char>(0xc0 | (byte >> 6)));
      text.push_back(static_cast<char>(0x80 | (byte & 0x3f)));
    }
  }
  String(text);
  String("latin1");
  EndTuple(2);
  Put(Op::kReduce);
  Memoize();
}

void PickleEmitter::Size(const Shape& dims) {
  Global("torch", "Size");
  IntTuple(dims);
  EndTuple(1);
  Put(Op::kReduce);
  Memoize();
}

void PickleEmitter::Reference(const TensorReference& reference) {
  Global("torch_xla.utils.serialization", "TensorReference");
  Put(Op::kEmptyTuple);
  Put(Op::kNewObj);
  Memoize();
  Put(Op::kEmptyDict);
  Memoize();
  String("tid");
  Int(reference.tid);
  Put(Op::kSetItem);
  Put(Op::kBuild);
}

}  // namespace nxdkit::torch
