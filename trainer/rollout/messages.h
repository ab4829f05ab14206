// PRIVATE to trainer/rollout. The payloads of the frames of wire.h, there and back: plain numbers
// and counted arrays, little-endian; a count is compared with the bytes that are there before
// memory is taken for it. What is decoded has the right form; whether it makes sense is for the
// reader to check.
#pragma once

#include <string>
#include <vector>

#include "trainer/rollout/engine.h"
#include "trainer/rollout/wire.h"

namespace nxdkit::trainer {

inline constexpr uint32_t kProtocolVersion = 4;

// A request under the number that its response comes back with.
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

// Of EngineOptions, EngineFacts and GenerateStats.
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
// The error that the payload holds; kCorrupt when it holds none.
Error ErrorFrom(std::string_view payload);

}  // namespace nxdkit::trainer
