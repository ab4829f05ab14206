// --to delta and --from delta: the changes alone restore the whole model or give an error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "formats/artifact/artifact.h"
#include "formats/kinds/open.h"
#include "formats/kinds/table.h"
#include "formats/rollout/weight_slots.h"
#include "formats/rollout/weights_version.h"
#include "lib/system/file.h"
#include "tests/tools/convert_workshop.h"
#include "tests/tools/kill.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Moves every `stride`-th element of each parameter by one representable value.
void Perturb(const std::string& model, size_t stride, uint32_t seed) {
  const Result<ops::Artifact> artifact = ops::OpenArtifact(model, &ops::kHf, {});
  ASSERT_TRUE(artifact.ok()) << artifact.error().ToString();
  std::mt19937 random(seed);
  for (const TensorFile& tensors : artifact->files)
    for (const StoredTensor& tensor : tensors.tensors) {
      const Result<File> file = File::OpenWrite(tensor.storage->path());
      ASSERT_TRUE(file.ok());
      const auto count = static_cast<size_t>(*ElementCount(tensor.shape));
      const auto width = static_cast<size_t>(ElementBytes(tensor.dtype));
      for (size_t i = random() % stride; i < count; i += stride) {
        const uint64_t at = tensor.storage->file_offset() + tensor.offset + i * width;
        std::byte low;
        ASSERT_TRUE(file->ReadAt(at, {&low, 1}).ok());
        low ^= std::byte{1};
        ASSERT_TRUE(file->WriteAt(at, {&low, 1}).ok());
      }
    }
}

void ExpectFails(const std::string& options, const std::string& input, const std::string& output,
                 int exit_code, const std::string& part) {
  const ProcessResult result = Workshop::Convert(options, input, output);
  EXPECT_EQ(result.exit_code, exit_code) << options << result.err;
  EXPECT_THAT(result.err, HasSubstr(part)) << options;
}

class ConvertDelta : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::copy(old_, new_, fs::copy_options::recursive);
    Perturb(new_, 50, 1);
  }
  // A delta from `base` to `input`.
  std::string Make(const std::string& name, const std::string& options, const std::string& base,
                   const std::string& input) const {
    ExpectConverts("--to delta --base " + base + " " + options, input, workshop_ / name);
    return workshop_ / name;
  }
  std::string Bundle(const std::string& name = "bundle") const {
    ExpectConverts("--from hf --to rollout --tp 4", old_, workshop_ / name);
    return workshop_ / name;
  }
  static ProcessResult Apply(const std::string& delta, const std::string& bundle) {
    return Workshop::Convert("--from delta --to rollout --into --json", delta, bundle);
  }
  static int Compared(const std::string& path, const std::string& model) {
    return Workshop::Verify(path, "--against " + model).exit_code;
  }

  const Workshop workshop_;
  const TinyModel shape_ = [] {
    TinyModel model = testing_util::TinyQwen3();
    model.vocab = 20000;  // an embedding of more than one block
    return model;
  }();
  const std::string old_ = workshop_.MakeModel("old", shape_, "--seed 1");
  const std::string new_ = workshop_ / "new";
};

TEST_F(ConvertDelta, GivesTheModelAgain) {
  for (const std::string coding : {"raw", "ulp"}) {
    const std::string delta =
        Make(coding + ".delta", "--from hf --verify --coding " + coding, old_, new_);
    const std::string again = workshop_ / (coding + "_again");
    ExpectConverts("--from delta --to hf --verify --base " + old_, delta, again);
    ExpectSameTree(new_, again);
    EXPECT_LT(fs::file_size(delta), fs::file_size(new_ + "/model.safetensors") / 8);
  }
}

// The delta is the same for all layouts of the two models, and however it is made.
TEST_F(ConvertDelta, LayoutsAndThreadsLeaveNoTrace) {
  ExpectConverts("--from hf --to nxd --tp 8 --hw trn2", new_, workshop_ / "set/step_2");
  const std::string expected = ReadFile(Make("a", "--from hf", old_, new_));
  EXPECT_TRUE(ReadFile(Make("b", "--from nxd -j 1", Bundle(), workshop_ / "set")) == expected);
  EXPECT_TRUE(ReadFile(Make("c", "--from nxd -j 7", old_, workshop_ / "set")) == expected);
  EXPECT_TRUE(ReadFile(Make("d", "--from hf --max-memory 70M -j 2", old_, new_)) == expected);
}

