// PRIVATE to tools/: the plan of a conversion as a picture in the terminal.
#pragma once

#include <string>

#include "formats/ops/convert/explain.h"
#include "tools/pictures/layer_picture.h"

namespace nxdkit::tool {

// A row for each pair of files: the bytes that go from one to the other, and a bar.
std::string FlowsText(const ops::Explanation& plan, const PictureOptions& options);

// For each tensor a row for each of its parts: from where, to where, and which part of the
// parameter it is, as a bar and in numbers.
std::string SlicesText(const ops::Explanation& plan, const PictureOptions& options);

}  // namespace nxdkit::tool
