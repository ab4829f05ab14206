// Training state to files and back: as an NxD tag that the tools read, recut for other ranks.
#include "trainer/learner/training_tag.h"
#include "formats/kinds/open.h"
#include "formats/kinds/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <random>

#include "formats/kinds/nxd/nxd_state.h"
#include "formats/ops/convert/convert.h"
#include "formats/ops/digest/digest.h"
#include "formats/ops/verify/verify.h"
#include "formats/torch/archive.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/formats/words.h"
#include "tests/lib/expect_error.h"
#include "tests/trainer/model/model_lab.h"

namespace nxdkit::trainer {
namespace {

using ops::Kind;
using ::testing::HasSubstr;

// All arrays of one run with `tp` ranks; `seed` 0 leaves them zero.
class State {
 public:
  State(const models::Model& model, int tp, uint32_t seed, Dtype dtype) : dtype_(dtype) {
    for (int rank = 0; rank < tp; ++rank) tables_.push_back(*MakeParamTable(model, tp, rank));
    weights = Make(model, dtype, seed);
    memory.entries = {{"exp_avg", Make(model, Dtype::kF32, seed ? seed + 1 : 0)},
                      {"exp_avg_sq", Make(model, Dtype::kF32, seed ? seed + 2 : 0)}};
    if (dtype == Dtype::kBF16) memory.masters = Make(model, Dtype::kF32, seed ? seed + 3 : 0);
    memory.step = seed;
    memory.lr = 1e-5;
  }

  std::vector<RankMemory> weights;
  OptimizerMemory memory;
  // All arrays, one after the other.
  const std::deque<std::vector<std::byte>>& arrays() const { return arrays_; }

 private:
  // Values that depend only on the place in the model, so that replicas agree.
  std::vector<RankMemory> Make(const models::Model& model, Dtype dtype, uint32_t seed) {
    std::vector<RankMemory> ranks;
    for (const ParamTable& table : tables_) {
      const size_t bytes = static_cast<size_t>(ElementBytes(dtype));
      arrays_.emplace_back(static_cast<size_t>(table.size) * bytes);
      ranks.push_back({&table, arrays_.back().data(), dtype});
      if (seed == 0) continue;
      for (const Slot& slot : table.slots) FillSlot(model, slot, seed, ranks.back());
    }
    return ranks;
  }
  void FillSlot(const models::Model& model, const Slot& slot, uint32_t seed,
                const RankMemory& rank) const {
    const Shape& whole = model.params[slot.param].shape;
    for (int64_t i = 0; i < slot.size(); ++i) {
      std::minstd_rand random(static_cast<uint32_t>(PlaceInWhole(slot, whole, i)) * 977u +
                              slot.param * 31u + seed * 7919u);
      random.discard(3);
      const float value = static_cast<float>(random()) / 2147483647.0f - 0.5f;
      ConvertElements(Dtype::kF32, reinterpret_cast<const std::byte*>(&value), rank.dtype,
                      rank.parts.front().data + (slot.offset + i) * ElementBytes(rank.dtype), 1);
    }
  }

