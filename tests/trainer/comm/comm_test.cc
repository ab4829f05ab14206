#include "trainer/comm/comm.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <vector>

#include "trainer/comm/reduce.h"

namespace nxdkit::trainer {
namespace {

std::vector<float> RankValues(int rank, size_t size) {
  std::mt19937 random(static_cast<uint32_t>(rank) + 7);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(size);
  for (float& value : values) value = normal(random);
  return values;
}

// In rank order, as documented: the expectation is exact.
std::vector<float> SumInRankOrder(int ranks, size_t size) {
  std::vector<float> sum = RankValues(0, size);
  for (int rank = 1; rank < ranks; ++rank) {
    const std::vector<float> values = RankValues(rank, size);
    for (size_t i = 0; i < size; ++i) sum[i] += values[i];
  }
  return sum;
}

void ExpectSum(int ranks, size_t size) {
  const std::vector<float> expected = size ? SumInRankOrder(ranks, size) : std::vector<float>();
  const Status status = ThreadWorld(ranks).Run([&](Comm& world) -> Status {
    std::vector<float> values = RankValues(world.rank(), size);
    NXDKIT_TRY(AllReduceSum(world, values));
    EXPECT_TRUE(values == expected) << ranks << " ranks, " << size << " values";
    return OkStatus();
  });
  EXPECT_TRUE(status.ok());
}

TEST(AllReduceSum, AddsInRankOrderWhateverTheSize) {
  for (const int ranks : {1, 2, 3, 5, 8})
    for (const size_t size : {size_t{0}, size_t{1}, size_t{7}, size_t{4096}, size_t{10'001}})
      ExpectSum(ranks, size);
}

TEST(AllReduceSum, AddsMoreThanItCopiesAtOnce) {
  ExpectSum(2, size_t{1} << 21);
  ExpectSum(3, (size_t{1} << 20) + 5000);  // blocks that the ranks do not divide, and a rest
}

// One part is empty, and one takes several rounds.
TEST(ReduceScatterSum, HasTheBitsOfTheSumOfAll) {
  const FlatCut cut = {{10, 10, 1'500'000, 1'500'003}};
  const std::vector<float> expected = SumInRankOrder(4, cut.ends.back());
  const Status status = ThreadWorld(4).Run([&](Comm& world) -> Status {
    const int me = world.rank();
    const std::vector<float> mine = RankValues(me, cut.ends.back());
    std::vector<float> values = mine;
    NXDKIT_TRY(ReduceScatterSum(world, values, cut));
    for (size_t i = 0; i < values.size(); ++i) {
      const bool own = i >= cut.begin(me) && i < cut.end(me);
      if (values[i] != (own ? expected : mine)[i]) {
        ADD_FAILURE() << "rank " << me << " element " << i;
        break;
      }
    }
    NXDKIT_TRY(AllGatherParts(world, std::as_writable_bytes(std::span(values)), 4, cut));
    EXPECT_TRUE(values == expected) << "rank " << me;
    return OkStatus();
  });
  EXPECT_TRUE(status.ok());
}

TEST(Comm, RefusesPartsOfOtherSizes) {
  const Status status = ThreadWorld(2).Run([&](Comm& world) -> Status {
    const std::vector<std::byte> mine(3);
    std::vector<std::byte> taken[2] = {std::vector<std::byte>(3),
                                       std::vector<std::byte>(world.rank() == 0 ? 3 : 2)};
    const std::array<std::span<const std::byte>, 2> in = {mine, mine};
    const std::array<std::span<std::byte>, 2> out = {taken[0], taken[1]};
    return world.Exchange(in, out);
  });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), Errc::kInternal);
}

TEST(Comm, MovesBytes) {
  const Status status = ThreadWorld(3).Run([](Comm& world) -> Status {
    const int me = world.rank();
    const std::array<int, 1> mine = {me + 1};
    std::array<int, 3> all = {};
    NXDKIT_TRY(
        world.AllGather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all))));
    EXPECT_EQ(all, (std::array{1, 2, 3}));
    const std::array<int, 3> out = {10 * me, 10 * me + 1, 10 * me + 2};
    NXDKIT_TRY(
        world.AllToAll(std::as_bytes(std::span(out)), std::as_writable_bytes(std::span(all))));
    EXPECT_EQ(all, (std::array{me, 10 + me, 20 + me}));
    return OkStatus();
  });
  EXPECT_TRUE(status.ok());
}

