// The standard error of a program that fails.
#pragma once

#include <string>

#include "lib/system/child.h"

namespace nxdkit {

// Remembers its end.
class LastWords {
 public:
  // Reads what is there now. Closes the pipe at its end.
  void Read(Child& child);
  void Clear() { text_.clear(); }
  // The error, with that text in its message.
  Error AddTo(const Error& error) const;

 private:
  std::string text_;
};

}  // namespace nxdkit
