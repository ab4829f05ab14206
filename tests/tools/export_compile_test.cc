// neuron-export with a compiler and the compile cache.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "formats/compile_cache/manifest.h"
#include "tests/lib/processes.h"
#include "tests/tools/export_workshop.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class ExportCompile : public ::testing::Test {
 protected:
  ProcessResult Export(const std::string& options, const Words& environment = {},
                       const std::string& out = "out") const {
    return workshop_.Export("--tp 2 --bs 4 --seq 256 " + options, model_, workshop_ / out,
                            environment);
  }

  const ExportWorkshop workshop_;
  const std::string model_ = workshop_.MakeModel("model", testing_util::TinyLlama());
  const std::string out_ = workshop_ / "out";
};

TEST_F(ExportCompile, RunsTheCompilerInPath) {
  workshop_.Compiler();
  const ProcessResult result = Export("--json");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(JsonOf(result)["blob"], "compiler");
  EXPECT_TRUE(ReadFile(out_ + "/model.pt") == testing_util::CompiledBlob());
  EXPECT_THAT(ReadFile(workshop_ / "runs"),
              HasSubstr("export neuron --model " + model_ +
                        " --batch_size 4 --sequence_length 256 --tensor_parallel_size 2 "
                        "--torch_dtype bfloat16 "));
  EXPECT_EQ(Workshop::Verify(out_, "--against " + model_).exit_code, 0);
}

TEST_F(ExportCompile, RunsTheCommandOfTheUser) {
  const std::string compiler = workshop_.Compiler("mine");
  EXPECT_EQ(
      workshop_.Export("--no-cache --tp 2 --bs 4 --seq 256 --compiler " + compiler, model_, out_)
          .exit_code,
      0);
  EXPECT_EQ(workshop_.Runs(), 1u);
  const ProcessResult none =
      workshop_.Export("--tp 2 --compiler no-such-program", model_, workshop_ / "never");
  EXPECT_EQ(none.exit_code, 3);
  EXPECT_THAT(none.err, HasSubstr("no-such-program: no such program"));
}

TEST_F(ExportCompile, ADryRunNamesTheMachineAndThatItIsAGuess) {
  workshop_.Compiler();
  const std::string capture = NXDKIT_TESTDATA "/neuron_ls/older_release.json";
  const ProcessResult result = Export("--dry-run --instance " + capture);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("blob: would be compiled: "),
                    HasSubstr("note: --instance: trn1.32xlarge (a guess): 16 devices, 32 cores"),
                    HasSubstr("note: --instance: trn1.32xlarge is a guess: 16 devices"),
                    Not(HasSubstr("is missing"))));
}

