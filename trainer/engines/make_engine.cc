#include "trainer/engines/make_engine.h"

#include "trainer/engines/exec_engine.h"
#include "trainer/engines/vllm_engine.h"

namespace nxdkit::trainer {

Result<std::unique_ptr<RolloutEngine>> MakeEngine(EngineKind kind) {
  if (kind == EngineKind::kVllm) return MakeVllmEngine();
  if (kind == EngineKind::kExec) return MakeExecEngine();
  return MakeOwnEngine(kind);
}

}  // namespace nxdkit::trainer
