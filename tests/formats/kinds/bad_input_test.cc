// Every file of small good artifacts, cut off and with one byte changed: nxd-convert and
// ckpt-verify succeed or give an Error that names a file; no partial output is ever left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>

#include "tests/formats/ops/ops_workshop.h"
#include "tests/formats/words.h"

namespace nxdkit {
namespace {

namespace fs = std::filesystem;
using ops::Kind;
using testing_util::OpsWorkshop;
using testing_util::ReadBytes;

struct Artifact {
  std::string name;
  const Kind* kind;
  std::string path;
};

// The smallest artifacts that still have everything.
class Artifacts {
 public:
  Artifacts() {
    const testing_util::TinyModel tiny = {.family = "qwen2",
                                          .hidden = 8,
                                          .intermediate = 4,
                                          .layers = 1,
                                          .heads = 4,
                                          .kv_heads = 2,
                                          .head_dim = 2,
                                          .vocab = 8};
    const std::string model = workshop_.MakeModel("model", tiny);
    Add("Hf", &ops::kHf, model);
    ops::OutputOptions options;
    options.Set("max-shard-size", "300");
    Add("HfShards", &ops::kHf, workshop_.Make("shards", model, &ops::kHf, &ops::kHf, options));
    options.Set("tp", 2);
    Add("Nxd", &ops::kNxd, workshop_.Make("nxd", model, &ops::kHf, &ops::kNxd, options));
    options.Set("xser", true);
    Add("Xser", &ops::kNxd, workshop_.Make("xser", model, &ops::kHf, &ops::kNxd, options));
    options.Set("tp", 4);
    options.Set("xser", false);
    options.Set("hw", Word(models::Hardware::kTrn2));
    Add("NxdKv2", &ops::kNxd, workshop_.Make("kv2", model, &ops::kHf, &ops::kNxd, options));
    options = {};
    options.Set("tp", 2);
    Add("Rollout", &ops::kRollout,
        workshop_.Make("roll", model, &ops::kHf, &ops::kRollout, options));
    options.Set("flavor", Word(rollout::Flavor::kNxdi));
    Add("Nxdi", &ops::kRollout, workshop_.Make("nxdi", model, &ops::kHf, &ops::kRollout, options));
    // A state dict on its own; the model's config is next to it.
    fs::create_directory(workshop_ / "torch");
    fs::copy(model + "/config.json", workshop_ / "torch/config.json");
    Add("Torch", &ops::kTorch, workshop_.Make("torch/model.pt", model, &ops::kHf, &ops::kTorch));
  }
  const std::vector<Artifact>& all() const { return all_; }

