// ckpt-digest from outside: one line for all layouts, manifests and signatures, exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/tools/convert_workshop.h"
#include "tests/tools/man_page.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// The keys of RFC 8032, section 7.1, test 2.
constexpr char kPrivate[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIEzNCJso/5banbbDRuwRTg9bijGfNaumJNqM9u1PuKb7\n"
    "-----END PRIVATE KEY-----\n";
constexpr char kPublic[] =
    "-----BEGIN PUBLIC KEY-----\n"
    "MCowBQYDK2VwAyEAPUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=\n"
    "-----END PUBLIC KEY-----\n";

class DigestTool : public ::testing::Test {
 protected:
  static ProcessResult Digest(const std::string& options, const std::string& path) {
    Words words = {Workshop::Tool("ckpt-digest")};
    for (const std::string& word : Split(options)) words.push_back(word);
    words.push_back(path);
    return RunProcess(words);
  }
  // Runs, expects the code, and checks the JSON against the man page.
  static Json DigestJson(int exit_code, const std::string& options, const std::string& path) {
    const ProcessResult result = Digest(options + " --json", path);
    EXPECT_EQ(result.exit_code, exit_code) << options << result.out << result.err;
    const Json json = JsonOf(result);
    const Names documented = ManJsonPaths(ReadFile(NXDKIT_SOURCE_DIR "/man/ckpt-digest.1"));
    EXPECT_THAT(UndocumentedPaths(json, documented), IsEmpty()) << options;
    return json;
  }
  static std::vector<std::string> FilesOf(const Json& json) {
    std::vector<std::string> paths;
    for (const Json& file : json["files"]) paths.push_back(file["path"].get<std::string>());
    return paths;
  }
  static void ExpectFails(int exit_code, const std::string& part, const std::string& options,
                          const std::string& path) {
    const ProcessResult result = Digest(options, path);
    EXPECT_EQ(result.exit_code, exit_code) << options << "\n" << result.err;
    EXPECT_THAT(result.err, HasSubstr(part)) << options;
    EXPECT_EQ(result.out, "") << options;
  }
  static void Flip(const std::string& path, int64_t from_end) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-from_end, std::ios::end);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(-from_end, std::ios::end);
    file.put(byte);
  }

  const Workshop workshop_;
  const std::string model_ = workshop_.MakeModel("model", testing_util::TinyQwen3());
  const std::string manifest_ = workshop_ / "m.json";
};

TEST_F(DigestTool, PrintsOneLineForEveryLayout) {
  const ProcessResult first = Digest("", model_);
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, ::testing::MatchesRegex("sha256:[0-9a-f]+\n"));
  EXPECT_EQ(first.out.size(), 72u);
  const std::pair<const char*, const char*> layouts[] = {
      {"nxd", "--from hf --to nxd --tp 8 --hw trn1"},
      {"xser", "--from hf --to nxd --tp 2 --pp 2 --xser"},
      {"bundle", "--from hf --to rollout --tp 3 --bs 1 --seq 64"},
      {"state.pt", "--from hf --to torch"},
  };
  for (const auto& [name, options] : layouts) {
    ExpectConverts(options, model_, workshop_ / name);
    const std::string config = "--config " + model_ + "/config.json";
    const ProcessResult result = Digest(config + " -j 3", workshop_ / name);
    EXPECT_EQ(result.exit_code, 0) << name << result.err;
    EXPECT_EQ(result.out, first.out) << name;
  }
}

// A set can record its source's digest, and has a digest of its own.
TEST_F(DigestTool, IsRecordedByAConversionThatIsAskedTo) {
  const std::string digest = Digest("", model_).out.substr(0, 71);
  const std::string set = workshop_ / "recorded";
  const ProcessResult made =
      Workshop::Convert("--from hf --to nxd --tp 2 --digest --json", model_, set);
  EXPECT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(JsonOf(made)["source_digest"], digest);
  EXPECT_EQ(Json::parse(ReadFile(set + "/nxdkit.json"))["source_digest"], digest);
  EXPECT_EQ(Digest("", set).out, digest + "\n");
  const Json seen = JsonOf(RunProcess({Workshop::Tool("ckpt-inspect"), "--json", set}));
  EXPECT_EQ(seen["layout"]["source_digest"], digest);
  const ProcessResult shown = RunProcess({Workshop::Tool("ckpt-inspect"), set});
  EXPECT_THAT(shown.out, HasSubstr("made from"));
  EXPECT_THAT(shown.out, HasSubstr(digest));
  // Two parts record it in the same way: their plans must be equal.
  for (const char* part : {"--part 0/2", "--part 1/2"})
    ExpectConverts(std::string("--from hf --to nxd --tp 2 --digest ") + part, model_,
                   workshop_ / "parts");
  ExpectSameTree(workshop_ / "parts", set);
  ExpectRefused("--from nxd --to hf --digest", set, workshop_ / "back", 2,
                "--digest is recorded in nxdkit.json");
}

