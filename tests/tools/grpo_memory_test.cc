// The memory of a run does not grow with its steps.
#include <gtest/gtest.h>

#include "tests/tools/grpo_workshop.h"

namespace nxdkit::test {
namespace {

class GrpoMemorySlow : public GrpoTrain {};

// A sanitizer keeps what was freed for a while.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kBoundMib = 48;
#else
constexpr double kBoundMib = 4;  // weights and optimizer of the example are 1.2 MiB
#endif

TEST_F(GrpoMemorySlow, IsFlatOver200Steps) {
  // With the engine in a process of its own, and in this one.
  for (const char* separate : {"true", "false"}) {
    SCOPED_TRACE(separate);
    const std::string run = std::string("run_") + separate;
    const ProcessResult result =
        Train(run, {"trainer.max_steps=200", "trainer.val_freq=20", "trainer.save_freq=20",
                    "trainer.save_limit=2", "algorithm.disable_kl=false",
                    std::string("trainer.separate_rollout_workers=") + separate,
                    std::string("trainer.cores=") + (*separate == 't' ? "4" : "2")});
    ASSERT_EQ(result.exit_code, 0) << result.out;
    std::map<int64_t, double> mib;
    std::ifstream log(workshop_ / (run + "/experiment_log.jsonl"));
    for (std::string line; std::getline(log, line);) {
      const Json record = Json::parse(line);
      if (record.contains("perf"))
        mib[record["step"].get<int64_t>()] =
            1024 * record["perf"]["cpu_memory_used_gb"].get<double>();
    }
    ASSERT_EQ(mib.size(), 200u);
    EXPECT_LT(mib[200] - mib[20], kBoundMib) << mib[20] << " MiB after step 20";
  }
}

}  // namespace
}  // namespace nxdkit::test
