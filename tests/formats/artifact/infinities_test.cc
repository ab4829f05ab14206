// How many elements became infinite, over the ends of the blocks that are counted at once.
#include "formats/artifact/infinities.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace nxdkit::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class NoSink : public Sink {
 public:
  Status Take(uint32_t, uint64_t, std::span<const std::byte>) override { return OkStatus(); }
};

// What is said of elements of `to`, made of F64, whose bits are these.
template <typename Bits>
std::vector<std::string> WarningsOf(Dtype to, const std::vector<Bits>& elements) {
  const auto count = static_cast<int64_t>(elements.size());
  Plan plan;
  plan.tensors.push_back({{{0, 0, WholeBox({count}), 0, {1}}}, {}});
  BoundLayout source;
  source.stored.emplace_back();
  source.stored[0].dtype = Dtype::kF64;
  NoSink next;
  const std::vector<OutputTensor> outputs = {{"w", to, {count}}};
  InfinityCounter counter(next, plan, source, outputs);
  const Status taken = counter.Take(0, 0, std::as_bytes(std::span(elements)));
  EXPECT_TRUE(taken.ok());
  return counter.Warnings();
}

TEST(Infinities, AreCountedOverTheEndsOfBlocks) {
  std::vector<uint16_t> halves(70'001, 0x3f80);
  for (const size_t at : {0, 16'383, 16'384, 65'535, 65'536, 70'000}) halves[at] = 0x7f80;
  halves[5] = 0xff80;  // minus infinity
  halves[6] = 0x7f81;  // not a number
  halves[7] = 0x7f7f;  // the largest number
  EXPECT_THAT(WarningsOf(Dtype::kBF16, halves), ElementsAre("w: 7 elements are infinite as BF16"));
  EXPECT_THAT(WarningsOf(Dtype::kF16, halves), IsEmpty());
  const std::vector<uint16_t> all(70'001, 0xfc00);
  EXPECT_THAT(WarningsOf(Dtype::kF16, all), ElementsAre("w: 70001 elements are infinite as F16"));
  const std::vector<uint32_t> words(70'001, 0xff800000);
  EXPECT_THAT(WarningsOf(Dtype::kF32, words), ElementsAre("w: 70001 elements are infinite as F32"));
}

}  // namespace
}  // namespace nxdkit::ops
