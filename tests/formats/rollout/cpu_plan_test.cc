#include "formats/rollout/cpu_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "lib/json/json.h"

namespace nxdkit::rollout {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kConfig[] =
    R"({"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "vocab_size": 151936,
        "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2})";

CpuPlan Sample() {
  NeuronConfig neuron;
  neuron.tp = 8;
  neuron.batch_size = 64;
  neuron.sequence_length = 4096;
  const auto plan =
      MakeCpuPlan(*models::ParseConfig(kConfig, "config.json"), kConfig, neuron, "{}");
  EXPECT_TRUE(plan.ok());
  return *plan;
}

TEST(Buckets, AreTheOnesThatNxdiMakes) {
  EXPECT_THAT(MakeBuckets(128, 128), ElementsAre(128));
  EXPECT_THAT(MakeBuckets(128, 512), ElementsAre(128, 256, 512));
  EXPECT_THAT(MakeBuckets(128, 4096), ElementsAre(128, 256, 512, 1024, 2048, 4096));
  EXPECT_THAT(MakeBuckets(128, 1000), ElementsAre(128, 256, 512, 1000));
  EXPECT_THAT(MakeBuckets(128, 64), ElementsAre(64));
}

TEST(CpuPlans, HaveTheShapesOfOneRank) {
  const CpuPlan plan = Sample();
  EXPECT_EQ(plan.query_slots, 2) << "16 padded heads on 8 ranks";
  EXPECT_EQ(plan.kv_slots, 1);
  EXPECT_EQ(plan.head_dim, 64);
  EXPECT_EQ(plan.kv_cache_bytes, uint64_t{2} * 24 * 64 * 1 * 4096 * 64 * 2);
  EXPECT_EQ(plan.config_digest.substr(0, 7), "sha256:");
}

TEST(CpuPlans, ComeBack) {
  const CpuPlan plan = Sample();
  const auto back = ParseCpuPlan(WriteCpuPlan(plan), "plan");
  ASSERT_TRUE(back.ok()) << back.error().ToString();
  EXPECT_EQ(*back, plan);
}

TEST(CpuPlans, RefuseACacheBeyondAllMemory) {
  NeuronConfig neuron;
  neuron.batch_size = neuron.sequence_length = int64_t{1} << 31;
  const auto plan =
      MakeCpuPlan(*models::ParseConfig(kConfig, "config.json"), kConfig, neuron, "{}");
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code(), Errc::kLimit);
  EXPECT_THAT(plan.error().message(), HasSubstr("2^63"));
}

struct Fault {
  const char* key;
  const char* value;  // JSON; nullptr removes the key
  const char* member;
  const char* part;
};

class FaultyCpuPlan : public ::testing::TestWithParam<Fault> {};

TEST_P(FaultyCpuPlan, IsNamedByItsKey) {
  Json json = *ParseJson(WriteCpuPlan(Sample()));
  if (GetParam().value == nullptr)
    json.erase(GetParam().key);
  else
    json[GetParam().key] = *ParseJson(GetParam().value);
  const auto plan = ParseCpuPlan(DumpPython(json), "plan.json");
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code(),
            std::string_view(GetParam().key) == "version" ? Errc::kUnsupported : Errc::kCorrupt);
  EXPECT_EQ(plan.error().file(), "plan.json");
  EXPECT_EQ(plan.error().member(), GetParam().member);
  EXPECT_THAT(plan.error().message(), HasSubstr(GetParam().part));
}

INSTANTIATE_TEST_SUITE_P(
    All, FaultyCpuPlan,
    ::testing::Values(Fault{"schema", "\"x\"", "schema", "expected \"nxdkit-cpu-plan\""},
                      Fault{"version", "2", "version", "version 2 found"},
                      Fault{"tp", "0", "tp", "found 0, expected an integer from 1 to 4096"},
                      Fault{"tp", "\"8\"", "tp", "integer"},
                      Fault{"layers", nullptr, "layers", "missing"},
                      Fault{"batch_size", "2147483649", "batch_size", "1 to 2147483648"},
                      Fault{"context_batch_size", "65", "context_batch_size", "from 1 to 64"},
                      Fault{"dtype", "\"int5\"", "dtype", "int5"},
                      Fault{"gqa_strategy", "\"?\"", "gqa_strategy", "does not exist"},
                      Fault{"kv_slots", "2", "kv_cache.shape",
                            "[64,1,4096,64], expected [64,2,4096,64]"},
                      Fault{"layers", "23", "kv_cache.bytes_per_rank", "expected"},
                      Fault{"sequence_length", "4097", "prompt", "end with 4097"},
                      Fault{"buckets", "{}", "prompt", "found nothing"},
                      Fault{"buckets", "{\"prompt\": [4096, 128, 4096], \"generation\": [4096]}",
                            "prompt", "ascending"},
                      Fault{"kv_cache", "null", "kv_cache.shape", "found nothing"}));

}  // namespace
}  // namespace nxdkit::rollout
