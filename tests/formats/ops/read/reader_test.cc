// Tensors of an artifact, read in any part, from every layout; the future contents of a rank's
// files, equal to those that Convert writes; and no bytes other than those of the opened files are
// ever returned.
#include "formats/ops/read/reader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/kinds/table.h"
#include "formats/ops/convert/explain.h"
#include "formats/ops/digest/neuron.h"
#include "lib/base/parallel.h"
#include "lib/hash/digest.h"
#include "tests/formats/kinds/adapter/lora_workshop.h"
#include "tests/formats/ops/read/reading.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::ops {
namespace {

using ::testing::HasSubstr;
using testing_util::ExpectError;
using testing_util::Made;
using testing_util::OpenShared;
using testing_util::OpsWorkshop;
using testing_util::Picked;
using testing_util::ReadAll;
using testing_util::ReadSlice;
using testing_util::ReadWhole;
using testing_util::StoredTensors;
using testing_util::TinyModel;

constexpr uint64_t kMemory = uint64_t{512} << 20;

OutputOptions Options(std::initializer_list<std::pair<const char*, int>> numbers) {
  OutputOptions options;
  for (const auto& [name, number] : numbers) options.Set(name, number);
  return options;
}

struct ReadCase {
  const char* name;
  const Kind* kind;
  OutputOptions options;
  TinyModel model;
};

const std::vector<ReadCase>& Cases() {
  static const std::vector<ReadCase> cases = [] {
    OutputOptions xser = Options({{"tp", 2}});
    xser.Set("xser", true);
    OutputOptions fused = Options({{"tp", 4}, {"kv-multiplier", 2}});
    fused.Set("qkv", "fused");
    fused.Set("hw", "trn1");
    OutputOptions whole_experts;
    whole_experts.Set("style", "hf-fused");
    OutputOptions fsdp;
    fsdp.Set("mesh", "dp=1");
    OutputOptions titan;  // rows of the projections are laid out in pairs
    titan.Set("style", "torchtitan");
    return std::vector<ReadCase>{
        {"Hf", &kHf, {}, testing_util::TinyQwen3()},
        {"Nxd", &kNxd, Options({{"tp", 2}, {"pp", 2}}), testing_util::TinyLlama()},
        {"NxdFused", &kNxd, fused, testing_util::TinyLlama()},
        {"NxdXser", &kNxd, xser, testing_util::TinyQwen3()},
        {"NxdExperts", &kNxd, Options({{"tp", 2}, {"ep", 2}}), testing_util::TinyQwen3Moe()},
        {"Rollout", &kRollout, Options({{"tp", 4}}), testing_util::TinyLlama()},
        {"Nkipy", &kNkipy, Options({{"tp", 2}}), testing_util::TinyQwen3Moe()},
        {"Fsdp", &kFsdp, fsdp, testing_util::TinyLlama()},
        {"Torch", &kTorch, {}, testing_util::TinyQwen2()},
        {"Dcp", &kDcp, {}, testing_util::TinyLlama()},
        {"DcpTitan", &kDcp, titan, testing_util::TinyLlama()},
        {"DcpExperts", &kDcp, whole_experts, testing_util::TinyQwen3Moe()},
    };
  }();
  return cases;
}

class ReaderCase : public ::testing::TestWithParam<size_t> {
 protected:
  const ReadCase& test() const { return Cases()[GetParam()]; }
  std::string Converted() const {
    return workshop_.Make("converted", model_, &kHf, test().kind, test().options);
  }

