#include "formats/fsdp/read_extra.h"

#include <fmt/core.h>

#include "formats/dtensor/rank_values.h"
#include "formats/torch/pickle_writer.h"
#include "lib/base/errors.h"

namespace nxdkit::fsdp {
using torch::PickleValue;

Status ExtraReader::Add(const torch::Archive& archive, int rank) {
  const PickleValue* scheduler = archive.root.Find("lr_scheduler");
  if (!scheduler || !scheduler->dict() || !dtensor::IsPlain(*scheduler)) return OkStatus();
  NXDKIT_ASSIGN(std::string text, torch::WritePickle(*scheduler, {}));
  if (!text_.empty() && text != text_)
    return Corrupt("the scheduler of rank {} is not at the step of the earlier ranks", rank)
        .hint("the files may be of two saves");
  if (!text_.empty()) return OkStatus();
  text_ = std::move(text);
  for (const auto& [key, value] : *scheduler->dict()) {
    if (!key.string()) continue;
    NXDKIT_TRY(entries_.AddObject(fmt::format("{}{}", kSchedulerKeys, *key.string()), value,
                                  PickleValue::MakeTuple({{"lr_scheduler"}, {*key.string()}})));
  }
  return OkStatus();
}

}  // namespace nxdkit::fsdp