// A set without a record of its layout needs the options that the other commands take.
TEST_F(DigestTool, TakesTheLayoutOfABareSet) {
  ExpectConverts("--from hf --to nxd --tp 8 --hw trn2", model_, workshop_ / "bare");
  for (const char* name : {"/nxdkit.json", "/config.json"}) fs::remove(workshop_ / "bare" + name);
  ExpectFails(3, "no config.json", "", workshop_ / "bare");
  const std::string config = "--config " + model_ + "/config.json";
  ExpectFails(2, "kv multiplier", config + " --kv-multiplier 8", workshop_ / "bare");
  const ProcessResult told = Digest(config + " --hw trn2 --kv-multiplier 4", workshop_ / "bare");
  EXPECT_EQ(told.exit_code, 0) << told.err;
  EXPECT_EQ(told.out, Digest("", model_).out);
}

TEST_F(DigestTool, ListsTensors) {
  const ProcessResult result = Digest("--tensors", model_);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("  BF16 [64, 32] model.embed_tokens.weight\nsha256:"));
  EXPECT_THAT(result.out, ::testing::EndsWith("\n" + Digest("", model_).out));
  const Json json = DigestJson(0, "", model_);
  EXPECT_EQ(json["digest"].get<std::string>() + "\n", Digest("", model_).out);
  EXPECT_EQ(json["kind"], "hf");
  EXPECT_EQ(json["model_type"], "qwen3");
  EXPECT_EQ(json["tensors"][0]["name"], "model.embed_tokens.weight");
  EXPECT_EQ(json["tensors"][0]["shape"], Json({64, 32}));
  EXPECT_EQ(json["tensors"].size(), 46u);
  EXPECT_TRUE(json["files"].empty());
}

TEST_F(DigestTool, WritesAndChecksAManifest) {
  const ProcessResult written = Digest("--manifest " + manifest_, model_);
  EXPECT_EQ(written.exit_code, 0) << written.err;
  EXPECT_EQ(written.out, Digest("", model_).out);
  const ProcessResult checked = Digest("--check " + manifest_, model_);
  EXPECT_EQ(checked.exit_code, 0) << checked.err;
  EXPECT_EQ(checked.out,
            "ok: all 46 parameters are as recorded\nok: all 2 files are as recorded\n" + model_ +
                ": good\n");
  const Json json = DigestJson(0, "--check " + manifest_, model_);
  EXPECT_EQ(json["checked"], manifest_);
  EXPECT_EQ(json["files"][1]["path"], "model.safetensors");
  EXPECT_TRUE(json["findings"].empty());
}

// One file of an xser set: its tensors are in the folder next to it.
TEST_F(DigestTool, TheManifestOfAnXserFileNamesItsTensors) {
  const std::string set = workshop_ / "xser";
  ExpectConverts("--from hf --to nxd --tp 2 --xser", model_, set);
  const std::string main = set + "/model/dp_rank_00_tp_rank_00_pp_rank_00.pt";
  const std::string file = workshop_ / "state.pt";
  std::filesystem::copy(main, file);
  std::filesystem::copy(main + ".tensors", file + ".tensors");
  const ProcessResult written = Digest("--from torch --manifest " + manifest_, file);
  ASSERT_EQ(written.exit_code, 0) << written.err;
  const std::string text = ReadFile(manifest_);
  EXPECT_THAT(text, HasSubstr("\"state.pt\""));
  EXPECT_THAT(text, HasSubstr("\"state.pt.tensors/tensor_0.pt\""));
}

TEST_F(DigestTool, KeepsAManifestInsideTheFolder) {
  const std::string key = workshop_.Write("key.pem", kPrivate);
  const std::string inside = model_ + "/MANIFEST.json";
  const std::string write = "--manifest " + inside + " --sign " + key;
  EXPECT_EQ(Digest(write, model_).exit_code, 0);
  EXPECT_EQ(Digest("--check " + inside, model_).exit_code, 0);
  const std::string before = ReadFile(inside);
  EXPECT_EQ(Digest(write + " --force", model_).exit_code, 0);
  EXPECT_EQ(ReadFile(inside), before);
}

