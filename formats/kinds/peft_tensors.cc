#include "formats/kinds/peft_tensors.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "formats/kinds/peft_names.h"
#include "formats/kinds/unwrap.h"
#include "formats/lora/peft_types.h"
#include "formats/models/view.h"
#include "lib/base/choice.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/json/json.h"

namespace nxdkit::kinds {
namespace {

// Modules that PEFT's save_embedding_layers adds, asked or not.
bool IsEmbeddingOrHead(std::string_view module) {
  constexpr std::string_view kNames[] = {"embed_tokens", "lm_head",         "embed_in",
                                         "embed_out",    "word_embeddings", "wte"};
  return std::ranges::any_of(kNames,
                             [&](std::string_view name) { return lora::EndsIn(module, name); });
}

class Binder {
 public:
  Binder(BoundArtifact& out, const LoraBase& base, nxd::LoraSharing sharing)
      : out_(out), base_(base), config_(out.lora->config), numbering_(base, out, sharing) {
    for (uint32_t i = 0; i < base.params->size(); ++i) index_.emplace((*base.params)[i].name, i);
    if (base.model) AddSpellings(*base.model);
    if (!base.model || !base.model->config.tied) return;
    for (const models::Alias& alias : base.model->config.aliases)
      if (const auto it = index_.find(alias.of); it != index_.end())
        tied_.emplace(alias.name, it->second);
  }

  // PEFT uses the module names in memory, which may be another spelling of the family.
  void AddSpellings(const models::Model& model) {
    for (const std::string& spelling : models::Spellings(*model.config.family)) {
      const auto tensors = models::SpelledTensors(model, spelling, /*with_aliases=*/false);
      if (!tensors.ok()) continue;
      for (const TensorLayout& tensor : *tensors)
        if (tensor.pieces.size() == 1 && std::ranges::is_sorted(tensor.pieces[0].axes) &&
            tensor.shape == model.params[tensor.pieces[0].param].shape)
          index_.emplace(tensor.name, tensor.pieces[0].param);
    }
  }

  Status Run() {
    NXDKIT_TRY(ReadNames());
    NXDKIT_TRY(FindOuter());
    for (const auto& [name, stored] : names_) {
      NXDKIT_TRY(Place(name, *stored).in(stored->storage->path()).on(stored->name));
    }
    for (const auto& [target, pair] : pairs_) {
      NXDKIT_TRY(AddPair(target, pair).in(out_.artifact.files.front().path));
    }
    for (const auto& [target, whole] : wholes_) {
      NXDKIT_TRY(AddWhole(target, whole).in(out_.artifact.files.front().path));
    }
    for (const auto& [target, stored] : rows_) {
      NXDKIT_TRY(AddRows(target, *stored).in(stored->storage->path()).on(stored->name));
    }
    if (left_out_ > 0)
      out_.artifact.warnings.push_back(
          fmt::format("{}: {} {} the base's own and {} left out; the first is {}",
                      out_.artifact.files.front().path, Counted(left_out_, "tensor"),
                      left_out_ == 1 ? "is" : "are", left_out_ == 1 ? "is" : "are",
                      first_left_out_));
    WarnOfIdleKeys(config_.rank_pattern, "rank_pattern");
    WarnOfIdleKeys(config_.alpha_pattern, "alpha_pattern");
    NXDKIT_TRY(CheckTargets());
    return CheckSaved();
  }

 private:
  struct Pair {
    const StoredTensor* a = nullptr;
    const StoredTensor* b = nullptr;
    const StoredTensor* magnitude = nullptr;
    bool embedding = false;

    const StoredTensor* any() const { return a ? a : b ? b : magnitude; }
  };
  // A parameter that is stored whole. The head of a tied base is the same as its embedding.
  struct Whole {
    const StoredTensor* own = nullptr;
    const StoredTensor* as_head = nullptr;
  };

  const LogicalTensor& param(uint32_t target) const { return (*base_.params)[target]; }

  Status ReadNames() {
    std::string adapter;
    for (const StoredTensor& stored : out_.artifact.files.front().tensors) {
      NXDKIT_ASSIGN(LoraName name,
                    LoraNameOf(stored.name).in(stored.storage->path()).on(stored.name));
      if (!adapter.empty() && !name.adapter.empty() && name.adapter != adapter)
        return Unsupported("two adapters are in one file, {} and {}", adapter, name.adapter)
            .in(stored.storage->path())
            .on(stored.name)
            .hint("save each separately (save_pretrained with selected_adapters)");
      if (!name.adapter.empty()) adapter = name.adapter;
      names_.emplace_back(std::move(name), &stored);
    }
    return OkStatus();
  }

