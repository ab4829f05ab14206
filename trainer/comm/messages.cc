#include "trainer/comm/messages.h"

namespace nxdkit::trainer {
namespace {

constexpr uint64_t kMaxMessage = uint64_t{4} << 30;

}  // namespace

Status SendMessage(Transport& transport, int to, int channel, const Json& message,
                   const Transport::Waiting& waiting) {
  const std::vector<uint8_t> bytes = Json::to_cbor(message);
  const uint64_t size = bytes.size();
  const Transport::Send sends[] = {{to, channel, std::as_bytes(std::span(&size, size_t{1}))},
                                   {to, channel, std::as_bytes(std::span(bytes))}};
  return transport.Run(sends, {}, waiting);
}

Result<Json> ReceiveMessage(Transport& transport, int from, int channel,
                            const Transport::Waiting& waiting) {
  uint64_t size = 0;
  Transport::Receive receive{from, channel, std::as_writable_bytes(std::span(&size, size_t{1}))};
  NXDKIT_TRY(transport.Run({}, {&receive, 1}, waiting));
  if (size > kMaxMessage) return Error(Errc::kInternal, "a message between processes is too long");
  std::vector<uint8_t> bytes(size);
  receive.bytes = std::as_writable_bytes(std::span(bytes));
  Transport::Waiting rest = waiting;  // the message has begun to arrive
  if (!rest.limit) rest.limit = transport.patience();
  rest.pace = Transport::Pace::kMoving;
  NXDKIT_TRY(transport.Run({}, {&receive, 1}, rest));
  Json message = Json::from_cbor(bytes, true, false);
  if (!message.is_object()) return Error(Errc::kInternal, "a message between processes is damaged");
  return message;
}

Json ErrorMessage(const Error& error) {
  return {{"code", static_cast<int>(error.code())}, {"text", error.ToString()}};
}
Error ErrorOfMessage(const Json& message) {
  return Error(static_cast<Errc>(message.value("code", static_cast<int>(Errc::kInternal))),
               message.value("text", ""));
}

}  // namespace nxdkit::trainer
