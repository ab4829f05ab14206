#include "formats/delta/writer.h"

#include "formats/delta/file_format.h"
#include "lib/base/errors.h"
#include "lib/hash/crc32.h"

namespace nxdkit::delta {
namespace {

// Bytes in memory of blocks that came before their turn: about a thousand blocks of a usual delta.
constexpr uint64_t kMaxEarlyBytes = 16 << 20;

void Append(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace

Result<std::unique_ptr<Writer>> Writer::Create(const std::string& path, const Head& head) {
  std::unique_ptr<Writer> writer(new Writer());
  for (const Param& param : head.params) {
    if (!CanEncode(param.dtype))
      return Unsupported("elements of dtype {} have no delta", Name(param.dtype)).on(param.name);
    writer->first_block_.push_back(writer->block_count_);
    writer->block_count_ += param.blocks();
  }
  writer->changed_.resize(head.params.size());
  NXDKIT_ASSIGN(writer->file_, File::OpenWrite(path));
  NXDKIT_TRY(writer->file_.Allocate(0));
  return writer;
}

Status Writer::WriteNext(std::span<const std::byte> block) {
  const uint32_t row[2] = {static_cast<uint32_t>(block.size()), Crc32(0, block)};
  Append(table_, std::as_bytes(std::span(row)));
  NXDKIT_TRY(file_.WriteAt(kHeaderBytes + payload_bytes_, block));
  payload_bytes_ += block.size();
  ++next_;
  return OkStatus();
}

// Nobody waits for a turn: the thread whose turn it is may have stopped with an error.
Status Writer::Keep(uint64_t number, std::vector<std::byte> bytes) {
  Early& early = early_[number];
  if (early_bytes_ + bytes.size() <= kMaxEarlyBytes) {
    early_bytes_ += bytes.size();
    early.bytes = std::move(bytes);
    return OkStatus();
  }
  if (!spill_.is_open()) NXDKIT_TRY(File::OpenTemporary().To(spill_));
  early.spilled_at = spill_bytes_;
  early.spilled_bytes = bytes.size();
  spill_bytes_ += bytes.size();
  return spill_.WriteAt(early.spilled_at, bytes);
}

Status Writer::WriteEarly(const Early& early) {
  early_bytes_ -= early.bytes.size();
  if (early.spilled_bytes == 0) return WriteNext(early.bytes);
  std::vector<std::byte> bytes(early.spilled_bytes);
  NXDKIT_TRY(spill_.ReadAt(early.spilled_at, bytes));
  return WriteNext(bytes);
}

Status Writer::Put(size_t param, uint64_t block, uint64_t changed, std::vector<std::byte> bytes) {
  const uint64_t number = first_block_[param] + block;
  const std::lock_guard lock(mutex_);
  changed_[param] += changed;
  if (number != next_) return Keep(number, std::move(bytes));
  NXDKIT_TRY(WriteNext(bytes));
  for (auto it = early_.begin(); it != early_.end() && it->first == next_; it = early_.erase(it))
    NXDKIT_TRY(WriteEarly(it->second));
  return OkStatus();
}

Result<Head> Writer::Finish(Head head, bool sync) {
  NXDKIT_CHECK(next_ == block_count_ && head.params.size() == changed_.size());
  std::vector<std::byte> table;
  Append(table, head.base);
  Append(table, head.result);
  for (size_t i = 0; i < head.params.size(); ++i) {
    head.params[i].changed = changed_[i];
    Append(table, head.params[i].base);
    Append(table, head.params[i].result);
  }
  Append(table, table_);
  const std::string meta = WriteMeta(head.params);
  if (meta.size() > kMaxMetaBytes)
    return Unsupported("the names of {} parameters take {} bytes, the limit is {}",
                       head.params.size(), meta.size(), kMaxMetaBytes)
        .in(file_.path());
  const auto meta_bytes = std::as_bytes(std::span(meta));
  NXDKIT_TRY(file_.WriteAt(kHeaderBytes + payload_bytes_, table));
  NXDKIT_TRY(file_.WriteAt(kHeaderBytes + payload_bytes_ + table.size(), meta_bytes));
  NXDKIT_TRY(file_.WriteAt(0, MakeHeader(head.coding, payload_bytes_, table, meta_bytes)));
  if (sync) NXDKIT_TRY(file_.Sync());
  NXDKIT_TRY(file_.Close());
  return head;
}

}  // namespace nxdkit::delta