  // Finds the wrapper of the trained model.
  Status FindOuter() {
    std::set<std::string_view> targets;
    for (const auto& [name, stored] : names_) targets.insert(name.target);
    const Unwrapping by =
        FindUnwrapping({targets.begin(), targets.end()},
                       [&](std::string_view name) { return Find(name).has_value(); });
    if (!by.changes) return OkStatus();
    NXDKIT_TRY(CheckPeels().in(out_.lora->config_path));
    for (auto& [name, stored] : names_) name.target = by.NameOf(name.target);
    PeelConfig(by);
    out_.artifact.warnings.push_back(
        fmt::format("{}: {}", out_.artifact.files.front().path, by.Text()));
    return OkStatus();
  }

  // Patterns that bind a key to the whole name of the trained model, or compute it, match other
  // modules once the wrapper is removed.
  Status CheckPeels() const {
    const auto check = [](const auto& patterns, const char* key) -> Status {
      for (const auto& [pattern, value] : patterns)
        if (!pattern.is_name() || pattern.key().starts_with('^'))
          return Unsupported("the key {} is of the names before the model's wrapper was taken off",
                             JsonExcerpt(pattern.key()))
              .member(key)
              .hint("write the ends of the modules' names in its place: \"q_proj\"");
      return OkStatus();
    };
    NXDKIT_TRY(check(config_.rank_pattern, "rank_pattern"));
    return check(config_.alpha_pattern, "alpha_pattern");
  }

  // The configuration names modules as the trained model did.
  void PeelConfig(const Unwrapping& by) {
    lora::Config& config = out_.lora->config;
    const auto peel = [&](std::string& name) {
      std::string plain = WithoutWrappers(name);
      if (plain.starts_with(by.outer)) plain.erase(0, by.outer.size());
      if (!plain.empty()) name = std::move(plain);
    };
    if (!config.targets_are_a_pattern) std::ranges::for_each(config.targets, peel);
    if (!config.excluded_is_a_pattern) std::ranges::for_each(config.excluded, peel);
    std::ranges::for_each(config.modules_to_save, peel);
    for (auto& [module, rows] : config.tokens) peel(module);
    const auto peel_all = [&](auto& patterns) {
      for (auto& [pattern, value] : patterns) {
        std::string key = pattern.key();
        if (!pattern.is_name()) continue;
        peel(key);
        if (Result<lora::ModulePattern> peeled = lora::ModulePattern::Compile(key); peeled.ok())
          pattern = *std::move(peeled);
      }
    };
    peel_all(config.rank_pattern);
    peel_all(config.alpha_pattern);
  }

  std::optional<uint32_t> Find(std::string_view name) const {
    const auto it = index_.find(std::string(name));
    if (it != index_.end()) return it->second;
    const auto head = tied_.find(name);
    return head == tied_.end() ? std::nullopt : std::optional(head->second);
  }

  Status Place(const LoraName& name, const StoredTensor& stored) {
    if (name.part == LoraPart::kOriginal) return LeaveOut(stored);
    const std::optional<uint32_t> target = Find(name.target);
    if (!target)
      return Unsupported("the base has no {}; the adapter's tensor for it would be lost",
                         name.target)
          .hint(fmt::format("is {} the adapter's base?", base_.path));
    if (!Info(stored.dtype).floating)
      return Unsupported("dtype {} found; adapters are floating point numbers", Name(stored.dtype));
    if (name.part == LoraPart::kWhole) return PlaceWhole(*target, name, stored);
    if (tied_.contains(name.target))
      return Unsupported(
                 "the adapter changes the head, which is the base's embedding too "
                 "(tie_word_embeddings): merged, it would change both")
          .hint(kUntieBase);
    if (name.part == LoraPart::kTokens) {
      const auto [there, added] = rows_.emplace(*target, &stored);
      return added ? OkStatus() : Corrupt("{} has rows of it too", there->second->name);
    }
    return PlacePart(pairs_[*target], name, stored);
  }

  Status LeaveOut(const StoredTensor& stored) {
    if (left_out_++ == 0) first_left_out_ = stored.name;
    return OkStatus();
  }

  // A key that fits no adapted module has no effect: it is mistyped, or of another adapter.
  template <typename T>
  void WarnOfIdleKeys(const std::vector<std::pair<lora::ModulePattern, T>>& patterns,
                      const char* key) {
    std::vector<std::string> idle;
    for (const auto& row : patterns)
      if (std::ranges::none_of(pairs_, [&](const auto& item) {
            return row.first.Fits(ModuleOf(param(item.first).name));
          }))
        idle.push_back(EscapeControl(row.first.key()));
    if (!idle.empty())
      out_.artifact.warnings.push_back(
          fmt::format("{}: {} names {}, which is not an adapted module", out_.lora->config_path,
                      key, FirstNames(idle)));
  }

