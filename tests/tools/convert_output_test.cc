// nxd-convert and its output: refused, replaced, and never at the cost of the input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/tools/convert_workshop.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr char kToNxd[] = "--from hf --to nxd --tp 2";

class ConvertOutput : public ::testing::Test {
 protected:
  const Workshop workshop_;
  const std::string model_ = workshop_.MakeModel("model", testing_util::TinyLlama());
  const std::string other_ = workshop_.MakeModel("other", testing_util::TinyQwen3());
  const std::string out_ = workshop_ / "out";
};

TEST_F(ConvertOutput, DryRunWritesNothing) {
  const ProcessResult result = Workshop::Convert(std::string(kToNxd) + " --dry-run", model_, out_);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("would write"));
  EXPECT_FALSE(Traces(out_));
}

TEST_F(ConvertOutput, DryRunMakesNoFolders) {
  EXPECT_EQ(Workshop::Convert(std::string(kToNxd) + " --dry-run", model_, out_ + "/a/b").exit_code,
            0);
  EXPECT_FALSE(Traces(out_));
  ExpectConverts(kToNxd, model_, out_ + "/a/b");
  EXPECT_TRUE(fs::exists(out_ + "/a/b/done"));
}

TEST_F(ConvertOutput, RefusesAnOutputThatIsThere) {
  workshop_.Write("out/note.txt", "mine");
  ExpectRefused(kToNxd, model_, out_, 2, "the output exists and is not empty (1 entry, note.txt");
  EXPECT_EQ(ReadFile(out_ + "/note.txt"), "mine");
  const std::string file = workshop_.Write("file.pt", "mine");
  ExpectRefused("--from hf --to torch", model_, file, 2, "the output exists");
  ExpectRefused(kToNxd, model_, file, 2, "the output exists");
}

// A user who swapped INPUT and OUTPUT must not be told to delete the shards.
TEST_F(ConvertOutput, SaysThatACheckpointOfAnotherFormatIsThere) {
  ExpectConverts(kToNxd, model_, out_);
  ExpectRefused("--to hf", other_, out_, 2,
                "hint: it is a checkpoint of format nxd, which --force would delete; INPUT comes "
                "before OUTPUT");
  ExpectRefused("--to nxd --tp 2", other_, out_, 2, "hint: --force replaces it");
  ExpectRefused("--to torch", other_, out_, 2,
                "expected the name of a file\nhint: it is a checkpoint of format nxd; INPUT comes");
  ExpectRefused("--to rollout --into", model_, out_, 3,
                "hint: it is a checkpoint of format nxd; INPUT comes before OUTPUT");
}

TEST_F(ConvertOutput, ListsTheTpOfTheHeadsBeforeItAsksForHardware) {
  ExpectRefused("--to nxd --tp 16", model_, out_, 4,
                "8 query heads cannot be split over tp 16\nhint: tp can be 1, 2, 4, 8;");
}

TEST_F(ConvertOutput, FillsAnEmptyFolder) {
  fs::create_directory(out_);
  ExpectConverts(kToNxd, model_, out_);
  EXPECT_TRUE(fs::exists(out_ + "/done"));
}

TEST_F(ConvertOutput, ReplacesWithForce) {
  ExpectConverts("--from hf --to nxd --tp 4 --hw trn1", other_, out_);
  workshop_.Write("out/left.txt", "old");
  ExpectConverts(std::string(kToNxd) + " --force", model_, out_);
  EXPECT_FALSE(fs::exists(out_ + "/left.txt"));
  ExpectConverts(kToNxd, model_, workshop_ / "fresh");
  ExpectSameTree(out_, workshop_ / "fresh");
}

TEST_F(ConvertOutput, RefusesAFolderForATorchFileEvenWithForce) {
  fs::create_directory(out_);
  ExpectRefused("--from hf --to torch", model_, out_, 2, "the output is a folder");
  workshop_.Write("out/note.txt", "mine");
  ExpectRefused("--from hf --to torch --force", model_, out_, 2, "the output is a folder");
}

TEST_F(ConvertOutput, RefusesAnOutputBelowAFile) {
  const std::string file = workshop_.Write("file", "mine");
  ExpectRefused(kToNxd, model_, file + "/out", 2, "this is not a folder");
}

// --- near the input

void ExpectUnharmed(const std::string& folder, const Tree& before) {
  EXPECT_TRUE(ReadTree(folder) == before) << folder << " was changed";
}

