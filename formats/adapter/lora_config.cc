#include "formats/adapter/lora_config.h"

#include "formats/lora/read_config.h"
#include "formats/models/model.h"
#include "formats/torch/archive.h"
#include "lib/base/errors.h"
#include "lib/json/json.h"
#include "lib/system/broken_download.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::adapter {
namespace {

constexpr int kMaxDepth = 8;
constexpr size_t kMaxItems = 1'000'000;  // of all containers together: a pickle may share them

using torch::PickleValue;

// Converts a plain value of a pickle. kUnsupported for values that JSON cannot represent.
class ToJson {
 public:
  Result<Json> Convert(const PickleValue& value, int depth = 0) {
    if (depth > kMaxDepth || ++items_ > kMaxItems)
      return Unsupported("more than {} values, or deeper than {}", kMaxItems, kMaxDepth);
    if (std::holds_alternative<PickleValue::None>(value.value)) return Json();
    if (const bool* flag = std::get_if<bool>(&value.value)) return Json(*flag);
    if (const int64_t* number = value.integer()) return Json(*number);
    if (const double* number = std::get_if<double>(&value.value)) return Json(*number);
    if (const std::string* text = value.string()) return Json(*text);
    if (value.dict()) return Object(*value.dict(), depth);
    const torch::PickleList* items = value.list();
    if (const auto* set = std::get_if<PickleValue::Set>(&value.value)) items = set->items.get();
    if (items) return List(*items, depth);
    return Unsupported("a value that is not plain data");
  }

 private:
  Result<Json> Object(const torch::PickleDict& dict, int depth) {
    Json json = Json::object();
    for (const auto& [key, item] : dict) {
      if (!key.string()) return Unsupported("a key that is not a string");
      NXDKIT_ASSIGN(json[*key.string()], Convert(item, depth + 1).member(*key.string()));
    }
    return json;
  }

  Result<Json> List(const torch::PickleList& items, int depth) {
    Json json = Json::array();
    for (const PickleValue& item : items) {
      NXDKIT_ASSIGN(Json converted, Convert(item, depth + 1));
      json.push_back(std::move(converted));
    }
    return json;
  }

  size_t items_ = 0;
};

PickleValue FromJson(const Json& json) {
  if (json.is_boolean()) return {json.get<bool>()};
  if (json.is_number_integer()) return {json.get<int64_t>()};
  if (json.is_number()) return {json.get<double>()};
  if (json.is_string()) return {json.get<std::string>()};
  if (json.is_array()) {
    torch::PickleList items;
    for (const Json& item : json) items.push_back(FromJson(item));
    return PickleValue::MakeList(std::move(items));
  }
  if (!json.is_object()) return {PickleValue::None{}};
  torch::PickleDict items;
  for (const auto& [key, item] : json.items()) items.push_back({{key}, FromJson(item)});
  return PickleValue::MakeDict(std::move(items));
}

}  // namespace

Result<LoraConfigFile> FindLoraConfig(const std::string& archive,
                                      const std::vector<std::string>& folders) {
  if (!archive.empty()) {
    NXDKIT_ASSIGN(const torch::Archive read, torch::ReadArchive(archive));
    if (const PickleValue* value = read.root.Find(kLoraConfigKey)) {
      NXDKIT_ASSIGN(const Json json, ToJson().Convert(*value).in(archive).member(kLoraConfigKey));
      NXDKIT_ASSIGN(lora::Config config, lora::ParseConfig(DumpPython(json), archive));
      return LoraConfigFile{std::move(config), archive};
    }
  }
  std::string looked;
  for (const std::string& folder : folders) {
    const std::string path = JoinPath(folder, kLoraConfigFile);
    looked += (looked.empty() ? "" : ", ") + path;
    NXDKIT_ASSIGN(const bool there, IsFile(path));
    if (!there) continue;
    NXDKIT_ASSIGN(const std::string text, ReadSmallFile(path, models::kMaxConfigBytes));
    NXDKIT_ASSIGN(lora::Config config, OrBrokenDownload(lora::ParseConfig(text, path), path));
    return LoraConfigFile{std::move(config), path};
  }
  return NotFound("no configuration of the adapter, which says its rank and scale: looked for {}{}",
                  looked, archive.empty() ? "" : " and lora_config in the archive")
      .in(archive.empty() ? folders.front() : archive);
}

torch::PickleValue PickleOfJson(const std::string& text) {
  const Result<Json> json = ParseJson(text);
  NXDKIT_CHECK(json.ok());  // our own text
  return FromJson(*json);
}

}  // namespace nxdkit::adapter
