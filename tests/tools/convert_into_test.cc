// --into: new weights for a bundle in use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "formats/rollout/weight_slots.h"
#include "formats/rollout/weights_version.h"
#include "tests/formats/compiled_blob.h"
#include "tests/tools/convert_workshop.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ConvertInto : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ExpectConverts("--from hf --to rollout --tp 4 --bs 8 --flavor " + flavor(), base_, bundle_);
    workshop_.Write("bundle/model.pt", testing_util::CompiledBlob());
  }
  std::string flavor() const { return GetParam(); }
  std::string Weights() const {
    return bundle_ + (flavor() == "nxdi" ? "/weights" : "/checkpoint/weights");
  }
  void Refuse(const std::string& options, const std::string& input, int exit_code,
              const std::string& part) const {
    const Tree before = ReadTree(bundle_);
    for (const char* dry_run : {" --dry-run", ""}) {
      const ProcessResult result =
          Workshop::Convert("--from hf --to rollout --into " + options + dry_run, input, bundle_);
      EXPECT_EQ(result.exit_code, exit_code) << options << dry_run << "\n" << result.err;
      EXPECT_THAT(result.err, HasSubstr(part)) << options << dry_run;
      EXPECT_TRUE(ReadTree(bundle_) == before) << options << dry_run;
    }
  }

  const Workshop workshop_;
  const std::string base_ = workshop_.MakeModel("base", testing_util::TinyLlama(), "--seed 1");
  const std::string tuned_ = workshop_.MakeModel("tuned", testing_util::TinyLlama(), "--seed 2");
  const std::string bundle_ = workshop_ / "bundle";
};

TEST_P(ConvertInto, ReplacesTheWeightsAndNothingElse) {
  const std::string config = ReadFile(bundle_ + "/neuron_config.json");
  std::ofstream(Weights() + "/extra.txt") << "a note";
  for (int round = 0; round < 4; ++round) {
    const std::string& model = round % 2 == 0 ? tuned_ : base_;
    ExpectConverts("--from hf --to rollout --into --verify", model, bundle_);
    EXPECT_EQ(Workshop::Verify(bundle_, "--against " + model).exit_code, 0) << round;
  }
  EXPECT_EQ(ReadFile(bundle_ + "/neuron_config.json"), config);
  EXPECT_EQ(ReadFile(Weights() + "/extra.txt"), "a note");
  EXPECT_TRUE(ReadFile(bundle_ + "/model.pt") == testing_util::CompiledBlob());
  EXPECT_TRUE(fs::is_symlink(Weights()));
}

TEST_P(ConvertInto, GivesTheBytesOfAWholeConversion) {
  ExpectConverts("--from hf --to rollout --into", tuned_, bundle_);
  ExpectConverts("--from hf --to rollout --tp 4 --flavor " + flavor(), tuned_, workshop_ / "fresh");
  fs::remove(Weights() + "/version.json");
  ExpectSameTree(workshop_ / ("fresh" + Weights().substr(bundle_.size())), Weights() + "/");
}

TEST_P(ConvertInto, SaysWhichVersionItIs) {
  const Json first =
      JsonOf(Workshop::Convert("--from hf --to rollout --into --json", tuned_, bundle_));
  EXPECT_EQ(first["serial"], 1);
  EXPECT_EQ(first["label"], "tuned");
  EXPECT_EQ(first["overwritten"], false);
  Workshop::Convert("--from hf --to rollout --into", tuned_, bundle_);
  const Json third = JsonOf(
      Workshop::Convert("--from hf --to rollout --into --label step_3 --json", base_, bundle_));
  EXPECT_EQ(third["serial"], 3);
  EXPECT_EQ(third["overwritten"], true);
  const auto version = rollout::ReadVersion(Weights());
  ASSERT_TRUE(version.ok() && version->has_value());
  EXPECT_EQ(**version, (rollout::WeightsVersion{3, "step_3", base_}));
}

