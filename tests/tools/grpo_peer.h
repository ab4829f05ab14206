// PRIVATE to tests. The arithmetic example with an engine of another program: the peer, which only
// produces faults; the real server is in tests/vllm.
#pragma once

#include "tests/tools/grpo_workshop.h"

namespace nxdkit::test {

class GrpoOnPeer : public GrpoTrain {
 protected:
  // Uses servers of the peer that the run starts in place of vLLM. Their log-probabilities are
  // invented.
  Words OnPeer(const std::string& faults, const Words& more) const {
    Words words = {"worker.actor.model.model_path=" + (workshop_ / "arithmetic/model_vllm"),
                   "worker.actor.tensor_parallel_size=1",
                   "worker.rollout.tensor_parallel_size=1",
                   "worker.rollout.neuron_override_config.tp_degree=null",
                   "worker.rollout.dtype=bf16",
                   "trainer.separate_rollout_workers=false",
                   "trainer.cores=1",
                   "worker.rollout.engine=vllm",
                   "worker.rollout.command=" NXDKIT_VLLM_PEER " {port} {model}" + faults};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

}  // namespace nxdkit::test
