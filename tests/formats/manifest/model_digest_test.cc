// The lines and the digest of a model, compared with values made with Python's hashlib.
#include <gtest/gtest.h>

#include "formats/manifest/manifest.h"
#include "lib/hash/tree_digest.h"
#include "tests/lib/expect_error.h"

namespace nxdkit::manifest {
namespace {

using testing_util::ExpectError;

Sha256Bytes RootOf(std::string_view bytes) {
  return LeafDigest(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

ParamDigest Scalar() { return {"a", Dtype::kF32, {}, RootOf(std::string_view("\0\0\x80?", 4))}; }
ParamDigest Matrix() {
  const std::string_view bytes("\0\1\2\3\4\5\6\7\x8\x9\xa\xb", 12);
  return {"b.weight", Dtype::kBF16, {2, 3}, RootOf(bytes)};
}

TEST(ModelDigest, LinesAreAsWritten) {
  EXPECT_EQ(ParamLine(Scalar()),
            "9bc2d9e90bd0431447ff66eb9285c6a7057bfcfa543e62c74f560ac5295e0ed9 F32 [] 1:a\n");
  EXPECT_EQ(ParamLine(Matrix()),
            "2fc5d97a1a5f779f72036bc4c09f6d95c2e902d6f390cc00bce6b685a97db6f4 BF16 [2,3] "
            "8:b.weight\n");
}

TEST(ModelDigest, KnownValues) {
  EXPECT_EQ(DigestText(MakeModelDigest({}).digest),
            "sha256:52cad1cc9882d1715a0b440a5e9303059b0408a8c6fdcb35d6a18618e58e9c58");
  EXPECT_EQ(DigestText(MakeModelDigest({Scalar(), Matrix()}).digest),
            "sha256:8abd08a86922ee899eaf6b86c1259ce5a02fcac66ccc2c01cb00b21943cfb743");
}

TEST(ModelDigest, DoesNotDependOnTheOrder) {
  const ModelDigest model = MakeModelDigest({Matrix(), Scalar()});
  EXPECT_EQ(model.digest, MakeModelDigest({Scalar(), Matrix()}).digest);
  EXPECT_EQ(model.params.front().name, "a");
}

TEST(ModelDigest, DependsOnNameDtypeShapeAndValues) {
  const Sha256Bytes digest = MakeModelDigest({Scalar(), Matrix()}).digest;
  const auto with = [&](const char* what, void (*change)(ParamDigest&)) {
    ParamDigest other = Matrix();
    change(other);
    EXPECT_NE(MakeModelDigest({Scalar(), other}).digest, digest) << what;
  };
  with("name", [](ParamDigest& param) { param.name = "b.bias"; });
  with("dtype", [](ParamDigest& param) { param.dtype = Dtype::kF16; });
  with("shape", [](ParamDigest& param) { param.shape = {3, 2}; });
  with("values", [](ParamDigest& param) { param.root[31] ^= std::byte{1}; });
  EXPECT_NE(MakeModelDigest({Scalar()}).digest, digest);
}

// The length precedes the name, so a name cannot pass for two lines.
TEST(ModelDigest, ANameCannotBeTwoLines) {
  const ParamDigest one = Scalar();
  const ParamDigest two = Matrix();
  ParamDigest both = one;
  both.name = "a\n" + ParamLine(two).substr(0, ParamLine(two).size() - 1);
  EXPECT_NE(MakeModelDigest({both}).digest, MakeModelDigest({one, two}).digest);
}

TEST(DigestText, ReadsWhatItWrites) {
  const Result<Sha256Bytes> read = ParseDigest(DigestText(Scalar().root));
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  EXPECT_EQ(*read, Scalar().root);
}

TEST(DigestText, RefusesOthers) {
  const std::string good = DigestText(Scalar().root);
  for (const std::string& bad :
       {std::string(), good.substr(7), good + "0", "sha512:" + good.substr(7),
        good.substr(0, 70) + "g", good.substr(0, 70) + "A"})
    ExpectError(ParseDigest(bad), Errc::kCorrupt,
                "expected sha256: and 64 lower-case hexadecimal digits");
}

}  // namespace
}  // namespace nxdkit::manifest