TEST_P(ConvertInto, NamesTheTagOfAnNxdSet) {
  const std::string set = workshop_ / "set/step_17";
  ExpectConverts("--from hf --to nxd --tp 2", tuned_, set);
  const Json json = JsonOf(
      Workshop::Convert("--from nxd --to rollout --into --json", workshop_ / "set", bundle_));
  EXPECT_EQ(json["label"], "step_17");
  EXPECT_EQ(Workshop::Verify(bundle_, "--against " + tuned_).exit_code, 0);
}

// A bundle can be its own source: the slot that is read is not the one that is written.
TEST_P(ConvertInto, TakesItselfAsInput) {
  ExpectConverts("--from rollout --to rollout --into --verify", bundle_, bundle_);
  EXPECT_EQ(Workshop::Verify(bundle_, "--against " + base_).exit_code, 0);
}

TEST_P(ConvertInto, RefusesWhatDoesNotFit) {
  Refuse("--tp 2", tuned_, 2, "--tp 2 was asked for, but the bundle is made for 4");
  Refuse("--dtype f32", tuned_, 2, "--dtype float32 was asked for");
  TinyModel wider = testing_util::TinyLlama();
  wider.intermediate = 96;
  Refuse("", workshop_.MakeModel("wider", wider), 4,
         "the bundle was compiled for BF16 [12, 32], the model gives BF16 [24, 32]");
  Refuse("", workshop_.MakeModel("qwen", testing_util::TinyQwen3()), 4, "the bundle was compiled");
}

TEST_P(ConvertInto, RefusesOptionsThatSayNothing) {
  Refuse("--force", tuned_, 2, "--force does not apply");
  Refuse("--bundle " + bundle_, tuned_, 2, "--bundle names others");
  ExpectRefused("--from hf --to hf --into", tuned_, workshop_ / "other", 2,
                "only the weights of a rollout bundle");
  ExpectRefused("--from hf --to rollout --tp 4 --label x", tuned_, workshop_ / "other", 2,
                "--label names the weights that --into replaces");
}

TEST_P(ConvertInto, RefusesOtherFilesThatAreTooLargeToKeep) {
  std::ofstream(Weights() + "/dump.bin").close();
  fs::resize_file(Weights() + "/dump.bin", (256 << 20) + 1);
  for (const char* dry_run : {" --dry-run", ""}) {
    const ProcessResult result =
        Workshop::Convert(std::string("--from hf --to rollout --into") + dry_run, tuned_, bundle_);
    EXPECT_EQ(result.exit_code, 4) << result.err;
    EXPECT_THAT(result.err, HasSubstr("dump.bin: not part of the weights"));
    EXPECT_THAT(result.err, HasSubstr("move it out of the folder of the weights"));
    EXPECT_EQ(fs::read_symlink(Weights()), ".weights.0");
  }
}

TEST_P(ConvertInto, RefusesABundleWithoutShards) {
  fs::remove_all(fs::canonical(Weights()));
  fs::remove(Weights());
  if (flavor() == "nxdi")
    Refuse("", tuned_, 3, "save_sharded_checkpoint is true, but there is no weights/ folder");
  else
    Refuse("", tuned_, 4, "the bundle has no rank shards that could be replaced");
  ExpectRefused("--from hf --to rollout --into", tuned_, workshop_ / "none", 3,
                "no such file or folder");
}

TEST_P(ConvertInto, ASecondWriterIsRefusedByName) {
  const auto first = rollout::SlotUpdate::Begin(Weights(), {});
  ASSERT_TRUE(first.ok()) << first.error().ToString();
  const ProcessResult result = Workshop::Convert("--from hf --to rollout --into", tuned_, bundle_);
  EXPECT_EQ(result.exit_code, 5) << result.err;
  EXPECT_THAT(result.err, HasSubstr("another process is refreshing this bundle (pid " +
                                    std::to_string(getpid())));
}

