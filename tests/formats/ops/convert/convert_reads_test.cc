// Every source byte is read once, whatever the layouts: column slices of one tensor share a read,
// replicas are read only to be compared.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/formats/ops/ops_workshop.h"
#include "tests/formats/words.h"

namespace nxdkit {
namespace {

using ops::Kind;
using testing_util::OpsWorkshop;

// The bytes that this process has requested from the kernel.
uint64_t BytesRead() {
  std::ifstream io("/proc/self/io");
  for (std::string word; io >> word;)
    if (word == "rchar:" && io >> word) return std::stoull(word);
  return 0;
}

// Large enough that headers and configs do not count; o_proj and down_proj are cut by columns.
constexpr testing_util::TinyModel kModel = {.family = "qwen3",
                                            .hidden = 256,
                                            .intermediate = 1024,
                                            .layers = 2,
                                            .heads = 16,
                                            .kv_heads = 8,
                                            .head_dim = 32,
                                            .vocab = 2048};

struct Case {
  const char* name;
  const Kind* from;
  const Kind* to;
  std::optional<Dtype> dtype;
};

class ConvertReads : public ::testing::TestWithParam<Case> {};

TEST_P(ConvertReads, TheSourceOnce) {
  const OpsWorkshop workshop;
  const Case& test = GetParam();
  const std::string model = workshop.MakeModel("hf", kModel);
  ops::OutputOptions options;
  options.Set("tp", 8);
  options.Set("qkv", Word(nxd::QkvStyle::kLinear));
  std::string input = model;
  if (test.from == &ops::kNxd) input = workshop.Make("nxd", model, &ops::kHf, &ops::kNxd, options);
  options.Reset("qkv");
  if (test.from == &ops::kRollout)
    input = workshop.Make("rollout", model, &ops::kHf, &ops::kRollout, options);
  if (test.to == &ops::kHf) options.Reset("tp");
  options.dtype = test.dtype;
  const ops::ConvertRequest request =
      OpsWorkshop::Request(input, test.from, workshop / "out", test.to, options);
  const uint64_t before = BytesRead();
  ASSERT_GT(before, 0u) << "this system does not count reads";
  const Result<ops::ConvertReport> report = ops::Convert(request);
  const uint64_t read = BytesRead() - before;
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_GE(report->source_bytes, 4'000'000u);
  EXPECT_GE(read, report->source_bytes * 9 / 10) << "reads are not counted here";
  // Read more than once: headers, and replicas (norms) of the ranks. Each record of a torch archive
  // has a header of its own, which is read with a window of 16 KiB.
  const uint64_t windows = test.from == &ops::kNxd ? 8 * 23 * 16384u : 0;
  EXPECT_LE(read, report->source_bytes * 105 / 100 + windows);
}

INSTANTIATE_TEST_SUITE_P(All, ConvertReads,
                         ::testing::Values(Case{"HfToNxd", &ops::kHf, &ops::kNxd, {}},
                                           Case{"NxdToRollout", &ops::kNxd, &ops::kRollout, {}},
                                           Case{"RolloutToHf", &ops::kRollout, &ops::kHf, {}},
                                           Case{"Widening", &ops::kNxd, &ops::kHf, Dtype::kF32}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace nxdkit