TEST_F(ConvertDelta, RefreshesABundle) {
  const std::string bundle = Bundle();
  const std::string delta = Make("step_2.delta", "--from hf --coding ulp", bundle, new_);
  const ProcessResult applied = Apply(delta, bundle);
  ASSERT_EQ(applied.exit_code, 0) << applied.err;
  const Json json = JsonOf(applied);
  const auto version = rollout::ReadVersion(bundle + "/checkpoint/weights");
  ASSERT_TRUE(version.ok() && version->has_value());
  EXPECT_EQ((*version)->label, "step_2.delta");
  EXPECT_EQ((*version)->digest, json["result_digest"]);
  EXPECT_GT(json["changed"], 1000);
  EXPECT_EQ(Compared(bundle, new_), 0);
  ExpectConverts("--from hf --to rollout --tp 4", new_, workshop_ / "whole");
  fs::remove(bundle + "/checkpoint/weights/version.json");
  ExpectSameTree(workshop_ / "whole/checkpoint/weights", bundle + "/checkpoint/weights/");
}

TEST_F(ConvertDelta, AChainOfDeltasGoesOn) {
  const std::string bundle = Bundle();
  std::string before = old_;
  for (int step = 2; step < 5; ++step) {
    const std::string after = workshop_ / ("step" + std::to_string(step));
    fs::copy(before, after, fs::copy_options::recursive);
    Perturb(after, 70, static_cast<uint32_t>(step));
    const std::string delta =
        Make("d" + std::to_string(step), "--from hf --coding ulp", before, after);
    EXPECT_EQ(Apply(delta, bundle).exit_code, 0);
    EXPECT_EQ(Compared(bundle, after), 0) << step;
    before = after;
  }
}

TEST_F(ConvertDelta, AWiderModelIsRoundedToTheBase) {
  const std::string wide = workshop_ / "wide";
  ExpectConverts("--from hf --to hf --dtype f32", new_, wide);
  Perturb(wide, 3, 4);  // the lowest bits of F32: gone again in BF16
  const std::string delta = Make("x.delta", "--from hf --verify", old_, wide);
  ExpectConverts("--from delta --to hf --base " + old_, delta, workshop_ / "again");
  ExpectSameTree(new_, workshop_ / "again");
}

TEST_F(ConvertDelta, NothingChangedIsADeltaToo) {
  const std::string delta = Make("x.delta", "--from hf", old_, old_);
  const ProcessResult applied = Apply(delta, Bundle());
  EXPECT_EQ(applied.exit_code, 0) << applied.err;
  EXPECT_EQ(JsonOf(applied)["changed"], 0);
}