TEST_F(ExportCompile, FillsInATemplate) {
  workshop_.Compiler("inner");
  workshop_.Script("outer",
                   "[ $# = 3 ]\n[ \"$1\" = 'tp=2,bs=4,seq=256,bfloat16' ]\n"
                   "inner export neuron --model \"$2\" --batch_size 4 --sequence_length "
                   "256 --tensor_parallel_size 2 \"$3\"\n");
  const ProcessResult result =
      RunProcess({Workshop::Tool("neuron-export"), "--no-cache", "--no-sync", "--tp", "2", "--bs",
                  "4", "--seq", "256", "--compiler",
                  "outer 'tp={tp},bs={bs},seq={seq},{dtype}' {model} {output}", model_, out_},
                 {"PATH=" + workshop_ / "bin" + ":" + std::getenv("PATH")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(ReadFile(out_ + "/model.pt") == testing_util::CompiledBlob());
}

// The compiler's output names its own versions. Requesting others is the user's mistake: the entry
// that took an hour stays, and is not remembered as a failure.
TEST_F(ExportCompile, AWishForOtherVersionsCostsNoEntry) {
  workshop_.Compiler();
  for (int round = 0; round < 2; ++round) {
    const ProcessResult other = Export("--compiler-version 9.9.9+1");
    EXPECT_EQ(other.exit_code, 2);
    EXPECT_THAT(other.err, HasSubstr("--compiler-version 9.9.9+1 was asked for"));
    EXPECT_FALSE(Traces(out_));
  }
  EXPECT_EQ(Export("").exit_code, 0);
  EXPECT_EQ(workshop_.Runs(), 1u);
}

TEST_F(ExportCompile, ACompilerThatCannotBeToldIsNotRun) {
  workshop_.Compiler();
  const ProcessResult result = Export("--no-on-device-sampling");
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, HasSubstr("optimum-cli cannot be told whether to sample on the device"));
  EXPECT_EQ(workshop_.Runs(), 0u);
}

TEST_F(ExportCompile, TellsWhereToSample) {
  workshop_.Script("mine", Workshop::Tool("nxd-convert") +
                               " --no-sync -q --from hf --to rollout --tp 2 --bs 4 --seq 256 "
                               "--no-on-device-sampling \"$1\" \"$2\"\necho $3 >>" +
                               workshop_ / "seen" + "\ncp " +
                               workshop_.Write("blob.pt", testing_util::CompiledBlob()) +
                               " \"$2/model.pt\"\n");
  const ProcessResult result =
      RunProcess({Workshop::Tool("neuron-export"), "--no-cache", "--no-sync", "--tp", "2", "--bs",
                  "4", "--seq", "256", "--no-on-device-sampling", "--compiler",
                  "mine {model} {output} {sampling}", model_, out_},
                 {"PATH=" + workshop_ / "bin" + ":" + std::getenv("PATH")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(ReadFile(workshop_ / "seen"), "host\n");
  EXPECT_THAT(ReadFile(out_ + "/neuron_config.json"), HasSubstr("\"on_device_sampling\": false"));
}

TEST_F(ExportCompile, CleansTheEnvironment) {
  workshop_.Compiler("optimum-cli", "env >" + workshop_ / "seen" + "\n");
  const ProcessResult result =
      Export("--pass-env OF_OURS",
             {"A_SECRET=x", "NEURON_RT_NUM_CORES=3", "OF_OURS=y", "LD_PRELOAD=", "LC_TIME=C"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string seen = "\n" + ReadFile(workshop_ / "seen");
  EXPECT_THAT(seen, AllOf(HasSubstr("\nNEURON_RT_NUM_CORES=3\n"), HasSubstr("\nOF_OURS=y\n"),
                          HasSubstr("\nLC_TIME=C\n"), HasSubstr("\nPATH=")));
  EXPECT_THAT(seen, AllOf(Not(HasSubstr("A_SECRET")), Not(HasSubstr("LD_PRELOAD"))));
}

TEST_F(ExportCompile, TakesTheBlobFromTheCacheTheNextTime) {
  workshop_.Compiler();
  ASSERT_EQ(Export("").exit_code, 0);
  const ProcessResult again = Export("--json", {}, "again");
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(JsonOf(again)["blob"], "cache");
  EXPECT_EQ(JsonOf(again)["blob_path"], workshop_.OnlyEntry());
  EXPECT_EQ(workshop_.Runs(), 1u);
  ExpectSameTree(out_, workshop_ / "again");
  // Another batch size gives another graph, and so do other flags.
  EXPECT_EQ(workshop_.Export("--tp 2 --bs 8 --seq 256", model_, workshop_ / "bs8").exit_code, 0);
  EXPECT_EQ(workshop_.Runs(), 2u);
  EXPECT_EQ(Export("", {"NEURON_CC_FLAGS=--auto-cast=none"}, "flags").exit_code, 0);
  EXPECT_EQ(workshop_.Runs(), 3u);
  EXPECT_EQ(Export("--no-cache", {}, "no_cache").exit_code, 0);
  EXPECT_EQ(workshop_.Runs(), 4u);
}

TEST_F(ExportCompile, SaysHowLongItTookAndWhatTheCacheSaved) {
  workshop_.Compiler();
  const ProcessResult first = Export("");
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, ContainsRegex("blob: compiled in [0-9.a-z ]+: optimum-cli export"));
  const std::string path = workshop_.OnlyEntry() + "/nxdkit-entry.json";
  neff::Manifest manifest = *neff::ReadManifest(path);
  ASSERT_TRUE(manifest.compile_seconds.has_value());
  EXPECT_EQ(JsonOf(Export("--json", {}, "same"))["compile_seconds"], *manifest.compile_seconds);
  manifest.compile_seconds = 2470;
  std::ofstream(path) << neff::WriteManifest(manifest);
  EXPECT_THAT(Export("", {}, "saved").out,
              HasSubstr(workshop_.OnlyEntry() + "; 41 min 10 s of compiling saved\n"));
  // An entry that was made before it was kept.
  manifest.compile_seconds.reset();
  std::ofstream(path) << neff::WriteManifest(manifest);
  EXPECT_THAT(Export("", {}, "old").out, HasSubstr(workshop_.OnlyEntry() + "\n"));
  EXPECT_EQ(JsonOf(Export("--json", {}, "older"))["compile_seconds"], Json());
  EXPECT_EQ(workshop_.Runs(), 1u);
}

TEST_F(ExportCompile, ADryRunSaysWhatFitsWhetherOrNotItWouldCompile) {
  const std::string shape = "-n --no-cache --instance trn1.32xlarge";
  const std::string fit = "\ntrn1.32xlarge: ";
  const ProcessResult without = Export(shape + " --no-blob");
  EXPECT_THAT(without.out, HasSubstr(fit)) << without.err;
  workshop_.Compiler();
  const ProcessResult with = Export(shape);
  EXPECT_THAT(with.out, AllOf(HasSubstr("blob: would be compiled: "), HasSubstr(fit),
                              Not(HasSubstr("is missing"))))
      << with.err;
  const auto line = [&](const std::string& text) {
    const size_t at = text.find(fit) + 1;
    return text.substr(at, text.find('\n', at) - at);
  };
  EXPECT_EQ(line(with.out), line(without.out));
}

TEST_F(ExportCompile, NewWeightsOfTheSameModelAreACacheHit) {
  workshop_.Compiler();
  ASSERT_EQ(Export("").exit_code, 0);
  const std::string tuned = workshop_.MakeModel("tuned", testing_util::TinyLlama(), "--seed 5");
  const ProcessResult result =
      workshop_.Export("--tp 2 --bs 4 --seq 256 --json", tuned, workshop_ / "tuned_out");
  EXPECT_EQ(JsonOf(result)["blob"], "cache");
  EXPECT_EQ(Workshop::Verify(workshop_ / "tuned_out", "--against " + tuned).exit_code, 0);
}

TEST_F(ExportCompile, BlobsOfAnotherCompilerAreNotTaken) {
  workshop_.Compiler();
  const auto version = [&](const std::string& text) {
    workshop_.Script("neuronx-cc", "echo 'NeuronX Compiler version " + text + "'\n");
  };
  version("2.21.33363.0+82129205");
  ASSERT_EQ(Export("").exit_code, 0);
  EXPECT_TRUE(fs::exists(workshop_.Cache() + "/neuronxcc-2.21.33363.0+82129205"));
  version("2.22.1.0+abc");
  ASSERT_EQ(Export("", {}, "newer").exit_code, 0);
  EXPECT_EQ(workshop_.Runs(), 2u);
  version("2.21.33363.0+82129205");
  ASSERT_EQ(Export("", {}, "older").exit_code, 0);
  EXPECT_EQ(workshop_.Runs(), 2u);
}

TEST_F(ExportCompile, ADamagedEntryIsPassedOverAndMadeAnew) {
  workshop_.Compiler();
  ASSERT_EQ(Export("").exit_code, 0);
  std::ofstream(workshop_.OnlyEntry() + "/model.pt") << "comp";
  const ProcessResult result = Export("", {}, "again");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("4 bytes found, the manifest says "));
  EXPECT_TRUE(ReadFile(workshop_ / "again/model.pt") == testing_util::CompiledBlob());
  EXPECT_EQ(workshop_.Runs(), 2u);
}

// Another command gives another graph, except for optimum-cli, which is run anyway.
TEST_F(ExportCompile, TheCommandIsAPartOfTheKey) {
  const std::string mine = workshop_.Compiler("mine");
  workshop_.Compiler();
  const auto runs_after = [&](const std::string& command) {
    Words words = {Workshop::Tool("neuron-export"),
                   "--no-sync",
                   "--force",
                   "--tp",
                   "2",
                   "--bs",
                   "4",
                   "--seq",
                   "256",
                   "--compiler",
                   command,
                   model_,
                   out_};
    const ProcessResult result =
        RunProcess(words, {"PATH=" + workshop_ / "bin" + ":" + std::getenv("PATH"),
                           "NEURON_COMPILE_CACHE_URL=" + workshop_.Cache()});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return workshop_.Runs();
  };
  ASSERT_EQ(Export("").exit_code, 0);
  EXPECT_EQ(workshop_.Runs(), 1u);
  EXPECT_EQ(runs_after("optimum-cli"), 1u);
  EXPECT_EQ(runs_after("mine"), 2u);
  EXPECT_EQ(runs_after("mine"), 2u);
  EXPECT_EQ(runs_after("mine -O1"), 3u);
  EXPECT_EQ(runs_after("mine -O2"), 4u);
  EXPECT_EQ(runs_after("mine -O1"), 4u);
  EXPECT_EQ(workshop_.CacheTool("verify").exit_code, 0);
}

// --- a published output when its command is repeated

TEST_F(ExportCompile, ResumeFindsWhatWasPublishedWithoutCompilingAgain) {
  workshop_.Compiler();
  ASSERT_EQ(Export("--no-cache").exit_code, 0);
  for (const std::string options : {"--resume", "--resume -n", "--resume --verify"}) {
    const ProcessResult again = Export("--no-cache --json " + options);
    ASSERT_EQ(again.exit_code, 0) << options << again.err << again.out;
    EXPECT_EQ(JsonOf(again)["already_published"], true) << options;
    EXPECT_EQ(JsonOf(again)["blob_path"], out_) << options;
  }
  EXPECT_EQ(workshop_.Runs(), 1u);
  EXPECT_EQ(Export("--no-cache").exit_code, 2) << "without --resume it is in the way";
}

TEST_F(ExportCompile, ResumeNeedsNeitherTheCacheNorTheCompiler) {
  workshop_.Compiler();
  ASSERT_EQ(Export("").exit_code, 0);
  EXPECT_EQ(JsonOf(Export("--resume --json"))["blob"], "cache");
  fs::remove_all(workshop_.Cache());
  fs::remove(workshop_ / "bin/optimum-cli");
  const ProcessResult again = Export("--resume --json");
  ASSERT_EQ(again.exit_code, 0) << again.err << again.out;
  EXPECT_EQ(JsonOf(again)["already_published"], true);
  EXPECT_EQ(workshop_.Runs(), 1u);
}

TEST_F(ExportCompile, ResumeRefusesABlobThatIsDamagedMissingOrOfOtherSizes) {
  workshop_.Compiler();
  ASSERT_EQ(Export("--no-cache").exit_code, 0);
  const auto refused = [&](const std::string& options, const std::string& part) {
    const ProcessResult result =
        workshop_.Export("--no-cache --resume --tp 2 " + options, model_, out_);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr("the output exists and is not what this command makes"),
                                  HasSubstr(part)));
  };
  refused("--bs 8 --seq 256", "8 was asked for, but the bundle is made for 4");
  std::string blob = ReadFile(out_ + "/model.pt");
  const std::string whole = blob;
  blob[blob.size() / 2] = static_cast<char>(blob[blob.size() / 2] ^ 1);
  std::ofstream(out_ + "/model.pt") << blob;
  refused("--bs 4 --seq 256", "the compiled blob: ");
  fs::remove(out_ + "/model.pt");
  refused("--bs 4 --seq 256", "no compiled blob (model.pt)");
  std::ofstream(out_ + "/model.pt") << whole;
  std::ofstream(out_ + "/stray") << "x";
  refused("--bs 4 --seq 256", "stray: this file does not belong to it");
  EXPECT_EQ(workshop_.Runs(), 1u);
}

TEST_F(ExportCompile, ResumeFindsAnOutputThatWentWithoutABlob) {
  workshop_.Script("optimum-cli", "echo x >>" + workshop_ / "runs" + "\nexit 1\n");
  ASSERT_EQ(Export("--no-cache --no-blob").exit_code, 0);
  const ProcessResult again = Export("--no-cache --no-blob --resume --json");
  ASSERT_EQ(again.exit_code, 0) << again.err << again.out;
  EXPECT_EQ(JsonOf(again)["already_published"], true);
  EXPECT_EQ(JsonOf(again)["blob"], "none");
  EXPECT_EQ(workshop_.Runs(), 1u);
}

// It makes a bundle for 4 ranks, whatever was requested.
class ExportMisfit : public ExportCompile {
 protected:
  ExportMisfit() {
    workshop_.Compiler("inner");
    workshop_.Script("optimum-cli", "inner export neuron --model " + model_ +
                                        " --batch_size 4 --sequence_length 256 "
                                        "--tensor_parallel_size 4 \"${@: -1}\"\n");
  }
};

TEST_F(ExportMisfit, IsAFailureThatIsRememberedAndMended) {
  const std::string reason =
      "the compiler's output does not fit: --tp 2 was asked for, but the bundle is made for "
      "4";
  const ProcessResult failed = Export("");
  EXPECT_EQ(failed.exit_code, 4);
  EXPECT_THAT(failed.err, HasSubstr(reason));
  EXPECT_FALSE(Traces(out_));
  EXPECT_THAT(workshop_.CacheTool("ls").out, HasSubstr("failed"));
  const ProcessResult again = Export("");
  EXPECT_EQ(again.exit_code, 4);
  EXPECT_THAT(again.err,
              AllOf(HasSubstr("remembers that compiling this failed"), HasSubstr(reason)));
  EXPECT_EQ(workshop_.Runs(), 1u);
  workshop_.Compiler();
  EXPECT_EQ(Export("--retry-failed-compilation").exit_code, 0);
  EXPECT_EQ(workshop_.Runs(), 2u);
  EXPECT_EQ(Export("", {}, "cached").exit_code, 0);
  EXPECT_EQ(workshop_.Runs(), 2u);
}

TEST_F(ExportMisfit, IsAFailureWithoutTheCacheToo) {
  const ProcessResult failed = Export("--no-cache");
  EXPECT_EQ(failed.exit_code, 4);
  EXPECT_THAT(failed.err, AllOf(HasSubstr("--tp 2 was asked for"), HasSubstr(".compile.log")));
  EXPECT_FALSE(Traces(out_));
}

TEST_F(ExportMisfit, WeightsAloneAreGoodEnoughWhenTheUserSaysSo) {
  for (const char* round : {"first", "remembered"}) {
    const ProcessResult result = Export("--json --no-blob", {}, round);
    EXPECT_EQ(result.exit_code, 0) << round << result.err;
    EXPECT_EQ(JsonOf(result)["blob"], "none") << round;
    EXPECT_THAT(result.err, HasSubstr("there is no compiled blob: ")) << round;
  }
  EXPECT_EQ(workshop_.Runs(), 1u);
}

// As an earlier version left it: finished, but bad.
TEST_F(ExportMisfit, InTheCacheIsPassedOverAndMadeAnew) {
  workshop_.Compiler();
  ASSERT_EQ(Export("").exit_code, 0);
  const std::string entry = workshop_.OnlyEntry();
  std::string config = ReadFile(entry + "/neuron_config.json");
  const std::string tp = "\"tp_degree\": 2";
  ASSERT_NE(config.find(tp), std::string::npos);
  config.replace(config.find(tp), tp.size(), "\"tp_degree\": 4");
  std::ofstream(entry + "/neuron_config.json") << config;
  const ProcessResult result = Export("", {}, "again");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("the entry in the compile cache is passed over: "),
                                HasSubstr("is made for 4")));
  EXPECT_EQ(workshop_.Runs(), 2u);
}

