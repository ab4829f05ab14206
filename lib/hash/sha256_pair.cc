// FIPS 180-4, section 6.2, with the instructions of Intel's SHA extensions: sha256rnds2 does two of
// the 64 rounds, sha256msg1 and sha256msg2 make four words of the message schedule.
#include "lib/hash/sha256_pair.h"

#include <algorithm>
#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace nxdkit {
namespace {

Sha256Bytes ByOpenSsl(std::byte mark, std::span<const std::byte> bytes) {
  Sha256 sha;
  sha.Update({&mark, 1});
  sha.Update(bytes);
  return sha.Finish();
}

#if defined(__x86_64__)

#define NXDKIT_SHA __attribute__((target("sha,sse4.1")))

constexpr size_t kBlock = 64;
constexpr size_t kLengthBytes = 8;

alignas(16) constexpr uint32_t kRounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// The eight words of a state as the instructions expect them, the last named in the lowest lane.
struct State {
  __m128i abef;
  __m128i cdgh;
};

State Begin() {
  return {_mm_set_epi32(0x6a09e667, static_cast<int>(0xbb67ae85), 0x510e527f,
                        static_cast<int>(0x9b05688c)),
          _mm_set_epi32(0x3c6ef372, static_cast<int>(0xa54ff53a), 0x1f83d9ab, 0x5be0cd19)};
}

// `count` blocks of each of kLanes messages.
template <size_t kLanes>
NXDKIT_SHA void AddBlocks(std::array<State, kLanes>& states,
                          std::array<const std::byte*, kLanes> from, size_t count) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  std::array<State, kLanes> now = states;
  for (; count > 0; --count) {
    const std::array<State, kLanes> before = now;
    __m128i words[kLanes][4];
    for (size_t l = 0; l < kLanes; ++l) {
      for (size_t i = 0; i < 4; ++i)
        words[l][i] = _mm_shuffle_epi8(
            _mm_loadu_si128(reinterpret_cast<const __m128i*>(from[l] + 16 * i)), big_endian);
      from[l] += kBlock;
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < 16; ++i) {
      const __m128i constants = _mm_load_si128(reinterpret_cast<const __m128i*>(kRounds + 4 * i));
#pragma GCC unroll 2
      for (size_t l = 0; l < kLanes; ++l) {
        const __m128i current = words[l][i % 4];
        const __m128i input = _mm_add_epi32(current, constants);
        __m128i& next = words[l][(i + 1) % 4];
        __m128i& last = words[l][(i + 3) % 4];
        now[l].cdgh = _mm_sha256rnds2_epu32(now[l].cdgh, now[l].abef, input);
        if (i >= 3 && i < 15)
          next =
              _mm_sha256msg2_epu32(_mm_add_epi32(next, _mm_alignr_epi8(current, last, 4)), current);
        now[l].abef =
            _mm_sha256rnds2_epu32(now[l].abef, now[l].cdgh, _mm_shuffle_epi32(input, 0x0e));
        if (i >= 1 && i < 13) last = _mm_sha256msg1_epu32(last, current);
      }
    }
    for (size_t l = 0; l < kLanes; ++l) {
      now[l].abef = _mm_add_epi32(now[l].abef, before[l].abef);
      now[l].cdgh = _mm_add_epi32(now[l].cdgh, before[l].cdgh);
    }
  }
  states = now;
}

// Pads a message of `bytes` bytes whose last `used` are in `tail`: the bit after the end, and the
// length. Returns the number of blocks of the tail.
size_t PadTail(std::array<std::byte, 2 * kBlock>& tail, size_t used, uint64_t bytes) {
  tail[used++] = std::byte{0x80};
  const size_t blocks = used + kLengthBytes <= kBlock ? 1 : 2;
  uint64_t bits = bytes * 8;
  for (size_t i = 1; i <= kLengthBytes; ++i, bits >>= 8)
    tail[blocks * kBlock - i] = static_cast<std::byte>(bits);
  return blocks;
}

// mark | bytes as blocks: the first, those inside `bytes`, and the padded rest.
struct Message {
  Message(std::byte mark, std::span<const std::byte> bytes) {
    const size_t in_first = std::min(bytes.size(), kBlock - 1);
    std::byte* end = first.data();
    *end++ = mark;
    end = std::copy_n(bytes.begin(), in_first, end);
    const std::span<const std::byte> after = bytes.subspan(in_first);
    whole = after.first(after.size() / kBlock * kBlock);
    const std::span<const std::byte> left = after.subspan(whole.size());
    if (in_first == kBlock - 1) {
      has_first = true;
      end = std::copy(left.begin(), left.end(), tail.data());
    } else {
      end = std::copy_n(first.begin(), 1 + in_first, tail.data());
    }
    tail_blocks = PadTail(tail, static_cast<size_t>(end - tail.data()), bytes.size() + 1);
  }
  bool has_first = false;
  std::array<std::byte, kBlock> first;
  std::span<const std::byte> whole;
  std::array<std::byte, 2 * kBlock> tail{};
  size_t tail_blocks = 0;
};

