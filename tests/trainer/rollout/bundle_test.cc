// Bundles that the engine refuses to load, with the numbers; and that stale weights do not pass.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "formats/kinds/open.h"
#include "formats/kinds/table.h"
#include "formats/ops/digest/digest.h"
#include "lib/system/folder_lock.h"
#include "tests/trainer/rollout/rollout_lab.h"

namespace nxdkit::trainer {
namespace {

using ::testing::HasSubstr;
using testing_util::TinyLlama;

Error Refusal(const EngineOptions& options) {
  auto engine = Engine::Load(options);
  EXPECT_FALSE(engine.ok()) << "it was loaded";
  return engine.ok() ? Error(Errc::kInternal, "loaded") : engine.error();
}

TEST(EngineBundle, WithoutABlobIsRefused) {
  const RolloutLab lab(TinyLlama());
  const std::string bundle = lab.Bundle({.cpu = false});
  const Error error = Refusal({.bundle = bundle});
  EXPECT_EQ(error.code(), Errc::kUnsupported);
  EXPECT_EQ(error.file(), bundle);
  EXPECT_THAT(error.message(), HasSubstr("the bundle has no nxdkit-cpu-plan.json"));
  EXPECT_THAT(error.hint(), HasSubstr("--target cpu"));
}

TEST(EngineBundle, WithABlobForNeuronIsRefused) {
  const RolloutLab lab(TinyLlama());
  const std::string bundle = lab.Bundle({.cpu = false});
  lab.Write("bundle/model.pt", "compiled");
  const Error error = Refusal({.bundle = bundle});
  EXPECT_EQ(error.code(), Errc::kUnsupported);
  EXPECT_THAT(error.message(), HasSubstr("model.pt is compiled for Neuron devices"));
  EXPECT_THAT(error.hint(), HasSubstr("worker.rollout.engine=vllm or exec"));
}

TEST(EngineBundle, MissingIsToldApart) {
  const RolloutLab lab(TinyLlama());
  EXPECT_EQ(Refusal({.bundle = lab.Path("nothing")}).code(), Errc::kNotFound);
}

TEST(EngineBundle, MustBeMadeForWhatTheConfigurationSays) {
  const RolloutLab lab(TinyLlama());
  const std::string bundle = lab.Bundle({.tp = 2, .batch_size = 4, .seq_len = 64});
  struct Case {
    NeuronOverride asked;
    const char* said;
  };
  for (const Case& one :
       {Case{{.tp_degree = 8}, "neuron_override_config.tp_degree is 8, the bundle was made for 2"},
        Case{{.batch_size = 64}, "batch_size is 64, the bundle was made for 4"},
        Case{{.tp_degree = 2, .seq_len = 4096}, "seq_len is 4096, the bundle was made for 64"},
        Case{{.torch_dtype = "bfloat16"},
             "torch_dtype is bfloat16, the bundle was made for float32"}}) {
    const Error error = Refusal({.bundle = bundle, .neuron_override = one.asked});
    EXPECT_EQ(error.code(), Errc::kUnsupported);
    EXPECT_THAT(error.message(), HasSubstr(one.said));
  }
  const auto same =
      Engine::Load({.bundle = bundle,
                    .neuron_override = {
                        .tp_degree = 2, .batch_size = 4, .seq_len = 64, .torch_dtype = "float32"}});
  ASSERT_TRUE(same.ok()) << Text(same);
  EXPECT_EQ(same->facts().tp, 2);
  EXPECT_EQ(same->facts().batch_size, 4);
  EXPECT_EQ(same->facts().seq_len, 64);
}

TEST(EngineBundle, AConfigurationThatChangedAfterThePlanIsFound) {
  const RolloutLab lab(TinyLlama());
  const std::string bundle = lab.Bundle({});
  std::string config = testing_util::ReadBytes(bundle + "/config.json");
  config.insert(config.find('{') + 1, "\n  \"rope_theta\": 777.0,");
  lab.Write("bundle/config.json", config);
  const Error error = Refusal({.bundle = bundle});
  EXPECT_EQ(error.code(), Errc::kCorrupt);
  EXPECT_THAT(error.message(), HasSubstr("config_digest"));
}

TEST(EngineBundle, DtypesThatAreNotBuiltInAreRefused) {
  const RolloutLab lab(TinyLlama());
  const Error error = Refusal({.bundle = lab.Bundle({.dtype = Dtype::kF16})});
  EXPECT_EQ(error.code(), Errc::kUnsupported);
  EXPECT_THAT(error.message(), HasSubstr("float16 is not supported by this engine"));
}

TEST(EngineBundle, SequencesLongerThanTheModelsPositionsAreRefused) {
  const RolloutLab lab(TinyLlama());
  const Error error = Refusal({.bundle = lab.Bundle({.seq_len = 4096})});
  EXPECT_EQ(error.code(), Errc::kUnsupported);
  EXPECT_THAT(error.message(),
              HasSubstr("sequence length 4096 is over the model's max_position_embeddings 2048"));
}

std::string DigestOf(const std::string& path, const ops::Kind* kind) {
  const auto source = ops::OpenAndBind(path, kind, {});
  EXPECT_TRUE(source.ok()) << Text(source);
  const auto digest = ops::DigestModel(*source, {});
  EXPECT_TRUE(digest.ok()) << Text(digest);
  return manifest::DigestText(digest->digest);
}

// Another model of the same shapes goes into the bundle: the loaded digest shows it.
TEST(EngineBundle, StaleWeightsDoNotPass) {
  const RolloutLab lab(TinyLlama());
  const std::string bundle = lab.Bundle({.tp = 4});
  const std::string before = DigestOf(lab.model(), &ops::kHf);
  const std::string after = DigestOf(lab.model() + "-flat", &ops::kHf);
  ASSERT_NE(before, after);

  const auto first = Engine::Load({.bundle = bundle, .digest = true});
  ASSERT_TRUE(first.ok()) << Text(first);
  EXPECT_EQ(first->facts().digest, before) << "of the ranks' memory, of the model's file";
  EXPECT_FALSE(first->facts().version.has_value());
  const Error stale = Refusal({.bundle = bundle, .expect = {.digest = after}});
  EXPECT_EQ(stale.code(), Errc::kFindings);
  EXPECT_THAT(stale.message(), HasSubstr(before + ", expected " + after));
  EXPECT_THAT(Refusal({.bundle = bundle, .expect = {.serial = 1}}).message(),
              HasSubstr("stale weights: found weights that were never refreshed, expected "
                        "version 1"));

  ops::ConvertRequest refresh;
  refresh.from = &ops::kHf;
  refresh.to = &ops::kRollout;
  refresh.input = lab.model() + "-flat";
  refresh.output = bundle;
  refresh.place = ops::Slot{"step_1"};
  refresh.sync = false;
  const auto refreshed = ops::Convert(refresh);
  ASSERT_TRUE(refreshed.ok()) << Text(refreshed);
  const auto second =
      Engine::Load({.bundle = bundle, .expect = {.serial = 1, .label = "step_1", .digest = after}});
  ASSERT_TRUE(second.ok()) << Text(second);
  EXPECT_EQ(second->facts().version->label, "step_1");
  const Error late = Refusal({.bundle = bundle, .expect = {.serial = 2, .label = "step_2"}});
  EXPECT_EQ(late.code(), Errc::kFindings);
  EXPECT_THAT(late.message(), HasSubstr("found version 1 \"step_1\""));
  EXPECT_THAT(late.message(), HasSubstr("expected version 2 \"step_2\""));
}

TEST(EngineBundle, IsFreeToBeRefreshedOnceItIsLoaded) {
  const RolloutLab lab(TinyLlama());
  const std::string bundle = lab.Bundle({});
  const auto engine = Engine::Load({.bundle = bundle});
  ASSERT_TRUE(engine.ok()) << Text(engine);
  const auto lock = FolderLock::Try(bundle + "/checkpoint/weights", FolderLock::Mode::kExclusive);
  ASSERT_TRUE(lock.ok());
  EXPECT_EQ(lock->state(), FolderLock::State::kHeld);
}

TEST(EngineRequests, ThatCannotBeAreRefusedByNumber) {
  const RolloutLab lab(TinyLlama());
  auto engine = Engine::Load({.bundle = lab.Bundle({.seq_len = 16})});
  ASSERT_TRUE(engine.ok()) << Text(engine);
  struct Case {
    void (*change)(RolloutRequest&);
    const char* said;
  };
  for (const Case& one : {
           Case{[](RolloutRequest& r) { r.prompt.clear(); }, "a prompt of 0 tokens"},
           Case{[](RolloutRequest& r) { r.prompt.assign(16, 1); },
                "a prompt of 16 tokens, expected 1 to 15: the sequence length is 16"},
           Case{[](RolloutRequest& r) { r.prompt[1] = 64; }, "token id 64 is not below"},
           Case{[](RolloutRequest& r) { r.prompt[1] = -1; }, "token id -1 is not below"},
           Case{[](RolloutRequest& r) { r.sampling.temperature = -1; }, "temperature -1"},
           Case{[](RolloutRequest& r) { r.sampling.temperature = NAN; }, "temperature nan"},
           Case{[](RolloutRequest& r) { r.sampling.top_p = 0; }, "top_p 0"},
           Case{[](RolloutRequest& r) { r.sampling.top_k = -2; }, "top_k -2"},
           Case{[](RolloutRequest& r) { r.sampling.max_tokens = 0; }, "max_tokens 0"},
       }) {
    auto requests = SampleRequests(2, 1, {});
    one.change(requests[1]);
    const auto generated = engine->Generate(requests);
    ASSERT_FALSE(generated.ok()) << one.said;
    EXPECT_EQ(generated.error().code(), Errc::kUsage);
    EXPECT_THAT(generated.error().message(), HasSubstr(std::string("request 1: ") + one.said));
  }
}

}  // namespace
}  // namespace nxdkit::trainer