class ExportFaultyBlob : public ExportCompile, public ::testing::WithParamInterface<const char*> {
 protected:
  const std::string blob_ =
      std::string(GetParam()) == "cut" ? testing_util::CompiledBlob().substr(0, 900) : GetParam();
};

TEST_P(ExportFaultyBlob, OfACompilerIsAFailure) {
  workshop_.Compiler("optimum-cli", "", blob_);
  const ProcessResult failed = Export("");
  EXPECT_EQ(failed.exit_code, 4);
  EXPECT_THAT(failed.err, HasSubstr("the compiler's output does not fit: the compiled blob: it "));
  EXPECT_FALSE(Traces(out_));
  EXPECT_FALSE(fs::exists(workshop_.OnlyEntry() + "/model.done"));
  EXPECT_EQ(Export("--no-cache").exit_code, 4);
}

// The manifest agrees with it, as if an earlier version had left it.
TEST_P(ExportFaultyBlob, OfTheCacheIsFoundAndMadeAnew) {
  workshop_.Compiler();
  ASSERT_EQ(Export("").exit_code, 0);
  EXPECT_EQ(workshop_.CacheTool("verify").exit_code, 0);
  const std::string entry = workshop_.OnlyEntry();
  std::ofstream(entry + "/model.pt") << blob_;
  const auto digest = neff::DigestFile(entry + "/model.pt");
  neff::Manifest manifest = *neff::ReadManifest(entry + "/nxdkit-entry.json");
  for (neff::ManifestFile& file : manifest.files)
    if (file.name == "model.pt") file = {"model.pt", blob_.size(), *digest};
  std::ofstream(entry + "/nxdkit-entry.json") << neff::WriteManifest(manifest);
  const ProcessResult verified = workshop_.CacheTool("verify");
  EXPECT_EQ(verified.exit_code, 1);
  EXPECT_THAT(verified.out, AllOf(HasSubstr("/model.pt: it is "), HasSubstr("1 finding\n")));
  const ProcessResult again = Export("", {}, "again");
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("is passed over: "));
  EXPECT_EQ(workshop_.Runs(), 2u);
  EXPECT_EQ(workshop_.CacheTool("verify").exit_code, 0);
}

