#include "tests/tools/json_schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>

#include "tests/tools/process.h"

namespace nxdkit::test {
namespace {

bool HasType(const Json& value, const std::string& type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "string") return value.is_string();
  if (type == "array") return value.is_array();
  return type == "object" && value.is_object();
}

bool HasTypeOf(const Json& value, const Json& types) {
  if (types.is_string()) return HasType(value, types.get<std::string>());
  return std::ranges::any_of(
      types, [&](const Json& type) { return HasType(value, type.get<std::string>()); });
}

std::string Below(const std::string& path, const std::string& key) {
  return path.empty() ? key : path + "." + key;
}

// Keywords without an effect on validation.
bool IsAnnotation(const std::string& keyword) {
  static const std::set<std::string> kNames = {"$schema", "$id", "title", "description", "$defs"};
  return kNames.contains(keyword);
}

bool IsKnown(const std::string& keyword) {
  static const std::set<std::string> kNames = {"$ref",
                                               "type",
                                               "const",
                                               "enum",
                                               "minimum",
                                               "pattern",
                                               "properties",
                                               "required",
                                               "items",
                                               "allOf",
                                               "oneOf",
                                               "additionalProperties",
                                               "unevaluatedProperties",
                                               "dependentRequired"};
  return kNames.contains(keyword) || IsAnnotation(keyword);
}

}  // namespace

Schemas::Schemas(const std::string& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    Result<Json> json = ParseJson(ReadFile(entry.path().string()));
    if (!json.ok()) ADD_FAILURE() << entry.path() << ": " << json.error().ToString();
    if (json.ok()) files_[entry.path().filename().string()] = *std::move(json);
  }
}

std::vector<std::string> Schemas::Faults(const std::string& name, const Json& value) const {
  if (!Has(name)) return {"no schema " + name};
  return Check(file(name), value, {name, ""}).faults;
}

const Json& Schemas::Resolve(const std::string& ref, Place& place) const {
  const size_t hash = ref.find('#');
  if (hash > 0) place.file = ref.substr(0, hash);
  return file(place.file).at(Json::json_pointer(ref.substr(hash + 1)));
}

Schemas::Outcome Schemas::Check(const Json& schema, const Json& value, const Place& place) const {
  Outcome out;
  const auto merge = [&](const Outcome& part) {
    out.faults.insert(out.faults.end(), part.faults.begin(), part.faults.end());
    out.evaluated.insert(part.evaluated.begin(), part.evaluated.end());
  };
  for (const auto& [keyword, argument] : schema.items())
    if (!IsKnown(keyword)) out.faults.push_back(place.path + ": keyword " + keyword);
  if (schema.contains("$ref")) {
    Place there = place;
    const Json& other = Resolve(schema["$ref"].get<std::string>(), there);
    merge(Check(other, value, there));
  }
  CheckValue(schema, value, place, out);
  if (schema.contains("allOf"))
    for (const Json& part : schema["allOf"]) merge(Check(part, value, place));
  if (schema.contains("oneOf")) CheckOneOf(schema["oneOf"], value, place, out);
  if (value.is_object()) CheckObject(schema, value, place, out);
  if (value.is_array() && schema.contains("items"))
    for (const Json& item : value)
      merge({Check(schema["items"], item, {place.file, place.path + "[]"}).faults, {}});
  return out;
}

void Schemas::CheckValue(const Json& schema, const Json& value, const Place& place,
                         Outcome& out) const {
  const auto fault = [&](const std::string& text) {
    out.faults.push_back(place.path + ": found " + JsonExcerpt(value) + ", " + text);
  };
  if (schema.contains("type") && !HasTypeOf(value, schema["type"]))
    fault("the type is " + schema["type"].dump());
  if (schema.contains("const") && value != schema["const"])
    fault("expected " + schema["const"].dump());
  if (schema.contains("enum") && std::ranges::find(schema["enum"], value) == schema["enum"].end())
    fault("expected one of " + schema["enum"].dump());
  if (schema.contains("minimum") && value.is_number() &&
      value.get<double>() < schema["minimum"].get<double>())
    fault("the least is " + schema["minimum"].dump());
  if (schema.contains("pattern") && value.is_string() &&
      !std::regex_search(value.get<std::string>(),
                         std::regex(schema["pattern"].get<std::string>())))
    fault("the pattern is " + schema["pattern"].dump());
}