  static Status PlacePart(Pair& pair, const LoraName& name, const StoredTensor& stored) {
    const bool magnitude = name.part == LoraPart::kMagnitude;
    const StoredTensor*& place = magnitude                   ? pair.magnitude
                                 : name.part == LoraPart::kA ? pair.a
                                                             : pair.b;
    const StoredTensor* there = pair.a ? pair.a : pair.b;
    if (place || (there && !magnitude && pair.embedding != name.embedding))
      return Corrupt("{} adapts the same parameter too", (place ? place : there)->name);
    place = &stored;
    pair.embedding |= name.embedding;
    return OkStatus();
  }

  Status PlaceWhole(uint32_t target, const LoraName& name, const StoredTensor& stored) {
    const std::string module = name.target.substr(0, name.target.rfind('.'));
    const bool bias = name.target.ends_with(".bias") && config_.bias != lora::Bias::kNone;
    const bool embedding = name.target.ends_with(".weight") && IsEmbeddingOrHead(module);
    // PEFT saves the embedding with its adapter, if the vocabulary may have grown.
    if (!bias && !embedding && !name.beside && !config_.Saves(module))
      return Corrupt(
          "the adapter has a parameter that neither modules_to_save nor bias of "
          "adapter_config.json covers");
    const Shape& expected = param(target).shape;
    if (embedding && stored.shape.size() == 2 && stored.shape[1] == expected.back() &&
        stored.shape[0] != expected.front())
      return Unsupported("{} rows found, the base has {}: its vocabulary was resized in training",
                         stored.shape[0], expected.front())
          .hint("resize the base first (resize_token_embeddings), and merge into that");
    if (stored.shape != expected)
      return Corrupt("shape {} found, {} expected", ShapeText(stored.shape), ShapeText(expected));
    Whole& whole = wholes_[target];
    const StoredTensor*& place = tied_.contains(name.target) ? whole.as_head : whole.own;
    if (place) return Corrupt("{} is also in the adapter under another name", name.target);
    place = &stored;
    if (embedding && !name.beside && !config_.Saves(module) && !config_.ties)
      out_.artifact.warnings.push_back(fmt::format(
          "{}: {} is there whole, though modules_to_save does not name it: it takes the place of "
          "the base's, as in PEFT",
          stored.storage->path(), stored.name));
    return OkStatus();
  }

  // Both names of a tied embedding are one parameter if they have the same contents, or if PEFT
  // would load them into the base's only one.
  Status AddWhole(uint32_t target, const Whole& whole) {
    const bool both = whole.own && whole.as_head;
    if (both) {
      NXDKIT_ASSIGN(const bool equal, HoldSame(*whole.own, *whole.as_head));
      if (!equal)
        return Unsupported(
                   "differs from {}: the adapter has trained two, and the base has one for both "
                   "(tie_word_embeddings)",
                   whole.own->name)
            .on(whole.as_head->name)
            .hint(kUntieBase);
    }
    const StoredTensor& stored = whole.own ? *whole.own : *whole.as_head;
    out_.lora->ties_head |= both || config_.ties || !IsAsked(target, whole);
    Bind(stored, numbering_.AddWhole(target), stored.shape, false);
    return OkStatus();
  }

  // Whether modules_to_save names it, so that PEFT has a copy of its own.
  bool IsAsked(uint32_t target, const Whole& whole) const {
    if (whole.own) return config_.Saves(ModuleOf(param(target).name));
    return std::ranges::any_of(tied_, [&](const auto& head) {
      return head.second == target && config_.Saves(ModuleOf(head.first));
    });
  }

  Status AddRows(uint32_t target, const StoredTensor& stored) {
    const Shape& whole = param(target).shape;
    const std::vector<int64_t>* const rows = config_.TokensOf(ModuleOf(param(target).name));
    if (!rows)
      return Corrupt("rows of a module that trainable_token_indices of {} does not name",
                     out_.lora->config_path);
    const Shape expected = {static_cast<int64_t>(rows->size()), whole.back()};
    if (whole.size() != 2 || stored.shape != expected)
      return Corrupt("shape {} found, {} expected by trainable_token_indices",
                     ShapeText(stored.shape), ShapeText(expected));
    for (const int64_t row : *rows)
      if (row >= whole.front())
        return Unsupported("trainable_token_indices names token {}, the base has {}", row,
                           whole.front())
            .hint("resize the base first (resize_token_embeddings), and merge into that");
    Bind(stored, numbering_.AddRows(target, *rows), expected, false);
    return OkStatus();
  }