INSTANTIATE_TEST_SUITE_P(All, ExportFaultyBlob, ::testing::Values("", "compiled", "cut"));

TEST_F(ExportCompile, SaysThatTpIsMissingInItsOwnWords) {
  const ProcessResult result = workshop_.Export("", model_, out_);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("--tp is missing"), Not(HasSubstr("--to"))));
  EXPECT_EQ(workshop_.Export("--target cpu", model_, out_).exit_code, 2);
}

// While it is being made, and after its maker was killed, `ls` reports it; then prune removes it.
TEST_F(ExportCompile, AnEntryThatIsMadeIsLocked) {
  workshop_.Script("optimum-cli", "mkdir -p \"${@: -1}\"\nsleep 600 & echo $! >" +
                                      workshop_ / "child" + "\n" + Workshop::Tool("neuron-cache") +
                                      " ls >" + workshop_ / "listed" + "\n" +
                                      Workshop::Tool("neuron-cache") + " prune --empty >" +
                                      workshop_ / "pruned" + "\nkill -9 $PPID\nwait\n");
  const ProcessResult killed = Export("--pass-env NEURON_COMPILE_CACHE_URL");
  EXPECT_EQ(killed.exit_code, 128 + SIGKILL);
  EXPECT_THAT(ReadFile(workshop_ / "listed"), HasSubstr("locked"));
  EXPECT_THAT(ReadFile(workshop_ / "pruned"), HasSubstr("in use: "));
  ::kill(std::stoi(ReadFile(workshop_ / "child")), SIGKILL);
  EXPECT_THAT(workshop_.CacheTool("ls").out, HasSubstr("locked"));
  const ProcessResult pruned = workshop_.CacheTool("prune");
  EXPECT_EQ(pruned.exit_code, 0);
  EXPECT_THAT(pruned.out, AllOf(HasSubstr("removed "), HasSubstr("stale lock")));
  EXPECT_THAT(workshop_.CacheTool("ls").out, HasSubstr(": 0 entries"));
}

