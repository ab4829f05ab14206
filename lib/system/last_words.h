// What a program says on its standard error before it fails.
#pragma once

#include <string>

#include "lib/system/child.h"

namespace nxdkit {

// The end of it is remembered.
class LastWords {
 public:
  // What is there to read now. Closes the pipe at its end.
  void Read(Child& child);
  void Clear() { text_.clear(); }
  // The error, and in its message what was said.
  Error AddTo(const Error& error) const;

 private:
  std::string text_;
};

}  // namespace nxdkit
