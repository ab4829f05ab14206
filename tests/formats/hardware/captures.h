// PRIVATE to tests. The captures of testdata/neuron_ls.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "formats/hardware/read_machine.h"

namespace nxdkit::testing_util {

inline std::string CapturePath(const std::string& name) {
  return NXDKIT_TESTDATA "/neuron_ls/" + name + ".json";
}

inline hardware::Machine CapturedMachine(const std::string& name) {
  const auto machine = hardware::MachineOfCapture(CapturePath(name));
  EXPECT_TRUE(machine.ok()) << machine.error().ToString();
  return machine.ok() ? *machine : hardware::Machine();
}

}  // namespace nxdkit::testing_util
