// Tensors in memory in place of files: every output equals that of the same conversion from files,
// and code that looks at files is not misled by them.
#include "formats/ops/read/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <list>
#include <map>
#include <random>

#include "formats/kinds/table.h"
#include "formats/ops/diff/diff.h"
#include "formats/ops/digest/digest.h"
#include "formats/ops/digest/manifest.h"
#include "formats/ops/inspect/inspect.h"
#include "formats/ops/read/reader.h"
#include "tests/formats/ops/read/reading.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::ops {
namespace {

using ::testing::HasSubstr;
using testing_util::ExpectError;
using testing_util::OpsWorkshop;
using testing_util::ReadBytes;
using testing_util::TinyModel;

// The tensors of an artifact's files, copied to memory.
class Memory {
 public:
  Memory(const std::string& path, const Kind* layout) : model_{"the trainer", layout, {}} {
    const Result<Artifact> artifact = OpenArtifact(path, layout, {});
    EXPECT_TRUE(artifact.ok()) << artifact.error().ToString();
    if (!artifact.ok()) return;
    for (size_t f = 0; f < artifact->files.size(); ++f)
      for (const StoredTensor& stored : artifact->files[f].tensors) {
        std::vector<std::byte>& bytes =
            bytes_.emplace_back(*PackedBytes(stored.dtype, stored.shape));
        EXPECT_TRUE(stored.storage->ReadAt(stored.offset, bytes).ok());
        MemoryTensor tensor{stored.name, stored.dtype, stored.shape, {}, bytes.data()};
        if (layout == &kNxd) {
          tensor.tp = static_cast<int>(artifact->ranks[f].tp_rank);
          tensor.pp = static_cast<int>(artifact->ranks[f].pp_rank);
          tensor.ep = static_cast<int>(artifact->ranks[f].ep_rank);
        }
        model_.tensors.push_back(std::move(tensor));
      }
  }

  MemoryModel& model() { return model_; }
  std::vector<std::byte>& bytes(std::string_view name) {
    auto at = bytes_.begin();
    for (const MemoryTensor& tensor : model_.tensors) {
      if (tensor.name == name) return *at;
      ++at;
    }
    ADD_FAILURE() << "no tensor " << name;
    return bytes_.front();
  }
  InputHints Hints(const std::string& config) const {
    InputHints hints;
    hints.config = config;
    hints.memory = [model = model_, hints] { return OpenMemory(model, hints); };
    return hints;
  }

 private:
  std::list<std::vector<std::byte>> bytes_;
  MemoryModel model_;
};

// Every file below a folder, by its path; or the file itself. A bundle's weights are in a folder
// with a name of its own, the target of a link.
std::map<std::string, std::string> FilesBelow(const std::string& path) {
  std::map<std::string, std::string> files;
  if (std::filesystem::is_regular_file(path)) return {{"", ReadBytes(path)}};
  const auto options = std::filesystem::directory_options::follow_directory_symlink;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path, options)) {
    const std::string below = entry.path().string().substr(path.size());
    if (entry.is_regular_file() && below.find("/.") == std::string::npos)
      files[below] = ReadBytes(entry.path().string());
  }
  return files;
}

struct MemoryCase {
  const char* name;
  const Kind* layout;  // layout of the memory
  OutputOptions source;
  const Kind* to;
  OutputOptions target;
  TinyModel model;
};

OutputOptions Said(std::initializer_list<std::pair<const char*, int>> numbers) {
  OutputOptions options;
  for (const auto& [name, number] : numbers) options.Set(name, number);
  return options;
}

const std::vector<MemoryCase>& MemoryCases() {
  using namespace testing_util;
  static const std::vector<MemoryCase> cases = {
      {"HfToHf", &kHf, {}, &kHf, {}, TinyQwen3()},
      {"HfToNxd", &kHf, {}, &kNxd, Said({{"tp", 2}, {"pp", 2}}), TinyLlama()},
      {"HfToRollout", &kHf, {}, &kRollout, Said({{"tp", 4}}), TinyLlama()},
      {"HfToTorch", &kHf, {}, &kTorch, {}, TinyQwen2()},
      {"HfToDcp", &kHf, {}, &kDcp, Said({{"chunks", 2}}), TinyMixtral()},
      {"NxdToHf", &kNxd, Said({{"tp", 2}, {"pp", 2}}), &kHf, {}, TinyLlama()},
      {"NxdToNxd", &kNxd, Said({{"tp", 4}, {"kv-multiplier", 1}}), &kNxd, Said({{"tp", 2}}),
       TinyMha()},
      {"NxdToRollout", &kNxd, Said({{"tp", 2}}), &kRollout, Said({{"tp", 2}}), TinyQwen3()},
      {"NxdExperts", &kNxd, Said({{"tp", 2}, {"ep", 2}}), &kHf, {}, TinyQwen3Moe()},
  };
  return cases;
}

