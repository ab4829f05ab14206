// PRIVATE to trainer/config. The configuration's own ${a.b} (lib/yaml/interpolate.h).
#pragma once

#include <string>
#include <vector>

#include "lib/yaml/value.h"

namespace nxdkit::trainer {

struct InterpolationFault {
  std::string path;  // the key whose value it is
  Place place;
  std::string message;
  std::string fix;
};

// The merged configuration with every ${a.b} replaced, also by the default of a key that is not
// set. ${HOME} at the front of a path stays, as $HOME. Faults: names that are not keys, cycles, and
// resolvers (${oc.env:X}, ${now:...}), with the text to write instead.
Value Interpolated(const Value& merged, std::vector<InterpolationFault>& faults);

// Where `value`, at `path`, has interpolations, it becomes the value `interpolated` has there.
void TakeInterpolated(const Value& interpolated, const std::string& path, Value& value);

}  // namespace nxdkit::trainer
