// PRIVATE to tests. The arithmetic example of grpo-train, in a folder of its own.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>

#include "tests/tools/convert_workshop.h"
#include "tests/tools/process.h"

namespace nxdkit::test {

class GrpoTrain : public ::testing::Test {
 protected:
  void SetUp() override {
    const ProcessResult made =
        RunProcess({"bash", NXDKIT_SOURCE_DIR "/trainer/configs/arithmetic.sh", "--build",
                    NXDKIT_TOOLS "/..", workshop_ / "arithmetic"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }

  // The example with other folders and few steps.
  Words Command(const std::string& run, const Words& words) const {
    const std::string folder = workshop_ / "arithmetic";
    Words command = {
        Workshop::Tool("grpo-train"), "--json", "--config",
        NXDKIT_SOURCE_DIR "/trainer/configs/arithmetic.yaml",
        "data.train_files=" + folder + "/data@train", "data.val_files=" + folder + "/data@test",
        "worker.actor.model.model_path=" + folder + "/model",
        "trainer.save_checkpoint_path=" + (workshop_ / run), "trainer.logger=[console,file]",
        // A schedule that does not depend on where the run ends.
        "worker.actor.optim.lr_scheduler_type=constant", "trainer.val_freq=-1",
        "trainer.val_before_train=false"};
    command.insert(command.end(), words.begin(), words.end());
    return command;
  }
  ProcessResult Train(const std::string& run, const Words& words) const {
    return RunProcess(Command(run, words));
  }
  // The metrics of a run by step, without those that depend on the clock. A step may have several
  // records.
  std::map<int64_t, Json> Steps(const std::string& run) const {
    std::map<int64_t, Json> steps;
    std::ifstream file(workshop_ / (run + "/experiment_log.jsonl"));
    for (std::string line; std::getline(file, line);) {
      Json json = Json::parse(line);
      for (const char* timed : {"timing_s", "timing_per_token_ms", "perf", "rollout", "sync"})
        json.erase(timed);
      steps[json["step"].get<int64_t>()].update(json);
    }
    return steps;
  }
  const Workshop workshop_;
};

}  // namespace nxdkit::test