  const OpsWorkshop workshop_;
  const std::string model_ = workshop_.MakeModel("model", test().model);
};

TEST_P(ReaderCase, ParametersAreThoseOfTheModelWhateverHoldsThem) {
  const TensorReader hf = Made(TensorReader::OfParameters(OpenShared(model_, &kHf)));
  const TensorReader reader =
      Made(TensorReader::OfParameters(OpenShared(Converted(), test().kind)));
  ASSERT_GT(hf.tensors().size(), 10u);
  EXPECT_EQ(ReadAll(reader), ReadAll(hf));
}

TEST_P(ReaderCase, SlicesAreTheElementsOfTheTensor) {
  const TensorReader reader =
      Made(TensorReader::OfParameters(OpenShared(Converted(), test().kind)));
  std::mt19937 random(5);
  for (size_t t = 0; t < reader.tensors().size(); ++t) {
    const OutputTensor& tensor = reader.tensors()[t];
    const std::vector<std::byte> whole = ReadWhole(reader, t);
    for (int i = 0; i < 10; ++i) {
      const Slice slice = testing_util::RandomSlice(tensor.shape, random);
      ASSERT_EQ(ReadSlice(reader, t, slice), Picked(whole, tensor, slice)) << tensor.name;
    }
  }
}

// Tensors as Convert's files have them, by rank.
TEST_P(ReaderCase, RanksHoldWhatConvertWrites) {
  const auto source = OpenShared(model_, &kHf);
  const Result<Artifact> written = OpenArtifact(Converted(), test().kind, {});
  ASSERT_TRUE(written.ok()) << written.error().ToString();
  std::map<std::array<int64_t, 3>, testing_util::NamedBytes> ranks;
  for (size_t f = 0; f < written->files.size(); ++f) {
    const LayoutFile& place = written->ranks[f];
    testing_util::NamedBytes& files =
        ranks[{std::max<int64_t>(place.tp_rank, 0), std::max<int64_t>(place.pp_rank, 0),
               std::max<int64_t>(place.ep_rank, 0)}];
    for (const StoredTensor& stored : written->files[f].tensors) {
      std::vector<std::byte> bytes(*PackedBytes(stored.dtype, stored.shape));
      ASSERT_TRUE(stored.storage->ReadAt(stored.offset, bytes).ok());
      files.emplace(
          stored.name + " " + std::string(Name(stored.dtype)) + " " + ShapeText(stored.shape),
          std::move(bytes));
    }
  }
  for (const auto& [place, files] : ranks) {
    SCOPED_TRACE(fmt::format("tp {} pp {} ep {}", place[0], place[1], place[2]));
    const TensorReader reader = Made(TensorReader::OfRank(source, *test().kind, test().options,
                                                          {place[0], place[1], place[2]}, kMemory));
    const testing_util::NamedBytes found = ReadAll(reader);
    ASSERT_EQ(found.size(), files.size());
    for (const auto& [name, bytes] : files) {
      ASSERT_TRUE(found.contains(name)) << name;
      EXPECT_EQ(found.at(name), bytes) << name;
    }
  }
}

TEST_P(ReaderCase, SlicesOfARankAreTheElementsOfItsTensors) {
  const TensorReader reader = Made(
      TensorReader::OfRank(OpenShared(model_, &kHf), *test().kind, test().options, {}, kMemory));
  std::mt19937 random(6);
  for (size_t t = 0; t < reader.tensors().size(); ++t) {
    const OutputTensor& tensor = reader.tensors()[t];
    const std::vector<std::byte> whole = ReadWhole(reader, t);
    for (int i = 0; i < 5; ++i) {
      const Slice slice = testing_util::RandomSlice(tensor.shape, random);
      ASSERT_EQ(ReadSlice(reader, t, slice), Picked(whole, tensor, slice)) << tensor.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReaderCase, ::testing::Range(size_t{0}, Cases().size()),
                         [](const auto& test) { return Cases()[test.param].name; });

class Reader : public ::testing::Test {
 protected:
  TensorReader Parameters(const std::string& path, const Kind* kind = &kHf) const {
    return Made(TensorReader::OfParameters(OpenShared(path, kind)));
  }
  static size_t Find(const TensorReader& reader, std::string_view name) {
    for (size_t t = 0; t < reader.tensors().size(); ++t)
      if (reader.tensors()[t].name == name) return t;
    ADD_FAILURE() << "no tensor " << name;
    return 0;
  }
  static Result<TensorReader> Rank(const std::shared_ptr<const BoundArtifact>& source,
                                   const Kind& kind, const OutputOptions& options,
                                   RankPlace place) {
    return TensorReader::OfRank(source, kind, options, place, kMemory);
  }
  static Status ReadIt(const TensorReader& reader, size_t tensor) {
    const OutputTensor& output = reader.tensors()[tensor];
    std::vector<std::byte> bytes(*PackedBytes(output.dtype, output.shape));
    return reader.Read(tensor, WholeSlice(output.shape), bytes);
  }

  const OpsWorkshop workshop_;
};

// The experts of a layer are in one tensor of three dimensions, which ranks cut along the first.
TEST_F(Reader, RanksOfADistributedCheckpointAreWriters) {
  const auto source = OpenShared(workshop_.MakeModel("model", testing_util::TinyQwen3Moe()), &kHf);
  OutputOptions options = Options({{"chunks", 3}});
  options.Set("style", "hf-fused");
  const TensorReader whole = Made(TensorReader::OfRank(
      source, kDcp,
      [&] {
        OutputOptions one = options;
        one.Set("chunks", 1);
        return one;
      }(),
      {}, kMemory));
  size_t cubes = 0;
  for (size_t t = 0; t < whole.tensors().size(); ++t) {
    const OutputTensor& tensor = whole.tensors()[t];
    cubes += tensor.shape.size() == 3 ? 1 : 0;
    std::vector<std::byte> joined;
    for (int64_t rank = 0; rank < 3; ++rank) {
      const TensorReader part = Made(Rank(source, kDcp, options, {rank}));
      for (size_t p = 0; p < part.tensors().size(); ++p) {
        if (part.tensors()[p].name != tensor.name) continue;
        const std::vector<std::byte> bytes = ReadWhole(part, p);
        joined.insert(joined.end(), bytes.begin(), bytes.end());
      }
    }
    EXPECT_EQ(joined, ReadWhole(whole, t)) << tensor.name;
  }
  EXPECT_GT(cubes, 0u);
  ExpectError(Rank(source, kDcp, options, {3}), Errc::kUsage, "rank 3: the layout has 0 to 2");
}

// An optimizer's state is read like parameters, but belongs to no rank's weights.
TEST_F(Reader, ARankHoldsTheWeightsAlone) {
  const std::string folder = std::string(NXDKIT_TESTDATA) + "/dcp";
  InputHints hints;
  hints.config = folder + "/config.json";
  hints.optimizer = true;
  const auto source = OpenShared(folder + "/one", &kDcp, hints);
  ASSERT_TRUE(source && source->optimizer);
  const TensorReader all = Made(TensorReader::OfParameters(source));
  EXPECT_EQ(all.tensors().size(), source->params.size());
  EXPECT_GT(all.tensors().size(), source->model_params());
  for (size_t t = 0; t < all.tensors().size(); ++t) EXPECT_TRUE(ReadIt(all, t).ok());
  const TensorReader rank = Made(Rank(source, kHf, {}, {}));
  EXPECT_EQ(rank.tensors().size(), source->model_params());
  const size_t norm = Find(rank, "model.norm.weight");
  EXPECT_EQ(ReadWhole(rank, norm), ReadWhole(all, Find(all, "model.norm.weight")));
}

TEST_F(Reader, ARankThatThereIsNotIsNamedWithThoseThatThereAre) {
  const auto source = OpenShared(workshop_.MakeModel("model", testing_util::TinyLlama()), &kHf);
  const OutputOptions options = Options({{"tp", 2}, {"pp", 2}});
  ExpectError(Rank(source, kNxd, options, {2}), Errc::kUsage, "rank 2: the layout has 0 to 1");
  ExpectError(Rank(source, kNxd, options, {-1}), Errc::kUsage, "rank -1: the layout has 0 to 1");
  ExpectError(Rank(source, kNxd, options, {0, 2}), Errc::kUsage,
              "pp rank 2: the layout has 0 to 1");
  ExpectError(Rank(source, kNxd, options, {0, 0, 1}), Errc::kUsage,
              "ep rank 1: the layout has 0 alone");
  ExpectError(Rank(source, kHf, {}, {1}), Errc::kUsage, "rank 1: the layout has 0 alone");
}

TEST_F(Reader, AnEnginesRankHoldsWhatItsDigestsSay) {
  const auto source = OpenShared(workshop_.MakeModel("model", testing_util::TinyLlama()), &kHf);
  const vllm::Geometry geometry{2, false};
  const auto digests = DigestForEngine(*source, geometry, Dtype::kF32, {});
  ASSERT_TRUE(digests.ok()) << digests.error().ToString();
  size_t compared = 0;
  for (int rank = 0; rank < 2; ++rank) {
    const TensorReader reader =
        Made(TensorReader::OfEngine(source, LayoutOfEngine(geometry), rank, Dtype::kF32));
    for (const EngineParam& param : *digests) {
      if (param.rank != rank) continue;
      const size_t t = Find(reader, param.name);
      EXPECT_EQ(reader.tensors()[t].shape, param.shape);
      const std::vector<std::byte> bytes = ReadWhole(reader, t);
      Sha256 digest;
      digest.Update(bytes);
      EXPECT_EQ(HexText(digest.Finish()), HexText(param.digest)) << param.name;
      ++compared;
    }
  }
  EXPECT_GT(compared, 20u);
  EXPECT_EQ(compared, digests->size());
}

TEST_F(Reader, AnEnginesRankThatThereIsNotIsNamed) {
  const auto source = OpenShared(workshop_.MakeModel("model", testing_util::TinyLlama()), &kHf);
  ExpectError(TensorReader::OfEngine(source, LayoutOfEngine({2, false}), 2, Dtype::kBF16),
              Errc::kUsage, "rank 2 of the engine, expected 0 to 1");
  vllm_neuron::Geometry neuron;
  neuron.tp = 2;
  ExpectError(
      TensorReader::OfEngine(source, LayoutOfNeuron(neuron, Dtype::kBF16), -1, Dtype::kBF16),
      Errc::kUsage, "core -1 of the engine, expected 0 to 1");
}

// --- requests

TEST_F(Reader, RefusesWhatThereIsNot) {
  const TensorReader reader = Parameters(workshop_.MakeModel("model", testing_util::TinyLlama()));
  const size_t norm = Find(reader, "model.norm.weight");
  std::vector<std::byte> bytes(64);
  ExpectError(reader.Read(reader.tensors().size(), {}, bytes), Errc::kUsage, " of 39");
  const auto error = ExpectError(reader.Read(norm, {{0}, {33}, {1}}, bytes), Errc::kUsage,
                                 "dimension 0 of the slice: end 33, expected 0 to 32");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->tensor(), "model.norm.weight");
  ExpectError(reader.Read(norm, {{0}, {31}, {1}}, bytes), Errc::kUsage,
              "the buffer has 64 bytes, the slice 62");
  ExpectError(reader.Read(norm, {{0}, {32}, {2}}, bytes), Errc::kUsage,
              "the buffer has 64 bytes, the slice 32");
  EXPECT_TRUE(reader.Read(norm, {{5}, {5}, {1}}, {}).ok());
}

// Elements smaller than a byte are read as stored, and only whole.
TEST_F(Reader, ReadsElementsSmallerThanAByteWhole) {
  const std::string folder = workshop_ / "quantised";
  std::filesystem::create_directories(folder);
  const auto encoder =
      safetensors::Encode({{"blocks", Dtype::kF4, {2, 4}}, {"bytes", Dtype::kU8, {3}}}, {});
  ASSERT_TRUE(encoder.ok()) << encoder.error().ToString();
  testing_util::PeftFiles::WriteText(
      folder + "/model.safetensors", testing_util::FileBytes(**encoder, [&](size_t i) {
        return (*encoder)->tensors()[i].name == "blocks" ? std::string("\x12\x34\x56\x78")
                                                         : std::string("abc");
      }));
  const TensorReader reader = Parameters(folder);
  const size_t blocks = Find(reader, "blocks");
  EXPECT_EQ(ReadWhole(reader, blocks), (std::vector<std::byte>{std::byte{0x12}, std::byte{0x34},
                                                               std::byte{0x56}, std::byte{0x78}}));
  std::vector<std::byte> half(2);
  const auto error = ExpectError(reader.Read(blocks, {{0, 0}, {1, 4}, {1, 1}}, half),
                                 Errc::kUnsupported, "smaller than a byte and cannot be sliced");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->tensor(), "blocks");
  EXPECT_EQ(ReadSlice(reader, Find(reader, "bytes"), {{1}, {3}, {1}}),
            (std::vector<std::byte>{std::byte{'b'}, std::byte{'c'}}));
}

// Larger than one thread's read: cut into chunks, which are read in parallel.
TEST_F(Reader, LargeTensorsAreReadInChunks) {
  const std::string folder = workshop_ / "large";
  std::filesystem::create_directories(folder);
  const Shape shape{3, 3001, 1153};
  const auto encoder = safetensors::Encode({{"large", Dtype::kI32, shape}}, {});
  ASSERT_TRUE(encoder.ok()) << encoder.error().ToString();
  std::vector<uint32_t> numbers(static_cast<size_t>(*ElementCount(shape)));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<uint32_t>(i) * 2654435761U;
  std::string data(numbers.size() * 4, '\0');
  std::memcpy(data.data(), numbers.data(), data.size());
  testing_util::PeftFiles::WriteText(
      folder + "/model.safetensors",
      testing_util::FileBytes(**encoder, [&](size_t) { return data; }));
  const TensorReader reader = Parameters(folder);
  const std::vector<std::byte> whole = ReadWhole(reader, 0);
  EXPECT_TRUE(std::memcmp(whole.data(), data.data(), data.size()) == 0);
  const Slice stepped{{0, 1, 2}, {3, 3000, 1153}, {1, 1, 1}};
  EXPECT_TRUE(ReadSlice(reader, 0, stepped) == Picked(whole, reader.tensors()[0], stepped));
}

TEST_F(Reader, SeveralThreadsReadAtOnce) {
  const std::string set =
      workshop_.Make("set", workshop_.MakeModel("model", testing_util::TinyLlama()), &kHf, &kNxd,
                     Options({{"tp", 2}}));
  const TensorReader reader = Parameters(set, &kNxd);
  const testing_util::NamedBytes expected = ReadAll(reader);
  std::vector<testing_util::NamedBytes> found(4);
  ASSERT_TRUE(ParallelFor(found.size(), 4, [&](size_t i) {
                found[i] = ReadAll(reader);
                return OkStatus();
              }).ok());
  for (const testing_util::NamedBytes& all : found) EXPECT_EQ(all, expected);
}

// --- values computed while reading

class ComputedReader : public Reader {
 protected:
  // Model `b` as the changes of model `a`.
  std::string Delta() const {
    ConvertRequest request = OpsWorkshop::Request(b_, &kHf, workshop_ / "d.delta", &kDelta);
    request.hints.Set("base", a_);
    const auto made = Convert(request);
    EXPECT_TRUE(made.ok()) << made.error().ToString();
    return request.output;
  }
  TensorReader OfDelta(const std::string& delta) const {
    InputHints hints;
    hints.Set("base", a_);
    return Made(TensorReader::OfParameters(OpenShared(delta, &kDelta, hints)));
  }
  std::string Adapter() const {
    testing_util::PeftFiles peft;
    peft.Add("mlp.up_proj", 4, 48, 32);
    return peft.Write(workshop_ / "adapter");
  }
  TensorReader Merged(const std::string& adapter) const {
    InputHints hints;
    hints.lora = adapter;
    return Made(TensorReader::OfParameters(OpenShared(a_, &kHf, hints)));
  }
  std::string Weights(const std::string& model) const { return model + "/model.safetensors"; }