TEST(Mesh, TensorParallelRanksAreNeighbours) {
  const Status status = ThreadWorld(6).Run([](Comm& world) -> Status {
    NXDKIT_ASSIGN(const Mesh mesh, Mesh::Make(world, 2));
    EXPECT_EQ(mesh.tp->size(), 2);
    EXPECT_EQ(mesh.dp->size(), 3);
    EXPECT_EQ(mesh.tp_rank(), world.rank() % 2);
    EXPECT_EQ(mesh.dp_rank(), world.rank() / 2);
    std::vector<float> ones = {1, static_cast<float>(world.rank())};
    NXDKIT_TRY(AllReduceSum(*mesh.dp, ones));
    EXPECT_EQ(ones, (std::vector<float>{3, mesh.tp_rank() == 0 ? 6.0f : 9.0f}));
    return OkStatus();
  });
  EXPECT_TRUE(status.ok());
}

TEST(Mesh, RefusesRanksThatDoNotDivide) {
  const Status status = ThreadWorld(3).Run([](Comm& world) -> Status {
    const auto mesh = Mesh::Make(world, 2);
    EXPECT_FALSE(mesh.ok());
    return mesh.ok() ? OkStatus() : Status(mesh.error());
  });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), Errc::kUsage);
  EXPECT_EQ(status.error().message(), "3 ranks cannot be divided into groups of 2");
}

// When a rank fails, others wait in a collective of the world and of a group: they must return.
TEST(ThreadWorld, AnErrorOfOneRankEndsAll) {
  std::atomic<int> interrupted = 0;
  const Status status = ThreadWorld(4).Run([&](Comm& world) -> Status {
    NXDKIT_ASSIGN(const Mesh mesh, Mesh::Make(world, 2));
    if (world.rank() == 3) return Error(Errc::kLimit, "out of luck");
    Status result = OkStatus();
    while (result.ok()) result = world.rank() == 2 ? mesh.tp->Barrier() : world.Barrier();
    interrupted += result.error().code() == Errc::kInterrupted;
    return result;
  });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), Errc::kLimit);
  EXPECT_EQ(interrupted, 3);
}

TEST(ThreadWorld, RanksAndTheirGroupsStay) {
  ThreadWorld world(4);
  std::array<std::unique_ptr<Comm>, 4> groups;
  for (int round = 0; round < 3; ++round) {
    const Status status = world.Run([&](Comm& comm) -> Status {
      std::unique_ptr<Comm>& group = groups[static_cast<size_t>(comm.rank())];
      if (round == 0) {
        NXDKIT_ASSIGN(group, comm.Split(comm.rank() % 2, -comm.rank()));
      }
      std::vector<float> ranks = {static_cast<float>(comm.rank())};
      NXDKIT_TRY(AllReduceSum(*group, ranks));
      EXPECT_EQ(ranks[0], comm.rank() % 2 == 0 ? 2 : 4);
      EXPECT_EQ(group->rank(), comm.rank() < 2 ? 1 : 0);  // by key: the higher rank first
      return OkStatus();
    });
    EXPECT_TRUE(status.ok());
  }
}

TEST(ThreadWorld, IsOverAfterAFailure) {
  ThreadWorld world(2);
  const Status first = world.Run([](Comm& comm) -> Status {
    if (comm.rank() == 1) return Error(Errc::kLimit, "out of luck");
    return comm.Barrier();
  });
  ASSERT_FALSE(first.ok());
  EXPECT_EQ(first.error().code(), Errc::kLimit);
  bool ran = false;
  const Status second = world.Run([&](Comm&) -> Status {
    ran = true;
    return OkStatus();
  });
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), Errc::kInterrupted);
  EXPECT_FALSE(ran);
}

TEST(ThreadWorld, OtherSizesAreABugThatIsTold) {
  const Status status = ThreadWorld(2).Run([](Comm& world) -> Status {
    std::vector<float> values(world.rank() == 0 ? 3 : 4);
    return AllReduceSum(world, values);
  });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), Errc::kInternal);
}

}  // namespace
}  // namespace nxdkit::trainer
