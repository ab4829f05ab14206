// A stale sync cannot pass, whatever happens between the actor's memory and the engine's.
#include "trainer/loop/weight_sync.h"
#include "formats/kinds/open.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "formats/kinds/open.h"
#include "formats/manifest/manifest.h"
#include "formats/ops/digest/digest.h"
#include "formats/ops/export/export.h"
#include "lib/sinks/compare_sink.h"
#include "lib/system/file.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/lib/expect_error.h"
#include "tests/trainer/comm/memory_transport.h"
#include "tests/trainer/model/model_lab.h"
#include "trainer/loop/deliveries.h"
#include "trainer/loop/generators.h"
#include "trainer/rollout/messages.h"
#include "trainer/rollout/worker_pool.h"

namespace nxdkit::trainer {
namespace {

namespace fs = std::filesystem;
using testing_util::ExpectError;

// The actor trains on two ranks in f32; the bundle is for two ranks, in bf16.
class WeightSync : public ::testing::Test {
 protected:
  void SetUp() override {
    ops::ExportRequest request;
    request.convert.input = lab_.path();
    request.convert.to = &ops::kRollout;
    request.convert.output = bundle_;
    request.convert.options.Set("tp", 2);
    request.convert.options.Set("bs", 4);
    request.convert.options.Set("seq", 16);
    request.convert.options.dtype = Dtype::kBF16;
    request.convert.sync = false;
    request.cpu = true;
    const auto report = ops::Export(request);
    ASSERT_TRUE(report.ok()) << report.error().ToString();
    MeshOptions options;
    options.tp = 2;
    options.update.max_tokens = options.experience.max_tokens = 100;
    auto actor = MeshModel::Make(lab_.config(), options, lab_.source());
    ASSERT_TRUE(actor.ok()) << actor.error().ToString();
    actor_ = *std::move(actor);
    generator_ = MakeEngineGenerator({.bundle = bundle_}, nullptr);
  }

  SyncedWeights Sync(const std::string& label) {
    const auto synced = SyncWeights(*actor_, lab_.config(), lab_.source().artifact,
                                    {.bundle = bundle_}, label, 1, {});
    EXPECT_TRUE(synced.ok()) << synced.error().ToString();
    return synced.ok() ? *synced : SyncedWeights();
  }

  // Like an update, as far as the sync can see.
  void Move() {
    for (const RankMemory& rank : actor_->weights()) {
      float* weights = reinterpret_cast<float*>(rank.parts.front().data);
      for (const Slot& slot : rank.table->slots)
        if (slot.shape.size() == 2) weights[slot.offset] += 1;
    }
  }

  std::string Link() const { return bundle_ + "/checkpoint/weights"; }
  std::string Weights() const { return fs::canonical(Link()).string(); }

  const ModelLab lab_{testing_util::TinyQwen3()};
  const testing_util::Scratch folder_;
  const std::string bundle_ = folder_.Path("bundle");
  std::unique_ptr<MeshModel> actor_;
  std::unique_ptr<Generator> generator_;
};

TEST_F(WeightSync, IsProvedByWhatTheEngineLoaded) {
  for (const char* label : {"step 0", "step 1", "step 2"}) {
    const SyncedWeights synced = Sync(label);
    EXPECT_EQ(synced.version.label, label);
    const auto loaded = generator_->Reload(synced);
    ASSERT_TRUE(loaded.ok()) << loaded.error().ToString();
    // The digest was computed from the memory, in the type of the bundle.
    const auto written = ops::OpenAndBind(bundle_, &ops::kRollout, {});
    ASSERT_TRUE(written.ok());
    EXPECT_EQ(manifest::DigestText(ops::DigestModel(*written, {})->digest), synced.digest);
    Move();
  }
}

bool IsIn(const Box& box, const Shape& index) {
  for (size_t d = 0; d < index.size(); ++d)
    if (index[d] < box.lo[d] || index[d] >= box.lo[d] + box.extent[d]) return false;
  return true;
}

// One byte of every tensor that an engine loads, in turn.
TEST_F(WeightSync, AChangedByteOfTheBundleIsStale) {
  const SyncedWeights synced = Sync("step 0");
  const auto written = ops::OpenAndBind(bundle_, &ops::kRollout, {});
  ASSERT_TRUE(written.ok());
  const auto places = PrimaryPlaces::Find(written->params, written->bound.layout);
  ASSERT_TRUE(places.ok());
  size_t changed = 0;
  for (uint32_t param = 0; param < written->params.size(); ++param)
    for (const PrimaryPlaces::Place& place : places->of(param)) {
      const StoredTensor& stored = written->bound.stored[place.tensor];
      const TensorLayout& layout = written->bound.layout.tensors[place.tensor];
      const std::string file = written->bound.layout.files[layout.file].path;
      SCOPED_TRACE(written->params[param].name + " in " + layout.name + " of " + file);
      // Only a part of a tied or repeated tensor is loaded.
      int64_t element = 0;
      while (!IsIn(place.logical, PlaceOf(layout, element).logical)) ++element;
      const uint64_t at = stored.storage->file_offset() + stored.offset +
                          static_cast<uint64_t>(element * ElementBytes(stored.dtype));
      testing_util::FlipFile(file, at);
      ExpectError(generator_->Reload(synced), Errc::kFindings,
                  "stale weights: the model that was loaded has the digest ");
      testing_util::FlipFile(file, at);
      ++changed;
    }
  EXPECT_GT(changed, 20u);
  EXPECT_TRUE(generator_->Reload(synced).ok()) << "all is as it was";
}

TEST_F(WeightSync, TheOldSlotIsStale) {
  const SyncedWeights first = Sync("step 0");
  const std::string old = Weights();
  Move();
  const SyncedWeights second = Sync("step 1");
  const std::string current = Weights();
  ASSERT_NE(old, current);
  ASSERT_NE(first.digest, second.digest);
  fs::remove(Link());
  fs::create_directory_symlink(old, Link());
  ExpectError(generator_->Reload(second), Errc::kFindings, "stale weights: found version 1");
  // Not even when it claims to be the new one.
  fs::copy_file(current + "/version.json", old + "/version.json",
                fs::copy_options::overwrite_existing);
  ExpectError(generator_->Reload(second), Errc::kFindings,
              "stale weights: the model that was loaded has the digest " + first.digest);
}

// Process 1, with files in a folder of its own, unlike those of process 0.
class OtherMachine {
 public:
  OtherMachine(Transport& transport, const std::string& here, const std::string& there)
      : host_(transport) {
    OrderHandlers inner;
    host_.AddHandlers(inner);
    for (auto& [call, handler] : inner)
      handlers_[call] = [=, this](const Json& order, const Working& working) {
        ++calls[call];
        Json moved = order;
        for (const char* key : {"path", "archive", "output", "delta", "bundle"})
          if (moved.contains(key))
            moved[key] = there + moved[key].get<std::string>().substr(here.size());
        return handler(moved, working);
      };
    follows_ = std::jthread([&transport, this] { EXPECT_TRUE(Follow(transport, handlers_).ok()); });
  }
  std::map<std::string, int> calls;  // read when none is under way

