// PRIVATE to formats/ops: a whole output, built aside and published by one rename.
#pragma once

#include "formats/ops/convert/destination.h"

namespace nxdkit::ops {

// `conversion` must outlive it.
std::unique_ptr<Destination> MakeNewOutput(const ConvertRequest& request, Conversion& conversion);

// The small files: configuration and tokenizer files; markers last.
Status WriteSideFiles(const OutputPlan& output, const std::string& folder, bool sync);

// In a place where nobody sees it half written.
Status WriteText(const std::string& path, const std::string& contents, bool sync);

}  // namespace nxdkit::ops