TEST_F(DigestTool, OtherWeightsAreOneSentence) {
  ASSERT_EQ(Digest("--manifest " + manifest_, model_).exit_code, 0);
  const std::string other = workshop_.MakeModel("other", testing_util::TinyQwen3(), "--seed 9");
  const ProcessResult result = Digest("--no-files --check " + manifest_, other);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.out, StartsWith(other + ": all 46 parameters differ from what " + manifest_ +
                                     " records: another model or another step\nWRONG: "));
  EXPECT_THAT(result.out, HasSubstr("\n... and 41 more (--json lists all)\n"));
  EXPECT_EQ(std::ranges::count(result.out, '\n'), 8);
  EXPECT_EQ(DigestJson(1, "--no-files --check " + manifest_, other)["findings"].size(), 46u);
}

TEST_F(DigestTool, NamesTheTensorAndTheFileThatDiffer) {
  ASSERT_EQ(Digest("--manifest " + manifest_, model_).exit_code, 0);
  Flip(model_ + "/model.safetensors", 1);
  const ProcessResult result = Digest("--check " + manifest_, model_);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.out, StartsWith(model_ + ": 1 of 46 parameters differs from what " +
                                     manifest_ + " records\nWRONG: model."));
  EXPECT_THAT(result.out, HasSubstr(": the values differ\n"));
  EXPECT_THAT(result.out, HasSubstr("WRONG: model.safetensors: the contents differ\n"));
  EXPECT_THAT(result.out, HasSubstr(": 2 findings\n"));
  const Json json = DigestJson(1, "--check " + manifest_, model_);
  ASSERT_EQ(json["findings"].size(), 2u);
  EXPECT_EQ(json["findings"][0]["check"], "digest");
  EXPECT_THAT(json["findings"][0]["parameter"].get<std::string>(), StartsWith("model."));
  EXPECT_EQ(json["findings"][1]["file"], "model.safetensors");
  EXPECT_THAT(json["findings"][1]["expected"].get<std::string>(), StartsWith("sha256:"));
}

TEST_F(DigestTool, NamesFilesThatCameAndWent) {
  ASSERT_EQ(Digest("--manifest " + manifest_, model_).exit_code, 0);
  workshop_.Write("model/modeling.py", "import os\n");
  const Json json = DigestJson(1, "--check " + manifest_, model_);
  ASSERT_EQ(json["findings"].size(), 1u);
  EXPECT_EQ(json["findings"][0]["check"], "extra");
  EXPECT_EQ(json["findings"][0]["file"], "modeling.py");
  EXPECT_EQ(Digest("--check " + manifest_ + " --no-files", model_).exit_code, 0);
}

TEST_F(DigestTool, ChecksAnotherLayoutWithoutItsFiles) {
  ASSERT_EQ(Digest("--manifest " + manifest_, model_).exit_code, 0);
  ExpectConverts("--from hf --to nxd --tp 2", model_, workshop_ / "nxd");
  ExpectFails(2,
              "the manifest records the files of an artifact of kind hf, this one is of kind nxd",
              "--check " + manifest_, workshop_ / "nxd");
  const ProcessResult weights = Digest("--no-files --check " + manifest_, workshop_ / "nxd");
  EXPECT_EQ(weights.exit_code, 0) << weights.out << weights.err;
  const std::string bare = workshop_ / "bare.json";
  ASSERT_EQ(Digest("--no-files --manifest " + bare, model_).exit_code, 0);
  EXPECT_EQ(Digest("--check " + bare, workshop_ / "nxd").exit_code, 0);
}

// The weights of a refreshed bundle are behind a link.
TEST_F(DigestTool, RecordsTheCurrentWeightsOfARefreshedBundle) {
  const std::string bundle = workshop_ / "bundle";
  const std::string other = workshop_.MakeModel("other", testing_util::TinyQwen3(), "--seed 5");
  ExpectConverts("--from hf --to rollout --tp 2 --bs 1 --seq 64", model_, bundle);
  const std::string manifest = "--manifest " + manifest_ + " --force";
  const std::vector<std::string> files = FilesOf(DigestJson(0, manifest, bundle));
  ExpectConverts("--from hf --to rollout --into", other, bundle);
  const std::vector<std::string> after = FilesOf(DigestJson(0, manifest, bundle));
  for (const std::string& file : files) EXPECT_THAT(after, ::testing::Contains(file));
  EXPECT_EQ(Digest("", bundle).out, Digest("", other).out);
}

