// PRIVATE to trainer/config. The configuration's own ${a.b} (lib/yaml/interpolate.h).
#pragma once

#include <string>
#include <vector>

#include "lib/yaml/value.h"

namespace nxdkit::trainer {

struct InterpolationFault {
  std::string path;  // of the key whose value it is
  Place place;
  std::string message;
  std::string fix;
};

// The merged configuration with every ${a.b} replaced, keys that it does not say by their defaults
// too. ${HOME} at the front of a path stays, as $HOME. What cannot be had is a fault: names that
// are no keys, cycles, and resolvers (${oc.env:X}, ${now:...}), with what to write.
Value Interpolated(const Value& merged, std::vector<InterpolationFault>& faults);

// Where `value`, which stands at `path`, has interpolations: what `interpolated` has there.
void TakeInterpolated(const Value& interpolated, const std::string& path, Value& value);

}  // namespace nxdkit::trainer