TEST_F(ConvertDelta, ManyProcessesApplyItTogether) {
  const std::string delta = Make("x.delta", "--from hf", old_, new_);
  const std::string out = workshop_ / "out";
  for (const char* part : {"0/2", "1/2"}) {
    const ProcessResult result = Workshop::Convert(
        std::string("--from delta --to rollout --tp 4 --part ") + part + " --base " + old_, delta,
        out);
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  EXPECT_EQ(Compared(out, new_), 0);
}

// --- applied to the wrong model

TEST_F(ConvertDelta, TwiceIsRefusedByTheRecord) {
  const std::string bundle = Bundle();
  const std::string delta = Make("x.delta", "--from hf --coding ulp", old_, new_);
  ASSERT_EQ(Apply(delta, bundle).exit_code, 0);
  const ProcessResult again = Apply(delta, bundle);
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_THAT(
      again.err,
      HasSubstr("version 1 (x.delta) is already the delta's result: it was applied before"));
  EXPECT_EQ(Compared(bundle, new_), 0);
}

TEST_F(ConvertDelta, TwiceWithoutARecordIsRightOrRefused) {
  const std::string raw = Make("raw", "--from hf", old_, new_);
  ExpectConverts("--from delta --to hf --base " + new_, raw, workshop_ / "same");
  ExpectSameTree(new_, workshop_ / "same");
  const std::string ulp = Make("ulp", "--from hf --coding ulp", old_, new_);
  ExpectFails("--from delta --to hf --base " + new_, ulp, workshop_ / "wrong", 1,
              "not what the delta promises");
  EXPECT_FALSE(Traces(workshop_ / "wrong"));
}

TEST_F(ConvertDelta, OnAnotherBaseItIsRefused) {
  const std::string other = workshop_.MakeModel("other", shape_, "--seed 2");
  for (const std::string coding : {"raw", "ulp"}) {
    const std::string delta = Make(coding, "--from hf --coding " + coding, old_, new_);
    const std::string out = workshop_ / "out";
    ExpectFails("--from delta --to hf --base " + other, delta, out, 1,
                "not what the delta promises");
    EXPECT_FALSE(Traces(out));
    ExpectConverts("--from hf --to rollout --tp 2", other, workshop_ / "bundle");
    ExpectFails("--from delta --to rollout --into", delta, workshop_ / "bundle", 1,
                "the base is not the version that the delta was made from");
    EXPECT_EQ(Compared(workshop_ / "bundle", other), 0);
    fs::remove_all(workshop_ / "bundle");
  }
}

TEST_F(ConvertDelta, OnAnotherVersionTheRecordSaysSo) {
  const std::string bundle = Bundle();
  const std::string first = Make("first", "--from hf", old_, new_);
  const std::string third = workshop_ / "third";
  fs::copy(new_, third, fs::copy_options::recursive);
  Perturb(third, 90, 9);
  const std::string skipped = Make("skipped", "--from hf", third, old_);
  ASSERT_EQ(Apply(first, bundle).exit_code, 0);
  const ProcessResult result = Apply(skipped, bundle);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("version 1 (first) has the digest sha256:"));
  EXPECT_THAT(result.err, HasSubstr(", the delta is for sha256:"));
}

TEST_F(ConvertDelta, OfAnotherModelIsRefused) {
  TinyModel wider = shape_;
  wider.intermediate = 96;
  const std::string other = workshop_.MakeModel("other", wider);
  const std::string delta = Make("x.delta", "--from hf", old_, new_);
  ExpectRefused("--from delta --to hf --base " + other, delta, workshop_ / "out", 1,
                "the delta is for BF16");
  ExpectFails("--from hf --to delta --base " + old_, other, workshop_ / "out", 1, "shape");
  EXPECT_FALSE(Traces(workshop_ / "out"));
}

TEST_F(ConvertDelta, ADamagedBaseIsFound) {
  const std::string bundle = Bundle();
  const std::string delta = Make("x.delta", "--from hf", old_, new_);
  // A norm of rank 3: a copy, which no digest of the base covers.
  const Result<ops::Artifact> opened = ops::OpenArtifact(bundle, &ops::kRollout, {});
  ASSERT_TRUE(opened.ok());
  for (const StoredTensor& tensor : opened->files[3].tensors) {
    if (tensor.name != "norm.weight") continue;
    const Result<File> file = File::OpenWrite(tensor.storage->path());
    const std::byte zero{0x7f};
    ASSERT_TRUE(file->WriteAt(tensor.storage->file_offset() + tensor.offset, {&zero, 1}).ok());
  }
  ExpectFails("--from delta --to rollout --into", delta, bundle, 3, "differ");
}

// --- the command repeated

TEST_F(ConvertDelta, ResumeComparesADeltaThatIsThere) {
  const std::string path = Make("x.delta", "--from hf", old_, new_);
  const std::string bytes = ReadFile(path);
  const std::string options = "--from hf --to delta --resume --json --base " + old_;
  const ProcessResult again = Workshop::Convert(options, new_, path);
  ASSERT_EQ(again.exit_code, 0) << again.out;
  EXPECT_EQ(JsonOf(again)["already_published"], true);
  ExpectFails(options + " --coding ulp", new_, path, 2, "not what this command makes");
  ExpectFails("--from hf --to delta --base " + old_, new_, path, 2, "the output exists");
  EXPECT_TRUE(ReadFile(path) == bytes);
  EXPECT_FALSE(fs::exists(path + ".partial"));
  // A missing output is made, and a different one is replaced with --force.
  std::string damaged = bytes;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  std::ofstream(path) << damaged;
  ExpectFails(options, new_, path, 2, "not what this command makes");
  EXPECT_TRUE(ReadFile(path) == damaged);
  ExpectConverts(options + " --force", new_, path);
  EXPECT_TRUE(ReadFile(path) == bytes);
  fs::remove(path);
  EXPECT_EQ(JsonOf(Workshop::Convert(options, new_, path))["already_published"], false);
}