 private:
  DeliveryHost host_;
  OrderHandlers handlers_;
  std::jthread follows_;
};

std::vector<std::string> LeftOvers(const std::string& folder) {
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.find(".sent") != name.npos || name.ends_with(".delta")) left.push_back(name);
  }
  return left;
}

TEST_F(WeightSync, AMachineThatDoesNotSeeTheBundleGetsACopyAndThenDeltas) {
  MemoryNet net(2);
  const std::unique_ptr<Transport> first = net.Join(0), second = net.Join(1);
  const std::string here = fs::path(bundle_).parent_path(), there = folder_.Path("there");
  OtherMachine other(*second, here, there);
  Leader leader(*first);
  const auto deliveries = std::make_shared<Deliveries>(leader, std::vector<int>{1});
  for (const char* label : {"step 0", "step 1", "step 2"}) {
    const auto synced = SyncWeights(*actor_, lab_.config(), lab_.source().artifact,
                                    {.bundle = bundle_, .elsewhere = deliveries}, label, 1, {});
    ASSERT_TRUE(synced.ok()) << synced.error().ToString();
    const auto arrived = ops::OpenAndBind(there + "/bundle", &ops::kRollout, {});
    ASSERT_TRUE(arrived.ok()) << arrived.error().ToString();
    EXPECT_EQ(manifest::DigestText(ops::DigestModel(*arrived, {})->digest), synced->digest);
    EXPECT_THAT(LeftOvers(here), ::testing::IsEmpty());
    EXPECT_THAT(LeftOvers(there), ::testing::IsEmpty());
    Move();
  }
  EXPECT_EQ(other.calls["unpack"], 1);
  EXPECT_EQ(other.calls["apply"], 2);
  EXPECT_TRUE(leader.TellAll({{"call", "end"}}).ok());
}

TEST_F(WeightSync, ADeltaThatCannotBeAppliedThereIsToldAndNotLeft) {
  MemoryNet net(2);
  const std::unique_ptr<Transport> first = net.Join(0), second = net.Join(1);
  const std::string there = folder_.Path("there");
  OtherMachine other(*second, fs::path(bundle_).parent_path(), there);
  Leader leader(*first);
  Deliveries deliveries(leader, {1});
  ExpectError(deliveries.SendDelta(bundle_ + "/config.json", bundle_, "step 1"), Errc::kCorrupt,
              "bundle.sent.delta: offset 0");
  EXPECT_TRUE(leader.in_order());
  EXPECT_THAT(LeftOvers(there), ::testing::IsEmpty());
  EXPECT_TRUE(leader.TellAll({{"call", "end"}}).ok());
}

// A worker that answers without having loaded: the weights of the step before, or none at all.
TEST_F(WeightSync, AnEngineThatLoadsNothingIsStale) {
  const SyncedWeights first = Sync("step 0");
  auto engine = Engine::Load({.bundle = bundle_, .digest = true});
  ASSERT_TRUE(engine.ok()) << engine.error().ToString();
  EngineFacts facts = engine->facts();
  EXPECT_EQ(facts.digest, first.digest);
  Move();
  const SyncedWeights second = Sync("step 1");
  const auto reload = [&] {
    const std::string answers =
        MakeFrame(FrameKind::kHello, EncodeHello()) + MakeFrame(FrameKind::kLoaded, Encode(facts));
    folder_.Write("answers", answers);
    WorkerPoolOptions options;
    options.command = {"/bin/sh", "-c",
                       "cat '" + folder_.Path("answers") + "'; exec cat > /dev/null"};
    auto pool = WorkerPool::Start(options);
    EXPECT_TRUE(pool.ok()) << pool.error().ToString();
    return pool->Load(
        {.bundle = bundle_, .expect = {.serial = second.version.serial, .digest = second.digest}});
  };
  ExpectError(reload(), Errc::kFindings, "stale weights: found version 1");
  facts.version = second.version;
  ExpectError(reload(), Errc::kFindings, "has the digest " + first.digest + ", expected ");
  facts.digest = "";
  ExpectError(reload(), Errc::kFindings, "has the digest of nothing, expected ");
  facts.digest = second.digest;
  EXPECT_TRUE(reload().ok());
}

}  // namespace
}  // namespace nxdkit::trainer