  Status CheckShape(const StoredTensor& stored, const Shape& expected, size_t rank_dim,
                    int64_t rank) const {
    const Shape& found = stored.shape;
    if (found.size() == 2 && found[rank_dim] != rank &&
        found[1 - rank_dim] == expected[1 - rank_dim])
      return Corrupt("rank {} found, {} says {}", found[rank_dim], out_.lora->config_path, rank)
          .on(stored.name);
    if (found != expected)
      return Corrupt("shape {} found, {} expected: the base's weight is {}", ShapeText(found),
                     ShapeText(expected), ShapeText(expected))
          .on(stored.name);
    return OkStatus();
  }

  Status AddPair(uint32_t target, const Pair& pair) {
    const LogicalTensor& weight = param(target);
    const std::string module = ModuleOf(weight.name);
    if (!pair.a || !pair.b)
      return Corrupt("{} has no {}: an adapter is a pair", pair.any()->name,
                     pair.a ? "lora_B" : "lora_A")
          .on(module);
    NXDKIT_TRY(CheckMagnitude(pair, weight).on(pair.a->name));
    if (weight.shape.size() != 2)
      return Unsupported("the base's weight is {}; adapters of matrices are supported",
                         ShapeText(weight.shape))
          .on(pair.a->name);
    if (!config_.targets_are_a_pattern && !config_.excluded_is_a_pattern && !config_.Names(module))
      return Corrupt(
                 "an adapter of a module that adapter_config.json does not name (target_modules, "
                 "exclude_modules, layers_to_transform)")
          .on(pair.a->name);
    const int64_t rank = config_.RankOf(module);
    const int64_t out = weight.shape[0];
    const int64_t in = weight.shape[1];
    // For an embedding A and B are transposed: A [rank, vocabulary], B [hidden, rank].
    if (pair.embedding) {
      NXDKIT_TRY(CheckShape(*pair.a, {rank, out}, 0, rank));
      NXDKIT_TRY(CheckShape(*pair.b, {in, rank}, 1, rank));
    } else {
      NXDKIT_TRY(CheckShape(*pair.a, {rank, in}, 0, rank));
      NXDKIT_TRY(CheckShape(*pair.b, {out, rank}, 1, rank));
    }
    NXDKIT_TRY(numbering_.AddPair(target));
    const nxd::LoraPair& numbers = *out_.lora->pairs[target];
    Bind(pair.embedding ? *pair.b : *pair.a, numbers.a, {rank, in}, pair.embedding);
    Bind(pair.embedding ? *pair.a : *pair.b, numbers.b, {out, rank}, pair.embedding);
    if (pair.magnitude)
      Bind(*pair.magnitude, numbering_.AddMagnitude(target), pair.magnitude->shape, false);
    return OkStatus();
  }

  Status CheckMagnitude(const Pair& pair, const LogicalTensor& weight) const {
    if (!pair.magnitude && !config_.dora) return OkStatus();
    if (!config_.dora)
      return Corrupt("a magnitude vector of DoRA beside it, and {} does not say use_dora",
                     out_.lora->config_path);
    if (!pair.magnitude)
      return Corrupt("{} says use_dora, but there is no lora_magnitude_vector beside it",
                     out_.lora->config_path);
    if (pair.embedding)
      return Unsupported("DoRA of an embedding, which scales its columns")
          .member("use_dora")
          .hint(lora::kMergeWithPeft);
    const int64_t rows = weight.shape.front();
    const Shape& found = pair.magnitude->shape;
    if (found == Shape{rows}) return OkStatus();
    return Corrupt("a magnitude vector of shape {}, {} expected", ShapeText(found),
                   ShapeText({rows}));
  }

  void Bind(const StoredTensor& stored, uint32_t number, const Shape& shape, bool transposed) {
    TensorLayout tensor = WholeTensor(stored.name, 0, number, shape);
    if (transposed) TransposeStored(tensor);
    out_.bound.Add(std::move(tensor), stored);
  }