  const std::string a_ = workshop_.MakeModel("a", testing_util::TinyLlama());
  const std::string b_ = [&] {
    const std::string b = workshop_.MakeModel("b", testing_util::TinyLlama());
    testing_util::FlipElement(
        testing_util::FindStored(b, &kHf, "model.layers.1.mlp.up_proj.weight", -1), 7);
    return b;
  }();
};

TEST_F(ComputedReader, ADeltaReadsAsItsResult) {
  const TensorReader reader = OfDelta(Delta());
  EXPECT_EQ(ReadAll(reader), ReadAll(Parameters(b_)));
  EXPECT_NE(ReadAll(reader), ReadAll(Parameters(a_)));
}

TEST_F(ComputedReader, ADeltaIsReadFromItsBaseTheWayItWas) {
  const TensorReader reader = OfDelta(Delta());
  testing_util::Touch(Weights(a_));
  const auto error =
      ExpectError(ReadIt(reader, 3), Errc::kCorrupt, "the file has changed since it was opened");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->file(), Weights(a_));
}

TEST_F(ComputedReader, AMergedAdapterReadsAsConvertWritesIt) {
  const std::string adapter = Adapter();
  const TensorReader reader = Merged(adapter);
  ConvertRequest request = OpsWorkshop::Request(a_, &kHf, workshop_ / "merged", &kHf);
  request.hints.lora = adapter;
  ASSERT_TRUE(Convert(request).ok());
  EXPECT_EQ(ReadAll(reader), ReadAll(Parameters(request.output)));
  const size_t up = Find(reader, "model.layers.2.mlp.up_proj.weight");
  const Slice slice{{3, 5}, {40, 30}, {7, 3}};
  EXPECT_EQ(ReadSlice(reader, up, slice),
            Picked(ReadWhole(reader, up), reader.tensors()[up], slice));
}

