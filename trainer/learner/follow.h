// A process of a mesh that another process leads (trainer/learner/followers.h). PRIVATE: it exposes
// parsed JSON; include it from .cc files only.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "lib/json/json.h"
#include "trainer/comm/transport.h"

namespace nxdkit::trainer {

// Called by a handler while it works, from any of its threads: the leader waits as long as calls
// keep coming. An error ends the work.
using Working = std::function<Status()>;

// Handlers, by "call", of orders that are not about models. The leader decides what an error means:
// this process goes on.
using OrderHandlers =
    std::map<std::string, std::function<Result<Json>(const Json& order, const Working& working)>>;

// Serves process 0 until that says that the run is over. The models' files must have the same paths
// as in process 0: in a shared folder, or as copies. An error ends this process, and with it the
// run.
Status Follow(Transport& transport, const OrderHandlers& handlers = {});

}  // namespace nxdkit::trainer
