// A leader and its followers, as threads of this process: like the test with real processes
// (tests/tools/mpi_test.cc), but visible to sanitizers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <thread>

#include "lib/base/errors.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "tests/trainer/comm/memory_transport.h"
#include "tests/trainer/learner/some_rows.h"
#include "tests/trainer/model/model_lab.h"
#include "trainer/learner/follow.h"
#include "trainer/learner/followers.h"
#include "trainer/learner/mesh_model.h"

namespace nxdkit::trainer {
namespace {

class LedTest : public ::testing::Test {
 protected:
  static MeshOptions Options(int tp, int dp) {
    MeshOptions options;
    options.tp = tp;
    options.dp = dp;
    options.update.max_tokens = options.experience.max_tokens = 40;
    options.decoder.compute = Dtype::kBF16;
    options.least_bucket = 1;
    return options;
  }

  struct Outcome {
    double norm = 0;
    RowValues outputs;
    std::map<std::string, std::string> tag;
  };

  // Updates, writes a tag, and resumes from it in another model.
  void Learn(const MeshOptions& options, const std::string& name, Outcome& outcome) const {
    auto model = MeshModel::Make(lab_.config(), options, lab_.source());
    ASSERT_TRUE(model.ok()) << model.error().ToString();
    std::vector<std::vector<size_t>> shares(static_cast<size_t>(options.dp));
    for (size_t r = 0; r < 8; ++r) shares[r * shares.size() / 8].push_back(r);
    for (int i = 0; i < 2; ++i)
      ASSERT_TRUE((*model)->Update(SomeRows(), shares, SomeLoss, 1e-2).ok());
    const std::string folder = folder_.Path(name);
    const Status written = (*model)->WriteTag(lab_.source().artifact, {folder}, true);
    ASSERT_TRUE(written.ok()) << written.error().ToString();
    for (const char* part : {"model", "optim"}) {
      const auto names = ListFolder(folder + "/" + part);
      ASSERT_TRUE(names.ok());
      for (const std::string& file : *names)
        outcome.tag[part + ("/" + file)] =
            *ReadSmallFile(folder + "/" + part + "/" + file, 1 << 30);
    }
    auto second = MeshModel::Make(lab_.config(), options, lab_.source());
    ASSERT_TRUE((*second)->Restore(folder, {}).ok());
    const auto updated = (*second)->Update(SomeRows(), shares, SomeLoss, 1e-2);
    ASSERT_TRUE(updated.ok());
    outcome.norm = updated->grad_norm;
    outcome.outputs = (*second)->Evaluate(SomeRows())->outputs;
  }

  // `lead`: in process 0, whose ranks the options are for.
  void Lead(MeshOptions options, const std::vector<int>& ranks,
            const std::function<void(const MeshOptions&, Leader&)>& lead) const {
    const int processes = static_cast<int>(ranks.size());
    MemoryNet net(processes);
    std::vector<std::jthread> followers;
    for (int p = 1; p < processes; ++p)
      followers.emplace_back([&net, p] {
        const std::unique_ptr<Transport> transport = net.Join(p);
        const Status followed = Follow(*transport);
        EXPECT_TRUE(followed.ok()) << followed.error().ToString();
      });
    const std::unique_ptr<Transport> transport = net.Join(0);
    Leader leader(*transport);
    options.ranks_of_process = ranks;
    options.transport = transport.get();
    options.led = true;
    options.leader = &leader;
    options.origin.path = lab_.source().artifact.path;
    lead(options, leader);
    EXPECT_TRUE(leader.TellAll({{"call", "end"}}).ok());
  }

  Outcome Led(const MeshOptions& options, const std::vector<int>& ranks) const {
    Outcome outcome;
    Lead(options, ranks, [&](const MeshOptions& led, Leader&) {
      Learn(led, "led_" + std::to_string(ranks.size()) + std::to_string(ranks[0]), outcome);
    });
    return outcome;
  }

