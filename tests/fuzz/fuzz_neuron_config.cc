// neuron_config.json of a rollout bundle: parsed, and the parsed settings written and read again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "formats/rollout/neuron_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using nxdkit::rollout::NeuronConfig;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = nxdkit::rollout::ParseNeuronConfig(text, "neuron_config.json");
  if (!config.ok()) {
    if (config.error().code() != nxdkit::Errc::kCorrupt) std::abort();
    return 0;
  }
  if (config->tp < 1 || config->local_ranks < 1 || config->start_rank < 0) std::abort();
  // NxDI's dialect merges into the given value, which must be an object.
  const auto written = nxdkit::rollout::WriteNeuronConfig(*config, text);
  if (!written.ok() || !config->unsupported.empty()) return 0;
  const auto again = nxdkit::rollout::ParseNeuronConfig(*written, "neuron_config.json");
  if (!again.ok() || again->tp != config->tp || again->fused_qkv != config->fused_qkv ||
      again->vocab_parallel != config->vocab_parallel ||
      again->transposed_qkv != config->transposed_qkv ||
      again->transposed_output != config->transposed_output ||
      again->transposed_mlp != config->transposed_mlp || !again->unsupported.empty())
    std::abort();
  return 0;
}