TEST_F(ExportCompile, AFailureIsShownAndRemembered) {
  workshop_.Compiler("optimum-cli", "echo run >>" + workshop_ / "runs" +
                                        "\nfor i in $(seq 1 30); do echo \"line $i\"; done\n"
                                        "echo 'NCC_EBVF030: too many instructions' >&2\nexit 3\n");
  const ProcessResult failed = Export("--json");
  EXPECT_EQ(failed.exit_code, 4);
  EXPECT_THAT(failed.err, AllOf(HasSubstr("the compiler ended with exit code 3"),
                                HasSubstr("NCC_EBVF030: too many instructions"),
                                HasSubstr("line 30"), Not(HasSubstr("line 11\n"))));
  const std::string log = workshop_.OnlyEntry() + "/model.log";
  EXPECT_EQ(JsonOf(failed)["error"]["file"], log);
  EXPECT_THAT(ReadFile(log), AllOf(HasSubstr("line 1\n"), HasSubstr("NCC_EBVF030")));
  EXPECT_FALSE(Traces(out_));
  EXPECT_EQ(workshop_.Runs(), 1u);
  const ProcessResult again = Export("");
  EXPECT_EQ(again.exit_code, 4);
  EXPECT_THAT(again.err, AllOf(HasSubstr("remembers that compiling this failed"), HasSubstr(log),
                               HasSubstr("--retry-failed-compilation")));
  EXPECT_EQ(workshop_.Runs(), 1u);
  workshop_.Compiler();
  EXPECT_EQ(Export("--retry_failed_compilation").exit_code, 0);
  EXPECT_EQ(workshop_.Runs(), 2u);
  EXPECT_FALSE(fs::exists(log));
}

