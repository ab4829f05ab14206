// Random numbers by position, not by order: Philox 4x32-10 (Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3", 2011). A draw depends only on its purpose and position, so results
// are the same for any batching, worker and number of threads, and after a resume.
#pragma once

#include <array>
#include <cstdint>

namespace nxdkit::trainer {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

namespace philox {
inline constexpr uint32_t kMultiplierA = 0xD2511F53;
inline constexpr uint32_t kMultiplierB = 0xCD9E8D57;
inline constexpr uint32_t kWeylA = 0x9E3779B9;  // added to the key after each round
inline constexpr uint32_t kWeylB = 0xBB67AE85;
inline constexpr int kRounds = 10;
}  // namespace philox

constexpr PhiloxCounter Philox(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < philox::kRounds; ++round) {
    const uint64_t a = uint64_t{philox::kMultiplierA} * counter[0];
    const uint64_t b = uint64_t{philox::kMultiplierB} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += philox::kWeylA;
    key[1] += philox::kWeylB;
  }
  return counter;
}

// The purposes of random numbers: each use of a seed has its own sequence.
enum class RandomUse : uint32_t { kSampling = 1, kShuffle = 2, kRounding = 3, kInit = 4 };

constexpr PhiloxKey MakeKey(uint64_t seed, RandomUse use) {
  const PhiloxCounter words =
      Philox({static_cast<uint32_t>(use), 0, 0, 0},
             {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return {words[0], words[1]};
}

// In [0, 1), 53 bits.
constexpr double UniformDouble(uint32_t high, uint32_t low) {
  return static_cast<double>((uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
}

// The position of the draw for one token of one rollout. `prompt` counts within the step, `sample`
// within the prompt, `position` from the first token of the response.
struct SamplingPoint {
  uint32_t step = 0;
  uint32_t prompt = 0;
  uint32_t sample = 0;
  uint32_t position = 0;
};
// In [0, 1).
constexpr double DrawUniform(PhiloxKey sampling_key, const SamplingPoint& at) {
  const PhiloxCounter words = Philox({at.position, at.sample, at.prompt, at.step}, sampling_key);
  return UniformDouble(words[0], words[1]);
}

}  // namespace nxdkit::trainer
