// PRIVATE to tools/: the part of a pod of a Volcano job. Sources: volcano's job plugins env
// (VC_TASK_INDEX: the index within a task) and svc (VC_{TASK}_NUM, VC_{TASK}_HOSTS of every task),
// and torchx' kubernetes scheduler, which makes one task of one pod for each replica, so that
// VC_TASK_INDEX is 0 in all of them.
#pragma once

#include <string>

#include "tools/conversions/launcher.h"

namespace nxdkit::tool {

// VC_TASK_INDEX must be set. `host`: the name of the pod.
Result<ops::Part> VolcanoPart(const Environment& environment, const std::string& host);
// Whether the job plugin svc lists the tasks (VC_*_NUM).
bool NamesTasks(const Environment& environment);

}  // namespace nxdkit::tool
