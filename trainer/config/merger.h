// PRIVATE to trainer/config. Merges a file and overrides into a Config, key by key.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/config/key_table.h"
#include "trainer/config/load.h"

namespace nxdkit::trainer {

std::string_view ParentKey(std::string_view path);  // "a.b.c" -> "a.b"; "a" -> ""
std::string_view LastKey(std::string_view path);    // "a.b.c" -> "c"

// The value set under one key; "" is the whole file.
struct Said {
  std::string path;
  Value value;
  Place place;
  std::string override_text;  // "": set by the file
};

class Merger {
 public:
  explicit Merger(LoadedConfig& loaded) : loaded_(loaded) {}

  std::vector<ConfigProblem>& problems() { return problems_; }

  void Apply(const Said& said);
  // The value is invalid: this adds a problem, and the value is not applied.
  void Refuse(const Said& said, std::string message, std::string fix = "");
  // After everything is applied: takes the values of older names, unless today's are set.
  void Finish();

 private:
  void ApplyAt(const std::string& path, const Value& value, const Place& where);
  void Set(const ConfigKey& key, const Value& value, const Place& where);
  void Unknown(const std::string& path, const Value& value, const Place& where);
  bool SetInOpenMap(const std::string& path, const Value& value, const Place& where);
  void Problem(const std::string& path, const Place& where, std::string message,
               std::string fix = "");
  void FoldUnknown();

  void TakeOld(const Said& said);
  bool TakeAs(const Said& said, const ConfigKey& key, const Value& value);
  void CheckDerived(const Said& said);
  void NoteFirstRelease();
  void TakeRewardName(const Said& said);
  void TakeKlLoss();
  void TakeToday(const Said& said, std::string_view key);
  void TakeKlOfLoss(const Said& first, const std::optional<Said>& use,
                    const std::optional<Said>& coef, const std::optional<Said>& type);
  void TakeKlOfReward(std::string_view key, const std::optional<Said>& said, const Value& standard,
                      const Said& first);
  std::optional<Said> TakeOut(std::string_view path);
  bool IsOn(std::string_view key);

  LoadedConfig& loaded_;
  std::string override_;  // the override being applied; "": the file
  std::vector<ConfigProblem> problems_;
  std::vector<size_t> unknown_;       // those problems that are keys without a similar name
  std::vector<std::string> refused_;  // keys with invalid values
  std::vector<Said> old_;             // keys that are no longer keys today, for Finish
  std::vector<std::string> taken_, gone_;
};

}  // namespace nxdkit::trainer