class FromMemory : public ::testing::TestWithParam<size_t> {
 protected:
  const OpsWorkshop workshop_;
};

TEST_P(FromMemory, OutputsAreThoseFromFiles) {
  const MemoryCase& test = MemoryCases()[GetParam()];
  const std::string model = workshop_.MakeModel("model", test.model);
  std::ofstream(model + "/tokenizer.json") << "{\"version\": \"1.0\"}";
  const std::string files =
      test.layout == &kHf ? model : workshop_.Make("set", model, &kHf, &kNxd, test.source);
  const Memory memory(files, test.layout);
  std::filesystem::create_directories(workshop_ / "files");
  std::filesystem::create_directories(workshop_ / "memory");

  ConvertRequest request =
      OpsWorkshop::Request(files, test.layout, workshop_ / "files/out", test.to, test.target);
  request.hints.config = model + "/config.json";
  const auto expected = Convert(request);
  ASSERT_TRUE(expected.ok()) << expected.error().ToString();

  request.input = "the trainer";
  request.output = workshop_ / "memory/out";
  request.hints = memory.Hints(model + "/config.json");
  request.verify = true;
  const auto found = Convert(request);
  ASSERT_TRUE(found.ok()) << found.error().ToString();
  EXPECT_TRUE(found->verified);

  const auto from_files = FilesBelow(workshop_ / "files/out");
  const auto from_memory = FilesBelow(request.output);
  EXPECT_GE(from_files.size(), 1u);
  for (const auto& [path, bytes] : from_files) {
    ASSERT_TRUE(from_memory.contains(path)) << path;
    EXPECT_TRUE(from_memory.at(path) == bytes) << path;
  }
  EXPECT_EQ(from_memory.size(), from_files.size());
}

INSTANTIATE_TEST_SUITE_P(All, FromMemory, ::testing::Range(size_t{0}, MemoryCases().size()),
                         [](const auto& test) { return MemoryCases()[test.param].name; });

class MemorySource : public ::testing::Test {
 protected:
  std::string Config() const { return model_ + "/config.json"; }
  ConvertRequest Request(const std::string& output, const Kind* to, const Memory& memory,
                         const OutputOptions& options = {}) const {
    ConvertRequest request =
        OpsWorkshop::Request("the trainer", &kHf, workshop_ / output, to, options);
    request.hints = memory.Hints(Config());
    return request;
  }

  const OpsWorkshop workshop_;
  const std::string model_ = workshop_.MakeModel("model", testing_util::TinyLlama());
};

TEST_F(MemorySource, RefreshesABundleInPlace) {
  const std::string bundle = workshop_.Make("bundle", model_, &kHf, &kRollout, Said({{"tp", 2}}));
  Memory memory(model_, &kHf);
  memory.bytes("model.norm.weight")[6] ^= std::byte{1};
  ConvertRequest request = Request("bundle", &kRollout, memory);
  request.place = Slot{"step 1"};
  const auto report = Convert(request);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_EQ(report->refreshed->version.label, "step 1");
  ConvertRequest back = OpsWorkshop::Request(bundle, &kRollout, workshop_ / "back", &kHf);
  ASSERT_TRUE(Convert(back).ok());
  ASSERT_TRUE(Convert(Request("whole", &kHf, memory)).ok());
  EXPECT_EQ(ReadBytes(workshop_ / "back/model.safetensors"),
            ReadBytes(workshop_ / "whole/model.safetensors"));
}

