// Ed25519 with the test vectors of RFC 8032, section 7.1; invalid keys.
#include "lib/hash/signature.h"

#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <string_view>
#include <vector>

#include "lib/hash/digest.h"
#include "tests/formats/scratch.h"
#include "tests/lib/expect_error.h"
#include "tests/lib/hash/bytes_of.h"

namespace nxdkit {
namespace {

using testing_util::BytesOf;
using testing_util::ExpectError;
using testing_util::Scratch;

// TEST 2 of the RFC: one byte, 0x72. The keys in the forms that OpenSSL writes: a fixed prefix and
// the RFC's bytes.
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

// No prompt for the passphrase.
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

// The key in PEM form; `bytes` is its point.
std::string PemOf(const std::vector<unsigned char>& bytes) {
  EVP_PKEY* const key =
      ::EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, bytes.data(), bytes.size());
  BIO* const bio = ::BIO_new(::BIO_s_mem());
  EXPECT_EQ(::PEM_write_bio_PUBKEY(bio, key), 1);
  char* text = nullptr;
  const auto size = static_cast<size_t>(::BIO_get_mem_data(bio, &text));
  std::string pem(text, size);
  ::BIO_free(bio);
  ::EVP_PKEY_free(key);
  return pem;
}

// Whether OpenSSL itself accepts the signature as made by this point.
bool OpenSslTakes(const std::vector<unsigned char>& point, const std::string& signature,
                  std::string_view message) {
  EVP_PKEY* const key =
      ::EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, point.data(), point.size());
  EVP_MD_CTX* const context = ::EVP_MD_CTX_new();
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
  };
  const bool taken = ::EVP_DigestVerifyInit(context, nullptr, nullptr, nullptr, key) == 1 &&
                     ::EVP_DigestVerify(context, bytes(signature), signature.size(), bytes(message),
                                        message.size()) == 1;
  ::EVP_MD_CTX_free(context);
  ::EVP_PKEY_free(key);
  return taken;
}

// All encodings of the eight points, including those with a y over the prime: with the neutral one
// as the key, "R is neutral, S is 0" signs every text.
TEST_F(Signature, RefusesAKeyByWhichAnybodyCanSign) {
  std::vector<unsigned char> neutral(32, 0);
  neutral[0] = 1;
  const std::string forged = std::string(1, '\x01') + std::string(63, '\0');
  ASSERT_TRUE(OpenSslTakes(neutral, forged, "any text")) << "else there is nothing to refuse";
  const std::vector<unsigned char> first = {0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0,
                                            0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0,
                                            0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39,
                                            0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05};
  std::vector<unsigned char> second(32);  // its negative: y and the prime less y
  int borrow = 0;
  for (size_t i = 0; i < 32; ++i) {
    const int prime = i == 0 ? 0xed : i == 31 ? 0x7f : 0xff;
    const int digit = prime - first[i] - borrow;
    borrow = digit < 0 ? 1 : 0;
    second[i] = static_cast<unsigned char>(digit & 0xff);
  }
  std::vector<std::vector<unsigned char>> points = {std::vector<unsigned char>(32, 0), neutral,
                                                    first, second};
  for (const int low : {0xec, 0xed, 0xee}) {
    points.emplace_back(32, 0xff);
    points.back()[0] = static_cast<unsigned char>(low);
    points.back()[31] = 0x7f;
  }
  for (std::vector<unsigned char> point : points)
    for (const bool sign : {false, true}) {
      if (sign) point[31] = static_cast<unsigned char>(point[31] | 0x80);
      const std::string path = folder_.Write("low.pem", PemOf(point));
      const std::optional<Error> error =
          ExpectError(VerifyEd25519(BytesOf("any text"), forged, path), Errc::kCorrupt,
                      "a point of low order: anybody can sign by it");
      ASSERT_TRUE(error) << HexText(BytesOf(std::string(point.begin(), point.end())));
      EXPECT_EQ(error->file(), path);
    }
}

// X25519: the same length, but not for signatures. The point of RFC 7748, section 6.1.
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
