// The default engine: the ranks are threads of this process.
#pragma once

#include <functional>

#include "trainer/comm/comm.h"

namespace nxdkit::trainer {

// Runs `body` on `ranks` threads, each with its communicator of the world, and waits for all. When
// a body returns an error, collectives that other ranks wait in (or enter later) fail with
// kInterrupted instead of waiting for ever. Returns the error of the lowest rank that is not such
// an echo.
Status RunThreadWorld(int ranks, const std::function<Status(Comm& world)>& body);

}  // namespace nxdkit::trainer