// Both ends in memory: the changes, and the result on its base.
TEST_F(MemorySource, MakesAndTakesDeltas) {
  const Memory base(model_, &kHf);
  Memory next(model_, &kHf);
  next.bytes("model.layers.2.mlp.up_proj.weight")[8] ^= std::byte{4};
  ASSERT_TRUE(Convert(Request("next", &kHf, next)).ok());

  ConvertRequest files =
      OpsWorkshop::Request(workshop_ / "next", &kHf, workshop_ / "f.delta", &kDelta);
  files.hints.Set("base", model_);
  ASSERT_TRUE(Convert(files).ok());
  ConvertRequest made = Request("m.delta", &kDelta, next);
  made.hints.Set("base", std::string("step 0"));
  made.base_memory = base.Hints(Config()).memory;
  made.verify = true;
  const auto report = Convert(made);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_EQ(report->delta->changed, 1u);
  EXPECT_EQ(ReadBytes(made.output), ReadBytes(files.output));

  ConvertRequest applied = OpsWorkshop::Request(made.output, &kDelta, workshop_ / "applied", &kHf);
  applied.hints = base.Hints(Config());
  applied.hints.Set("base", std::string("step 0"));
  const auto again = Convert(applied);
  ASSERT_TRUE(again.ok()) << again.error().ToString();
  EXPECT_EQ(ReadBytes(workshop_ / "applied/model.safetensors"),
            ReadBytes(workshop_ / "next/model.safetensors"));
}

TEST_F(MemorySource, DigestsVerifiesAndComparesAsFilesDo) {
  Memory memory(model_, &kHf);
  const std::string set = workshop_.Make("set", model_, &kHf, &kNxd, Said({{"tp", 2}}));
  DigestRequest digest;
  digest.path = "the trainer";
  digest.hints = memory.Hints(Config());
  DigestRequest of_files;
  of_files.path = set;
  of_files.hints.config = Config();
  const auto found = Digest(digest);
  const auto expected = Digest(of_files);
  ASSERT_TRUE(found.ok() && expected.ok());
  EXPECT_EQ(found->model.digest, expected->model.digest);

  VerifyRequest verify;
  verify.path = set;
  verify.hints.config = Config();
  verify.against = "the trainer";
  verify.against_hints = memory.Hints(Config());
  const auto good = Verify(verify);
  ASSERT_TRUE(good.ok()) << good.error().ToString();
  EXPECT_TRUE(good->findings.empty());
  std::swap(verify.path, *verify.against);
  std::swap(verify.hints, verify.against_hints);
  const auto other_way = Verify(verify);
  ASSERT_TRUE(other_way.ok()) << other_way.error().ToString();
  EXPECT_TRUE(other_way->findings.empty());

  memory.bytes("model.norm.weight")[3] ^= std::byte{2};
  const auto bad = Verify(verify);
  ASSERT_TRUE(bad.ok());
  ASSERT_EQ(bad->findings.size(), 1u);
  EXPECT_EQ(bad->findings.front().param, "model.norm.weight");
  DiffRequest diff;
  diff.a = {"the trainer", nullptr, memory.Hints(Config())};
  diff.b = {model_, nullptr, {}};
  const auto differences = Diff(diff);
  ASSERT_TRUE(differences.ok()) << differences.error().ToString();
  EXPECT_EQ(differences->total.changed, 1u);
}

TEST_F(MemorySource, ShardsAreVerifiedAndLookedAtByThemselves) {
  const std::string set = workshop_.Make("set", model_, &kHf, &kNxd, Said({{"tp", 2}}));
  const Memory memory(set, &kNxd);
  VerifyRequest verify;
  verify.path = "the trainer";
  verify.hints = memory.Hints(Config());
  const auto report = Verify(verify);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_TRUE(report->findings.empty());
  InspectRequest inspect{"the trainer", memory.Hints(Config()), false, {}};
  const auto seen = Inspect(inspect);
  ASSERT_TRUE(seen.ok()) << seen.error().ToString();
  EXPECT_EQ(seen->form, "nxd");
  EXPECT_EQ(seen->layout.outcome, LayoutCheck::Outcome::kFits);
  const auto hf = Inspect({"the trainer", Memory(model_, &kHf).Hints(Config()), false, {}});
  ASSERT_TRUE(hf.ok()) << hf.error().ToString();
  EXPECT_EQ(hf->description, "Hugging Face model in memory");
}

TEST_F(MemorySource, IsReadByTensorReaders) {
  Memory memory(model_, &kHf);
  const InputHints hints = memory.Hints(Config());
  const auto source = testing_util::OpenShared("the trainer", &kHf, hints);
  const TensorReader reader = testing_util::Made(TensorReader::OfParameters(source));
  const auto files = testing_util::OpenShared(model_, &kHf);
  EXPECT_EQ(testing_util::ReadAll(reader),
            testing_util::ReadAll(testing_util::Made(TensorReader::OfParameters(files))));
  EXPECT_THAT(reader.Explain(0), HasSubstr("in the trainer\n"));
}

// --- strides

