#include "trainer/config/inherit.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "lib/system/paths.h"
#include "lib/yaml/yaml.h"
#include "trainer/config/inherit_verl.h"
#include "trainer/config/key_table.h"
#include "trainer/config/old_names.h"

namespace nxdkit::trainer {
namespace {

constexpr uint64_t kMaxInheritedBytes = uint64_t{1} << 20;
constexpr const char* kFiles[] = {"experiment_config.json", ".hydra/config.yaml"};
constexpr int kMostSteps = 8;  // from one reference to the next

using Leaves = std::map<std::string, Value>;

void Flatten(const std::string& path, const Value& value, Leaves& leaves) {
  if (value.kind != ValueKind::kMap || value.entries.empty()) {
    leaves.emplace(path, value);
    return;
  }
  for (const ValueEntry& entry : value.entries)
    Flatten(path.empty() ? entry.key : path + "." + entry.key, entry.value, leaves);
}

// The value of "${a.b}" or "${oc.select:a.b,DEFAULT}"; nullopt: unknown.
std::optional<Value> Resolved(const Leaves& leaves, const std::string& of, Value value) {
  std::string path = of;  // the key that `value` is from: the base of relative names
  for (int step = 0; step < kMostSteps; ++step) {
    if (value.kind != ValueKind::kString || !value.text.starts_with("${")) return value;
    if (!value.text.ends_with("}")) return std::nullopt;
    std::string_view inner = std::string_view(value.text).substr(2, value.text.size() - 3);
    std::optional<std::string> otherwise;
    constexpr std::string_view kSelect = "oc.select:";
    if (inner.starts_with(kSelect)) {
      inner.remove_prefix(kSelect.size());
      const size_t comma = inner.find(',');
      if (comma != std::string_view::npos) otherwise = std::string(inner.substr(comma + 1));
      inner = inner.substr(0, comma);
    }
    std::string name(inner);
    if (name.starts_with('.')) name.insert(0, path.substr(0, path.rfind('.')));
    const auto found = leaves.find(name);
    if (found != leaves.end()) {
      value = found->second;
      path = name;
    } else if (otherwise) {
      value = ResolveScalar(*otherwise);
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

// EasyR1 keys that describe the other run and its machines, not the training.
std::string_view WhyNotInherited(std::string_view path) {
  constexpr std::string_view kOwn = "a new run has its own";
  constexpr std::string_view kMachines = "depends on the machines of that run";
  constexpr std::string_view kOfItsCheckpoint =
      "the weights and the tokenizer come from the checkpoint";
  for (const std::string_view key :
       {"trainer.save_checkpoint_path", "trainer.load_checkpoint_path",
        "trainer.find_last_checkpoint", "trainer.experiment_name", "trainer.logger"})
    if (path == key) return kOwn;
  for (const std::string_view key :
       {"trainer.nnodes", "trainer.n_gpus_per_node", "worker.rollout.tensor_parallel_size",
        "worker.actor.ulysses_size", "worker.critic.ulysses_size"})
    if (path == key) return kMachines;
  if (path.ends_with(".model.model_path") || path.ends_with(".model.tokenizer_path"))
    return kOfItsCheckpoint;
  return "";
}

bool IsDefault(const std::string& path, const Value& value) {
  const ConfigKey* key = FindConfigKey(path);
  Config config;
  if (!key) return false;
  const ConfigSlot slot = key->slot(config);
  const std::string before = SlotText(slot);
  return AssignSlot(slot, value).empty() && SlotText(slot) == before;
}

bool IsSet(const Value& value) { return value.kind != ValueKind::kNull; }

class Reader {
 public:
  explicit Reader(std::string file) { out_.file = std::move(file); }

  Result<Inherited> Run(const Value& root) {
    if (root.Find("actor_rollout_ref")) {
      out_.program = "verl";
      Flatten("", root, leaves_);
      TakeVerl();
    } else if (root.Find("worker") && root.Find("algorithm")) {
      out_.program = "EasyR1";
      Flatten("", root, leaves_);
      for (const auto& [path, value] : leaves_) TakeEasyR1(path, value);
    } else {
      return Unsupported("a configuration of neither EasyR1 nor verl").in(out_.file);
    }
    return std::move(out_);
  }

 private:
  void TakeEasyR1(const std::string& path, const Value& value) {
    const std::string_view left = WhyNotInherited(path);
    if (!left.empty() && IsDefault(path, value)) return;
    if (!left.empty()) return Leave(path, value, left);
    if (path.find(".fsdp.") != path.npos || path.find(".offload.") != path.npos) {
      ++out_.others;
      return;
    }
    if (FindConfigKey(path)) return Take(path, path, value);
    const OldName* old = FindOldName(path);
    if (!old || IsDroppable(*old, value)) {
      ++out_.others;
    } else if (old->becomes.empty()) {
      Leave(path, value, old->advice);
    } else {
      for (const std::string& ours : SplitWords(old->becomes)) Take(path, ours, value);
    }
  }

  void TakeVerl() {
    std::vector<VerlKey> rows(VerlKeys().begin(), VerlKeys().end());
    const std::optional<bool> of_loss = IsOn("actor_rollout_ref.actor.use_kl_loss");
    const std::optional<bool> of_reward = IsOn("algorithm.use_kl_in_reward");
    if (!of_loss || !of_reward)
      Leave("actor_rollout_ref.actor.use_kl_loss", ResolveScalar("true"),
            "the file does not show whether there is KL: set algorithm.disable_kl and use_kl_loss");
    else if (*of_loss || *of_reward)
      rows.insert(rows.end(), VerlKlKeys(*of_loss).begin(), VerlKlKeys(*of_loss).end());
    else
      Take("algorithm.use_kl_in_reward", "algorithm.disable_kl", ResolveScalar("true"));
    if (of_loss == true && of_reward == true)
      Leave("algorithm.use_kl_in_reward", ResolveScalar("true"),
            "KL is in the loss or in the reward, and it is in the loss too");
    size_t known = 0;
    for (const VerlKey& row : rows) {
      const auto leaf = leaves_.find(std::string(row.theirs));
      if (leaf == leaves_.end()) continue;
      ++known;
      TakeVerlKey(row, leaf->second);
    }
    out_.others += leaves_.size() - known;
  }

  void TakeVerlKey(const VerlKey& row, const Value& said) {
    const std::string path(row.theirs);
    const std::optional<Value> value = Resolved(leaves_, path, said);
    if (!value) return Leave(path, said, "the value it refers to is not in the file");
    if (!IsSet(*value)) return;
    if (row.ours.empty()) {
      if (!IsHarmless(row, *value)) Leave(path, *value, row.left);
      return;
    }
    Take(path, std::string(row.ours), Translated(row, *value));
  }

  static bool IsHarmless(const VerlKey& row, const Value& value) {
    const Value harmless = ResolveScalar(std::string(row.harmless));
    const auto is_number = [](const Value& one) {
      return one.kind == ValueKind::kInt || one.kind == ValueKind::kDouble;
    };
    if (is_number(value) && is_number(harmless)) return value.number == harmless.number;
    return value.text == row.harmless || ValueText(value) == row.harmless;
  }

  // Values that are spelled differently here.
  static Value Translated(const VerlKey& row, const Value& value) {
    if (row.ours.ends_with("loss_avg_mode")) {
      if (value.text == "token-mean") return ResolveScalar("token");
      if (value.text == "seq-mean-token-mean") return ResolveScalar("seq");
    }
    // -1 means none.
    const bool counts = row.ours.ends_with("lr_warmup_steps");
    if (counts && value.kind == ValueKind::kInt && value.integer < 0) return ResolveScalar("null");
    // A list of files stands for its only file.
    const bool files = row.ours.ends_with("_files");
    if (files && value.kind == ValueKind::kList && value.items.size() == 1) return value.items[0];
    return value;
  }

  // False where the file does not have it; nullopt where it refers to an unknown value.
  std::optional<bool> IsOn(const char* path) const {
    const auto leaf = leaves_.find(path);
    if (leaf == leaves_.end()) return false;
    const std::optional<Value> value = Resolved(leaves_, path, leaf->second);
    if (!value) return std::nullopt;
    return value->kind == ValueKind::kBool && value->boolean;
  }

  void Leave(const std::string& path, const Value& value, std::string_view why) {
    if (IsSet(value)) out_.keys.push_back({path, "", value, std::string(why)});
  }

  void Take(const std::string& path, const std::string& ours, const Value& value) {
    const ConfigKey* key = FindConfigKey(ours);
    NXDKIT_CHECK(key != nullptr);
    if (key->use == KeyUse::kNoEffect) {
      ++out_.others;
      return;
    }
    Config config;
    const ConfigSlot slot = key->slot(config);
    const std::string before = SlotText(slot);
    const std::string wrong = AssignSlot(slot, value);
    if (!wrong.empty()) return Leave(path, value, wrong);
    const std::string text = SlotText(slot);
    if (text == before) {
      ++out_.same;
      return;
    }
    if (key->use == KeyUse::kOnly)
      return Leave(path, value, fmt::format("only {} is supported: {}", key->words, key->text));
    const std::vector<std::string> words = SplitWords(key->words);
    const bool is_word = words.empty() || key->limit == KeyLimit::kDtype ||
                         std::ranges::count(words, value.text) > 0;
    if (!is_word) return Leave(path, value, fmt::format("there are {}", key->words));
    out_.keys.push_back({path, ours, value, ""});
  }

  Inherited out_;
  Leaves leaves_;
};

}  // namespace

Result<std::optional<std::string>> FindInherited(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders)
    for (const char* name : kFiles) {
      std::string path = JoinPath(folder, name);
      NXDKIT_ASSIGN(const bool there, IsThere(path));
      if (there) return std::optional(std::move(path));
    }
  return std::optional<std::string>();
}

Result<Inherited> ReadInherited(const std::string& file) {
  NXDKIT_ASSIGN(const std::string text, ReadSmallFile(file, kMaxInheritedBytes));
  Result<Value> root = ParseYaml(text, {.interpolations = true});
  if (!root.ok()) return std::move(root).error().in(file);
  return Reader(file).Run(*root);
}

std::vector<std::string> InheritedLines(const Inherited& inherited) {
  std::vector<std::string> lines;
  for (const InheritedKey& key : inherited.keys) {
    const std::string value = EscapeControl(ValueText(key.value));
    if (!key.left.empty())
      lines.push_back(fmt::format("left   {}={}: {}", EscapeControl(key.theirs), value, key.left));
    else if (key.theirs == key.ours)
      lines.push_back(fmt::format("taken  {}={}", key.ours, value));
    else
      lines.push_back(
          fmt::format("taken  {}={} (its {})", key.ours, value, EscapeControl(key.theirs)));
  }
  lines.push_back(fmt::format("{}: {} keys have the default value here, {} are {}'s own",
                              EscapeControl(inherited.file), inherited.same, inherited.others,
                              inherited.program));
  return lines;
}

void ApplyInherited(const Inherited& inherited, LoadedConfig& loaded) {
  for (const InheritedKey& one : inherited.keys) {
    if (!one.left.empty()) continue;
    const ConfigKey* key = FindConfigKey(one.ours);
    ConfigSource& source = loaded.sources[static_cast<size_t>(key - ConfigKeys().data())];
    if (source.kind != SourceKind::kDefault) continue;
    NXDKIT_CHECK(AssignSlot(key->slot(loaded.config), one.value).empty());  // see Reader::Take
    const bool of_file = !one.theirs.starts_with("--");
    source = {SourceKind::kMachine,
              {},
              of_file ? fmt::format("{} {}", inherited.file, one.theirs) : one.theirs};
  }
}

}  // namespace nxdkit::trainer
