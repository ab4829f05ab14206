// Private: errors that carry the reference's name of the fault.
#pragma once

#include <string_view>

#include "formats/safetensors/safetensors.h"
#include "lib/base/error.h"

namespace nxdkit::safetensors {

// kCorrupt, "<fault name>: <message>"; sets *out, which must not be null.
Error Refuse(Fault fault, std::string_view message, Fault* out);

// The same for an error that has its places already. Errors other than kCorrupt (I/O, our caps)
// pass unchanged and leave *out at kNone.
Error Refuse(Fault fault, Error error, Fault* out);

}  // namespace nxdkit::safetensors