  Dtype dtype_;
  std::deque<ParamTable> tables_;  // addresses stay
  std::deque<std::vector<std::byte>> arrays_;
};

class TrainingTag : public ::testing::TestWithParam<Dtype> {
 protected:
  std::string Save(State& state, const std::string& name, int dp) const {
    ops::ConvertRequest request;
    request.source = [&]() -> Result<ops::BoundArtifact> {
      return BindTraining(lab_.source().artifact, lab_.config().model, state.weights,
                          &state.memory);
    };
    request.input = "memory";
    request.to = &ops::kNxd;
    request.output = folder_.Path(name);
    request.options.Set("tp", static_cast<int>(state.weights.size()));
    request.options.Set("dp", dp);
    request.options.Set("hw", Word(models::Hardware::kTrn1));
    request.sync = false;
    request.verify = true;
    const auto report = ops::Convert(request);
    EXPECT_TRUE(report.ok()) << report.error().ToString();
    return request.output;
  }
  const ModelLab lab_{testing_util::TinyQwen3()};
  const testing_util::Scratch folder_;
};

TEST_P(TrainingTag, ComesBackBitForBit) {
  for (const int tp : {1, 2, 4}) {
    State saved(lab_.config().model, tp, 11, GetParam());
    const std::string tag = Save(saved, "tag" + std::to_string(tp), 2);
    State loaded(lab_.config().model, tp, 0, GetParam());
    const Status status = LoadTraining(tag, lab_.config().model, loaded.weights, loaded.memory, {});
    ASSERT_TRUE(status.ok()) << status.error().ToString();
    EXPECT_TRUE(loaded.arrays() == saved.arrays()) << tp;
    EXPECT_EQ(loaded.memory.step, 11);
  }
}

TEST_P(TrainingTag, CanBeCutForOtherRanks) {
  State saved(lab_.config().model, 2, 5, GetParam());
  const std::string tag = Save(saved, "tag", 3);
  State loaded(lab_.config().model, 4, 0, GetParam());
  ASSERT_TRUE(LoadTraining(tag, lab_.config().model, loaded.weights, loaded.memory, {}).ok());
  const State expected(lab_.config().model, 4, 5, GetParam());
  EXPECT_TRUE(loaded.arrays() == expected.arrays());
}

// The form of other trainers, by names, where the weights are the master weights.
TEST_P(TrainingTag, AnotherTrainersCheckpointIsLoadedToo) {
  State saved(lab_.config().model, 2, 7, GetParam());
  const std::string tag = Save(saved, "tag", 2);
  for (const Kind* kind : {&kinds::kFsdp, &kinds::kDcp}) {
    ops::ConvertRequest request;
    request.input = tag;
    request.from = &ops::kNxd;
    request.to = kind;
    request.output = folder_.Path(std::string(kind->name));
    request.options.Set("mesh", std::string("dp=3"));
    request.hints.optimizer = true;
    request.sync = false;
    const auto report = ops::Convert(request);
    ASSERT_TRUE(report.ok()) << report.error().ToString();
    State loaded(lab_.config().model, 4, 0, GetParam());
    const Status status =
        LoadTraining(request.output, lab_.config().model, loaded.weights, loaded.memory, {});
    ASSERT_TRUE(status.ok()) << status.error().ToString();
    const State expected(lab_.config().model, 4, 7, GetParam());
    // In BF16 the weights are rounded from the masters, which are other numbers here.
    const size_t first = GetParam() == Dtype::kF32 ? 0 : loaded.weights.size();
    for (size_t i = first; i < expected.arrays().size(); ++i)
      EXPECT_TRUE(loaded.arrays()[i] == expected.arrays()[i]) << kind->name << " " << i;
    EXPECT_EQ(loaded.memory.step, 7);
  }
}

TEST_P(TrainingTag, IsSoundToTheToolsAndHasTheDigestOfTheMemory) {
  State saved(lab_.config().model, 4, 7, GetParam());
  const std::string tag = Save(saved, "tag", 2);
  ops::InputHints hints;
  const auto bound = ops::OpenAndBind(tag, &ops::kNxd, hints);
  ASSERT_TRUE(bound.ok()) << bound.error().ToString();
  EXPECT_EQ(ops::NxdLayoutOf(*bound)->geometry.tp, 4);
  const auto of_files = ops::DigestModel(*bound, {});
  const auto of_memory = ops::DigestModel(
      BindTraining(lab_.source().artifact, lab_.config().model, saved.weights, nullptr), {});
  ASSERT_TRUE(of_files.ok() && of_memory.ok());
  EXPECT_TRUE(ops::CompareModels(*of_memory, *of_files).empty());
  EXPECT_TRUE(std::filesystem::exists(tag + "/optim/dp_rank_01_tp_rank_03_pp_rank_00.pt"));
  EXPECT_TRUE(std::filesystem::exists(tag + "/done"));
}

// One bit of one element: no copy shows it, and the value may be plausible.
TEST_P(TrainingTag, ADamagedElementIsFoundBeforeAnythingIsFilled) {
  State saved(lab_.config().model, 2, 5, GetParam());
  const std::string tag = Save(saved, "tag", 2);
  for (const char* name : {"/model/dp_rank_00_tp_rank_01_pp_rank_00.pt",
                           "/optim/dp_rank_01_tp_rank_00_pp_rank_00.pt"}) {
    const std::string file = tag + name;
    const auto archive = torch::ReadArchive(file);
    ASSERT_TRUE(archive.ok()) << archive.error().ToString();
    const auto largest = std::ranges::max_element(
        archive->tensors, {}, [](const StoredTensor& tensor) { return tensor.storage->bytes(); });
    const uint64_t place = largest->storage->file_offset() + largest->storage->bytes() / 2;
    testing_util::FlipFile(file, place);
    State loaded(lab_.config().model, 2, 0, GetParam());
    const State untouched(lab_.config().model, 2, 0, GetParam());
    const auto error = testing_util::ExpectError(
        LoadTraining(tag, lab_.config().model, loaded.weights, loaded.memory, {}), Errc::kCorrupt,
        "the data has CRC-32");
    ASSERT_TRUE(error);
    EXPECT_EQ(error->file(), file);
    EXPECT_THAT(error->member(), HasSubstr("/data/"));
    EXPECT_TRUE(loaded.arrays() == untouched.arrays());
    testing_util::FlipFile(file, place);
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, TrainingTag, ::testing::Values(Dtype::kF32, Dtype::kBF16),
                         [](const auto& test) { return std::string(Name(test.param)); });

TEST(LoadTraining, RefusesATagWithoutAnOptimizer) {
  const ModelLab lab(testing_util::TinyQwen3());
  const testing_util::Scratch folder;
  ops::ConvertRequest request;
  request.input = lab.path();
  request.to = &ops::kNxd;
  request.output = folder.Path("tag");
  request.options.Set("tp", 2);
  request.sync = false;
  ASSERT_TRUE(ops::Convert(request).ok());
  State state(lab.config().model, 2, 0, Dtype::kF32);
  const Status status =
      LoadTraining(request.output, lab.config().model, state.weights, state.memory, {});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), Errc::kCorrupt);
  EXPECT_THAT(status.error().message(), HasSubstr("there is no optimizer state"));
}

}  // namespace
}  // namespace nxdkit::trainer