// --- damaged deltas

TEST_F(ConvertDelta, CutOrChangedItIsNeverAppliedInSilence) {
  const std::string bundle = Bundle();
  const std::string delta = Make("x.delta", "--from hf", old_, new_);
  const std::string bytes = ReadFile(delta);
  std::mt19937 random(3);
  for (int i = 0; i < 24; ++i) {
    std::string damaged = bytes;
    const size_t at = i == 0 ? 0 : i == 1 ? bytes.size() - 1 : random() % bytes.size();
    if (i % 3 == 0)
      damaged.resize(at);
    else
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << random() % 8));
    const std::string path = workshop_.Write("damaged.delta", damaged);
    const ProcessResult result = Apply(path, bundle);
    EXPECT_TRUE(result.exit_code == 3 || result.exit_code == 4) << at << result.out << result.err;
    EXPECT_THAT(result.err, HasSubstr("damaged.delta")) << at;
  }
  EXPECT_EQ(Compared(bundle, old_), 0);
  EXPECT_EQ(Apply(delta, bundle).exit_code, 0);
}

// --- kill -9

TEST_F(ConvertDelta, KilledWhileApplyingLeavesAWholeVersion) {
  const std::string bundle = Bundle();
  const std::string forth = Make("forth", "--from hf --coding ulp", old_, new_);
  const std::string back = Make("back", "--from hf --coding ulp", new_, old_);
  KillMoments moments(std::chrono::milliseconds(60), 5);
  bool is_new = false;
  for (int i = 0; moments.GoesOn(i, 12); ++i) {
    const std::chrono::microseconds delay = moments.Next();
    moments.Note(RunAndSignal({Workshop::Tool("nxd-convert"), "--from", "delta", "--to", "rollout",
                               "--into", is_new ? back : forth, bundle},
                              SIGKILL, delay) == 128 + SIGKILL);
    const bool old_now = Compared(bundle, old_) == 0;
    const bool new_now = Compared(bundle, new_) == 0;
    ASSERT_NE(old_now, new_now) << "neither, after " << delay.count() << " us";
    is_new = new_now;
  }
  EXPECT_GT(moments.killed(), 0) << "no kill came in time";
  EXPECT_EQ(Apply(is_new ? back : forth, bundle).exit_code, 0);
  EXPECT_EQ(Compared(bundle, is_new ? old_ : new_), 0);
}

TEST_F(ConvertDelta, KilledWhileMakingLeavesNone) {
  std::mt19937 random(6);
  const std::string out = workshop_ / "x.delta";
  const std::string whole = ReadFile(Make("whole", "--from hf", old_, new_));
  for (int i = 0; i < 8; ++i) {
    RunAndSignal({Workshop::Tool("nxd-convert"), "--force", "--from", "hf", "--to", "delta",
                  "--base", old_, new_, out},
                 SIGKILL, std::chrono::microseconds(random() % 30000));
    if (fs::exists(out)) {
      EXPECT_TRUE(ReadFile(out) == whole);
    }
  }
  ExpectConverts("--force --from hf --to delta --base " + old_, new_, out);
  EXPECT_TRUE(ReadFile(out) == whole);
}

// --- options