TEST_F(ExportCompile, WithoutTheCacheTheLogLiesBesideTheOutput) {
  workshop_.Compiler("optimum-cli", "echo no; exit 1\n");
  const ProcessResult failed = Export("--no-cache");
  EXPECT_EQ(failed.exit_code, 4);
  EXPECT_THAT(failed.err, HasSubstr(out_ + ".compile.log"));
  EXPECT_EQ(ReadFile(out_ + ".compile.log"), "no\n");
  workshop_.Compiler();
  EXPECT_EQ(Export("--no-cache").exit_code, 0);
  for (const auto& entry : fs::directory_iterator(workshop_.path()))
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr(".compile"))) << "left behind";
}

TEST_F(ExportCompile, ACompilerThatLeavesNothingIsAFailure) {
  workshop_.Script("optimum-cli", "mkdir -p \"${@: -1}\"\n");
  const ProcessResult result = Export("");
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, HasSubstr("the compiler ended well, but left no"));
  EXPECT_FALSE(Traces(out_));
}

TEST_F(ExportCompile, ABlobOfOtherShapesIsRefused) {
  TinyModel wider = testing_util::TinyLlama();
  wider.intermediate = 96;
  const std::string other = workshop_.MakeModel("other", wider);
  workshop_.Compiler("inner");
  workshop_.Script("optimum-cli", "inner export neuron --model " + other +
                                      " --batch_size 4 --sequence_length 256 "
                                      "--tensor_parallel_size 2 \"${@: -1}\"\n");
  const ProcessResult result = Export("--no-cache");
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, HasSubstr("the bundle was compiled for BF16 [48, 32], the model gives "
                                    "BF16 [24, 32]"));
}

