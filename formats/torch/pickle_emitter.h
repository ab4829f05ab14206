// PRIVATE: the instructions of a pickle of protocol 2, as Python's pickler writes them, and its
// memo.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>

#include "formats/torch/pickle_opcodes.h"
#include "formats/torch/pickle_value.h"
#include "lib/base/little_endian.h"

namespace nxdkit::torch {

// Appends to one growing pickle. Equal strings, and equal globals, are written once, and later
// referred to by their memo number.
class PickleEmitter {
 public:
  void Put(Op op) { out_.push_back(static_cast<char>(op)); }
  template <std::unsigned_integral T>
  void PutNumber(T value) {
    AppendLittle(value, out_);
  }

  // Gives the value just written the next memo number, and returns it.
  uint32_t Memoize();
  void Get(uint32_t memo);

  void Global(const char* module, const std::string& name);
  void String(const std::string& text);
  void Int(int64_t value);
  void Long(const std::string& bytes);  // from Int64ToLong or DecimalToLong
  void Float(double value);
  void Bytes(const std::string& bytes);
  void Size(const Shape& dims);
  void IntTuple(const Shape& values);
  void Reference(const TensorReference& reference);
  // Ends a tuple whose `count` items were written (after a MARK when there are more than 3).
  // Returns its memo number, or 0 for the empty tuple, which gets none.
  uint32_t EndTuple(size_t count);

  std::string Take() { return std::move(out_); }

 private:
  void PutMemo(Op small, Op large, uint32_t memo);

  std::string out_;
  uint32_t memo_used_ = 0;
  std::unordered_map<std::string, uint32_t> global_memo_;
  std::unordered_map<std::string, uint32_t> string_memo_;
};

}  // namespace nxdkit::torch
