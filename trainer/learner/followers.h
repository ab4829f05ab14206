// A mesh over several processes, led by one: process 0 runs the training loop and makes each call
// of its models known to the other processes, which follow: they hold their ranks of the models,
// make the same calls, and serve what they hold. PRIVATE: it takes parsed JSON; include it from .cc
// files only.
#pragma once

#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "lib/json/json.h"
#include "trainer/comm/transport.h"
#include "trainer/learner/mesh_model.h"

namespace nxdkit::trainer {

// Orders and answers: JSON, as CBOR. Channels that no rank uses.
inline constexpr int kOrderChannel = Transport::kChannels - 1;
inline constexpr int kAnswerChannel = Transport::kChannels - 2;
inline constexpr int kLossChannel = Transport::kChannels / 2;  // + the data-parallel rank

Status SendMessage(Transport& transport, int to, int channel, const Json& message);
Result<Json> ReceiveMessage(Transport& transport, int from, int channel,
                            const std::atomic<bool>& cancelled, bool patient);

// Of process 0. Thread-safe.
class Leader {
 public:
  explicit Leader(Transport& transport) : transport_(transport) {}
  Status TellAll(const Json& order);
  int64_t NextId() { return next_id_++; }
  // `to` becomes what the follower answers.
  Status Ask(int process, const Json& order, std::span<std::byte> to);

 private:
  Transport& transport_;
  std::mutex mutex_;
  std::atomic<int64_t> next_id_{0};
};

// Numbers as bytes of a message, and back. kInternal for bytes that are none.
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

Json OptionsMessage(const MeshOptions& options);
MeshOptions OptionsOfMessage(const Json& message);
Json RowsMessage(std::span<const Row> rows);
std::vector<Row> RowsOfMessage(const Json& message);

}  // namespace nxdkit::trainer
