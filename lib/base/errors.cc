#include "lib/base/errors.h"

namespace nxdkit {

Error MakeError(Errc code, fmt::string_view text, fmt::format_args args) {
  return Error(code, fmt::vformat(text, args));
}

}  // namespace nxdkit
