// One digest for all layouts of a model; every element counts in it; differing copies are refused.
#include "formats/kinds/open.h"
#include "formats/ops/digest/files.h"
#include "formats/ops/digest/manifest.h"

#include <set>

#include "formats/safetensors/encoder.h"
#include "lib/hash/tree_digest.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/formats/words.h"
#include "tests/lib/expect_error.h"

namespace nxdkit {
namespace {

using manifest::DigestText;
using ops::Kind;
using ops::ModelDigest;
using ::testing::HasSubstr;
using testing_util::ExpectError;
using testing_util::FindStored;
using testing_util::FlipElement;
using testing_util::OpsWorkshop;
using testing_util::TinyModel;

Result<ModelDigest> DigestOf(const std::string& path, const Kind* kind,
                             const ops::RunOptions& run = {}) {
  NXDKIT_ASSIGN(const ops::BoundArtifact artifact, ops::OpenAndBind(path, kind, {}));
  return ops::DigestModel(artifact, run);
}

std::string TextOf(const std::string& path, const Kind* kind, const ops::RunOptions& run = {}) {
  const Result<ModelDigest> digest = DigestOf(path, kind, run);
  EXPECT_TRUE(digest.ok()) << path << ": " << digest.error().ToString();
  return digest.ok() ? DigestText(digest->digest) : "";
}

ops::OutputOptions Ranks(int tp) {
  ops::OutputOptions options;
  options.Set("tp", tp);
  return options;
}

ops::RunOptions With(int jobs, uint64_t max_memory) {
  ops::RunOptions run;
  run.jobs = jobs;
  run.max_memory = max_memory;
  return run;
}

struct Layout {
  const char* name;
  const Kind* kind;
  ops::OutputOptions options;
};

// Padding (tp 3 divides nothing), copies of key heads, pipeline stages, fused and transposed
// weights, files of one tensor each.
std::vector<Layout> Layouts() {
  std::vector<Layout> layouts = {{"hf", &ops::kHf, {}}, {"torch.pt", &ops::kTorch, {}}};
  const auto add = [&](const char* name, const Kind* kind) -> ops::OutputOptions& {
    layouts.push_back({name, kind, {}});
    return layouts.back().options;
  };
  add("split", &ops::kHf).Set("max-shard-size", "9000");
  add("nxd2", &ops::kNxd).Set("tp", 2);
  ops::OutputOptions& copies = add("nxd8", &ops::kNxd);
  copies.Set("tp", 8);
  copies.Set("qkv", Word(nxd::QkvStyle::kLinear));
  copies.Set("hw", Word(models::Hardware::kTrn2));
  ops::OutputOptions& stages = add("pp", &ops::kNxd);
  stages.Set("tp", 2);
  stages.Set("pp", 2);
  stages.Set("qkv", Word(nxd::QkvStyle::kFused));
  stages.Set("xser", true);
  add("rollout3", &ops::kRollout).Set("tp", 3);
  ops::OutputOptions& nxdi = add("nxdi4", &ops::kRollout);
  nxdi.Set("tp", 4);
  nxdi.Set("flavor", Word(rollout::Flavor::kNxdi));
  return layouts;
}

class Digest : public ::testing::Test {
 protected:
  const OpsWorkshop workshop_;
};

TEST_F(Digest, IsTheSameForEveryLayout) {
  for (const TinyModel& model :
       {testing_util::TinyLlama(), testing_util::TinyQwen2(), testing_util::TinyQwen3()}) {
    const std::string hf = workshop_.MakeModel(model.family, model);
    const std::string expected = TextOf(hf, &ops::kHf);
    for (const Layout& layout : Layouts()) {
      if (layout.kind == &ops::kTorch) continue;  // has no config; see below
      const std::string path = workshop_.Make(model.family + "-" + layout.name, hf, &ops::kHf,
                                              layout.kind, layout.options);
      EXPECT_EQ(TextOf(path, layout.kind), expected) << path;
    }
  }
}

TEST_F(Digest, IsTheSameForEveryLayoutOfExperts) {
  for (const TinyModel& model : {testing_util::TinyMixtral(), testing_util::TinyQwen3Moe()}) {
    const std::string hf = workshop_.MakeModel(model.family, model);
    const std::string expected = TextOf(hf, &ops::kHf);
    std::vector<Layout> layouts = {{"nxd2", &ops::kNxd, Ranks(2)},
                                   {"ep4", &ops::kNxd, Ranks(2)},
                                   {"rollout4", &ops::kRollout, Ranks(4)},
                                   {"nxdi4", &ops::kRollout, Ranks(4)}};
    layouts[1].options.Set("ep", 4);
    layouts[1].options.Set("xser", true);
    layouts[3].options.Set("flavor", Word(rollout::Flavor::kNxdi));
    for (const Layout& layout : layouts) {
      const std::string path = workshop_.Make(model.family + "-" + layout.name, hf, &ops::kHf,
                                              layout.kind, layout.options);
      EXPECT_EQ(TextOf(path, layout.kind), expected) << path;
    }
  }
}

// In a tied model lm_head.weight is not a parameter, whether it is stored or not.
TEST_F(Digest, CountsATiedHeadOnce) {
  const std::string hf = workshop_.MakeModel("tied", testing_util::TinyQwen3());
  const std::string bundle = workshop_.Make("bundle", hf, &ops::kHf, &ops::kRollout, Ranks(2));
  EXPECT_EQ(FindStored(bundle, &ops::kRollout, "lm_head.weight", 0).tensor.name, "lm_head.weight");
  const Result<ModelDigest> digest = DigestOf(bundle, &ops::kRollout);
  ASSERT_TRUE(digest.ok()) << digest.error().ToString();
  for (const auto& param : digest->params) EXPECT_NE(param.name, "lm_head.weight");
  EXPECT_EQ(DigestText(digest->digest), TextOf(hf, &ops::kHf));
}

// Without a table each tensor is a parameter: the same for hf and torch, and for a family with a
// table the same as with it.
TEST_F(Digest, NeedsNoTable) {
  const std::string hf = workshop_.MakeModel("model", testing_util::TinyLlama());
  const std::string torch = workshop_.Make("plain.pt", hf, &ops::kHf, &ops::kTorch);
  const std::string expected = TextOf(hf, &ops::kHf);
  EXPECT_EQ(TextOf(torch, &ops::kTorch), expected);
  std::filesystem::remove(hf + "/config.json");
  EXPECT_EQ(TextOf(hf, &ops::kHf), expected);
}

// Tensors of several leaves whose rows do not end where leaves do.
TEST_F(Digest, DoesNotDependOnThreadsAndMemory) {
  const std::string hf = workshop_.MakeModel(
      "large", {.hidden = 328, .intermediate = 500, .layers = 1, .vocab = 5002});
  const std::string set = workshop_.Make("set", hf, &ops::kHf, &ops::kNxd, Ranks(2));
  const Result<ModelDigest> digest = DigestOf(hf, &ops::kHf);
  ASSERT_TRUE(digest.ok()) << digest.error().ToString();
  EXPECT_EQ(digest->params.front().name, "lm_head.weight");
  EXPECT_EQ(LeafCount(*PackedBytes(digest->params.front().dtype, digest->params.front().shape)),
            4u);
  std::set<std::string> digests{DigestText(digest->digest)};
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr uint64_t kSmall = uint64_t{300} << 20;  // a sanitizer's own memory counts too
#else
  constexpr uint64_t kSmall = uint64_t{100} << 20;
#endif
  for (const int jobs : {1, 2, 7, 200})
    for (const uint64_t memory : {kSmall, uint64_t{512} << 20}) {
      digests.insert(TextOf(hf, &ops::kHf, With(jobs, memory)));
      digests.insert(TextOf(set, &ops::kNxd, With(jobs, memory)));
    }
  EXPECT_EQ(digests.size(), 1u);
}

TEST_F(Digest, SaysWhenTheCapHoldsNoLeaf) {
  const std::string hf = workshop_.MakeModel("model", testing_util::TinyLlama());
  ExpectError(DigestOf(hf, &ops::kHf, With(1, 1 << 20)), Errc::kLimit, "the cap is 1048576");
}

TEST_F(Digest, StopsWhenItIsToldTo) {
  const std::string hf = workshop_.MakeModel("model", testing_util::TinyLlama());
  ops::RunOptions run;
  run.poll = [] { return Status(Error(Errc::kInterrupted, "told to")); };
  ExpectError(DigestOf(hf, &ops::kHf, run), Errc::kInterrupted, "told to");
}

TEST_F(Digest, ChangesWithEveryElementOfASet) {
  const std::string hf = workshop_.MakeModel("model", testing_util::TinyLlama());
  const std::string set = workshop_.Make("set", hf, &ops::kHf, &ops::kNxd, Ranks(2));
  const Result<ModelDigest> before = DigestOf(set, &ops::kNxd);
  ASSERT_TRUE(before.ok());
  const std::string name = "model.layers.1.mlp.down_proj.weight";
  FlipElement(FindStored(set, &ops::kNxd, name, 1), 3);
  const Result<ModelDigest> after = DigestOf(set, &ops::kNxd);
  ASSERT_TRUE(after.ok());
  EXPECT_NE(DigestText(before->digest), DigestText(after->digest));
  const std::vector<ops::Finding> findings = ops::CompareModels(*before, *after);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].check, "digest");
  EXPECT_EQ(findings[0].param, name);
  EXPECT_EQ(findings[0].message, "the values differ");
  EXPECT_NE(findings[0].expected, findings[0].found);
}