TEST_F(ConvertOutput, RefusesTheInputItself) {
  const Tree before = ReadTree(model_);
  fs::create_directory_symlink(model_, workshop_ / "link");
  for (const std::string& output : std::vector<std::string>{
           model_, model_ + "/", model_ + "/.", workshop_ / "link",
           workshop_ / "../" + fs::path(workshop_.path()).filename().string() + "/model"})
    for (const char* force : {"", " --force"})
      ExpectRefused("--from hf --to hf" + std::string(force), model_, output, 2,
                    "the output is the input itself");
  ExpectUnharmed(model_, before);
}

TEST_F(ConvertOutput, RefusesAFolderAroundTheInput) {
  const std::string inner = workshop_ / "around/deep/model";
  fs::create_directories(workshop_ / "around/deep");
  fs::rename(other_, inner);
  const Tree before = ReadTree(inner);
  for (const char* output : {"around", "around/deep"})
    ExpectRefused(std::string(kToNxd) + " --force", inner, workshop_ / output, 2,
                  "the output would replace the folder that");
  ExpectUnharmed(inner, before);
}

// The staging folder is emptied before it is used.
TEST_F(ConvertOutput, RefusesAnInputInTheStagingPlace) {
  const std::string staged = workshop_ / "out.partial";
  fs::rename(other_, staged);
  const Tree before = ReadTree(staged);
  const ProcessResult result = Workshop::Convert(kToNxd, staged, out_);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("the output is built in "));
  ExpectUnharmed(staged, before);
}

TEST_F(ConvertOutput, RefusesToReplaceAPartOfTheInput) {
  const std::string bundle = workshop_ / "bundle";
  ExpectConverts("--from hf --to rollout --tp 2", model_, bundle);
  const std::string root = workshop_ / "root";
  ExpectConverts(kToNxd, model_, root + "/step_1");
  workshop_.Write("root/step_1/optim/state.pt", "the optimizer");
  struct Row {
    std::string options, input, output;
  };
  for (const Row& row : std::vector<Row>{
           {"--from rollout --to hf", bundle, bundle + "/checkpoint"},
           {"--from rollout --to hf", bundle, bundle + "/checkpoint/weights"},
           {"--from rollout --to torch", bundle, bundle + "/neuron_config.json"},
           {"--from nxd --to hf", root, root + "/step_1"},
           {"--from nxd --to hf", root, root + "/step_1/model"},
           {"--from nxd --to hf", root, root + "/step_1/optim"},
           {"--from nxd --to torch", root, root + "/step_1/done"},
           {"--from hf --to torch", model_, model_ + "/model.safetensors"},
           {"--from hf --to torch", model_ + "/model.safetensors", model_ + "/config.json"}}) {
    const Tree before = ReadTree(row.input);
    ExpectRefused(row.options + " --force", row.input, row.output, 2, "");
    ExpectUnharmed(row.input, before);
  }
}

// A new tag next to the one that is read, and a new folder inside the model: both are allowed.
TEST_F(ConvertOutput, WritesNewNamesInsideTheInput) {
  const std::string root = workshop_ / "root";
  ExpectConverts(kToNxd, model_, root + "/step_1");
  ExpectConverts("--from nxd --to nxd --tp 4 --hw trn2", root, root + "/step_1_tp4");
  ExpectConverts("--from nxd --to nxd --tp 4 --hw trn1 --tag step_1 --force", root,
                 root + "/step_1_tp4");
  const Tree before = ReadTree(model_);
  ExpectConverts(kToNxd, model_, model_ + "/nxd");
  for (const auto& [name, bytes] : before)
    EXPECT_TRUE(ReadFile(model_ + "/" + name) == bytes) << name;
  // The folder is still the model, not a root of its shards: otherwise this would compare it with
  // itself.
  const Json json = JsonOf(Workshop::Verify(model_, "--json"));
  EXPECT_EQ(json["kind"], "hf");
}

TEST_F(ConvertOutput, RefusesToReplaceTheConfigItIsGiven) {
  const std::string torch = workshop_ / "model.pt";
  ExpectConverts("--from hf --to torch", model_, torch);
  const std::string config = workshop_.Write("out/config.json", testing_util::TinyLlama().Config());
  ExpectRefused("--from torch --to nxd --tp 2 --force --config " + config, torch, out_, 2,
                "would replace the folder");
  EXPECT_TRUE(fs::exists(config));
}

// --- options