  const ModelLab lab_{testing_util::TinyQwen3()};
  const testing_util::Scratch folder_;
};

TEST_F(LedTest, ComesToTheBitsOfOneProcess) {
  Outcome alone;
  Learn(Options(2, 2), "alone", alone);
  EXPECT_GT(alone.norm, 0);
  EXPECT_GT(alone.tag.size(), 5u);
  for (const std::vector<int>& ranks : {std::vector{2, 2}, {1, 1, 1, 1}, {3, 1}, {4, 0}}) {
    SCOPED_TRACE(ranks.size() * 10 + static_cast<size_t>(ranks[0]));
    const Outcome led = Led(Options(2, 2), ranks);
    EXPECT_EQ(led.norm, alone.norm);
    EXPECT_EQ(led.outputs, alone.outputs);
    EXPECT_TRUE(led.tag == alone.tag);
  }
}

// In process 0, and in the other one: both continue, with their former weights.
TEST_F(LedTest, ALossThatFailsChangesNothingAnywhere) {
  Lead(Options(1, 2), {1, 1}, [&](const MeshOptions& options, Leader& leader) {
    auto model = MeshModel::Make(lab_.config(), options, lab_.source());
    ASSERT_TRUE(model.ok()) << model.error().ToString();
    const std::vector<std::vector<size_t>> shares = {{0, 1, 2, 3}, {4, 5, 6, 7}};
    const RowValues before = (*model)->Evaluate(SomeRows())->outputs;
    for (const int failing : {0, 1}) {
      const auto loss = [&](int dp_rank, bool record, std::span<const size_t> rows,
                            std::span<const float> outputs, std::span<float> gradient) {
        if (dp_rank == failing) return Status(Error(Errc::kCorrupt, "no score").in("scores"));
        return SomeLoss(dp_rank, record, rows, outputs, gradient);
      };
      testing_util::ExpectError((*model)->Update(SomeRows(), shares, loss, 1e-2), Errc::kCorrupt,
                                "no score");
      EXPECT_TRUE(leader.in_order());
      EXPECT_EQ((*model)->Evaluate(SomeRows())->outputs, before);
    }
    const auto updated = (*model)->Update(SomeRows(), shares, SomeLoss, 1e-2);
    ASSERT_TRUE(updated.ok()) << updated.error().ToString();
    EXPECT_FALSE(updated->skipped);
    EXPECT_NE((*model)->Evaluate(SomeRows())->outputs, before);
    EXPECT_EQ((*model)->optimizer().step, 1);
  });
}

// As when the file system shows new files only after a while: the first process looks again.
TEST_F(LedTest, ATagIsPutTogetherWhenAllSharesCanBeSeen) {
  Lead(Options(1, 2), {1, 1}, [&](const MeshOptions& options, Leader&) {
    auto model = MeshModel::Make(lab_.config(), options, lab_.source());
    ASSERT_TRUE(model.ok()) << model.error().ToString();
    const std::string tag = folder_.Path("tag"), parts = tag + ".parts";
    std::jthread hides([&](const std::stop_token& stop) {
      const std::string mark = parts + "/done-1", hidden = folder_.Path("hidden");
      while (!stop.stop_requested() && ::rename(mark.c_str(), hidden.c_str()) != 0)
        std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(700));
      ::rename(hidden.c_str(), mark.c_str());
    });
    const Status written = (*model)->WriteTag(lab_.source().artifact, {tag}, true);
    ASSERT_TRUE(written.ok()) << written.error().ToString();
    EXPECT_EQ(*KindOf(tag + "/model"), PathKind::kFolder);
    EXPECT_EQ(*KindOf(parts), PathKind::kMissing);
  });
}

// A process that reports work is waited for, and a hanging one is not.
TEST(Leader, WaitsWhileTheOtherWorks) {
  MemoryNet net(2, std::chrono::seconds(2));
  const std::unique_ptr<Transport> first = net.Join(0), second = net.Join(1);
  std::atomic<bool> over{false};
  OrderHandlers handlers;
  handlers["works"] = [](const Json&, const Working& working) -> Result<Json> {
    const auto work = [&] {  // like the threads of a conversion
      for (int i = 0; i < 300; ++i) {
        EXPECT_TRUE(working().ok());
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    };
    std::jthread beside(work);
    work();
    beside.join();
    return Json{{"done", true}};
  };
  handlers["hangs"] = [&](const Json&, const Working&) -> Result<Json> {
    while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return Json::object();
  };
  std::jthread follows([&] { static_cast<void>(Follow(*second, handlers)); });
  Leader leader(*first);
  const auto worked = leader.Ask(1, {{"call", "works"}});
  ASSERT_TRUE(worked.ok()) << worked.error().ToString();
  EXPECT_TRUE(worked->value("done", false));
  testing_util::ExpectError(leader.Ask(1, {{"call", "hangs"}}), Errc::kLost,
                            "process 1 has not been heard of");
  over = true;
  EXPECT_TRUE(SendMessage(*first, 1, kOrderChannel, {{"call", "end"}}).ok());
}

TEST(Leader, AfterAnAnswerThatDidNotComeNothingIsAsked) {
  MemoryNet net(2);
  const std::unique_ptr<Transport> first = net.Join(0), second = net.Join(1);
  Leader leader(*first);
  std::jthread answers([&] {
    ASSERT_TRUE(ReceiveMessage(*second, 0, kOrderChannel, {}).ok());
    ASSERT_TRUE(SendMessage(*second, 0, kAnswerChannel, {{"to", "the first"}}).ok());
  });
  const auto fails = [] { return Status(Error(Errc::kIo, "cannot be read")); };
  testing_util::ExpectError(leader.Ask(1, {{"call", "take_file"}}, fails), Errc::kIo,
                            "cannot be read");
  EXPECT_FALSE(leader.in_order());
  // Its answer would be taken for the next one's.
  testing_util::ExpectError(leader.Ask(1, {{"call", "sees"}}), Errc::kLost, "earlier failure");
  testing_util::ExpectError(leader.TellAll({{"call", "end"}}), Errc::kLost, "earlier failure");
}

TEST_F(LedTest, RanksThatAreNotThoseOfTheMeshAreRefused) {
  MemoryNet net(2);
  const std::unique_ptr<Transport> transport = net.Join(0);
  MeshOptions options = Options(1, 4);
  options.transport = transport.get();
  for (const std::vector<int>& ranks : {std::vector{2, 1}, {4}, {0, 4}, {2, 2, 0}}) {
    options.ranks_of_process = ranks;
    const auto made = MeshModel::Make(lab_.config(), options, lab_.source());
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().code(), Errc::kInternal);
  }
}

}  // namespace
}  // namespace nxdkit::trainer