// A copy is not read for the digest, so it must not differ.
TEST_F(Digest, OfAnArtifactWithADifferentCopyIsRefused) {
  const std::string hf = workshop_.MakeModel("model", testing_util::TinyLlama());
  const std::string set = workshop_.Make("set", hf, &ops::kHf, &ops::kNxd, Ranks(2));
  FlipElement(FindStored(set, &ops::kNxd, "model.norm.weight", 1), 5);
  EXPECT_EQ(TextOf(set, &ops::kNxd), TextOf(hf, &ops::kHf)) << "the copy is not its primary place";
  ops::DigestRequest request;
  request.path = set;
  const auto refused = ExpectError(ops::Digest(request), Errc::kCorrupt,
                                   "1 element differs from the other copy of model.norm.weight");
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->tensor(), "model.norm.weight");
  EXPECT_EQ(refused->rank(), 1);
}

// --- comparing

ModelDigest Model(std::vector<manifest::ParamDigest> params) {
  return manifest::MakeModelDigest(std::move(params));
}

TEST(CompareModels, NamesWhatDiffers) {
  const Sha256Bytes one{std::byte{1}};
  const ModelDigest recorded = Model({{"a", Dtype::kF32, {2}, {}},
                                      {"b", Dtype::kF32, {2}, {}},
                                      {"c", Dtype::kF32, {2}, {}},
                                      {"d", Dtype::kF32, {2}, {}},
                                      {"e", Dtype::kF32, {2}, {}}});
  const ModelDigest found = Model({{"b", Dtype::kF32, {2}, one},
                                   {"bb", Dtype::kF32, {2}, {}},
                                   {"c", Dtype::kBF16, {2}, one},
                                   {"d", Dtype::kF32, {1, 2}, {}},
                                   {"e", Dtype::kF32, {2}, {}}});
  const std::vector<ops::Finding> findings = ops::CompareModels(recorded, found);
  ASSERT_EQ(findings.size(), 5u);
  const char* expected[][3] = {
      {"a", "missing", "recorded, but not in the model"},
      {"b", "digest", "the values differ"},
      {"bb", "extra", "in the model, but not recorded"},
      {"c", "dtype", "dtype BF16 found, F32 recorded"},
      {"d", "shape", "shape [1, 2] found, [2] recorded"},
  };
  for (size_t i = 0; i < findings.size(); ++i) {
    EXPECT_EQ(findings[i].param, expected[i][0]);
    EXPECT_EQ(findings[i].check, expected[i][1]) << findings[i].param;
    EXPECT_EQ(findings[i].message, expected[i][2]) << findings[i].param;
  }
  EXPECT_TRUE(ops::CompareModels(found, found).empty());
}

