#include "formats/models/family.h"

#include <algorithm>
#include <span>

#include "formats/models/built_in.h"
#include "formats/models/table_reader.h"
#include "lib/base/errors.h"
#include "lib/system/file.h"
#include "lib/system/look.h"
#include "lib/system/paths.h"
#include "lib/system/process.h"

namespace nxdkit::models {
namespace {

constexpr std::string_view kSuffix = ".family";
constexpr size_t kMaxFamilies = 1000;  // in a user's folder

Result<FamilyHead> HeadOf(std::string_view text) {
  FamilyHead head;
  NXDKIT_ASSIGN(const std::vector<Statement> statements, ReadStatements(text));
  for (const Statement& statement : statements) {
    const std::string_view word = statement.words[0].text;
    std::vector<std::string>* to = word == "type"      ? &head.types
                                   : word == "match"   ? &head.architectures
                                   : word == "example" ? &head.examples
                                                       : nullptr;
    for (const Word& one : std::span(statement.words).subspan(1)) {
      if (word == "family" && head.name.empty()) head.name = one.text;
      if (to) to->emplace_back(one.text);
    }
  }
  return head;
}

// The head of a built-in text, which ends before the first let.
FamilyHead BuiltInHead(std::string_view text) {
  Result<FamilyHead> head = HeadOf(text.substr(0, text.find("\nlet ")));
  NXDKIT_CHECK(head.ok());
  return *std::move(head);
}

bool Has(const std::vector<std::string>& list, const std::string& word) {
  return !word.empty() && std::ranges::count(list, word) > 0;
}

// A family that names types is recognised by them, whatever heads the model has; without a type,
// and in other families, the architecture decides.
bool Fits(const FamilyHead& head, const std::string& model_type, const std::string& architecture) {
  if (!head.types.empty() && !model_type.empty()) return Has(head.types, model_type);
  return Has(head.architectures, architecture);
}

Result<std::shared_ptr<const Family>> Parsed(std::string_view text, const std::string& origin) {
  NXDKIT_ASSIGN(Family family, ParseFamily(text, origin));
  return std::make_shared<const Family>(std::move(family));
}

// nullptr if none in the folder matches.
Result<std::shared_ptr<const Family>> FindInFolder(const std::string& folder,
                                                   const std::string& model_type,
                                                   const std::string& architecture) {
  NXDKIT_ASSIGN(std::vector<std::string> names, ListFolder(folder));
  std::erase_if(names, [](const std::string& name) { return !name.ends_with(kSuffix); });
  std::ranges::sort(names);
  if (names.size() > kMaxFamilies)
    return OverLimit("{} families are over the limit of {}", names.size(), kMaxFamilies).in(folder);
  for (const std::string& name : names) {
    const std::string path = JoinPath(folder, name);
    NXDKIT_ASSIGN(const std::string text, ReadSmallFile(path, kMaxFamilyBytes));
    NXDKIT_ASSIGN(const FamilyHead head, HeadOf(text).in(path));
    if (Fits(head, model_type, architecture)) return Parsed(text, path);
  }
  return std::shared_ptr<const Family>();
}

}  // namespace

std::vector<FamilyHead> BuiltInFamilies() {
  std::vector<FamilyHead> heads;
  for (const auto& [text, sha256] : kBuiltInFamilies) heads.push_back(BuiltInHead(text));
  return heads;
}

std::string_view BuiltInFamilyText(std::string_view name) {
  for (const auto& [text, sha256] : kBuiltInFamilies)
    if (BuiltInHead(text).name == name) return text;
  return "";
}

Result<std::shared_ptr<const Family>> FindFamily(const std::string& model_type,
                                                 const std::string& architecture,
                                                 const std::string& file) {
  if (!file.empty()) {
    NXDKIT_ASSIGN(const std::string text, ReadSmallFile(file, kMaxFamilyBytes));
    return Parsed(text, file);
  }
  if (const std::string folder = EnvironmentValue("NXDKIT_FAMILIES"); !folder.empty()) {
    NXDKIT_ASSIGN(std::shared_ptr<const Family> found,
                  FindInFolder(folder, model_type, architecture));
    if (found) return found;
  }
  for (const auto& [text, sha256] : kBuiltInFamilies)
    if (Fits(BuiltInHead(text), model_type, architecture)) return Parsed(text, "");
  return std::shared_ptr<const Family>();
}

}  // namespace nxdkit::models
