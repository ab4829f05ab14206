// Any bytes as a config file of the trainer: refused, or a configuration that can be checked, and
// that is the same when its printed form is read.
#include <string>
#include <string_view>

#include "tests/fuzz/fuzzing.h"
#include "trainer/config/check.h"
#include "trainer/config/check_model.h"
#include "trainer/config/load.h"
#include "trainer/config/print.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nxdkit;
  using namespace nxdkit::trainer;
  const std::string_view text = TextOf(data, size);
  const Result<LoadedConfig> loaded = LoadConfigText(text, "fuzz.yaml", {});
  if (!loaded.ok()) return 0;
  const ConfigCheck check = CheckConfig(*loaded, {.files = false});
  Require(check.problems.empty() == check.status().ok(), "status");
  CheckModel(*loaded, {32, 8, 151936, 9728, 40960});
  const std::string printed = PrintConfig(*loaded);
  const Result<LoadedConfig> again = LoadConfigText(printed, "printed.yaml", {});
  Require(again.ok(), again.ok() ? "" : again.error().ToString() + "\n" + printed);
  Require(ConfigJson(again->config) == ConfigJson(loaded->config), printed);
  return 0;
}