TEST_F(ComputedReader, AMergedAdapterIsReadFromTheFilesThatWereOpened) {
  const std::string adapter = Adapter();
  const TensorReader reader = Merged(adapter);
  testing_util::Touch(adapter + "/adapter_model.safetensors");
  EXPECT_TRUE(ReadIt(reader, Find(reader, "model.norm.weight")).ok());
  const size_t up = Find(reader, "model.layers.2.mlp.up_proj.weight");
  const auto error =
      ExpectError(ReadIt(reader, up), Errc::kCorrupt, "the file has changed since it was opened");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->file(), adapter + "/adapter_model.safetensors");
  EXPECT_EQ(error->tensor(), "model.layers.2.mlp.up_proj.weight");
}

TEST_F(ComputedReader, AMergedAdapterIsReadFromTheBaseThatWasOpened) {
  const TensorReader reader = Merged(Adapter());
  testing_util::Touch(Weights(a_));
  const size_t up = Find(reader, "model.layers.2.mlp.up_proj.weight");
  const auto error =
      ExpectError(ReadIt(reader, up), Errc::kCorrupt, "the file has changed since it was opened");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->file(), Weights(a_));
}

// --- files that change

class ChangedFile : public Reader {
 protected:
  const std::string set_ =
      workshop_.Make("set", workshop_.MakeModel("m", testing_util::TinyLlama()), &kHf, &kNxd,
                     Options({{"tp", 2}}));
};

