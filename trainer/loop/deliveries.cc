#include "trainer/loop/deliveries.h"

#include <unistd.h>

#include <algorithm>

#include "formats/kinds/table.h"
#include "formats/ops/convert/convert.h"
#include "formats/tar/pack.h"
#include "formats/tar/unpack.h"
#include "lib/base/errors.h"
#include "lib/hash/digest.h"
#include "lib/hash/hash_file.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "trainer/model/memory.h"

namespace nxdkit::trainer {
namespace {

constexpr uint64_t kMostAtOnce = uint64_t{4} << 20;
constexpr uint64_t kMostSeen = 1 << 20;

// The archive, next to the folder that it becomes.
std::string ArchiveOf(const std::string& folder) { return folder + ".sent.tar"; }
std::string DeltaOf(const std::string& bundle) { return bundle + ".sent.delta"; }

// A file that is deleted with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {}
  ~TemporaryFile() { ::unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

Status SendBytes(Transport& transport, int machine, const File& file) {
  std::vector<std::byte> some;
  for (uint64_t at = 0; at < file.bytes(); at += some.size()) {
    some.resize(std::min(file.bytes() - at, kMostAtOnce));
    NXDKIT_TRY(file.ReadAt(at, some));
    const Transport::Send send{machine, kFileChannel, some};
    NXDKIT_TRY(transport.Run({&send, 1}, {}, {nullptr, transport.patience()}));
  }
  return OkStatus();
}

Result<Json> Sees(const Json& order, const Working&) {
  const Result<std::string> text = ReadSmallFile(order["path"].get<std::string>(), kMostSeen);
  return Json{{"sees", text.ok() && *text == order["text"].get<std::string>()}};
}

Result<Json> Unpack(const Json& order, const Working& working) {
  const TemporaryFile archive(order["archive"].get<std::string>());
  tar::UnpackRequest request;
  request.archive = archive.path();
  request.output = order["output"].get<std::string>();
  request.force = true;
  request.sync = false;  // weights can be sent again
  request.hooks.poll = working;
  NXDKIT_TRY(tar::Unpack(request));
  return Json::object();
}

Result<Json> Apply(const Json& order, const Working& working) {
  const TemporaryFile delta(order["delta"].get<std::string>());
  ops::ConvertRequest request;
  request.from = &kinds::kDelta;
  request.to = &kinds::kRollout;
  request.input = delta.path();
  request.output = order["bundle"].get<std::string>();
  request.hints.Set("base", request.output);
  request.place = ops::Slot{order["label"].get<std::string>()};
  request.sync = false;
  request.run.max_memory = kNoMemoryCap;
  request.run.poll = working;
  NXDKIT_TRY(ops::Convert(request));
  return Json::object();
}

Result<std::vector<int>> ProcessesThatLack(Leader& leader, const std::vector<int>& processes,
                                           const std::string& path, const std::string& text) {
  std::vector<int> lacking;
  for (const int process : processes) {
    const Json order = {{"call", "sees"}, {"path", path}, {"text", text}};
    NXDKIT_ASSIGN(const Json answer, leader.Ask(process, order));
    if (!answer.value("sees", false)) lacking.push_back(process);
  }
  return lacking;
}

}  // namespace

Result<std::vector<int>> ProcessesWithoutFolder(Leader& leader, const std::vector<int>& processes,
                                                const std::string& folder) {
  const std::string who = std::to_string(::getpid());
  const TemporaryFile mark(JoinPath(folder, ".seen-" + who));
  const std::string text = "process " + who + "\n";
  NXDKIT_TRY(WriteFileAtomic(mark.path(), text));
  return ProcessesThatLack(leader, processes, mark.path(), text);
}

Result<std::optional<int>> FirstProcessWithoutFile(Leader& leader,
                                                   const std::vector<int>& processes,
                                                   const std::string& path) {
  NXDKIT_ASSIGN(const std::string text, ReadSmallFile(path, kMostSeen));
  NXDKIT_ASSIGN(const std::vector<int> lacking, ProcessesThatLack(leader, processes, path, text));
  return lacking.empty() ? std::nullopt : std::optional(lacking.front());
}

Status Deliveries::Look(const std::string& folder) {
  NXDKIT_ASSIGN(machines_, ProcessesWithoutFolder(leader_, machines_, folder));
  return OkStatus();
}

Status Deliveries::SendFolder(const std::string& folder) {
  const TemporaryFile archive(ArchiveOf(folder));
  tar::PackRequest request;
  request.input = folder;
  request.output = archive.path();
  request.force = true;
  request.sync = false;
  NXDKIT_TRY(tar::Pack(request));
  for (const int machine : machines_) {
    NXDKIT_TRY(SendFile(machine, archive.path(), archive.path()));
    NXDKIT_TRY(leader_.Ask(
        machine, Json{{"call", "unpack"}, {"archive", archive.path()}, {"output", folder}}));
  }
  sent_ = folder;
  return OkStatus();
}

Status Deliveries::SendDelta(const std::string& delta, const std::string& bundle,
                             const std::string& label) {
  const std::string there = DeltaOf(bundle);
  for (const int machine : machines_) {
    NXDKIT_TRY(SendFile(machine, delta, there));
    NXDKIT_TRY(leader_.Ask(
        machine, Json{{"call", "apply"}, {"delta", there}, {"bundle", bundle}, {"label", label}}));
  }
  return OkStatus();
}

Status Deliveries::SendFile(int machine, const std::string& from, const std::string& to) {
  NXDKIT_ASSIGN(const File file, File::OpenRead(from));
  NXDKIT_ASSIGN(const Sha256Bytes digest, HashFile<Sha256Bytes>(file, 0, file.bytes()));
  const Json order = {
      {"call", "take_file"}, {"path", to}, {"bytes", file.bytes()}, {"sha256", HexText(digest)}};
  const auto send = [&] { return SendBytes(leader_.transport(), machine, file); };
  NXDKIT_TRY(leader_.Ask(machine, order, send));
  return OkStatus();
}

// Receives all of it even after an error: the next transfer follows it.
Result<Json> DeliveryHost::TakeFile(const Json& order) {
  const std::string path = order["path"].get<std::string>();
  const auto bytes = order["bytes"].get<uint64_t>();
  Status written = MakeFolders(ParentPath(path));
  ::unlink(path.c_str());
  Result<File> file = File::OpenWrite(path);
  if (written.ok() && !file.ok()) written = Status(file.error());
  Sha256 hash;
  std::vector<std::byte> some;
  for (uint64_t at = 0; at < bytes; at += some.size()) {
    some.resize(std::min(bytes - at, kMostAtOnce));
    const Transport::Receive receive{0, kFileChannel, some};
    NXDKIT_TRY(transport_.Run({}, {&receive, 1}, {nullptr, transport_.patience()}));
    hash.Update(some);
    if (written.ok()) written = file->WriteAt(at, some);
  }
  if (written.ok()) written = file->Close();
  const std::string found = HexText(hash.Finish());
  const std::string expected = order["sha256"].get<std::string>();
  if (written.ok() && found != expected)
    written = Corrupt("arrived with the digest {}, expected {}", found, expected).in(path);
  if (written.ok()) return Json::object();
  ::unlink(path.c_str());
  return written.error();
}

void DeliveryHost::AddHandlers(OrderHandlers& handlers) {
  handlers["sees"] = Sees;
  handlers["unpack"] = Unpack;
  handlers["apply"] = Apply;
  handlers["take_file"] = [this](const Json& order, const Working&) { return TakeFile(order); };
}

}  // namespace nxdkit::trainer
