// The executor: the same bytes whatever the threads and the budget; errors, limits, interruption.
#include "lib/plan/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <random>
#include <set>

#include "tests/formats/memory_sink.h"
#include "tests/lib/expect_error.h"
#include "tests/lib/plan/plan_fixture.h"
#include "tests/lib/plan/plan_random.h"

namespace nxdkit {
namespace {

using testing_util::AsNumbers;
using testing_util::ColumnsOf;
using testing_util::CountingStorage;
using testing_util::ExpectError;
using testing_util::LayoutOf;
using testing_util::MemorySink;
using testing_util::NaiveBind;
using testing_util::NaiveTensor;
using testing_util::Numbers;
using testing_util::OutputsOf;
using testing_util::Packed;
using testing_util::RandomLayout;
using testing_util::RandomParams;
using testing_util::RowsOf;
using testing_util::WholeOf;

ExecuteOptions Options(int jobs, uint64_t worker_bytes) {
  ExecuteOptions options;
  options.jobs = jobs;
  options.buffer_bytes = 16 << 20;
  options.worker_bytes = worker_bytes;
  return options;
}

// A sink that also checks the contract: each byte once, task numbers in range and once.
class StrictSink : public MemorySink {
 public:
  explicit StrictSink(const std::vector<OutputTensor>& outputs) : MemorySink(outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) taken_.emplace_back(this->bytes(i).size(), false);
  }
  Status Take(uint32_t tensor, uint64_t offset, std::span<const std::byte> chunk) override {
    const std::lock_guard lock(mutex_);
    largest_ = std::max<uint64_t>(largest_, chunk.size());
    chunks_.push_back({tensor, offset, chunk.size()});
    for (size_t i = 0; i < chunk.size(); ++i) {
      EXPECT_FALSE(taken_[tensor][offset + i]) << "byte " << offset + i << " of " << tensor;
      taken_[tensor][offset + i] = true;
    }
    return MemorySink::Take(tensor, offset, chunk);
  }
  Status TaskDone(uint64_t task) override {
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(tasks_.insert(task).second) << task;
    return OkStatus();
  }
  struct Chunk {
    uint32_t tensor;
    uint64_t offset;
    uint64_t size;
  };
  const std::vector<Chunk>& chunks() const { return chunks_; }
  const std::set<uint64_t>& tasks() const { return tasks_; }
  uint64_t largest() const { return largest_; }