TEST_F(ChangedFile, IsNeverReadInSilence) {
  const TensorReader reader = Parameters(set_, &kNxd);
  const size_t up = Find(reader, "model.layers.2.mlp.up_proj.weight");  // rows on both ranks
  ASSERT_TRUE(ReadIt(reader, up).ok());
  const std::string file = StoredTensors(set_, &kNxd).back().file;  // the last rank's
  testing_util::Touch(file);
  const auto error =
      ExpectError(ReadIt(reader, up), Errc::kCorrupt, "the file has changed since it was opened");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->file(), file);
  EXPECT_THAT(error->message(), HasSubstr("bytes, written at"));
  EXPECT_THAT(error->message(), HasSubstr("expected"));
  // The other rank's rows are in the other file.
  const Shape& shape = reader.tensors()[up].shape;
  std::vector<std::byte> half(static_cast<size_t>(shape[0] / 2 * shape[1] * 2));
  EXPECT_TRUE(reader.Read(up, {{0, 0}, {shape[0] / 2, shape[1]}, {1, 1}}, half).ok());
  // A new reader sees the new contents.
  EXPECT_TRUE(ReadIt(Parameters(set_, &kNxd), up).ok());
}

TEST_F(ChangedFile, IsAnErrorWhereItIsAnotherFileOfTheSameBytes) {
  const TensorReader reader = Parameters(set_, &kNxd);
  const std::string file = StoredTensors(set_, &kNxd).front().file;
  const auto time = std::filesystem::last_write_time(file);
  std::filesystem::copy_file(file, file + ".new");
  std::filesystem::last_write_time(file + ".new", time);
  std::filesystem::rename(file + ".new", file);
  ExpectError(ReadIt(reader, 0), Errc::kCorrupt, "the file has changed since it was opened");
}

