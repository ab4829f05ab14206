// The books of a run: whose it is, how long it is, and what its checkpoints say beside the weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/system/folder_lock.h"
#include "trainer/loop/attempt.h"
#include "trainer/loop/text_files.h"

namespace nxdkit::trainer {

struct RunRecord {
  std::optional<FolderLock> lock;  // of the run's folder
  std::optional<Attempt> attempt;  // at the run; nullopt: nobody else can be at it
  int64_t training_steps = 0;
  TextFiles text_files;
  std::string template_date;  // that the chat template prints; "" where it prints none
};

}  // namespace nxdkit::trainer
