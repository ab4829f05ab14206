// Ranks in several processes: the same bits as threads in one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <thread>

#include "tests/trainer/comm/memory_transport.h"
#include "trainer/comm/comm.h"
#include "trainer/comm/reduce.h"

namespace nxdkit::trainer {
namespace {

std::vector<float> ValuesOf(int rank, size_t size) {
  std::mt19937 random(static_cast<uint32_t>(rank) + 11);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(size);
  for (float& value : values) value = normal(random);
  return values;
}

// Sums over tp and dp at the same time, the latter in the background.
Status SumBoth(Comm& world, int tp, std::vector<float>& result) {
  NXDKIT_ASSIGN(const Mesh mesh, Mesh::Make(world, tp));
  std::vector<float> over_tp = ValuesOf(world.rank(), 5000), over_dp = ValuesOf(world.rank(), 9001);
  Status summed = OkStatus();
  std::jthread background([&] {
    for (int i = 0; i < 5 && summed.ok(); ++i) summed = AllReduceSum(*mesh.dp_background, over_dp);
  });
  for (int i = 0; i < 5; ++i) NXDKIT_TRY(AllReduceSum(*mesh.tp, over_tp));
  background.join();
  NXDKIT_TRY(std::move(summed));
  result = over_tp;
  result.insert(result.end(), over_dp.begin(), over_dp.end());
  return OkStatus();
}

using Results = std::vector<std::vector<float>>;  // by rank of the world

// `shares`: how many ranks each process has.
Results RunOver(const std::vector<int>& shares, int tp) {
  const int processes = static_cast<int>(shares.size());
  const int ranks = std::accumulate(shares.begin(), shares.end(), 0);
  MemoryNet net(processes);
  Results results(static_cast<size_t>(ranks));
  std::vector<std::jthread> threads;
  for (int p = 0; p < processes; ++p)
    threads.emplace_back([&, p] {
      const std::unique_ptr<Transport> transport = net.Join(p);
      ThreadWorld world(shares, 1, processes == 1 ? nullptr : transport.get());
      const Status status = world.Run(
          [&](Comm& comm) { return SumBoth(comm, tp, results[static_cast<size_t>(comm.rank())]); });
      EXPECT_TRUE(status.ok()) << status.error().ToString();
    });
  threads.clear();
  return results;
}

TEST(Processes, HaveTheBitsOfThreads) {
  const struct {
    std::vector<int> shares;
    int tp;
  } cases[] = {{{2, 2}, 2}, {{2, 2}, 1}, {{1, 1, 1, 1}, 2}, {{2, 2}, 4},   {{2, 2, 2, 2}, 2},
               {{4, 2}, 2}, {{1, 3}, 1}, {{4, 0}, 2},       {{2, 0, 4}, 2}};
  for (const auto& [shares, tp] : cases) {
    SCOPED_TRACE(fmt::format("ranks {} of the processes, TP {}", fmt::join(shares, ", "), tp));
    const int ranks = std::accumulate(shares.begin(), shares.end(), 0);
    EXPECT_TRUE(RunOver(shares, tp) == RunOver({ranks}, tp));
  }
}

TEST(Processes, OneThatIsGoneIsNamed) {
  MemoryNet net(2, std::chrono::milliseconds(50));
  net.Cut(1);
  const std::unique_ptr<Transport> transport = net.Join(0);
  ThreadWorld world({2, 2}, 1, transport.get());
  const Status status = world.Run([&](Comm& comm) {
    std::vector<float> values(10);
    return AllReduceSum(comm, values);
  });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), Errc::kLost);
  EXPECT_NE(status.error().ToString().find("process 1"), std::string::npos);
}

}  // namespace
}  // namespace nxdkit::trainer