TEST_F(ChangedFile, IsTheReasonOfWhateverElseGoesWrong) {
  const TensorReader reader = Parameters(set_, &kNxd);
  for (const testing_util::Stored& stored : StoredTensors(set_, &kNxd))
    std::filesystem::resize_file(stored.file, 100);
  ExpectError(ReadIt(reader, 0), Errc::kCorrupt,
              "the file has changed since it was opened: 100 bytes");
}

TEST_F(ChangedFile, MayBeGone) {
  const TensorReader reader = Parameters(set_, &kNxd);
  std::filesystem::remove_all(set_);
  ExpectError(ReadIt(reader, 0), Errc::kCorrupt,
              "the file has changed since it was opened: no file found");
}

TEST_F(ChangedFile, IsWhatItWasWhenTheSourceWasOpened) {
  const auto source = OpenShared(set_, &kNxd);
  const TensorReader opened = Made(TensorReader::OfParameters(source));
  for (const testing_util::Stored& stored : StoredTensors(set_, &kNxd))
    testing_util::Touch(stored.file);
  const TensorReader rank =
      Made(TensorReader::OfRank(source, kRollout, Options({{"tp", 2}}), {}, kMemory, &opened));
  ExpectError(ReadIt(rank, 0), Errc::kCorrupt, "the file has changed since it was opened");
  const TensorReader engine =
      Made(TensorReader::OfEngine(source, LayoutOfEngine({2, false}), 1, Dtype::kBF16, &opened));
  ExpectError(ReadIt(engine, 0), Errc::kCorrupt, "the file has changed since it was opened");
}

