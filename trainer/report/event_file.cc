#include "trainer/report/event_file.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <span>

#include "lib/base/little_endian.h"
#include "lib/hash/crc32.h"
#include "lib/system/folders.h"

namespace nxdkit::trainer {
namespace {

// Protocol buffers, as far as events need them: fields in ascending order, wire types 0, 1, 2, 5.
class Message {
 public:
  Message& Varint(uint32_t field, uint64_t value) {
    Tag(field, 0);
    PutVarint(value);
    return *this;
  }
  Message& Double(uint32_t field, double value) {
    Tag(field, 1);
    AppendLittle(std::bit_cast<uint64_t>(value), bytes_);
    return *this;
  }
  Message& Bytes(uint32_t field, std::string_view value) {
    Tag(field, 2);
    PutVarint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& Float(uint32_t field, float value) {
    Tag(field, 5);
    AppendLittle(std::bit_cast<uint32_t>(value), bytes_);
    return *this;
  }
  Message& Nested(uint32_t field, const Message& value) { return Bytes(field, value.bytes_); }
  std::string Take() { return std::move(bytes_); }

 private:
  void Tag(uint32_t field, uint32_t wire) { PutVarint(field << 3 | wire); }
  void PutVarint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

// Field numbers of event.proto, summary.proto and tensor.proto.
namespace event {
constexpr uint32_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}
namespace summary {
constexpr uint32_t kValue = 1;
constexpr uint32_t kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9;  // of a value
constexpr uint32_t kPluginData = 1, kPluginName = 1;                        // of its metadata
}  // namespace summary
namespace tensor {
constexpr uint32_t kDtype = 1, kShape = 2, kStringValue = 8;
constexpr uint32_t kDim = 2, kDimSize = 1;  // of a shape
constexpr uint64_t kString = 7;             // a dtype
}  // namespace tensor
constexpr uint32_t kSessionStatus = 1;
constexpr uint64_t kSessionStart = 1;

Message At(double wall_time, int64_t step) {
  Message message;
  message.Double(event::kWallTime, wall_time);
  if (step != 0) message.Varint(event::kStep, static_cast<uint64_t>(step));
  return message;
}

double Now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string HostName() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

// The first free name.
Result<std::string> NewPath(const std::string& folder) {
  const std::string stem = folder + "/events.out.tfevents." +
                           std::to_string(static_cast<int64_t>(Now())) + "." + HostName() + "." +
                           std::to_string(::getpid()) + ".";
  for (int n = 0;; ++n) {
    NXDKIT_ASSIGN(const bool taken, IsThere(stem + std::to_string(n)));
    if (!taken) return stem + std::to_string(n);
  }
}

}  // namespace

uint32_t MaskedCrc32c(std::string_view bytes) {
  const uint32_t crc = Crc32c(0, std::as_bytes(std::span(bytes)));
  return std::rotr(crc, 15) + 0xa282ead8u;
}

std::string EventFrame(std::string_view event) {
  std::string frame;
  AppendLittle(uint64_t{event.size()}, frame);
  AppendLittle(MaskedCrc32c(frame), frame);
  frame += event;
  AppendLittle(MaskedCrc32c(event), frame);
  return frame;
}

std::string VersionEvent(double wall_time) {
  return At(wall_time, 0).Bytes(event::kFileVersion, "brain.Event:2").Take();
}

std::string ScalarsEvent(double wall_time, int64_t step, const MetricRecord& record) {
  Message values;
  for (const auto& [name, value] : record)
    values.Nested(summary::kValue, Message()
                                       .Bytes(summary::kTag, name)
                                       .Float(summary::kSimpleValue, static_cast<float>(value)));
  return At(wall_time, step).Nested(event::kSummary, values).Take();
}

std::string TextEvent(double wall_time, int64_t step, std::string_view tag, std::string_view text) {
  const Message shape = Message().Nested(tensor::kDim, Message().Varint(tensor::kDimSize, 1));
  const Message content = Message()
                              .Varint(tensor::kDtype, tensor::kString)
                              .Nested(tensor::kShape, shape)
                              .Bytes(tensor::kStringValue, text);
  const Message metadata =
      Message().Nested(summary::kPluginData, Message().Bytes(summary::kPluginName, "text"));
  const Message value = Message()
                            .Bytes(summary::kTag, tag)
                            .Nested(summary::kTensor, content)
                            .Nested(summary::kMetadata, metadata);
  return At(wall_time, step)
      .Nested(event::kSummary, Message().Nested(summary::kValue, value))
      .Take();
}

std::string RestartEvent(double wall_time, int64_t step) {
  return At(wall_time, step)
      .Nested(event::kSessionLog, Message().Varint(kSessionStatus, kSessionStart))
      .Take();
}

Result<EventFile> EventFile::Create(const std::string& folder, int64_t resumed_step) {
  NXDKIT_TRY(MakeFolders(folder));
  EventFile result;
  NXDKIT_ASSIGN(result.path_, NewPath(folder));
  std::string first = EventFrame(VersionEvent(Now()));
  if (resumed_step > 0) first += EventFrame(RestartEvent(Now(), resumed_step + 1));
  NXDKIT_ASSIGN(result.file_, AppendFile::Begin(result.path_, first));
  return result;
}

Status EventFile::WriteScalars(int64_t step, const MetricRecord& record) {
  return file_.Append(EventFrame(ScalarsEvent(Now(), step, record)));
}

Status EventFile::WriteText(int64_t step, std::string_view tag, std::string_view text) {
  return file_.Append(EventFrame(TextEvent(Now(), step, tag, text)));
}

std::string TensorboardFolder(std::string_view configured, std::string_view project,
                              std::string_view experiment) {
  std::string root(configured);
  const char* variable = std::getenv("TENSORBOARD_DIR");
  if (root.empty()) root = variable != nullptr && *variable != '\0' ? variable : "tensorboard_log";
  return JoinPath(JoinPath(root, project), experiment);
}

}  // namespace nxdkit::trainer