 private:
  std::mutex mutex_;
  std::vector<std::vector<bool>> taken_;
  std::set<uint64_t> tasks_;
  std::vector<Chunk> chunks_;
  uint64_t largest_ = 0;
};

void CheckRun(const std::vector<LogicalTensor>& params, const BoundLayout& source,
              const Layout& output, const ExecuteOptions& options) {
  const auto plan = BuildPlan(params, source, output);
  ASSERT_TRUE(plan.ok()) << plan.error().ToString();
  const std::vector<OutputTensor> outputs = OutputsOf(output, Dtype::kU32);
  StrictSink sink(outputs);
  const auto executor = Executor::Make(*plan, source, output, outputs, options);
  ASSERT_TRUE(executor.ok()) << executor.error().ToString();
  const Status status = executor->Run(sink);
  ASSERT_TRUE(status.ok()) << status.error().ToString();
  EXPECT_EQ(sink.tasks().size(), executor->workload().tasks);
  uint64_t bytes = 0;
  for (size_t t = 0; t < outputs.size(); ++t) {
    bytes += sink.bytes(t).size();
    ASSERT_EQ(AsNumbers(sink.bytes(t)), NaiveTensor(params, output.tensors[t]))
        << outputs[t].name << " " << ShapeText(outputs[t].shape);
  }
  EXPECT_EQ(executor->workload().bytes, bytes);
  EXPECT_LE(sink.largest(), std::max<uint64_t>(options.worker_bytes / 2, 4));
  if (options.aligned_bytes == 0) return;
  for (const auto& [tensor, offset, size] : sink.chunks()) {
    const uint64_t left = sink.bytes(tensor).size() - offset;
    EXPECT_EQ(offset % options.aligned_bytes, 0u) << outputs[tensor].name;
    EXPECT_EQ(size, std::min(options.aligned_bytes, left)) << outputs[tensor].name;
  }
}

// Two random layouts of the same parameters, pieces transposed, repeated and padded: all features
// of the engine, compared with element by element placement.
TEST(Executor, EqualsTheNaivePlacementOnRandomLayouts) {
  for (uint32_t seed = 1; seed <= 120; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const std::vector<LogicalTensor> params = RandomParams(random);
    const BoundLayout source = NaiveBind(params, RandomLayout(random, params));
    const Layout output = RandomLayout(random, params);
    for (const int jobs : {1, 3})
      for (const uint64_t worker_bytes : {uint64_t{8}, uint64_t{200}, uint64_t{1} << 20})
        CheckRun(params, source, output, Options(jobs, worker_bytes));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(Executor, ChunksEveryShape) {
  const Shape shapes[] = {{},        {0},       {0, 5},   {5, 0},     {1},          {1000},
                          {1, 1000}, {1000, 1}, {3, 700}, {2, 3, 50}, {2, 1, 3, 40}};
  std::vector<LogicalTensor> params;
  std::vector<TensorLayout> tensors;
  for (const Shape& shape : shapes) {
    const uint32_t i = static_cast<uint32_t>(params.size());
    params.push_back({"p" + std::to_string(i), shape, 0, 0});
    tensors.push_back(WholeOf(params.back().name, i, shape));
  }
  const Layout layout = LayoutOf(tensors);
  const BoundLayout source = NaiveBind(params, layout);
  for (const uint64_t worker_bytes : {8, 24, 100, 1000, 100'000})
    CheckRun(params, source, layout, Options(2, worker_bytes));
}

ExecuteOptions Aligned(int jobs, uint64_t bytes, uint64_t worker_bytes) {
  ExecuteOptions options = Options(jobs, worker_bytes);
  options.aligned_bytes = bytes;
  return options;
}

// Chunks that begin in the middle of rows, of transposed, repeated and padded tensors.
TEST(Executor, AlignsChunksToBytesOnRandomLayouts) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const std::vector<LogicalTensor> params = RandomParams(random);
    const BoundLayout source = NaiveBind(params, RandomLayout(random, params));
    const Layout output = RandomLayout(random, params);
    for (const uint64_t bytes : {16, 48, 1 << 20})
      CheckRun(params, source, output, Aligned(2, bytes, 4 << 20));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(Executor, RefusesBuffersThatHoldNoAlignedChunk) {
  const std::vector<LogicalTensor> params{{"p", {3, 5}, 0, 0}};
  const Layout layout = LayoutOf({WholeOf("p", 0, {3, 5})});
  const BoundLayout source = NaiveBind(params, layout);
  const auto plan = BuildPlan(params, source, layout);
  ASSERT_TRUE(plan.ok());
  const std::vector<OutputTensor> outputs = OutputsOf(layout, Dtype::kU32);
  ExecuteOptions options = Aligned(2, 1 << 20, 16 << 20);
  options.buffer_bytes = (4 << 20) - 1;
  const auto refused = Executor::Make(*plan, source, layout, outputs, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Errc::kLimit);
  EXPECT_NE(refused.error().message().find("4194303 bytes are left for the buffers of 2 threads, "
                                           "at least 4194304 are needed"),
            std::string::npos)
      << refused.error().message();
  options.buffer_bytes = 4 << 20;
  EXPECT_TRUE(Executor::Make(*plan, source, layout, outputs, options).ok());
}

// --- reading together

// A matrix of 4-byte elements in `ranks` column slices, one per file.
struct Sliced {
  Sliced(int64_t rows, int64_t columns, uint32_t ranks, Dtype from, Dtype to)
      : params{{"o_proj", {rows, columns}, 0, 0}},
        storage(std::make_shared<CountingStorage>(
            std::vector<std::byte>(rows * columns * ElementBytes(from)))) {
    source.layout = LayoutOf({WholeOf("o_proj", 0, {rows, columns})});
    source.stored = {Packed("o_proj", from, {rows, columns}, storage)};
    std::vector<TensorLayout> tensors;
    const int64_t part = columns / ranks;
    for (uint32_t r = 0; r < ranks; ++r)
      tensors.push_back(ColumnsOf("o_proj", 0, {rows, columns}, r * part, part, r));
    output = LayoutOf(tensors);
    outputs = OutputsOf(output, to);
  }
  void Run(const ExecuteOptions& options) {
    const auto plan = BuildPlan(params, source, output);
    ASSERT_TRUE(plan.ok()) << plan.error().ToString();
    MemorySink sink(outputs);
    const auto executor = Executor::Make(*plan, source, output, outputs, options);
    ASSERT_TRUE(executor.ok()) << executor.error().ToString();
    ASSERT_TRUE(executor->Run(sink).ok());
  }
  std::vector<LogicalTensor> params;
  std::shared_ptr<CountingStorage> storage;
  BoundLayout source;
  Layout output;
  std::vector<OutputTensor> outputs;
};

TEST(Executor, ReadsEachSourceByteOnceForColumnSlices) {
  Sliced sliced(1024, 2048, 8, Dtype::kBF16, Dtype::kBF16);
  sliced.Run(Options(2, 1 << 20));
  EXPECT_LE(sliced.storage->bytes_read(), sliced.storage->bytes() * 21 / 20);
  EXPECT_LE(sliced.storage->largest_read(), uint64_t{1} << 19) << "more than the staging";
}

TEST(Executor, ReadsEachSourceByteOnceForConvertedColumnSlices) {
  Sliced sliced(1024, 2048, 8, Dtype::kF32, Dtype::kBF16);
  sliced.Run(Options(2, 1 << 20));
  EXPECT_LE(sliced.storage->bytes_read(), sliced.storage->bytes() * 21 / 20);
}

TEST(Executor, ReadsEachSourceByteOnceForReplicas) {
  const Shape shape = {64, 512};
  const std::vector<LogicalTensor> params = {{"norm", shape, 0, 0}};
  const auto storage = std::make_shared<CountingStorage>(Numbers(64 * 512));
  BoundLayout source{LayoutOf({WholeOf("norm", 0, shape)}), {}};
  source.stored = {Packed("norm", Dtype::kU32, shape, storage)};
  std::vector<TensorLayout> tensors;
  for (uint32_t r = 0; r < 4; ++r) tensors.push_back(WholeOf("norm", 0, shape, r));
  const Layout output = LayoutOf(tensors);
  const std::vector<OutputTensor> outputs = OutputsOf(output, Dtype::kU32);
  const auto plan = BuildPlan(params, source, output);
  ASSERT_TRUE(plan.ok()) << plan.error().ToString();
  MemorySink sink(outputs);
  const auto executor = Executor::Make(*plan, source, output, outputs, Options(1, 2 << 20));
  ASSERT_TRUE(executor.ok()) << executor.error().ToString();
  ASSERT_TRUE(executor->Run(sink).ok());
  for (size_t t = 0; t < 4; ++t) EXPECT_EQ(sink.bytes(t), Numbers(64 * 512));
}

// Gate and up [I, H] of three experts, stored as columns of one tensor [3, H, 2 I].
TEST(Executor, ReadsEachSourceByteOnceForTransposedPairs) {
  constexpr int64_t kRows = 96, kColumns = 512, kExperts = 3;
  std::vector<LogicalTensor> params;
  TensorLayout stored{"experts", 0, {kExperts, kColumns, 2 * kRows}, std::nullopt, {}, {}};
  std::vector<TensorLayout> tensors;
  for (int64_t expert = 0; expert < kExperts; ++expert)
    for (const char* name : {"gate", "up"}) {
      const auto param = static_cast<uint32_t>(params.size());
      const int64_t at = name == std::string("up") ? kRows : 0;
      params.push_back({name + std::to_string(expert), {kRows, kColumns}, 0, 0});
      stored.pieces.push_back({param, WholeBox({kRows, kColumns}), {expert, 0, at}, {2, 1}});
      tensors.push_back(WholeOf(params.back().name, param, {kRows, kColumns}));
    }
  const int64_t count = kExperts * kColumns * 2 * kRows;
  const auto storage = std::make_shared<CountingStorage>(Numbers(count));
  BoundLayout source{LayoutOf({stored}), {Packed("experts", Dtype::kU32, stored.shape, storage)}};
  const Layout output = LayoutOf(tensors);
  const std::vector<OutputTensor> outputs = OutputsOf(output, Dtype::kU32);
  const auto plan = BuildPlan(params, source, output);
  ASSERT_TRUE(plan.ok()) << plan.error().ToString();
  MemorySink sink(outputs);
  const auto executor = Executor::Make(*plan, source, output, outputs, Options(2, 4 << 20));
  ASSERT_TRUE(executor.ok()) << executor.error().ToString();
  EXPECT_EQ(executor->workload().tasks, 3u) << "one of each expert";
  ASSERT_TRUE(executor->Run(sink).ok());
  EXPECT_LE(storage->bytes_read(), storage->bytes() * 21 / 20);
  const auto bytes = sink.bytes(3);  // up of expert 1
  const std::vector<uint32_t> up = AsNumbers({bytes.begin(), bytes.end()});
  for (const int64_t row : {int64_t{0}, kRows - 1})
    for (const int64_t column : {int64_t{0}, kColumns - 1})
      EXPECT_EQ(up[row * kColumns + column], (kColumns + column) * 2 * kRows + kRows + row);
}

// --- errors

TEST(Executor, ReportsTheErrorOfTheLowestTask) {
  const Shape shape = {64, 16};
  const std::vector<LogicalTensor> params = {{"w", shape, 0, 0}};
  const Layout layout = LayoutOf({WholeOf("w", 0, shape)});
  const std::vector<OutputTensor> outputs = OutputsOf(layout, Dtype::kU32);
  // Every task but the first few fails, each with its own number.
  class FailingSink : public Sink {
   public:
    Status Take(uint32_t, uint64_t offset, std::span<const std::byte>) override {
      if (offset < 5 * 64) return OkStatus();
      return Error(Errc::kIo, "row " + std::to_string(offset / 64));
    }
  };
  const BoundLayout source = NaiveBind(params, layout);
  const auto plan = BuildPlan(params, source, layout);
  ASSERT_TRUE(plan.ok());
  for (const int jobs : {1, 2, 8})
    for (int repeat = 0; repeat < 20; ++repeat) {
      const auto executor = Executor::Make(*plan, source, layout, outputs, Options(jobs, 128));
      ASSERT_TRUE(executor.ok()) << executor.error().ToString();
      FailingSink sink;
      ExpectError(executor->Run(sink), Errc::kIo, "row 5");
    }
}

TEST(Executor, PassesOnAFailedRead) {
  const Shape shape = {64, 16};
  const std::vector<LogicalTensor> params = {{"w", shape, 0, 0}};
  const Layout layout = LayoutOf({WholeOf("w", 0, shape)});
  const auto storage = std::make_shared<CountingStorage>(Numbers(64 * 16));
  storage->FailAt(2000);
  const BoundLayout source{layout, {Packed("w", Dtype::kU32, shape, storage)}};
  const auto plan = BuildPlan(params, source, layout);
  ASSERT_TRUE(plan.ok());
  const std::vector<OutputTensor> outputs = OutputsOf(layout, Dtype::kU32);
  MemorySink sink(outputs);
  const auto executor = Executor::Make(*plan, source, layout, outputs, Options(2, 512));
  ASSERT_TRUE(executor.ok());
  const std::optional<Error> error =
      ExpectError(executor->Run(sink), Errc::kIo, "the disk is broken here");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->tensor(), "w");
  EXPECT_EQ(error->offset(), 2000u);
}

struct Small {
  std::vector<LogicalTensor> params{{"w", {64, 16}, 0, 0}};
  Layout layout = LayoutOf({WholeOf("w", 0, {64, 16})});
  BoundLayout source = NaiveBind(params, layout);
  std::vector<OutputTensor> outputs = OutputsOf(layout, Dtype::kU32);
  Plan plan = *BuildPlan(params, source, layout);
  Result<Executor> Make(const ExecuteOptions& options) const {
    return Executor::Make(plan, source, layout, outputs, options);
  }
};

TEST(Executor, RefusesABudgetThatIsTooSmall) {
  const Small small;
  ExecuteOptions options;
  options.buffer_bytes = (1 << 20) - 1;
  const auto error =
      ExpectError(small.Make(options), Errc::kLimit, "1048575 bytes are left for the buffers");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->hint(), "raise --max-memory") << "there is one job already";
  options.buffer_bytes = 1 << 20;
  EXPECT_TRUE(small.Make(options).ok());
  options.jobs = 64;
  const auto jobs = ExpectError(small.Make(options), Errc::kLimit, "64 threads");
  ASSERT_TRUE(jobs.has_value());
  EXPECT_EQ(jobs->hint(), "raise --max-memory or lower --jobs");
}

TEST(Executor, TakesNoMoreBuffersThanItIsGiven) {
  const Small small;
  for (const int jobs : {1, 2, 8}) {
    ExecuteOptions options;
    options.jobs = jobs;
    options.buffer_bytes = 3 << 20;
    const auto executor = small.Make(options);
    ASSERT_TRUE(executor.ok()) << executor.error().ToString();
    EXPECT_LE(executor->workload().buffer_bytes, options.buffer_bytes);
    EXPECT_GT(executor->workload().buffer_bytes, options.buffer_bytes / 2);
  }
}

TEST(Executor, RefusesDtypesItCannotHandle) {
  Small small;
  small.outputs[0].dtype = Dtype::kF32;
  const std::optional<Error> error =
      ExpectError(small.Make({}), Errc::kUnsupported, "U32 cannot be converted");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->tensor(), "w");
  small.outputs[0].dtype = Dtype::kF4;
  ExpectError(small.Make({}), Errc::kUnsupported, "smaller than a byte");
}

TEST(Executor, StopsWhenPollSays) {
  const Small small;
  std::atomic<int> calls{0};
  ExecuteOptions options = Options(1, 128);
  options.poll = [&]() -> Status {
    if (++calls < 4) return OkStatus();
    return Error(Errc::kInterrupted, "interrupted by signal 2");
  };
  const auto executor = small.Make(options);
  ASSERT_TRUE(executor.ok());
  StrictSink sink(small.outputs);
  ExpectError(executor->Run(sink), Errc::kInterrupted, "signal 2");
  EXPECT_EQ(sink.tasks(), (std::set<uint64_t>{0, 1, 2}));
}

TEST(Executor, SkipsTasksThatAreDone) {
  const Small small;
  const auto executor = small.Make(Options(2, 128));
  ASSERT_TRUE(executor.ok());
  class HalfDone : public StrictSink {
   public:
    using StrictSink::StrictSink;
    bool IsDone(uint64_t task) const override { return task % 2 == 0; }
  };
  HalfDone sink(small.outputs);
  ASSERT_TRUE(executor->Run(sink).ok());
  EXPECT_EQ(sink.tasks().size(), executor->workload().tasks / 2);
  EXPECT_FALSE(sink.tasks().contains(0));
}

TEST(Executor, CountsTheBytesItHasDone) {
  const Small small;
  std::atomic<uint64_t> bytes{0};
  ExecuteOptions options = Options(4, 128);
  options.on_bytes = [&](uint64_t n) { bytes += n; };
  const auto executor = small.Make(options);
  ASSERT_TRUE(executor.ok());
  MemorySink sink(small.outputs);
  ASSERT_TRUE(executor->Run(sink).ok());
  EXPECT_EQ(bytes, 64u * 16 * 4);
}

// With a base, only chunks that the plan touches are made, and they start with the stored bytes.
TEST(Executor, MakesOnlyWhatAPlanTouches) {
  const Shape shape = {64, 16};
  const std::vector<LogicalTensor> params = {{"w", shape, 0, 0}};
  TensorLayout padded{"padded", 0, {66, 16}, std::nullopt, {}, {}};
  AddRows(padded, 0, shape, 0, 64, 0);
  AddZeros(padded, 0, 64, 2);
  const Layout layout = LayoutOf({WholeOf("w", 0, shape), padded});
  BoundLayout bound = NaiveBind(params, layout);
  const auto plan = BuildSelfPlan(params, bound);
  ASSERT_TRUE(plan.ok());
  ExecuteOptions options = Options(2, 128 * 4);
  options.base = &bound;
  const std::vector<OutputTensor> outputs = OutputsOf(layout, Dtype::kU32);
  const auto executor = Executor::Make(*plan, bound, layout, outputs, options);
  ASSERT_TRUE(executor.ok()) << executor.error().ToString();
  StrictSink sink(outputs);
  ASSERT_TRUE(executor->Run(sink).ok());
  EXPECT_EQ(executor->workload().bytes, 66u * 16 * 4) << "the replica, not its primary";
  EXPECT_EQ(AsNumbers(sink.bytes(1)), NaiveTensor(params, padded));
}

}  // namespace
}  // namespace nxdkit
