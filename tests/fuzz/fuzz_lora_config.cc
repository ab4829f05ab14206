// Any bytes as adapter_config.json: refused by name, or written again it reads back the same.
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "formats/lora/read_config.h"
#include "tests/fuzz/fuzzing.h"

using namespace nxdkit;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = TextOf(data, size);
  const Result<lora::Config> config = lora::ParseConfig(text, "adapter_config.json");
  if (!config.ok()) {
    const Errc code = config.error().code();
    Require(code == Errc::kCorrupt || code == Errc::kUnsupported, config.error().ToString());
    Require(config.error().file() == "adapter_config.json", "the file's name");
    return 0;
  }
  for (const char* module : {"", "lm_head", "model.layers.3.self_attn.q_proj"}) {
    Require(config->RankOf(module) >= 1 && config->RankOf(module) <= 1 << 16, "the rank");
    Require(std::isfinite(config->ScaleOf(module)), "the scale");
    config->Names(module);
    config->Saves(module);
  }
  const std::string written = lora::WriteConfig(*config);
  const Result<lora::Config> again = lora::ParseConfig(written, "written");
  Require(again.ok(), again.ok() ? "" : again.error().ToString() + "\n" + written);
  Require(lora::WriteConfig(*again) == written, "the same bytes");
  return 0;
}