// --- in words

TEST_F(Reader, ExplainsAsConvertDoes) {
  const std::string model = workshop_.MakeModel("model", testing_util::TinyLlama());
  const auto source = OpenShared(model, &kHf);
  const OutputOptions options = Options({{"tp", 2}});
  const ConvertRequest request = OpsWorkshop::Request(model, &kHf, "out", &kNxd, options);
  const std::string name = "layers.1.mlp.down_proj.weight";
  const auto all = ops::Explain(request, {"model." + name});
  ASSERT_TRUE(all.ok()) << all.error().ToString();
  std::string both;
  for (int64_t rank = 0; rank < 2; ++rank) {
    const TensorReader reader = Made(Rank(source, kNxd, options, {rank}));
    both += reader.Explain(Find(reader, "model." + name));
  }
  EXPECT_EQ(both, all->text);
  const TensorReader params = Parameters(model);
  EXPECT_THAT(params.Explain(Find(params, "model." + name)),
              HasSubstr("model." + name + " BF16 [32, 48]\n  [0:32, 0:48] = model." + name));
}

// The caller says what a part costs it; flows alone have no parts.
TEST_F(Reader, ExplainsNoMorePartsThanMemoryHolds) {
  const std::string model = workshop_.MakeModel("model", testing_util::TinyLlama());
  const ConvertRequest request =
      OpsWorkshop::Request(model, &kHf, "out", &kNxd, Options({{"tp", 2}}));
  const uint64_t most = request.run.max_memory;
  ExpectError(ops::Explain(request, {"*", true, most}), Errc::kLimit,
              "1 part of these tensors would take");
  ExpectError(ops::Explain(request, {"", true, most}), Errc::kLimit, "--max-memory is");
  EXPECT_TRUE(ops::Explain(request, {"", false, most}).ok());
}

}  // namespace
}  // namespace nxdkit::ops
