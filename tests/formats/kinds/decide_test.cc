// From options and source to one layout: defaults, and refused combinations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "formats/kinds/decide.h"
#include "formats/kinds/nxd/decide_nxd.h"
#include "formats/kinds/open.h"
#include "formats/kinds/rollout/decide_rollout.h"
#include "formats/rollout/installed.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/formats/words.h"
#include "tests/lib/expect_error.h"

namespace nxdkit {
namespace {

using ops::Kind;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing_util::ExpectError;
using testing_util::OpsWorkshop;
using testing_util::TinyModel;

class DecideOutput : public ::testing::Test {
 protected:
  static ops::BoundArtifact Open(const std::string& path, const Kind* kind) {
    Result<ops::BoundArtifact> bound = ops::OpenAndBind(path, kind, {});
    EXPECT_TRUE(bound.ok()) << bound.error().ToString();
    return bound.ok() ? *std::move(bound) : ops::BoundArtifact();
  }
  const OpsWorkshop workshop_;
  const std::string path_ = workshop_.MakeModel("model", testing_util::TinyLlama());
  const ops::BoundArtifact model_ = Open(path_, &ops::kHf);
};

const nxd::Geometry& GeometryOf(const ops::Output& output) {
  return static_cast<const ops::NxdOutput&>(output).geometry;
}

struct Refusal {
  const char* name;
  const Kind* to;
  Errc code;
  const char* part;
  void (*ask)(ops::OutputOptions& options);
};

class DecideOutputRefuses : public DecideOutput, public ::testing::WithParamInterface<Refusal> {};
TEST_P(DecideOutputRefuses, Layout) {
  ops::OutputOptions options;
  GetParam().ask(options);
  ExpectError(ops::DecideOutput(model_, *GetParam().to, options), GetParam().code, GetParam().part);
}

using Options = ops::OutputOptions;
const Refusal kRefusals[] = {
    {"NxdWithoutTp", &ops::kNxd, Errc::kUsage, "--to nxd needs --tp", [](Options&) {}},
    {"RolloutWithoutTp", &ops::kRollout, Errc::kUsage, "--to rollout needs --tp", [](Options&) {}},
    {"RepeatedHeadsWithoutHardware", &ops::kNxd, Errc::kUsage, "say --hw trn1 or --hw trn2",
     [](Options& o) { o.Set("tp", 4); }},
    {"UnevenTp", &ops::kNxd, Errc::kUnsupported, "cannot be split",
     [](Options& o) { o.Set("tp", 3); }},
    {"MoreStagesThanLayers", &ops::kNxd, Errc::kUnsupported, "4 layers cannot fill 8",
     [](Options& o) { o.Set("tp", 2), o.Set("pp", 8); }},
    {"CoalescedGroupedHeads", &ops::kNxd, Errc::kUnsupported, "coalesced",
     [](Options& o) { o.Set("tp", 2), o.Set("qkv", "coalesced"); }},
    {"SeparateRepeatedHeads", &ops::kNxd, Errc::kUnsupported,
     "needs the linear or fused q/k/v style",
     [](Options& o) { o.Set("tp", 4), o.Set("hw", "trn1"), o.Set("qkv", "separate"); }},
    {"MegatronWithRepeatedHeads", &ops::kNxd, Errc::kUnsupported, "Megatron",
     [](Options& o) { o.Set("tp", 4), o.Set("hw", "trn1"), o.Set("style", "megatron"); }},
    {"QkvOfMegatron", &ops::kNxd, Errc::kUsage, "there is one way",
     [](Options& o) { o.Set("tp", 2), o.Set("style", "megatron"), o.Set("qkv", "separate"); }},
    {"ExpertsOfADenseModel", &ops::kNxd, Errc::kUnsupported, "has no experts to spread over ep 2",
     [](Options& o) { o.Set("tp", 2), o.Set("ep", 2); }},
    {"ExpertNamesOfADenseModel", &ops::kNxd, Errc::kUsage,
     "--style nxdt names the experts of a model",
     [](Options& o) { o.Set("tp", 2), o.Set("style", "nxdt"); }},
};
INSTANTIATE_TEST_SUITE_P(Layouts, DecideOutputRefuses, ::testing::ValuesIn(kRefusals),
                         [](const auto& row) { return std::string(row.param.name); });

TEST_F(DecideOutput, RefusesAModelWithoutConfiguration) {
  const std::string torch = workshop_.Make("model.pt", path_, &ops::kHf, &ops::kTorch);
  const OpsWorkshop elsewhere;  // without a config.json next to it
  std::filesystem::copy_file(torch, elsewhere / "model.pt");
  const ops::BoundArtifact source = Open(elsewhere / "model.pt", &ops::kTorch);
  ops::OutputOptions options;
  options.Set("tp", 2);
  for (const Kind* to : {&ops::kNxd, &ops::kRollout})
    ExpectError(ops::DecideOutput(source, *to, options), Errc::kNotFound, "no config.json");
}

TEST_F(DecideOutput, TakesTheRestOfABundleFromTheModel) {
  ops::OutputOptions options;
  options.Set("tp", 2);
  const auto spec = ops::DecideOutput(model_, ops::kRollout, options);
  ASSERT_TRUE(spec.ok()) << spec.error().ToString();
  const ops::RolloutOutput& bundle = *ops::AsRollout(**spec);
  EXPECT_EQ(bundle.neuron.tp, 2);
  EXPECT_EQ(bundle.neuron.sequence_length, 4096);
  EXPECT_EQ(bundle.neuron.torch_dtype, "bfloat16");
  EXPECT_EQ(bundle.dtype, Dtype::kBF16);
  EXPECT_THAT(bundle.notes, Contains(HasSubstr("the compiled blob (model.pt) is missing")));
}

TEST_F(DecideOutput, RepeatsKeyHeadsAsOftenAsRanksNeed) {
  ops::OutputOptions options;
  options.Set("tp", 4);  // over 2 key heads
  options.Set("hw", Word(models::Hardware::kTrn2));
  const auto spec = ops::DecideOutput(model_, ops::kNxd, options);
  ASSERT_TRUE(spec.ok()) << spec.error().ToString();
  EXPECT_EQ(GeometryOf(**spec).kv_multiplier, 2);
  EXPECT_EQ(GeometryOf(**spec).qkv, nxd::QkvStyle::kLinear);
}

// The heads of the input are stored once, so its shards do not show it; its record does.
TEST_F(DecideOutput, TakesTheHardwareThatTheInputRecords) {
  ops::OutputOptions options;
  options.Set("tp", 2);
  options.Set("hw", Word(models::Hardware::kTrn2));
  const std::string set = workshop_.Make("set", path_, &ops::kHf, &ops::kNxd, options);
  options = {};
  options.Set("tp", 4);
  options.Set("training-tag", true);
  const auto spec = ops::DecideOutput(Open(set, &ops::kNxd), ops::kNxd, options);
  ASSERT_TRUE(spec.ok()) << spec.error().ToString();
  EXPECT_EQ(GeometryOf(**spec).hardware, models::Hardware::kTrn2);
  std::filesystem::remove(set + "/nxdkit.json");
  ExpectError(ops::DecideOutput(Open(set, &ops::kNxd), ops::kNxd, options), Errc::kUsage,
              "say --hw trn1 or --hw trn2");
}

// The record of a set made without --hw says trn1, but this was not a decision.
TEST_F(DecideOutput, AsksForTheHardwareThatNobodySaid) {
  ops::OutputOptions options;
  options.Set("tp", 2);
  const std::string set = workshop_.Make("set", path_, &ops::kHf, &ops::kNxd, options);
  options.Set("tp", 4);
  options.Set("training-tag", true);
  ExpectError(ops::DecideOutput(Open(set, &ops::kNxd), ops::kNxd, options), Errc::kUsage,
              "say --hw trn1 or --hw trn2");
}

// --- the versions that optimum-neuron compares when it loads a bundle

using Installed = std::vector<rollout::Installation>;

class DecideStamp : public DecideOutput {
 protected:
  ops::RolloutOutput Decide(ops::OutputOptions options) const {
    options.Set("tp", 2);
    const auto spec = ops::DecideOutput(model_, ops::kRollout, options);
    EXPECT_TRUE(spec.ok()) << spec.error().ToString();
    return spec.ok() ? *ops::AsRollout(**spec) : ops::RolloutOutput(options);
  }
  static bool Warns(const ops::Output& spec, const std::string& part) {
    return std::ranges::any_of(spec.warnings, [&](const std::string& warning) {
      return warning.find(part) != std::string::npos;
    });
  }
};

TEST_F(DecideStamp, OursAreAGuessAndSaidToBeOne) {
  const ops::RolloutOutput spec = Decide({});
  EXPECT_EQ(spec.neuron.stamp,
            (rollout::VersionStamp{rollout::kOptimumVersion, rollout::kCompilerVersion}));
  EXPECT_TRUE(Warns(spec,
                    "says optimum_neuron_version 0.4.6.dev4 and neuronxcc_version "
                    "2.21.33363.0+82129205: optimum-neuron loads the bundle only if it"));
}

TEST_F(DecideStamp, AreThoseInstalled) {
  ops::OutputOptions options;
  options.Set("installations",
              Installed{{"/a", "", "2.1"}, {"/b", "0.5", "2.2"}, {"/c", "0.6", "2.3"}});
  const ops::RolloutOutput spec = Decide(options);
  EXPECT_EQ(spec.neuron.stamp, (rollout::VersionStamp{"0.5", "2.2"})) << "the first with both";
  EXPECT_TRUE(spec.warnings.empty());
  EXPECT_THAT(spec.notes, Contains("versions for the loader, as installed in /b: 0.5, 2.2"));
  EXPECT_THAT(spec.neuron_text, HasSubstr("\"neuronxcc_version\": \"2.2\""));
}

TEST_F(DecideStamp, OptionsWinAndOneMayBeMissing) {
  ops::OutputOptions options;
  options.Set("installations", Installed{{"/a", "0.5", ""}});
  const ops::RolloutOutput half = Decide(options);
  EXPECT_EQ(half.neuron.stamp, (rollout::VersionStamp{"0.5", rollout::kCompilerVersion}));
  EXPECT_TRUE(Warns(half, "says neuronxcc_version 2.21.33363.0+82129205: "));
  options.Set("optimum-version", "1.0");
  options.Set("compiler-version", "3.0+x");
  const ops::RolloutOutput both = Decide(options);
  EXPECT_EQ(both.neuron.stamp, (rollout::VersionStamp{"1.0", "3.0+x"}));
  EXPECT_TRUE(both.warnings.empty());
}

TEST_F(DecideStamp, AWordThatIsNoVersionIsRefused) {
  for (const char* word : {"", "foo bar", "v1.0", "1.0/2", "latest"}) {
    ops::OutputOptions options;
    options.Set("tp", 2);
    options.Set("compiler-version", word);
    const auto spec = ops::DecideOutput(model_, ops::kRollout, options);
    ASSERT_FALSE(spec.ok()) << word;
    EXPECT_EQ(spec.error().code(), Errc::kUsage);
    EXPECT_THAT(spec.error().message(),
                HasSubstr("is not a version such as 2.21.33363.0+82129205"));
  }
  ops::OutputOptions options;
  options.Set("optimum-version", "0.5");
  options.Set("compiler-version", "2.22.12471.0");
  EXPECT_TRUE(Warns(Decide(options), "--compiler-version 2.22.12471.0 has no +hash"));
}

TEST_F(DecideStamp, AnEditableInstallationHasNone) {
  ops::OutputOptions options;
  options.Set("installations", Installed{{"/src", "", "2.2+a", true}});
  const ops::RolloutOutput spec = Decide(options);
  EXPECT_TRUE(Warns(spec, "the one in /src is editable, with an unknown version"));
  for (const std::string& note : spec.notes)
    EXPECT_EQ(note.find("as installed in"), std::string::npos) << note;
}

TEST_F(DecideStamp, NoneWhereNobodyCompares) {
  ops::OutputOptions options;
  options.Set("cpu-plan", true);
  const ops::RolloutOutput cpu = Decide(options);
  EXPECT_EQ(cpu.neuron.stamp, rollout::VersionStamp());
  EXPECT_EQ(cpu.neuron_text.find("neuronxcc_version"), std::string::npos);
  EXPECT_TRUE(cpu.warnings.empty());
  options.Set("cpu-plan", false);
  options.Set("flavor", Word(rollout::Flavor::kNxdi));
  EXPECT_TRUE(Decide(options).warnings.empty());
}

// optimum-neuron's exporter: get_neuron_config for each family.
TEST_F(DecideStamp, SamplingFollowsTheFamilyUnlessSaid) {
  const std::string path = workshop_.MakeModel("qwen", testing_util::TinyQwen3());
  const ops::BoundArtifact qwen = Open(path, &ops::kHf);
  const auto samples = [](const ops::BoundArtifact& model, int tp, int batch,
                          std::optional<bool> said) {
    ops::OutputOptions options;
    options.Set("tp", tp);
    options.Set("bs", batch);
    options.Set("on-device-sampling", said);
    const auto spec = ops::DecideOutput(model, ops::kRollout, options);
    EXPECT_TRUE(spec.ok()) << spec.error().ToString();
    return spec.ok() && ops::AsRollout(**spec)->neuron.on_device_sampling;
  };
  EXPECT_TRUE(samples(model_, 2, 8, std::nullopt)) << "Llama";
  EXPECT_FALSE(samples(qwen, 2, 8, std::nullopt)) << "garbage at tp 2 with batches";
  EXPECT_TRUE(samples(qwen, 2, 1, std::nullopt));
  EXPECT_TRUE(samples(qwen, 4, 8, std::nullopt));
  EXPECT_TRUE(samples(qwen, 2, 8, true));
  EXPECT_FALSE(samples(model_, 2, 8, false));
}

TEST_F(DecideOutput, AgreesWithACompiledBundle) {
  ops::OutputOptions options;
  options.Set("tp", 2);
  options.Set("bs", 4);
  options.Set("seq", 256);
  const std::string bundle = workshop_.Make("bundle", path_, &ops::kHf, &ops::kRollout, options);
  options = {};
  options.Set("bundle", bundle);
  ExpectError(ops::DecideOutput(model_, ops::kRollout, options), Errc::kNotFound,
              "no compiled blob");
  std::ofstream(bundle + "/model.pt") << "blob";
  const auto spec = ops::DecideOutput(model_, ops::kRollout, options);
  ASSERT_TRUE(spec.ok()) << spec.error().ToString();
  EXPECT_EQ(ops::AsRollout(**spec)->neuron.tp, 2);
  EXPECT_EQ(ops::AsRollout(**spec)->neuron.batch_size, 4);
  const auto refused = [&](void (*ask)(ops::OutputOptions&), const char* part) {
    ops::OutputOptions more = options;
    ask(more);
    ExpectError(ops::DecideOutput(model_, ops::kRollout, more), Errc::kUsage, part);
  };
  refused([](Options& o) { o.Set("tp", 4); }, "--tp 4 was asked for, but the bundle is made for 2");
  refused([](Options& o) { o.Set("bs", 8); }, "--bs 8 was asked for");
  refused([](Options& o) { o.Set("seq", 512); }, "--seq 512 was asked for");
  refused([](Options& o) { o.dtype = Dtype::kF32; }, "the bundle is made for bfloat16");
  refused([](Options& o) { o.Set("fused-qkv", false); }, "--no-fused-qkv was asked for");
  refused([](Options& o) { o.Set("flavor", "nxdi"); }, "the bundle is of flavor optimum");
}

}  // namespace
}  // namespace nxdkit