void Schemas::CheckObject(const Json& schema, const Json& value, const Place& place,
                          Outcome& out) const {
  const Json none = Json::object();
  const Json& properties = schema.contains("properties") ? schema["properties"] : none;
  for (const auto& [key, part] : properties.items()) {
    if (!value.contains(key)) continue;
    out.evaluated.insert(key);
    const Outcome inner = Check(part, value[key], {place.file, Below(place.path, key)});
    out.faults.insert(out.faults.end(), inner.faults.begin(), inner.faults.end());
  }
  const auto require = [&](const Json& keys) {
    for (const Json& key : keys)
      if (!value.contains(key.get<std::string>()))
        out.faults.push_back(Below(place.path, key.get<std::string>()) + ": missing");
  };
  if (schema.contains("required")) require(schema["required"]);
  if (schema.contains("dependentRequired"))
    for (const auto& [key, others] : schema["dependentRequired"].items())
      if (value.contains(key)) require(others);
  for (const char* keyword : {"additionalProperties", "unevaluatedProperties"}) {
    if (!schema.contains(keyword)) continue;
    for (const auto& [key, item] : value.items()) {
      const bool spoken = std::string(keyword) == "additionalProperties"
                              ? properties.contains(key)
                              : out.evaluated.contains(key);
      if (spoken) continue;
      if (schema[keyword] == Json(false)) {
        out.faults.push_back(Below(place.path, key) + ": not known");
        continue;
      }
      const Outcome inner = Check(schema[keyword], item, {place.file, Below(place.path, key)});
      out.faults.insert(out.faults.end(), inner.faults.begin(), inner.faults.end());
    }
  }
}

void Schemas::CheckOneOf(const Json& variants, const Json& value, const Place& place,
                         Outcome& out) const {
  std::vector<Outcome> outcomes;
  for (const Json& variant : variants) outcomes.push_back(Check(variant, value, place));
  const auto fits = [](const Outcome& outcome) { return outcome.faults.empty(); };
  const auto count = std::ranges::count_if(outcomes, fits);
  if (count > 1) out.faults.push_back(place.path + ": several variants fit");
  // The one with the fewest faults is reported as the intended one.
  const auto nearest = std::ranges::min_element(
      outcomes, {}, [](const Outcome& outcome) { return outcome.faults.size(); });
  out.faults.insert(out.faults.end(), nearest->faults.begin(), nearest->faults.end());
  out.evaluated.insert(nearest->evaluated.begin(), nearest->evaluated.end());
}

std::set<std::string> Schemas::Paths(const std::string& name) const {
  std::set<std::string> paths;
  AddPaths(file(name), {name, ""}, paths);
  return paths;
}

void Schemas::AddPaths(const Json& schema, const Place& place, std::set<std::string>& paths) const {
  if (schema.contains("$ref")) {
    Place there = place;
    const Json& other = Resolve(schema["$ref"].get<std::string>(), there);
    AddPaths(other, there, paths);
  }
  for (const char* keyword : {"allOf", "oneOf"})
    if (schema.contains(keyword))
      for (const Json& part : schema[keyword]) AddPaths(part, place, paths);
  if (schema.contains("properties"))
    for (const auto& [key, part] : schema["properties"].items()) {
      const std::string path = Below(place.path, key);
      paths.insert(path);
      AddPaths(part, {place.file, path}, paths);
    }
  if (schema.contains("items")) AddPaths(schema["items"], {place.file, place.path + "[]"}, paths);
}

const Schemas& SourceSchemas() {
  static const Schemas schemas(NXDKIT_SOURCE_DIR "/tools/schemas");
  return schemas;
}

}  // namespace nxdkit::test
