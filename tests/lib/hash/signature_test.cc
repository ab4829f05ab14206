// Ed25519 against the test vectors of RFC 8032, section 7.1; keys that are none.
#include "lib/hash/signature.h"

#include <gtest/gtest.h>

#include <string_view>

#include "lib/hash/digest.h"
#include "tests/formats/scratch.h"
#include "tests/lib/expect_error.h"
#include "tests/lib/hash/bytes_of.h"

namespace nxdkit {
namespace {

using testing_util::BytesOf;
using testing_util::ExpectError;
using testing_util::Scratch;

// TEST 2 of the RFC: one byte, 0x72. The keys in the forms that OpenSSL writes: the RFC's bytes
// behind a fixed prefix.
constexpr char kPrivate[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIEzNCJso/5banbbDRuwRTg9bijGfNaumJNqM9u1PuKb7\n"
    "-----END PRIVATE KEY-----\n";
constexpr char kPublic[] =
    "-----BEGIN PUBLIC KEY-----\n"
    "MCowBQYDK2VwAyEAPUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=\n"
    "-----END PUBLIC KEY-----\n";
constexpr char kSignature[] =
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
    "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00";

class Signature : public ::testing::Test {
 protected:
  const Scratch folder_;
  const std::string private_ = folder_.Write("key.pem", kPrivate);
  const std::string public_ = folder_.Write("pub.pem", kPublic);
};

TEST_F(Signature, IsTheRfcs) {
  const Result<std::string> signature = SignEd25519(BytesOf("\x72"), private_);
  ASSERT_TRUE(signature.ok()) << signature.error().ToString();
  EXPECT_EQ(HexText(BytesOf(*signature)), kSignature);
  const Status good = VerifyEd25519(BytesOf("\x72"), *signature, public_);
  EXPECT_TRUE(good.ok()) << good.error().ToString();
}

TEST_F(Signature, IsRefusedWhenAnythingIsOther) {
  const Result<std::string> signature = SignEd25519(BytesOf("text"), private_);
  ASSERT_TRUE(signature.ok());
  const std::string part = "the signature is not by the key " + public_;
  ExpectError(VerifyEd25519(BytesOf("texT"), *signature, public_), Errc::kFindings, part);
  ExpectError(VerifyEd25519(BytesOf(""), *signature, public_), Errc::kFindings, part);
  for (size_t i = 0; i < signature->size(); ++i) {
    std::string other = *signature;
    other[i] = static_cast<char>(other[i] ^ 1);
    ExpectError(VerifyEd25519(BytesOf("text"), other, public_), Errc::kFindings, part);
  }
  ExpectError(VerifyEd25519(BytesOf("text"), signature->substr(1), public_), Errc::kCorrupt,
              "a signature of 63 bytes found, 64 expected");
}

TEST_F(Signature, NamesAKeyThatIsNone) {
  const auto sign = [&](const std::string& name, const std::string& text, Errc code,
                        const std::string& part) {
    const std::string path = folder_.Write(name, text);
    const std::optional<Error> error = ExpectError(SignEd25519({}, path), code, part);
    if (error) {
      EXPECT_EQ(error->file(), path);
    }
  };
  sign("empty.pem", "", Errc::kCorrupt, "no private key in PEM form found");
  sign("public.pem", kPublic, Errc::kCorrupt, "no private key in PEM form found");
  sign("cut.pem", std::string(kPrivate).substr(0, 60), Errc::kCorrupt, "no private key");
  ExpectError(VerifyEd25519({}, std::string(64, 'x'), private_), Errc::kCorrupt,
              "no public key in PEM form found");
  ExpectError(SignEd25519({}, private_ + ".none"), Errc::kNotFound, "");
}

// Nobody is asked for the passphrase.
TEST_F(Signature, RefusesALockedKey) {
  const std::string path =
      folder_.Write("locked.pem",
                    "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
                    "MIGbMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAhkJNfBfsf7hwICCAAw\n"
                    "DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEIDlZ1UF/ZDt3ydt97PWbhIEQFBL\n"
                    "m2p1NJDo8KrIBkQknKd9VV+OX7PuYidbQAqoZXMgG8PcxuQy/iUX4TWZy1Xckbml\n"
                    "MiSwDFKxJuVRl3t/zic=\n"
                    "-----END ENCRYPTED PRIVATE KEY-----\n");
  const std::optional<Error> error =
      ExpectError(SignEd25519({}, path), Errc::kUnsupported, "the key is locked with a passphrase");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), path);
}

// X25519: of the same length, but not for signatures. The point of RFC 7748, section 6.1.
TEST_F(Signature, RefusesAKeyOfAnotherKind) {
  const std::string path =
      folder_.Write("x25519.pem",
                    "-----BEGIN PUBLIC KEY-----\n"
                    "MCowBQYDK2VuAyEAhSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\n"
                    "-----END PUBLIC KEY-----\n");
  const std::optional<Error> error =
      ExpectError(VerifyEd25519({}, std::string(64, 'x'), path), Errc::kUnsupported,
                  "a public key of kind X25519 found, expected Ed25519");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->file(), path);
}

}  // namespace
}  // namespace nxdkit