TEST_F(ConvertOutput, RefusesOptionsThatSayNothing) {
  struct Row {
    const char* options;
    const char* part;
  };
  for (const Row& row :
       {Row{"--from hf --to hf --tp 2", "--tp does not apply"},
        {"--from hf --to torch --max-shard-size 1GB", "--max-shard-size does not apply"},
        {"--from hf --to nxd --tp 2 --bs 4", "--bs does not apply"},
        {"--from hf --to nxd --tp 2 --tag x", "--tag does not apply"},
        {"--from hf --to rollout --tp 2 --pp 2", "--pp does not apply"},
        {"--from hf --to rollout --tp 2 --xser", "--xser does not apply"},
        {"--from hf --to hf --no-fused-qkv", "--fused-qkv does not apply"},
        {"--from hf --to hf --flavor nxdi", "--flavor does not apply"},
        {"--from hf --to rollout --tp 2 --ep 2", "--ep does not apply"}})
    ExpectRefused(row.options, model_, out_, 2, row.part);
}

// Refused layouts: tests/formats/kinds/output_test.cc.
TEST_F(ConvertOutput, ExitsByTheKindOfRefusal) {
  ExpectRefused("--from hf --to nxd", model_, out_, 2, "--to nxd needs --tp");
  ExpectRefused("--from hf --to nxd --tp 3", model_, out_, 4, "cannot be split");
  ExpectRefused("--from hf --to rollout --tp 99999", model_, out_, 6, "for 99,999 ranks");
}

// An unnamed format is recognised; a named one is used.
TEST_F(ConvertOutput, RecognisesTheInputWithoutFrom) {
  const std::string named = workshop_ / "named";
  const std::string set = workshop_ / "set";
  ExpectConverts("--to nxd --tp 2", model_, set);
  ExpectConverts("--from hf --to nxd --tp 2", model_, named);
  ExpectSameTree(set, named);
  ExpectConverts("--to hf", set, out_);
  ExpectRefused("--from rollout --to nxd --tp 2", set, workshop_ / "other", 3, "");
  ExpectRefused("--to nxd --tp 2", workshop_ / "missing", workshop_ / "other", 3,
                "no such file or folder");
}

TEST_F(ConvertOutput, RefusesAContradictionOfTheInputsLayout) {
  const std::string set = workshop_ / "set";
  ExpectConverts("--from hf --to nxd --tp 2", model_, set);
  ExpectRefused("--from nxd --to hf --tp 4", set, out_, 2, "tp is 2 by the set");
  ExpectRefused("--from nxd --to hf --qkv fused", set, out_, 2, "is separate by the set");
  ExpectRefused("--from nxd --to hf --ep 2", set, out_, 2, "ep is 1 by the set");
}

// --- memory

TEST_F(ConvertOutput, RefusesACapItCannotMeet) {
  const ProcessResult result =
      Workshop::Convert(std::string(kToNxd) + " --max-memory 8MiB --json", model_, out_);
  EXPECT_EQ(result.exit_code, 6) << result.err;
  const Json json = JsonOf(result);
  EXPECT_EQ(json["error"]["code"], "limit");
  EXPECT_THAT(json["error"]["message"].get<std::string>(), HasSubstr("8388608"));
  EXPECT_THAT(json["error"]["hint"].get<std::string>(), HasSubstr("--max-memory"));
  EXPECT_FALSE(Traces(out_));
  ExpectRefused(std::string(kToNxd) + " --max-memory 8MiB", model_, out_, 6, "the cap is 8388608");
}

// A model of 300 MB in 96 MB of memory, in both directions and with checks.
TEST(ConvertMemory, StaysUnderTheCap) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's own memory is more than the cap";
#endif
  const Workshop workshop;
  TinyModel big = testing_util::TinyQwen3();
  big.hidden = 1024;
  big.intermediate = 3072;
  big.head_dim = 128;
  big.vocab = 65536;
  big.layers = 7;
  const std::string model = workshop.MakeModel("model", big);
  ASSERT_GT(fs::file_size(model + "/model.safetensors"), 280'000'000u);
  const std::string set = workshop / "set";
  const std::string bundle = workshop / "bundle";
  const auto run = [&](const std::string& options, const std::string& in, const std::string& out) {
    const Json json = JsonOf(Workshop::Convert(options + " --json --max-memory 96M", in, out));
    EXPECT_EQ(json["exit_code"], 0) << json.dump();
    EXPECT_LE(json["peak_memory_bytes"].get<uint64_t>(), 96'000'000u) << options;
    EXPECT_LE(json["predicted_memory_bytes"].get<uint64_t>(), 96'000'000u) << options;
  };
  run("--from hf --to nxd --tp 8 --hw trn1 --verify", model, set);
  run("--from nxd --to rollout --tp 4", set, bundle);
  run("--from rollout --to hf --max-shard-size 50MB", bundle, workshop / "hf");
  const Json json = JsonOf(Workshop::Verify(bundle, "--json --max-memory 96M --against " + model));
  EXPECT_EQ(json["exit_code"], 0) << json.dump();
}

}  // namespace
}  // namespace nxdkit::test
