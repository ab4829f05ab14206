// A process of a mesh that another one leads (trainer/learner/followers.h). PRIVATE: it takes
// parsed JSON; include it from .cc files only.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "lib/json/json.h"
#include "trainer/comm/transport.h"

namespace nxdkit::trainer {

// What a handler calls while it works, from any of its threads: the leader waits as long as it is
// called now and then. An error ends the work.
using Working = std::function<Status()>;

// Orders by their "call" that are not about models. An error is the leader's to judge: this process
// goes on.
using OrderHandlers =
    std::map<std::string, std::function<Result<Json>(const Json& order, const Working& working)>>;

// Serves process 0 until it says that the run is over. The models' files must be where process 0
// has them: a shared folder, or copies. An error ends this process, and with it the run.
Status Follow(Transport& transport, const OrderHandlers& handlers = {});

}  // namespace nxdkit::trainer