 private:
  void Add(std::string name, const Kind* kind, std::string path) {
    all_.push_back({std::move(name), kind, std::move(path)});
  }
  OpsWorkshop workshop_;
  std::vector<Artifact> all_;
};

const Artifacts& TheArtifacts() {
  static const auto artifacts = std::make_unique<Artifacts>();
  return *artifacts;
}

std::vector<std::string> FilesOf(const Artifact& artifact) {
  std::vector<std::string> files;
  const fs::path root = artifact.kind == &ops::kTorch ? fs::path(artifact.path).parent_path()
                                                      : fs::path(artifact.path);
  for (const auto& entry : fs::recursive_directory_iterator(root))
    if (entry.is_regular_file()) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

bool IsAnswer(Errc code) {
  // A contradiction between a damaged nxdkit.json and the shards reads like one with the options.
  return code == Errc::kCorrupt || code == Errc::kUnsupported || code == Errc::kNotFound ||
         code == Errc::kUsage;
}

void ExpectAnswer(const Error& error) {
  EXPECT_TRUE(IsAnswer(error.code())) << ErrcName(error.code()) << ": " << error.ToString();
  EXPECT_NE(error.file(), "") << error.ToString();
  EXPECT_NE(error.message(), "");
}

// Converts and verifies the artifact as it is now.
void Use(const Artifact& artifact, const OpsWorkshop& workshop) {
  const std::string out = workshop / "out";
  ops::ConvertRequest conversion =
      OpsWorkshop::Request(artifact.path, artifact.kind, out, &ops::kHf);
  conversion.verify = true;  // with the checksums of the source
  const auto report = ops::Convert(conversion);
  if (!report.ok()) {
    ExpectAnswer(report.error());
    EXPECT_FALSE(fs::exists(out)) << report.error().ToString();
  }
  EXPECT_FALSE(fs::exists(out + ".partial"));
  fs::remove_all(out);

  ops::VerifyRequest request;
  request.path = artifact.path;
  request.kind = artifact.kind;
  const auto verified = ops::Verify(request);
  if (!verified.ok()) {
    ExpectAnswer(verified.error());
    return;
  }
  for (const ops::Finding& finding : verified->findings) {
    EXPECT_NE(finding.check, "");
    EXPECT_NE(finding.message, "");
  }
  if (report.ok()) {
    for (const ops::Finding& finding : verified->findings)
      // Weights can be converted without the engine's configuration.
      if (finding.check != "config")
        ADD_FAILURE() << "converted, but verify says: " << finding.ToString();
  }
}

class BadInput : public ::testing::TestWithParam<size_t> {
 protected:
  // Calls damage(bytes, step) to change the contents of each file, and restores the file.
  void ForEachFile(size_t step,
                   const std::function<void(const std::string& bytes, size_t step,
                                            const std::function<void(std::string)>& use)>& damage) {
    for (const std::string& file : FilesOf(artifact_)) {
      SCOPED_TRACE(file);
      const std::string good = ReadBytes(file);
      damage(good, IsLikeAnother(file) ? std::max(step, kSampleStep) : step, [&](std::string bad) {
        Put(file, bad);
        Use(artifact_, workshop_);
      });
      Put(file, good);
      if (::testing::Test::HasFailure()) return;
    }
    Use(artifact_, workshop_);  // the original state
  }

  void CutOff(size_t every) {
    size_t n = 0;
    ForEachFile(every, [&](const std::string& good, size_t step, const auto& use) {
      for (size_t bytes = n++ % step; bytes < good.size() && !HasFailure(); bytes += step) {
        SCOPED_TRACE("cut off at " + std::to_string(bytes));
        use(good.substr(0, bytes));
      }
    });
  }

  void ChangeBytes(size_t every) {
    constexpr unsigned kMasks[] = {0x01, 0x80, 0xFF, 0x10};
    size_t n = 0;
    ForEachFile(every, [&](const std::string& good, size_t step, const auto& use) {
      for (size_t at = n % step; at < good.size() && !HasFailure(); at += step) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ kMasks[n++ % std::size(kMasks)]);
        SCOPED_TRACE("changed byte " + std::to_string(at));
        use(bad);
      }
    });
  }

  const Artifact artifact_ = TheArtifacts().all()[GetParam()];
  const OpsWorkshop workshop_;

 private:
  // The ranks' files have the same form, and so have an xser shard's tensors: the first is swept at
  // every byte, the others at every 11th, each from another offset.
  static constexpr size_t kSampleStep = 11;
  static bool IsLikeAnother(const std::string& file) {
    const size_t rank = file.find("tp_rank_");
    if (rank != std::string::npos && file.compare(rank, 11, "tp_rank_00_") != 0) return true;
    return file.find(".tensors/") != std::string::npos && !file.ends_with("/tensor_0.pt");
  }
  static void Put(const std::string& file, const std::string& bytes) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
  }
};

TEST_P(BadInput, CutOffFiles) { CutOff(97); }
TEST_P(BadInput, ChangedBytes) { ChangeBytes(41); }

TEST_P(BadInput, MissingFiles) {
  for (const std::string& file : FilesOf(artifact_)) {
    SCOPED_TRACE(file);
    fs::rename(file, file + ".away");
    Use(artifact_, workshop_);
    fs::rename(file + ".away", file);
  }
}

TEST_P(BadInput, FoldersInPlaceOfFiles) {
  for (const std::string& file : FilesOf(artifact_)) {
    SCOPED_TRACE(file);
    fs::rename(file, file + ".away");
    fs::create_directory(file);
    Use(artifact_, workshop_);
    fs::remove(file);
    fs::rename(file + ".away", file);
  }
}

using SlowBadInput = BadInput;
TEST_P(SlowBadInput, CutOffFilesEverywhere) { CutOff(1); }
TEST_P(SlowBadInput, ChangedBytesEverywhere) { ChangeBytes(1); }

std::string ArtifactName(const ::testing::TestParamInfo<size_t>& info) {
  static const char* const kNames[] = {"Hf",     "HfShards", "Nxd",  "Xser",
                                       "NxdKv2", "Rollout",  "Nxdi", "Torch"};
  return kNames[info.param];
}
INSTANTIATE_TEST_SUITE_P(All, BadInput, ::testing::Range(size_t{0}, size_t{8}), ArtifactName);
INSTANTIATE_TEST_SUITE_P(All, SlowBadInput, ::testing::Range(size_t{0}, size_t{8}), ArtifactName);

}  // namespace
}  // namespace nxdkit
