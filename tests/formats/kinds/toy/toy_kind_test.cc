// A kind is one folder and one row of the table: with only these every use case supports it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "formats/ops/diff/diff.h"
#include "formats/ops/digest/manifest.h"
#include "formats/ops/inspect/inspect.h"
#include "lib/base/little_endian.h"
#include "tests/formats/kinds/toy/kind_npy.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/lib/expect_error.h"

namespace nxdkit {
namespace {

namespace fs = std::filesystem;
using kinds::kHf;
using kinds::kNpy;
using kinds::kNxd;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_util::ExpectError;
using testing_util::ExpectErrorAt;
using testing_util::FindStored;
using testing_util::FlipElement;
using testing_util::OpsWorkshop;
using testing_util::StoredTensors;

constexpr char kNorm[] = "model.layers.1.input_layernorm.weight";
constexpr uint64_t kDataAt = 128;

// A file as NumPy writes it, except for its padding: the data is always at kDataAt.
std::string NpyBytes(const std::string& descr, const std::string& shape, const std::string& data) {
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(kDataAt - 11, ' ');
  std::string bytes("\x93NUMPY\x01\x00", 8);
  AppendLittle(static_cast<uint16_t>(header.size() + 1), bytes);
  return bytes + header + "\n" + data;
}

std::string ShapeTuple(const Shape& shape) {
  std::string text;
  for (const int64_t dim : shape) text += (text.empty() ? "" : ", ") + std::to_string(dim);
  return "(" + text + (shape.size() == 1 ? ",)" : ")");
}

std::string DataOf(const StoredTensor& tensor) {
  std::string data(*PackedBytes(tensor.dtype, tensor.shape), '\0');
  EXPECT_TRUE(tensor.storage->ReadAt(tensor.offset, std::as_writable_bytes(std::span(data))).ok());
  return data;
}

class ToyKind : public ::testing::Test {
 protected:
  // The weights of a Hugging Face folder of F32 or F16.
  std::string MakeNpy(const std::string& name, const std::string& hf,
                      const std::string& prefix = "") const {
    fs::create_directory(scratch_.Path(name));
    for (const testing_util::Stored& stored : StoredTensors(hf, &kHf)) {
      const char* const descr = stored.tensor.dtype == Dtype::kF16 ? "<f2" : "<f4";
      scratch_.Write(name + "/" + prefix + stored.tensor.name + ".npy",
                     NpyBytes(descr, ShapeTuple(stored.tensor.shape), DataOf(stored.tensor)));
    }
    fs::copy(hf + "/config.json", scratch_.Path(name));
    return scratch_.Path(name);
  }
  static std::string DigestOf(const std::string& path, const kinds::InputHints& hints = {}) {
    ops::DigestRequest request;
    request.path = path;
    request.hints = hints;
    const Result<ops::DigestReport> report = ops::Digest(request);
    EXPECT_TRUE(report.ok()) << report.error().ToString();
    return report.ok() ? manifest::DigestText(report->model.digest) : "";
  }
  static Result<ops::DiffReport> DiffOf(const std::string& a, const std::string& b) {
    ops::DiffRequest request;
    request.a.path = a;
    request.b.path = b;
    return ops::Diff(request);
  }
  static ops::OutputOptions Ranks(int tp) {
    ops::OutputOptions options;
    options.Set("tp", tp);
    return options;
  }
  void FlipNorm() const { FlipElement(FindStored(npy_, &kNpy, kNorm, -1), 5); }
  // The folder with its norm replaced, opened.
  Status OpenWith(const std::string& bytes) const {
    scratch_.Write("npy/" + norm_file_, bytes);
    const Result<kinds::Artifact> artifact = kinds::OpenArtifact(npy_, &kNpy, {});
    return artifact.ok() ? OkStatus() : Status(artifact.error());
  }