TEST_P(ConvertInto, AHalfWrittenVersionIsNotRead) {
  ExpectConverts("--from hf --to rollout --into", tuned_, bundle_);
  std::ofstream(Weights() + "/.incomplete") << "";
  for (const ProcessResult& result :
       {Workshop::Verify(bundle_),
        Workshop::Convert("--from rollout --to hf", bundle_, workshop_ / "model")}) {
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_THAT(result.err, HasSubstr("half written: a refresh of these weights was interrupted"));
    EXPECT_THAT(result.err, HasSubstr("refresh the bundle again"));
  }
  ExpectConverts("--from hf --to rollout --into", tuned_, bundle_);
  EXPECT_EQ(Workshop::Verify(bundle_, "--against " + tuned_).exit_code, 0);
}

// The ways in which users copy a bundle.
TEST_P(ConvertInto, CopiesOfABundleAreBundles) {
  ExpectConverts("--from hf --to rollout --into", tuned_, bundle_);
  ExpectConverts("--from hf --to rollout --into", base_, bundle_);
  const std::string copy = workshop_ / "copy";
  const std::string slots = "--exclude=.weights.* ";
  const std::string pack = Workshop::Tool("ckpt-pack") + " -q ";
  for (const std::string& script :
       {pack + bundle_ + " " + copy + ".tar && " + pack + "--unpack " + copy + ".tar " + copy,
        "cp -a " + bundle_ + " " + copy, "cp -rL " + bundle_ + " " + copy,
        "mkdir " + copy + " && tar -C " + bundle_ + " -ch " + slots + ". | tar -C " + copy + " -x",
        "mkdir " + copy + " && flock -s " + fs::path(Weights()).parent_path().string() +
            "/.weights.lock tar -C " + bundle_ + " -c . | tar -C " + copy + " -x"}) {
    const ProcessResult copied = RunProcess({"bash", "-c", script});
    EXPECT_EQ(copied.exit_code, 0) << script << copied.err;
    EXPECT_EQ(Workshop::Verify(copy, "--against " + base_).exit_code, 0) << script;
    ExpectConverts("--from hf --to rollout --into", tuned_, copy);
    EXPECT_EQ(Workshop::Verify(copy, "--against " + tuned_).exit_code, 0) << script;
    fs::remove_all(copy);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ConvertInto, ::testing::Values("optimum", "nxdi"),
                         [](const auto& row) { return std::string(row.param); });

// Readers that follow the protocol see one version in all files, whatever switches happen
// meanwhile.
TEST(ConvertIntoInUse, ReadersSeeOneWholeVersion) {
  const Workshop workshop;
  const std::string a = workshop.MakeModel("a", testing_util::TinyQwen3(), "--seed 1");
  const std::string b = workshop.MakeModel("b", testing_util::TinyQwen3(), "--seed 2");
  const std::string bundle = workshop / "bundle";
  ExpectConverts("--from hf --to rollout --tp 8", b, bundle);
  ExpectConverts("--from hf --to rollout --tp 8", a, workshop / "a8");
  const Tree tree_b = ReadTree(bundle + "/checkpoint/weights");
  const Tree tree_a = ReadTree(workshop / "a8/checkpoint/weights");
  std::atomic<bool> stop{false};
  int64_t reads = 0;
  std::thread reader([&] {
    while (!stop) {
      const auto pinned = rollout::PinWeights(bundle + "/checkpoint/weights");
      ASSERT_TRUE(pinned.ok()) << pinned.error().ToString();
      Tree tree = ReadTree(pinned->folder);
      tree.erase("version.json");
      if (!pinned->lock->IsAt(pinned->folder)) continue;  // the first refresh moved it away
      EXPECT_TRUE(tree == tree_a || tree == tree_b) << "a mix, after " << reads << " reads";
      ++reads;
    }
  });
  for (int round = 0; round < 12; ++round)
    ExpectConverts("--from hf --to rollout --into", round % 2 == 0 ? a : b, bundle);
  stop = true;
  reader.join();
  EXPECT_GT(reads, 0);
}

}  // namespace
}  // namespace nxdkit::test
