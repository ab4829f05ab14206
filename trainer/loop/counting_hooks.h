// PRIVATE to trainer/loop. Responses as they come, counted for who watches.
#pragma once

#include <functional>
#include <memory>

#include "trainer/loop/parts.h"

namespace nxdkit::trainer {

// `progress` learns of each response of one call with so many requests; it may be empty.
inline GenerateHooks CountingHooks(const std::function<Status()>& poll,
                                   const ProgressHook& progress, size_t requests) {
  if (!progress) return {.poll = poll, .on_response = nullptr};
  progress(0, static_cast<int64_t>(requests));
  return {.poll = poll,
          .on_response = [progress, requests, done = int64_t{0}](size_t,
                                                                 const RolloutResponse&) mutable {
            progress(++done, static_cast<int64_t>(requests));
          }};
}

}  // namespace nxdkit::trainer
