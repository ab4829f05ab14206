// PRIVATE to trainer/rollout. Encodes and decodes the payloads of the frames of wire.h: plain
// numbers and counted arrays, little-endian; a count is compared with the remaining bytes before
// memory is allocated for it. Decoded values have the right form; the reader has to check that they
// make sense.
#pragma once

#include <string>
#include <vector>

#include "trainer/rollout/engine.h"
#include "trainer/rollout/wire.h"

namespace nxdkit::trainer {

inline constexpr uint32_t kProtocolVersion = 4;

// A request with the number under which its response comes back.
struct NumberedRequest {
  uint64_t number = 0;
  const RolloutRequest* request = nullptr;  // when encoded
};
struct DecodedRequests {
  std::vector<uint64_t> numbers;
  std::vector<RolloutRequest> requests;
};
struct NumberedResponse {
  uint64_t number = 0;
  RolloutResponse response;
};

// For EngineOptions, EngineFacts and GenerateStats.
template <typename T>
std::string Encode(const T& message);
template <typename T>
Result<T> Decode(std::string_view payload);

std::string EncodeHello();
Status DecodeHello(std::string_view payload);  // kUnsupported for another version
std::string EncodeRequests(const std::vector<NumberedRequest>& requests);
Result<DecodedRequests> DecodeRequests(std::string_view payload);
std::string EncodeResponse(uint64_t number, const RolloutResponse& response);
Result<NumberedResponse> DecodeResponse(std::string_view payload);
std::string EncodeError(const Error& error);
// The error in the payload; kCorrupt when it contains none.
Error ErrorFrom(std::string_view payload);

}  // namespace nxdkit::trainer
