// PRIVATE: the kinds of adapters in PEFT 0.21: "peft_type" of adapter_config.json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nxdkit::lora {

enum class PeftForm : uint8_t {
  kLora,
  kWeights,  // changes weights in its own way; PEFT can merge it
  kInputs,   // adds to inputs, or makes choices at run time: cannot be merged
};

struct PeftType {
  std::string_view name;    // "LOHA"
  std::string_view called;  // "LoHa"
  PeftForm form;
};

// nullptr if PEFT has no such kind.
const PeftType* FindPeftType(std::string_view name);

// The kind in words: "an adapter of PEFT of the kind LoHa".
std::string PeftTypeText(const PeftType& type);

// The hint for an adapter that this program does not merge.
inline constexpr char kMergeWithPeft[] =
    "merge it with PEFT: PeftModel.from_pretrained(base, ADAPTER).merge_and_unload(), then "
    "save_pretrained, and convert that";

}  // namespace nxdkit::lora