  const OpsWorkshop workshop_;
  const testing_util::Scratch scratch_;
  const std::string hf_ = workshop_.MakeModel("model", testing_util::TinyLlama(), Dtype::kF32);
  const std::string npy_ = MakeNpy("npy", hf_);
  const std::string norm_file_ = std::string(kNorm) + ".npy";
  const std::string norm_path_ = npy_ + "/" + norm_file_;
};

TEST_F(ToyKind, IsRecognised) {
  const Result<const kinds::Kind*> kind = kinds::Recognise(npy_);
  ASSERT_TRUE(kind.ok()) << kind.error().ToString();
  EXPECT_EQ(*kind, &kNpy);
  EXPECT_EQ(kinds::KindFromName("npy"), &kNpy);
}

TEST_F(ToyKind, IsNamedWhereItLiesOneDeeper) {
  const std::string folder = scratch_.Path("around");
  fs::create_directory(folder);
  ExpectError(kinds::OpenArtifact(folder, &kNpy, {}), Errc::kNotFound, "no .npy file");
  fs::copy(npy_, folder + "/inside", fs::copy_options::recursive);
  const auto error = ExpectError(kinds::Recognise(folder), Errc::kUnsupported,
                                 "not an artifact itself; there is one in inside");
  EXPECT_EQ(error->hint(), "name it: " + folder + "/inside");
}

TEST_F(ToyKind, IsInspected) {
  ops::InspectRequest request;
  request.path = npy_;
  const Result<ops::Inspection> found = ops::Inspect(request);
  ASSERT_TRUE(found.ok()) << found.error().ToString();
  EXPECT_EQ(found->form, "npy");
  EXPECT_EQ(found->tensors, StoredTensors(hf_, &kHf).size());
  EXPECT_EQ(found->files, found->tensors);
  EXPECT_EQ(found->layout.outcome, ops::LayoutCheck::Outcome::kFits) << found->layout.message;
  EXPECT_THAT(found->warnings, ElementsAre());
}

TEST_F(ToyKind, HasTheDigestOfTheSameWeights) { EXPECT_EQ(DigestOf(npy_), DigestOf(hf_)); }

TEST_F(ToyKind, HoldsHalfPrecisionToo) {
  ops::OutputOptions options;
  options.dtype = Dtype::kF16;
  const std::string half = workshop_.Make("half", hf_, &kHf, &kHf, options);
  EXPECT_EQ(DigestOf(MakeNpy("half", half)), DigestOf(half));
}

TEST_F(ToyKind, IsRecordedInAManifestAndCheckedAgainstIt) {
  ops::DigestRequest request;
  request.path = npy_;
  request.write_manifest = scratch_.Path("manifest.json");
  ASSERT_TRUE(ops::Digest(request).ok());
  FlipNorm();
  std::swap(request.write_manifest, request.check_manifest);
  const Result<ops::DigestReport> report = ops::Digest(request);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_EQ(report->findings.size(), 2u);  // the parameter, and its file
}

TEST_F(ToyKind, IsCompared) {
  const Result<ops::DiffReport> same = DiffOf(hf_, npy_);
  ASSERT_TRUE(same.ok()) << same.error().ToString();
  EXPECT_FALSE(same->differs());
  EXPECT_EQ(same->params.size(), StoredTensors(hf_, &kHf).size());
  FlipNorm();
  const Result<ops::DiffReport> other = DiffOf(hf_, npy_);
  ASSERT_TRUE(other.ok()) << other.error().ToString();
  EXPECT_EQ(other->total.changed, 1u);
  EXPECT_EQ(other->params.front().name, kNorm);
  EXPECT_EQ(other->params.front().worst_index, Shape({5}));
}

TEST_F(ToyKind, IsVerifiedAgainstAnother) {
  EXPECT_THAT(testing_util::FindingsOf(npy_), ElementsAre());
  EXPECT_THAT(testing_util::FindingsOf(npy_, hf_), ElementsAre());
  FlipNorm();
  const std::vector<ops::Finding> findings = testing_util::FindingsOf(npy_, hf_);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].param, kNorm);
  EXPECT_EQ(findings[0].file, norm_path_);
}

TEST_F(ToyKind, IsConvertedToOtherKinds) {
  const std::string hf = workshop_.Make("hf", npy_, &kNpy, &kHf);
  EXPECT_EQ(DigestOf(hf), DigestOf(hf_));
  const std::string nxd = workshop_.Make("nxd", npy_, &kNpy, &kNxd, Ranks(2));
  EXPECT_EQ(DigestOf(nxd), DigestOf(hf_));
  const std::string back = workshop_.Make("back", nxd, &kNxd, &kHf);
  EXPECT_EQ(DigestOf(MakeNpy("back", back)), DigestOf(npy_));
}