  // A module that the configuration adapts and the file does not have: the file was cut short, or
  // is another adapter's.
  Status CheckTargets() {
    if (config_.targets_are_a_pattern || config_.excluded_is_a_pattern) return OkStatus();
    for (uint32_t i = 0; i < base_.params->size(); ++i) {
      const std::string module = ModuleOf(param(i).name);
      if (module.empty() || param(i).shape.size() != 2 || pairs_.contains(i)) continue;
      if (!config_.Names(module) || config_.Saves(module)) continue;
      return Corrupt("{} names the module, but the adapter has no lora_A and lora_B for it",
                     out_.lora->config_path)
          .in(out_.artifact.files.front().path)
          .on(module);
    }
    std::string missing;
    for (const std::string& name : config_.targets)
      if (std::ranges::none_of(*base_.params, [&](const LogicalTensor& weight) {
            return lora::EndsIn(ModuleOf(weight.name), name);
          }))
        missing += (missing.empty() ? "" : ", ") + name;
    if (!missing.empty())
      out_.artifact.warnings.push_back(
          fmt::format("{}: target_modules names {}, which the base does not have",
                      out_.lora->config_path, missing));
    return OkStatus();
  }

  // The same for modules that are saved whole.
  Status CheckSaved() {
    for (const std::string& name : config_.modules_to_save) {
      const bool found = std::ranges::any_of(names_, [&](const auto& item) {
        const std::string& target = item.first.target;
        return item.first.part == LoraPart::kWhole &&
               lora::IsWithin(target.substr(0, target.rfind('.')), name);
      });
      if (found) continue;
      // PEFT lists every head that a model for a task might have: "classifier", "score".
      const bool in_base = std::ranges::any_of(*base_.params, [&](const LogicalTensor& weight) {
        return lora::IsWithin(weight.name.substr(0, weight.name.rfind('.')), name);
      });
      if (!in_base && !tied_.contains(name + ".weight"))
        out_.artifact.warnings.push_back(
            fmt::format("{}: modules_to_save names {}, which the base does not have",
                        out_.lora->config_path, name));
      else
        return Corrupt("modules_to_save of {} names {}, but the adapter has no such parameter",
                       out_.lora->config_path, name)
            .in(out_.artifact.files.front().path);
    }
    if (config_.bias == lora::Bias::kNone) return OkStatus();
    for (uint32_t i = 0; i < base_.params->size(); ++i) {
      if (!param(i).name.ends_with(".bias") || wholes_.contains(i)) continue;
      const auto weight = index_.find(param(i).name.substr(0, param(i).name.size() - 4) + "weight");
      const bool adapted = weight != index_.end() && pairs_.contains(weight->second);
      if (config_.bias == lora::Bias::kLoraOnly && !adapted) continue;
      return Corrupt("bias is \"{}\", but the adapter does not have this one",
                     lora::BiasName(config_.bias))
          .in(out_.artifact.files.front().path)
          .on(param(i).name);
    }
    return OkStatus();
  }

  BoundArtifact& out_;
  const LoraBase& base_;
  const lora::Config& config_;
  LoraNumbering numbering_;
  std::unordered_map<std::string, uint32_t> index_;    // of the base's parameters
  std::map<std::string, uint32_t, std::less<>> tied_;  // their other names: the head's
  std::vector<std::pair<LoraName, const StoredTensor*>> names_;
  std::map<uint32_t, Pair> pairs_;  // by target
  std::map<uint32_t, Whole> wholes_;
  std::map<uint32_t, const StoredTensor*> rows_;
  size_t left_out_ = 0;
  std::string first_left_out_;
};

}  // namespace

Result<bool> HoldSame(const StoredTensor& a, const StoredTensor& b) {
  if (a.dtype != b.dtype || a.shape != b.shape || a.strides != b.strides) return false;
  if (!IsPacked(a) || !IsPacked(b))
    return Unsupported("the tensor is not stored in one piece").on(a.name);
  constexpr uint64_t kPart = 1 << 20;
  NXDKIT_ASSIGN(const uint64_t bytes, PackedBytes(a.dtype, a.shape));
  std::vector<std::byte> of_a(std::min(bytes, kPart)), of_b(of_a.size());
  for (uint64_t at = 0; at < bytes; at += of_a.size()) {
    const size_t count = static_cast<size_t>(std::min<uint64_t>(of_a.size(), bytes - at));
    const auto part = [&](std::vector<std::byte>& all) { return std::span(all).first(count); };
    NXDKIT_TRY(a.storage->ReadAt(a.offset + at, part(of_a)));
    NXDKIT_TRY(b.storage->ReadAt(b.offset + at, part(of_b)));
    if (!std::ranges::equal(part(of_a), part(of_b))) return false;
  }
  return true;
}

Status BindPeftTensors(BoundArtifact& out, const LoraBase& base, nxd::LoraSharing sharing) {
  return Binder(out, base, sharing).Run();
}

}  // namespace nxdkit::kinds
