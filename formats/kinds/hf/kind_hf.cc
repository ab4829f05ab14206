#include "formats/hf/hf.h"
#include "formats/hf/split.h"
#include "formats/kinds/hf/facts_hf.h"
#include "formats/kinds/hf/output_hf.h"
#include "formats/kinds/hf/read_hf.h"
#include "formats/kinds/table.h"
#include "formats/kinds/transformers_folder.h"

namespace nxdkit::kinds {
namespace {

constexpr OptionRow kRows[] = {
    {"weights", "FILE", "weight file or index to read, if a Hugging Face folder has several",
     kAsInput, "{option} chooses weights of a Hugging Face folder, and this is {what}",
     ValueKind::kPath},
    {"style", "saved|memory|hub|v4|memory_v4|bare", "naming scheme of the parameters", kAsTarget},
    {"max-shard-size", "SIZE", "maximum size of a Hugging Face weight file, such as 5GB",
     kAsTarget},
    kExchangedRow};

// With the optimizer's checkpoint next to the weights, the whole folder is one of transformers.
Result<bool> IsHfFolder(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const bool weights, hf::HasWeights(path, look));
  if (!weights) return false;
  NXDKIT_ASSIGN(const bool more, IsTransformersFolder(path, look));
  return !more;
}

Status CheckHfOptions(const Arguments& given) {
  const std::optional<std::string> size = given.Text("max-shard-size");
  if (size) NXDKIT_TRY(hf::ParseShardSize(*size));
  return OkStatus();
}

}  // namespace

constinit const Kind kHf = {
    .name = "hf",
    .called = "a Hugging Face model",
    .precedence = 3,
    .is_file = IsHfFile,
    .is_folder = IsHfFolder,
    .place = PlaceOfHf,
    .open = OpenHf,
    .bind = BindHf,
    .options = kRows,
    .check_options = CheckHfOptions,
    .is_adapter = LooksLikePeft,
    .bind_adapter = BindPeft,
    .stores_once = true,
    .describe = DescribeHf,
    .add_facts = AddHfFacts,
    .decide = DecideHf,
    .keeps_carried = true,
    .keeps_adapter = true,
};

}  // namespace nxdkit::kinds