Sha256Bytes DigestOf(const State& state) {
  alignas(16) uint32_t words[8];
  _mm_store_si128(reinterpret_cast<__m128i*>(words), state.abef);  // f, e, b, a
  _mm_store_si128(reinterpret_cast<__m128i*>(words + 4), state.cdgh);
  const uint32_t in_order[8] = {words[3], words[2], words[7], words[6],
                                words[1], words[0], words[5], words[4]};
  Sha256Bytes digest;
  for (size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<std::byte>(in_order[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

std::array<Sha256Bytes, 2> ByInstructions(const Message& a, const Message& b) {
  std::array<State, 2> states{Begin(), Begin()};
  size_t both = 0;
  if (a.has_first && b.has_first) {
    AddBlocks<2>(states, {a.first.data(), b.first.data()}, 1);
    both = std::min(a.whole.size(), b.whole.size());
    AddBlocks<2>(states, {a.whole.data(), b.whole.data()}, both / kBlock);
  }
  std::array<Sha256Bytes, 2> digests;
  const std::array<const Message*, 2> messages{&a, &b};
  for (size_t l = 0; l < 2; ++l) {
    const Message& message = *messages[l];
    std::array<State, 1> state{states[l]};
    if (message.has_first && !(a.has_first && b.has_first))
      AddBlocks<1>(state, {message.first.data()}, 1);
    const std::span<const std::byte> rest = message.whole.subspan(both);
    AddBlocks<1>(state, {rest.data()}, rest.size() / kBlock);
    AddBlocks<1>(state, {message.tail.data()}, message.tail_blocks);
    digests[l] = DigestOf(state[0]);
  }
  return digests;
}

bool ReadShaInstructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kSsse3AndSse41 = 1u << 9 | 1u << 19;  // of leaf 1, ecx
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kSsse3AndSse41) != kSsse3AndSse41) return false;
  constexpr unsigned kSha = 1u << 29;  // of leaf 7, ebx
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & kSha) != 0;
}

bool HasShaInstructions() {
  static const bool has = ReadShaInstructions();
  return has;
}

// Two messages that grow by blocks; the rest comes with the last piece.
struct TwoStates {
  std::array<State, 2> states{Begin(), Begin()};
  std::array<std::array<std::byte, 2 * kBlock>, 2> tails{};
  size_t used = 0;  // of each tail
  uint64_t bytes = 0;

  void Update(std::span<const std::byte> a, std::span<const std::byte> b) {
    const size_t whole = a.size() / kBlock * kBlock;
    AddBlocks<2>(states, {a.data(), b.data()}, whole / kBlock);
    used = a.size() - whole;
    std::ranges::copy(a.subspan(whole), tails[0].begin());
    std::ranges::copy(b.subspan(whole), tails[1].begin());
    bytes += a.size();
  }
  std::array<Sha256Bytes, 2> Finish() {
    PadTail(tails[0], used, bytes);
    const size_t blocks = PadTail(tails[1], used, bytes);
    AddBlocks<2>(states, {tails[0].data(), tails[1].data()}, blocks);
    return {DigestOf(states[0]), DigestOf(states[1])};
  }
};

#endif

}  // namespace

std::array<Sha256Bytes, 2> Sha256Pair(std::byte mark, std::span<const std::byte> a,
                                      std::span<const std::byte> b) {
#if defined(__x86_64__)
  if (HasShaInstructions()) return ByInstructions({mark, a}, {mark, b});
#endif
  return {ByOpenSsl(mark, a), ByOpenSsl(mark, b)};
}

struct Sha256Both::Streams {
  std::array<Sha256, 2> by_openssl;
#if defined(__x86_64__)
  TwoStates by_instructions;
#endif
};

Sha256Both::Sha256Both() : streams_(std::make_unique<Streams>()) {}
Sha256Both::~Sha256Both() = default;
Sha256Both::Sha256Both(Sha256Both&&) noexcept = default;
Sha256Both& Sha256Both::operator=(Sha256Both&&) noexcept = default;

void Sha256Both::Update(std::span<const std::byte> a, std::span<const std::byte> b) {
#if defined(__x86_64__)
  if (HasShaInstructions()) return streams_->by_instructions.Update(a, b);
#endif
  streams_->by_openssl[0].Update(a);
  streams_->by_openssl[1].Update(b);
}

std::array<Sha256Bytes, 2> Sha256Both::Finish() {
#if defined(__x86_64__)
  if (HasShaInstructions()) return streams_->by_instructions.Finish();
#endif
  return {streams_->by_openssl[0].Finish(), streams_->by_openssl[1].Finish()};
}

}  // namespace nxdkit