// The script interrupts its parent like Ctrl-C, and does not end by itself.
TEST_F(ExportCompile, CtrlCEndsTheCompilerAndAllThatItStarted) {
  workshop_.Script("optimum-cli", "tail -f /dev/null & echo $! >" + workshop_ / "child" +
                                      "\ntrap 'exit 0' INT\nkill -INT $PPID\n"
                                      "tail -f /dev/null\n");
  const ProcessResult result = Export("");
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_FALSE(
      testing_util::Runs(std::stoi(ReadFile(workshop_ / "child"))));  // SIGKILL was waited for
  EXPECT_FALSE(Traces(out_));
  workshop_.Compiler();
  EXPECT_EQ(Export("").exit_code, 0) << "nothing of it is remembered";
}

TEST_F(ExportCompile, TwoAtOnceCompileOnce) {
  workshop_.Compiler();
  ProcessResult results[2];
  std::thread other([&] { results[1] = Export("", {}, "second"); });
  results[0] = Export("", {}, "first");
  other.join();
  for (const ProcessResult& result : results) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    // A process that finds it done when the lock is free has run no compiler.
    EXPECT_THAT(result.out, AnyOf(HasSubstr("blob: from the compile cache, "),
                                  HasSubstr("s: optimum-cli export neuron ")));
  }
  EXPECT_EQ(workshop_.Runs(), 1u);
  ExpectSameTree(workshop_ / "first", workshop_ / "second");
}