TEST_F(MemorySource, TakesStrides) {
  Memory memory(model_, &kHf);
  // A matrix that is kept transposed, and a vector in every third place.
  std::vector<std::vector<std::byte>> kept;
  for (MemoryTensor& tensor : memory.model().tensors) {
    const std::vector<std::byte>& packed = memory.bytes(tensor.name);
    std::vector<std::byte>& bytes = kept.emplace_back(packed.size() * 3);
    const Shape from = RowMajorStrides(tensor.shape);
    tensor.strides = tensor.shape.size() == 2 ? Shape{1, tensor.shape[0]} : Shape{3};
    const int64_t count = *ElementCount(tensor.shape);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t to = tensor.shape.size() == 2
                             ? i / from[0] * tensor.strides[0] + i % from[0] * tensor.strides[1]
                             : i * 3;
      std::memcpy(bytes.data() + to * 2, packed.data() + i * 2, 2);
    }
  }
  size_t i = 0;
  for (MemoryTensor& tensor : memory.model().tensors) tensor.data = kept[i++].data();
  ASSERT_TRUE(Convert(Request("out", &kHf, memory)).ok());
  EXPECT_EQ(ReadBytes(workshop_ / "out/model.safetensors"),
            ReadBytes(model_ + "/model.safetensors"));
}

// One row repeated for all, as by torch's expand.
TEST_F(MemorySource, TakesStridesOfZero) {
  const std::vector<uint8_t> row{1, 2, 3};
  MemoryModel model{"m", &kHf, {}};
  model.tensors.push_back(
      {"t", Dtype::kU8, {2, 3}, {0, 1}, reinterpret_cast<const std::byte*>(row.data())});
  InputHints hints;
  hints.memory = [&] { return OpenMemory(model, {}); };
  const TensorReader reader =
      testing_util::Made(TensorReader::OfParameters(testing_util::OpenShared("m", &kHf, hints)));
  const std::vector<std::byte> bytes = testing_util::ReadWhole(reader, 0);
  const std::vector<uint8_t> expected{1, 2, 3, 1, 2, 3};
  EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(expected)), bytes));
}

struct BadTensor {
  MemoryTensor tensor;
  const char* message;
};

TEST_F(MemorySource, RefusesTensorsThatCannotBe) {
  const std::byte byte{};
  const BadTensor bad[] = {
      {{"t", Dtype::kF32, {2, 3}, {-3, 1}, &byte}, "stride -3 of dimension 0, expected 0 or more"},
      {{"t", Dtype::kF32, {2, 3}, {3}, &byte}, "1 strides of 2 dimensions"},
      {{"t", Dtype::kF32, {-2}, {}, &byte}, "shape [-2] has a negative length"},
      {{"t", Dtype::kF32, {INT64_MAX, 4}, {}, &byte}, "too many elements"},
      {{"t", Dtype::kF32, {3}, {INT64_MAX / 2}, &byte}, "is more than memory can hold"},
      {{"t", Dtype::kF32, {2, 2}, {INT64_MAX, INT64_MAX}, &byte}, "is more than memory can hold"},
      {{"t", Dtype::kF32, {2}, {INT64_MAX / 2}, &byte}, "is more than memory can hold"},
      {{"t", Dtype::kF32, {2}, {}, nullptr}, "no memory was given for 8 bytes"},
      {{"t", Dtype::kF4, {2, 4}, {8, 1}, &byte}, "whose elements are smaller than a byte"},
      {{"t", Dtype::kF32, {}, {}, &byte, 1}, "it belongs to tp rank 1, pp rank 0"},
      {{"t", Dtype::kF32, {}, {}, &byte, -1}, "rank -1, expected 0 to 1048575"},
      {{"t", Dtype::kF32, {}, {}, &byte, 0, 1 << 20}, "rank 1048576, expected 0 to 1048575"},
  };
  for (const auto& [tensor, message] : bad) {
    const auto error =
        ExpectError(OpenMemory({"the trainer", &kHf, {tensor}}, {}), Errc::kUsage, message);
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->tensor(), "t");
    EXPECT_EQ(error->file(), "the trainer");
  }
  const MemoryTensor empty{"t", Dtype::kF32, {0, 4}, {}, nullptr};
  EXPECT_TRUE(OpenMemory({"m", &kHf, {empty}}, {}).ok());
  ExpectError(OpenMemory({"m", &kHf, {empty, empty}}, {}), Errc::kUsage,
              "two tensors of this name");
  ExpectError(OpenMemory({"m", &kHf, {}}, {}), Errc::kUsage, "there are no tensors");
  ExpectError(OpenMemory({"m", &kTorch, {empty}}, {}), Errc::kUsage, "laid out as hf or nxd");
}