TEST(CompareFiles, NamesWhatDiffers) {
  const Sha256Bytes one{std::byte{1}};
  const std::vector<ops::FileDigest> recorded = {
      {"a", 1, {}}, {"b", 1, {}}, {"c", 1, {}}, {"d", 1, {}}};
  const std::vector<ops::FileDigest> found = {
      {"b", 2, one}, {"c", 1, one}, {"d", 1, {}}, {"x/y", 1, {}}};
  const std::vector<ops::Finding> findings = ops::CompareFiles(recorded, found);
  ASSERT_EQ(findings.size(), 4u);
  const char* expected[][3] = {
      {"a", "missing", "the file is recorded, but not here"},
      {"b", "bytes", "2 bytes found, 1 recorded"},
      {"c", "digest", "the contents differ"},
      {"x/y", "extra", "the file is here, but not recorded"},
  };
  for (size_t i = 0; i < findings.size(); ++i) {
    EXPECT_EQ(findings[i].file, expected[i][0]);
    EXPECT_EQ(findings[i].check, expected[i][1]) << findings[i].file;
    EXPECT_EQ(findings[i].message, expected[i][2]) << findings[i].file;
  }
}

// --- files

TEST_F(Digest, OfFilesTakesWhatBelongsToTheArtifact) {
  const std::string hf = workshop_.MakeModel("model", testing_util::TinyLlama());
  const auto write = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(hf + "/" + name).parent_path());
    std::ofstream(hf + "/" + name) << text;
  };
  write("tokenizer.json", "abc");
  write("sub/deep/x.txt", "");
  write(".git/config", "no");
  write(".hidden", "no");
  write("manifest.json", "no");
  std::filesystem::create_symlink("tokenizer.json", hf + "/link.json");
  std::filesystem::create_directory_symlink("sub", hf + "/sub2");
  const Result<ops::Artifact> artifact = ops::OpenArtifact(hf, &ops::kHf, {});
  ASSERT_TRUE(artifact.ok());
  const auto files =
      ops::DigestFiles(*artifact, {hf + "/../model/manifest.json"}, With(3, 512 << 20));
  ASSERT_TRUE(files.ok()) << files.error().ToString();
  std::vector<std::string> names;
  for (const ops::FileDigest& file : *files) names.push_back(file.path);
  EXPECT_THAT(names, ::testing::ElementsAre("config.json", "link.json", "model.safetensors",
                                            "sub/deep/x.txt", "sub2/deep/x.txt", "tokenizer.json"));
  EXPECT_EQ(DigestText((*files)[1].digest),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ((*files)[1].bytes, 3u);
  EXPECT_EQ(DigestText((*files)[3].digest),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_F(Digest, OfFilesRefusesALinkInACircle) {
  const std::string hf = workshop_.MakeModel("model", testing_util::TinyLlama());
  std::filesystem::create_directories(hf + "/a");
  std::filesystem::create_directories(hf + "/b");
  std::filesystem::create_directory_symlink("../b", hf + "/a/to_b");
  std::filesystem::create_directory_symlink("../a", hf + "/b/to_a");
  const Result<ops::Artifact> artifact = ops::OpenArtifact(hf, &ops::kHf, {});
  ASSERT_TRUE(artifact.ok());
  const auto error = ExpectError(ops::DigestFiles(*artifact, {}, {}), Errc::kUnsupported,
                                 "the link leads to a folder that contains it");
  ASSERT_TRUE(error);
  EXPECT_THAT(error->file(), HasSubstr("/to_"));
}

// The model and the files of a bundle belong to the same version, though three refreshes happen in
// between: into weights that are a plain folder, then behind a link, then into a bare folder.
TEST_F(Digest, OfFilesIsOfTheVersionThatIsOpen) {
  const std::string model = workshop_.MakeModel("model", testing_util::TinyLlama());
  const std::string tuned = workshop_.Make("tuned", model, &ops::kHf, &ops::kHf);
  FlipElement(FindStored(tuned, &ops::kHf, "model.norm.weight", -1), 0);
  const std::string bundle = workshop_.Make("bundle", model, &ops::kHf, &ops::kRollout, Ranks(4));
  const auto files_of = [](const ops::Artifact& artifact) {
    const auto files = ops::DigestFiles(artifact, {}, With(2, 512 << 20));
    EXPECT_TRUE(files.ok()) << files.error().ToString();
    return files.ok() ? *files : std::vector<ops::FileDigest>{};
  };
  for (const std::string& path :
       {bundle, bundle, bundle + "/checkpoint/weights", bundle + "/checkpoint/weights/"}) {
    const Result<ops::Artifact> artifact = ops::OpenArtifact(path, &ops::kRollout, {});
    ASSERT_TRUE(artifact.ok()) << artifact.error().ToString();
    const std::vector<ops::FileDigest> before = files_of(*artifact);
    EXPECT_GE(before.size(), 4u);
    for (const std::string& input : {tuned, model, tuned}) {
      ops::ConvertRequest refresh = OpsWorkshop::Request(input, &ops::kHf, bundle, &ops::kRollout);
      refresh.place = ops::Slot{};
      const auto report = ops::Convert(refresh);
      ASSERT_TRUE(report.ok()) << report.error().ToString();
    }
    const auto findings = ops::CompareFiles(before, files_of(*artifact));
    EXPECT_TRUE(findings.empty()) << path << ": " << findings.front().ToString();
    EXPECT_FALSE(
        ops::CompareFiles(before, files_of(*ops::OpenArtifact(path, &ops::kRollout, {}))).empty())
        << path;
  }
}

// --- parameters of no layout of ours

// Writes hf/model.safetensors with these tensors, all zeros.
std::string PlainFolder(const OpsWorkshop& workshop, std::vector<OutputTensor> tensors) {
  const std::string folder = workshop / "plain";
  std::filesystem::create_directories(folder);
  const auto encoder = safetensors::Encode(std::move(tensors), {});
  EXPECT_TRUE(encoder.ok());
  std::string bytes((*encoder)->file_bytes(), '\0');
  for (const Fragment& fragment : (*encoder)->Frame({}))
    bytes.replace(fragment.offset, fragment.bytes.size(), fragment.bytes);
  std::ofstream(folder + "/model.safetensors", std::ios::binary) << bytes;
  return folder;
}

TEST_F(Digest, TakesScalarsEmptyTensorsAndEveryWholeDtype) {
  std::vector<OutputTensor> tensors = {{"scalar", Dtype::kF64, {}}, {"empty", Dtype::kI8, {3, 0}}};
  for (int i = 0; i < kSafetensorsDtypeCount; ++i) {
    const Dtype dtype = static_cast<Dtype>(i);
    if (ElementBytes(dtype) > 0) tensors.push_back({"t" + std::to_string(i), dtype, {2, 3}});
  }
  const size_t count = tensors.size();
  const Result<ModelDigest> digest = DigestOf(PlainFolder(workshop_, tensors), &ops::kHf);
  ASSERT_TRUE(digest.ok()) << digest.error().ToString();
  ASSERT_EQ(digest->params.size(), count);
  EXPECT_EQ(digest->params[0].name, "empty");
  EXPECT_EQ(digest->params[0].dtype, Dtype::kI8);
  EXPECT_EQ(HexText(digest->params[0].root),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_F(Digest, RefusesElementsSmallerThanAByte) {
  const std::string folder = PlainFolder(workshop_, {{"half", Dtype::kF4, {2, 4}}});
  const auto error = ExpectError(DigestOf(folder, &ops::kHf), Errc::kUnsupported,
                                 "elements of dtype F4 are smaller than a byte");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->tensor(), "half");
}

}  // namespace
}  // namespace nxdkit
