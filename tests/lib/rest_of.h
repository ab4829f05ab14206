// For tests: the remaining bytes of a stream.
#pragma once

#include <istream>
#include <sstream>
#include <string>
#include <utility>

namespace nxdkit::testing_util {

// In one piece: byte by byte (istreambuf_iterator) takes seconds where whole trees are compared.
inline std::string RestOf(std::istream& in) {
  std::ostringstream out;
  out << in.rdbuf();
  return std::move(out).str();
}

}  // namespace nxdkit::testing_util
