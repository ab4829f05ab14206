#include "trainer/loop/text_files.h"

#include <algorithm>
#include <string_view>

#include "formats/hf/hf.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::trainer {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{256} << 20;
// The files of hf::SideFiles that do not belong to a tokenizer.
constexpr std::string_view kOfModel[] = {"config.json",           "generation_config.json",
                                         "hf_quant_config.json",  "preprocessor_config.json",
                                         "processor_config.json", "quantization_config.json",
                                         "quantize_config.json",  "video_preprocessor_config.json"};

bool IsOfModel(std::string_view name) {
  return std::ranges::find(kOfModel, name) != std::end(kOfModel);
}

Status ReplaceTokenizer(const std::string& from, const std::string& folder) {
  NXDKIT_ASSIGN(const std::vector<std::string> old, hf::SideFiles(folder));
  for (const std::string& name : old)
    if (!IsOfModel(name)) NXDKIT_TRY(RemoveTree(JoinPath(folder, name)));
  NXDKIT_ASSIGN(const std::vector<std::string> fresh, hf::SideFiles(from));
  for (const std::string& name : fresh) {
    if (name == "config.json") continue;
    const std::string to = JoinPath(folder, name);
    NXDKIT_ASSIGN(const bool there, IsThere(to));
    if (IsOfModel(name) && there) continue;
    NXDKIT_ASSIGN(const std::string bytes, ReadSmallFile(JoinPath(from, name), kMaxBytes));
    NXDKIT_TRY(WriteFileAtomic(to, bytes));
  }
  return OkStatus();
}

}  // namespace

Status WriteTextFiles(const TextFiles& files, const std::string& folder) {
  if (!files.tokenizer.empty()) NXDKIT_TRY(ReplaceTokenizer(files.tokenizer, folder));
  if (files.chat_template.empty()) return OkStatus();
  return WriteFileAtomic(JoinPath(folder, "chat_template.jinja"), files.chat_template);
}

}  // namespace nxdkit::trainer