TEST_F(DigestTool, SignsAndChecksTheSignature) {
  const std::string key = workshop_.Write("key.pem", kPrivate);
  const std::string pub = workshop_.Write("pub.pem", kPublic);
  const Json written = DigestJson(0, "--manifest " + manifest_ + " --sign " + key, model_);
  EXPECT_EQ(written["signature"], manifest_ + ".sig");
  EXPECT_EQ(ReadFile(manifest_ + ".sig").size(), 64u);
  const std::string check = "--check " + manifest_ + " --verify-signature " + pub;
  const ProcessResult good = Digest(check, model_);
  EXPECT_EQ(good.exit_code, 0) << good.err;
  EXPECT_THAT(good.out, StartsWith("ok: the manifest is signed by " + pub + "\n"));

  // The manifest is not even parsed.
  workshop_.Write("m.json", "{");
  const ProcessResult bad = Digest(check, model_);
  EXPECT_EQ(bad.exit_code, 1) << bad.err;
  EXPECT_THAT(bad.out, StartsWith("WRONG: " + manifest_ + ".sig: the signature is not by the key"));
  const Json json = DigestJson(1, check, model_);
  ASSERT_EQ(json["findings"].size(), 1u);
  EXPECT_EQ(json["findings"][0]["check"], "signature");
  EXPECT_FALSE(json.contains("digest"));

  fs::remove(manifest_ + ".sig");
  ExpectFails(3, manifest_ + ".sig: ", check, model_);
}

// openssl signs and checks the same bytes.
TEST_F(DigestTool, AgreesWithOpenssl) {
  const std::string key = workshop_.Write("key.pem", kPrivate);
  const std::string pub = workshop_.Write("pub.pem", kPublic);
  ASSERT_EQ(Digest("--manifest " + manifest_ + " --sign " + key, model_).exit_code, 0);
  const ProcessResult openssl =
      RunProcess({"openssl", "pkeyutl", "-verify", "-pubin", "-inkey", pub, "-rawin", "-in",
                  manifest_, "-sigfile", manifest_ + ".sig"});
  EXPECT_EQ(openssl.exit_code, 0) << openssl.out << openssl.err;
}

TEST_F(DigestTool, ReplacesOnlyManifests) {
  ASSERT_EQ(Digest("--manifest " + manifest_, model_).exit_code, 0);
  ExpectFails(2, "the output exists", "--manifest " + manifest_, model_);
  EXPECT_EQ(Digest("--force --manifest " + manifest_, model_).exit_code, 0);
  ExpectFails(2, "--force replaces a manifest, and this file is not one",
              "--force --manifest " + model_ + "/config.json", model_);
  ExpectFails(2, "the output is the input itself",
              "--force --manifest " + model_ + "/model.safetensors", model_);
  // A signature of the old manifest would not fit the new one.
  const std::string key = workshop_.Write("key.pem", kPrivate);
  EXPECT_EQ(Digest("--force --manifest " + manifest_ + " --sign " + key, model_).exit_code, 0);
  EXPECT_EQ(Digest("--force --manifest " + manifest_, model_).exit_code, 0);
  EXPECT_FALSE(fs::exists(manifest_ + ".sig"));
}

TEST_F(DigestTool, SaysWhatIsWrongWithTheOptions) {
  ExpectFails(2, "give one of them", "--manifest a --check b", model_);
  ExpectFails(2, "--sign signs a manifest", "--sign key.pem", model_);
  ExpectFails(2, "--verify-signature applies to a manifest", "--verify-signature pub.pem", model_);
  ExpectFails(2, "--no-files applies to a manifest", "--no-files", model_);
  ExpectFails(2, "--force replaces a manifest", "--force", model_);
  ExpectFails(3, "No such file", "--check " + manifest_, model_);
  const std::string bad = workshop_.Write("bad.json", "{\"format\": \"x\"}");
  ExpectFails(3, bad + ": format: found \"x\", expected \"nxdkit-manifest\"", "--check " + bad,
              model_);
  ExpectFails(3, "no private key in PEM form found", "--manifest " + manifest_ + " --sign " + bad,
              model_);
  EXPECT_FALSE(fs::exists(manifest_)) << "the key is looked at before the work";
}

}  // namespace
}  // namespace nxdkit::test