TEST_F(ConvertDelta, OptionsThatMakeNoSenseAreRefused) {
  const std::string delta = Make("x.delta", "--from hf", old_, new_);
  const std::string out = workshop_ / "out";
  ExpectFails("--from hf --to delta", new_, out, 2, "a delta needs the model on which it is based");
  ExpectFails("--from delta --to hf", delta, out, 2, "its base is not named");
  ExpectFails("--from delta --to hf --fused-qkv --base " + old_, delta, out, 2,
              "--fused-qkv does not apply to a conversion from delta to hf");
  ExpectFails("--from hf --to hf --base " + old_, new_, out, 2, "--base applies to");
  ExpectFails("--from hf --to hf --coding ulp", new_, out, 2, "--coding applies to --to delta");
  ExpectFails("--from hf --to delta --dtype f32 --base " + old_, new_, out, 2,
              "a delta has the dtypes of its base");
  ExpectFails("--from hf --to delta --into --base " + old_, new_, out, 2, "--into");
  ExpectFails("--from hf --to delta -n --base " + old_, new_, out, 2, "leave --dry-run out");
  ExpectFails("--from hf --to delta --tp 4 --base " + old_, new_, out, 2, "--tp does not apply");
  ExpectFails("--from hf --to delta --base " + delta, new_, out, 2, "its base is not named");
  ExpectFails("--from delta --to hf --base " + delta, delta, out, 4,
              "the base of a delta is a delta");
  ExpectFails("--from delta --to hf --dtype f32 --base " + old_, delta, out, 2,
              "the output is to be F32, but the delta makes BF16");
  ExpectFails("--from hf --to delta --base " + old_, new_, delta, 2, "the output exists");
  EXPECT_FALSE(Traces(out));
}

TEST_F(ConvertDelta, AnEmptyNameIsNoBase) {
  const ProcessResult result = RunProcess(
      {Workshop::Tool("nxd-convert"), "--to", "delta", "--base", "", new_, workshop_ / "out"});
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr("a delta needs the model on which it is based"));
}

TEST_F(ConvertDelta, ShortFormsDoTheSame) {
  const std::string whole = Make("whole.delta", "--from hf", old_, new_);
  const std::string brief = workshop_ / "brief.delta";
  ExpectConverts("--from hf --delta-from " + old_, new_, brief);
  EXPECT_TRUE(ReadFile(whole) == ReadFile(brief));

  ExpectConverts("--to hf --apply " + brief, old_, workshop_ / "made");
  EXPECT_EQ(Compared(workshop_ / "made", new_), 0);
  EXPECT_EQ(Compared(workshop_ / "made", old_), 1);

  const std::string bundle = Bundle();
  const ProcessResult applied =
      RunProcess({Workshop::Tool("nxd-convert"), "--apply", brief, "--into", bundle});
  EXPECT_EQ(applied.exit_code, 0) << applied.err;
  EXPECT_EQ(Compared(bundle, new_), 0);
}

TEST_F(ConvertDelta, ShortFormsBesideTheirLongOnesAreRefused) {
  const std::string delta = Make("x.delta", "--from hf", old_, new_);
  const std::string out = workshop_ / "out";
  ExpectFails("--from hf --base a --delta-from b", new_, out, 2, "drop --base");
  ExpectFails("--from hf --to hf --delta-from b", new_, out, 2, "--delta-from writes a delta");
  ExpectFails("--to hf --delta-from a --apply b", new_, out, 2, "give one of them");
  ExpectFails("--to hf --base a --apply b", new_, out, 2, "--apply changes INPUT");
  ExpectFails("--from hf --to hf --apply b", new_, out, 2, "drop --from");
  ExpectFails("--into --apply b", new_, out, 2, "two paths are given");
  ExpectFails("--apply " + delta, old_, out, 2, "--to is missing");
  const ProcessResult one =
      RunProcess({Workshop::Tool("nxd-convert"), "--to", "hf", "--apply", delta, old_});
  EXPECT_EQ(one.exit_code, 2);
  EXPECT_THAT(one.err, HasSubstr("OUTPUT is missing"));
  EXPECT_FALSE(Traces(out));
}

TEST_F(ConvertDelta, OtherCommandsSayWhatItIs) {
  const std::string delta = Make("x.delta", "--from hf", old_, new_);
  const ProcessResult inspected = RunProcess({Workshop::Tool("ckpt-inspect"), delta});
  EXPECT_EQ(inspected.exit_code, 0) << inspected.err;
  EXPECT_THAT(inspected.out, HasSubstr("what changed from one version of a model to another"));
  const ProcessResult verified = Workshop::Verify(delta);
  EXPECT_EQ(verified.exit_code, 2);
  EXPECT_THAT(verified.err, HasSubstr("its base is not named"));
}

}  // namespace
}  // namespace nxdkit::test
