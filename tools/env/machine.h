// PRIVATE to tools/: a machine with Neuron devices, and whether a model fits its cores.
#pragma once

#include <optional>
#include <string>

#include "formats/hardware/machine.h"
#include "tools/env/section.h"

namespace nxdkit::tool {

Section MachineSection(const hardware::Machine& machine);

struct FitQuery {
  std::string model;  // a folder, a model in the hub's cache, or a config.json
  int batch = 1;
  int sequence = 4096;
};
// For every tensor parallel size that the instance supports. kNotFound and kCorrupt for the model's
// configuration; for an unsupported family the section has the reason.
Result<Section> FitsSection(const FitQuery& query, const hardware::Instance& instance);

}  // namespace nxdkit::tool
