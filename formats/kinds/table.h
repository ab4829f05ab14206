// The kinds of artifacts. A new kind needs its row here and in table.cc, and nothing else.
#pragma once

#include <span>

#include "formats/kinds/kind.h"

namespace nxdkit::kinds {

extern const Kind kHf;            // a Hugging Face folder
extern const Kind kNxd;           // an NxD shard set
extern const Kind kRollout;       // a rollout bundle
extern const Kind kTorch;         // a torch state dict
extern const Kind kDelta;         // the changes of a model
extern const Kind kDcp;           // a torch distributed checkpoint
extern const Kind kFsdp;          // the rank files of an FSDP run
extern const Kind kZero;          // a checkpoint of DeepSpeed
extern const Kind kMegatronDist;  // a distributed checkpoint of Megatron-Core
extern const Kind kNkipy;         // the rank files of vLLM with NKIPy

// All of them, in the order in which they are listed to people.
std::span<const Kind* const> Kinds();

}  // namespace nxdkit::kinds
