#include "formats/lora/peft_types.h"

#include <algorithm>
#include <iterator>

namespace nxdkit::lora {
namespace {

// PEFT 0.21, utils/peft_types.py; the form says whether the method's model has a merge.
constexpr PeftType kTypes[] = {{"LORA", "LoRA", PeftForm::kLora},
                               {"ADALORA", "AdaLoRA", PeftForm::kWeights},
                               {"ADAMSS", "AdaMSS", PeftForm::kWeights},
                               {"ADAPTION_PROMPT", "LLaMA-Adapter", PeftForm::kInputs},
                               {"BEFT", "BEFT", PeftForm::kWeights},
                               {"BOFT", "BOFT", PeftForm::kWeights},
                               {"BONE", "Bone", PeftForm::kWeights},
                               {"C3A", "C3A", PeftForm::kWeights},
                               {"CARTRIDGE", "cartridge", PeftForm::kInputs},
                               {"CPT", "CPT", PeftForm::kInputs},
                               {"DEFT", "DEFT", PeftForm::kWeights},
                               {"DELORA", "DeLoRA", PeftForm::kWeights},
                               {"FOURIERFT", "FourierFT", PeftForm::kWeights},
                               {"FROD", "FRoD", PeftForm::kWeights},
                               {"GLORA", "GLoRA", PeftForm::kWeights},
                               {"GRALORA", "GraLoRA", PeftForm::kWeights},
                               {"HIRA", "HiRA", PeftForm::kWeights},
                               {"HRA", "HRA", PeftForm::kWeights},
                               {"IA3", "IA3", PeftForm::kWeights},
                               {"LILY", "Lily", PeftForm::kInputs},
                               {"LN_TUNING", "LN tuning", PeftForm::kWeights},
                               {"LOHA", "LoHa", PeftForm::kWeights},
                               {"LOKR", "LoKr", PeftForm::kWeights},
                               {"MISS", "MiSS", PeftForm::kWeights},
                               {"MULTITASK_PROMPT_TUNING", "prompt tuning", PeftForm::kInputs},
                               {"OFT", "OFT", PeftForm::kWeights},
                               {"OSF", "OSF", PeftForm::kWeights},
                               {"PEANUT", "PEANuT", PeftForm::kWeights},
                               {"POLY", "Poly", PeftForm::kInputs},
                               {"PREFIX_TUNING", "prefix tuning", PeftForm::kInputs},
                               {"PROMPT_TUNING", "prompt tuning", PeftForm::kInputs},
                               {"PSOFT", "PSOFT", PeftForm::kWeights},
                               {"PVERA", "PVeRA", PeftForm::kWeights},
                               {"P_TUNING", "p-tuning", PeftForm::kInputs},
                               {"RANDLORA", "RandLoRA", PeftForm::kWeights},
                               {"ROAD", "RoAd", PeftForm::kWeights},
                               {"SHADOW", "Shadow", PeftForm::kInputs},
                               {"SHIRA", "SHiRA", PeftForm::kWeights},
                               {"SUPERTUNING", "super tuning", PeftForm::kWeights},
                               {"TINYLORA", "TinyLoRA", PeftForm::kWeights},
                               {"TRAINABLE_TOKENS", "trainable tokens", PeftForm::kWeights},
                               {"UNILORA", "Uni-LoRA", PeftForm::kWeights},
                               {"VBLORA", "VB-LoRA", PeftForm::kWeights},
                               {"VERA", "VeRA", PeftForm::kWeights},
                               {"WAVEFT", "WaveFT", PeftForm::kWeights},
                               {"XLORA", "X-LoRA", PeftForm::kInputs}};

}  // namespace

const PeftType* FindPeftType(std::string_view name) {
  const auto* const it = std::ranges::find(kTypes, name, &PeftType::name);
  return it == std::end(kTypes) ? nullptr : it;
}

std::string PeftTypeText(const PeftType& type) {
  return "an adapter of PEFT of the kind " + std::string(type.called);
}

}  // namespace nxdkit::lora