TEST_F(MemorySource, NamesTheRankThatIsMissing) {
  const std::string set = workshop_.Make("set", model_, &kHf, &kNxd, Said({{"tp", 2}, {"pp", 2}}));
  Memory memory(set, &kNxd);
  std::erase_if(memory.model().tensors,
                [](const MemoryTensor& tensor) { return tensor.tp == 1 && tensor.pp == 0; });
  ExpectError(memory.Hints(Config()).memory(), Errc::kUsage,
              "no tensors of tp rank 1, pp rank 0; the shards have tp 2, pp 2");
}

TEST_F(MemorySource, TakesNoHintsOfOtherKinds) {
  Memory memory(model_, &kHf);
  InputHints hints = memory.Hints(Config());
  hints.prefix = "--";
  hints.Set("tag", std::string("step_1"));
  ExpectError(OpenArtifact("the trainer", &kHf, hints), Errc::kUsage, "tag");
}

// --- code that looks at files

// A name is not a path, even if a file of that name exists.
TEST_F(MemorySource, ItsNameIsNoPath) {
  Memory memory(model_, &kHf);
  for (const std::string& name : {workshop_ / "out", model_, std::string(300, 'x')}) {
    memory.model().name = name;
    ConvertRequest request = Request("out", &kNxd, memory, Said({{"tp", 2}}));
    request.input = name;
    request.force = true;
    const auto report = Convert(request);
    ASSERT_TRUE(report.ok()) << report.error().ToString();
    const auto source = testing_util::OpenShared(name, &kHf, request.hints);
    const TensorReader reader = testing_util::Made(TensorReader::OfParameters(source));
    EXPECT_EQ(testing_util::ReadWhole(reader, 0).size(),
              *PackedBytes(reader.tensors()[0].dtype, reader.tensors()[0].shape));
  }
}

// An interrupted conversion has written values that may have changed by now.
TEST_F(MemorySource, IsNeverContinued) {
  Memory memory(model_, &kHf);
  ConvertRequest request = Request("out", &kHf, memory);
  int polls = -1;
  request.run.begin = [&](const std::string& phase, uint64_t) {
    if (phase == "writing") polls = 0;
  };
  request.run.poll = [&]() -> Status {
    return polls >= 0 && ++polls > 10 ? Status(Error(Errc::kInterrupted, "stopped")) : OkStatus();
  };
  ExpectError(Convert(request), Errc::kInterrupted, "stopped");
  EXPECT_FALSE(std::filesystem::exists(request.output + ".partial"));
  request.run = {};
  request.resume = true;
  for (const MemoryTensor& tensor : memory.model().tensors)
    memory.bytes(tensor.name)[0] ^= std::byte{1};
  const auto report = Convert(request);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_EQ(report->resumed_tasks, 0u);
  ASSERT_TRUE(Convert(Request("anew", &kHf, memory)).ok());
  EXPECT_EQ(ReadBytes(workshop_ / "out/model.safetensors"),
            ReadBytes(workshop_ / "anew/model.safetensors"));
}

TEST_F(MemorySource, HasNoParts) {
  ConvertRequest request = Request("out", &kHf, Memory(model_, &kHf));
  request.place = Part{0, 2};
  ExpectError(Convert(request), Errc::kUnsupported, "these tensors are in the memory of one");
}

TEST_F(MemorySource, HasNoFilesToRecord) {
  DigestRequest request;
  request.path = "the trainer";
  const Memory memory(model_, &kHf);
  request.hints = memory.Hints(Config());
  request.write_manifest = workshop_ / "manifest.json";
  request.files = true;
  ExpectError(Digest(request), Errc::kUsage, "tensors in memory have no files");
  request.files = false;
  EXPECT_TRUE(Digest(request).ok());
}

// Other memory of the process is not a reason to refuse.
TEST_F(MemorySource, WorkThatIsNotAloneCountsItsOwnMemory) {
  RunOptions run;
  run.max_memory = uint64_t{40} << 20;
  run.alone = false;
  const auto options = MakeExecuteOptions(run);
  ASSERT_TRUE(options.ok()) << options.error().ToString();
  EXPECT_EQ(options->buffer_bytes, uint64_t{16} << 20);
  run.max_memory = uint64_t{24} << 20;
  ExpectError(MakeExecuteOptions(run), Errc::kLimit, "the cap is 25165824");
}

}  // namespace
}  // namespace nxdkit::ops
