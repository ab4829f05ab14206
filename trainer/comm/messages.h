// Messages between the processes of a run: JSON, encoded as CBOR, over a transport; and the
// assignment of channels. PRIVATE: it uses parsed JSON; include it from .cc files only.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "lib/json/json.h"
#include "trainer/comm/transport.h"

namespace nxdkit::trainer {

// Channels from 0 on: the collectives of a mesh (comm.cc).
inline constexpr int kLossChannel = Transport::kChannels / 2;        // + the data-parallel rank
inline constexpr int kWorkerChannel = Transport::kChannels / 4 * 3;  // + the rollout worker
inline constexpr int kReadChannel = Transport::kChannels - 6;
inline constexpr int kReadAnswerChannel = Transport::kChannels - 5;
inline constexpr int kFileChannel = Transport::kChannels - 4;
inline constexpr int kBeatChannel = Transport::kChannels - 3;
inline constexpr int kAnswerChannel = Transport::kChannels - 2;
inline constexpr int kOrderChannel = Transport::kChannels - 1;

// Both wait as Transport::Run does.
Status SendMessage(Transport& transport, int to, int channel, const Json& message,
                   const Transport::Waiting& waiting = {});
Result<Json> ReceiveMessage(Transport& transport, int from, int channel,
                            const Transport::Waiting& waiting);

// {"code", "text"}: an error as one process reports it to another.
Json ErrorMessage(const Error& error);
Error ErrorOfMessage(const Json& message);

// Numbers as the bytes of a message, and back.
template <typename T>
Json Bytes(std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  const auto* begin = reinterpret_cast<const uint8_t*>(bytes.data());
  return Json::binary(std::vector<uint8_t>(begin, begin + bytes.size()));
}
template <typename T>
std::vector<T> Values(const Json& bytes) {
  const auto& binary = bytes.get_binary();
  std::vector<T> values(binary.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), binary.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace nxdkit::trainer