TEST_F(ToyKind, IsNotWritten) {
  const std::string out = workshop_ / "out";
  ExpectError(ops::Convert(OpsWorkshop::Request(hf_, &kHf, out, &kNpy)), Errc::kUnsupported,
              "a folder of .npy files can be read, but not written");
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(ToyKind, HasAnOptionOfItsOwn) {
  const std::string shard = MakeNpy("shard", hf_, "w.");
  kinds::InputHints hints;
  hints.Set("strip", "w.");
  EXPECT_EQ(DigestOf(shard, hints), DigestOf(hf_));
  ExpectError(kinds::OpenArtifact(npy_, &kNpy, hints), Errc::kUsage, "strip w.");
}

TEST_F(ToyKind, ItsOptionIsRefusedForAnotherKind) {
  kinds::InputHints hints;
  hints.prefix = "--";
  hints.Set("strip", "w.");
  ExpectError(kinds::OpenArtifact(hf_, &kHf, hints), Errc::kUsage,
              "--strip is of the names of .npy files, and this is hf");
}

TEST_F(ToyKind, RejectsAShapeThatIsNotTheDatas) {
  const std::string data(32 * 4, 'x');
  ASSERT_TRUE(OpenWith(NpyBytes("<f4", "(32,)", data)).ok());
  for (const char* shape : {"()", "(31,)", "(33,)", "(32, 2)", "(4611686018427387904,)",
                            "(4294967296, 4294967296)", "(0, 32)"}) {
    SCOPED_TRACE(shape);
    const auto error = ExpectError(OpenWith(NpyBytes("<f4", shape, data)), Errc::kCorrupt, "");
    EXPECT_EQ(error->file(), norm_path_);
    EXPECT_TRUE(error->offset().has_value()) << error->ToString();
  }
  ExpectErrorAt(OpenWith(NpyBytes("<f4", "(33,)", data)), Errc::kCorrupt,
                "F32 [33] takes 132 bytes, 128 follow the header", norm_path_, kDataAt);
}

TEST_F(ToyKind, RejectsAShapeOfAnotherModel) {
  ASSERT_TRUE(OpenWith(NpyBytes("<f4", "(2,)", std::string(8, 'x'))).ok());
  const auto error = ExpectError(kinds::OpenAndBind(npy_, &kNpy, {}), Errc::kCorrupt, "[2]");
  EXPECT_EQ(error->file(), norm_path_);
}

TEST_F(ToyKind, RejectsAnyTruncation) {
  const std::string whole = NpyBytes("<f4", "(32,)", std::string(32 * 4, 'x'));
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const Status status = OpenWith(whole.substr(0, bytes));
    const uint64_t at = bytes < 10 ? 0 : bytes < kDataAt ? 8 : kDataAt;
    ExpectErrorAt(status, Errc::kCorrupt, "bytes", norm_path_, at);
  }
}

TEST_F(ToyKind, AnswersAnyChangedByte) {
  const std::string whole = NpyBytes("<f4", "(32,)", std::string(32 * 4, 'x'));
  for (size_t i = 0; i < kDataAt; ++i)
    for (const char byte : {'\0', '9', '\xff'}) {
      std::string changed = whole;
      changed[i] = byte;
      const Status status = OpenWith(changed);
      if (changed == whole) continue;
      ASSERT_FALSE(status.ok()) << "byte " << i;
      EXPECT_EQ(status.error().file(), norm_path_);
      EXPECT_TRUE(status.error().offset().has_value()) << status.error().ToString();
    }
}

TEST_F(ToyKind, RejectsWhatItCannotRead) {
  const std::string data(32 * 8, 'x');
  ExpectErrorAt(OpenWith(NpyBytes("<f8", "(32,)", data)), Errc::kUnsupported, "dtype '<f8' found",
                norm_path_, 20);
  std::string fortran = NpyBytes("<f4", "(8, 8)", data);
  fortran.replace(fortran.find("False"), 5, "True,");
  ExpectError(OpenWith(fortran), Errc::kUnsupported, "Fortran order");
}

}  // namespace
}  // namespace nxdkit