TEST_F(ExportCompile, FindsTheCacheWhereTheVendorsLibrariesDo) {
  workshop_.Compiler();
  const std::string elsewhere = workshop_ / "elsewhere";
  EXPECT_EQ(Export("", {"NEURON_CC_FLAGS=--cache_dir=" + elsewhere}).exit_code, 0);
  EXPECT_TRUE(fs::exists(elsewhere));
  EXPECT_FALSE(fs::exists(workshop_.Cache())) << "the flag wins over the variable";
  const ProcessResult store =
      Export("-v", {"NEURON_COMPILE_CACHE_URL=s3://bucket/cache"}, "from_store");
  EXPECT_EQ(store.exit_code, 0) << store.err;
  EXPECT_THAT(store.err, HasSubstr("s3://bucket/cache is an object store"));
  EXPECT_EQ(
      Export("--cache-dir " + workshop_.Cache(), {"NEURON_CC_FLAGS=--no_cache"}, "said").exit_code,
      0);
  EXPECT_TRUE(fs::exists(workshop_.Cache())) << "the option wins over the flag";
}

// One cache for machines of two kinds: a blob for one does not load on the other.
TEST(ExportTargets, EachHasABlobOfItsOwn) {
  ExportWorkshop shop;
  const std::string model = shop.MakeModel("model", {});
  shop.Compiler("optimum-cli",
                "echo \"${NEURON_PLATFORM_TARGET_OVERRIDE:-none}\" >>" + shop / "targets" + "\n");
  const std::string options = "--tp 2 --bs 2 --seq 64 --force --instance ";
  ASSERT_EQ(shop.Export(options + "trn1.32xlarge", model, shop / "a").exit_code, 0);
  ASSERT_EQ(shop.Export(options + "trn2.48xlarge", model, shop / "b").exit_code, 0);
  EXPECT_EQ(ReadFile(shop / "targets"), "trn1\ntrn2\n");
  EXPECT_EQ(shop.Runs(), 2u);
  const ProcessResult hit = shop.Export(options + "trn2.48xlarge", model, shop / "b");
  EXPECT_EQ(hit.exit_code, 0);
  EXPECT_THAT(hit.out, HasSubstr("from the compile cache"));
  // An inf2 runs what was compiled for a trn1.
  EXPECT_THAT(shop.Export(options + "inf2.48xlarge", model, shop / "c").out,
              HasSubstr("from the compile cache"));
  const ProcessResult differ = shop.Export(options + "trn2.48xlarge", model, shop / "d",
                                           {"NEURON_PLATFORM_TARGET_OVERRIDE=trn1"});
  EXPECT_EQ(differ.exit_code, 2);
  EXPECT_THAT(differ.err, HasSubstr("NEURON_PLATFORM_TARGET_OVERRIDE=trn1, but --instance "
                                    "trn2.48xlarge has trn2 devices"));
}

}  // namespace
}  // namespace nxdkit::test
