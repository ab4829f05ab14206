#include "formats/megatron/find.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/json/json.h"
#include "lib/json/json_parse.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::megatron {
namespace {

constexpr uint64_t kMaxJson = 16 << 20;
constexpr uint64_t kMaxTracker = 4096;
constexpr char kMetadataJson[] = "metadata.json";
constexpr char kContents[] = "ckpt_contents.json";
constexpr char kTracker[] = "latest_checkpointed_iteration.txt";
constexpr char kDistFolder[] = "dist_ckpt";
constexpr char kHuggingFace[] = "huggingface";

// The state of a folder, by the names in it.
enum class Form : uint8_t { kNone, kWhole, kUnfinished, kOther };

// "torch_dist" of metadata.json; "" where there is none, or it has no backend.
Result<std::string> BackendOf(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const bool there, look.HasFile(path, kMetadataJson));
  if (!there) return std::string();
  const Result<Json> json = ReadJsonFile(JoinPath(path, kMetadataJson), kMaxJson);
  if (!json.ok() && json.error().code() == Errc::kIo) return json.error();
  if (!json.ok()) return std::string();
  const Json* backend = JsonFind(*json, "sharded_backend");
  return backend && backend->is_string() ? backend->get<std::string>() : std::string();
}

// Whether there is a folder for each rank; files with such names are DeepSpeed's.
Result<bool> IsOldForm(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListIfThere(path));
  for (const std::string& name : names) {
    if (!name.starts_with("mp_rank_")) continue;
    NXDKIT_ASSIGN(const bool folder, look.IsFolder(JoinPath(path, name)));
    if (folder) return true;
  }
  return false;
}

Result<Form> FormOf(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const std::string backend, BackendOf(path, look));
  if (!backend.empty()) return backend == "torch_dist" ? Form::kWhole : Form::kOther;
  NXDKIT_ASSIGN(const bool metadata, look.HasFile(path, ".metadata"));
  NXDKIT_ASSIGN(const bool common, look.HasFile(path, "common.pt"));
  if (metadata || common) return Form::kUnfinished;
  NXDKIT_ASSIGN(const bool old, IsOldForm(path, look));
  return old ? Form::kOther : Form::kNone;
}

// Why a folder of another form is not read.
Error Refusal(const std::string& path, const Looker& look) {
  const Result<std::string> backend = BackendOf(path, look);
  if (!backend.ok()) return backend.error();
  if (backend->empty())
    return Unsupported("Megatron's old form \"torch\": a pickle of each rank")
        .in(path)
        .hint("Megatron-LM writes the other one: --ckpt-convert-format torch_dist");
  return Unsupported("Megatron's form \"{}\", expected torch_dist", EscapeControl(*backend))
      .in(path)
      .hint("Megatron-LM writes the other one: --ckpt-convert-format torch_dist");
}

Error Unfinished(const std::string& path) {
  return Corrupt("there is no metadata.json: the save was not completed")
      .in(path)
      .hint("Megatron writes it last; take an earlier iteration");
}

// An iteration's folder: "iter_0000020", "step_20", "release".
struct Iteration {
  std::string name;
  std::optional<int64_t> number;  // nullopt: "release"
};

std::optional<Iteration> IterationOf(const std::string& name) {
  if (name == "release") return Iteration{name, std::nullopt};
  for (const std::string_view begin : {"iter_", "step_"})
    if (name.starts_with(begin))
      if (const auto number = ParseNumber<int64_t>(std::string_view(name).substr(begin.size()));
          number && *number >= 0)
        return Iteration{name, number};
  return std::nullopt;
}

// The folder in a NeMo-RL step that contains iterations; otherwise the folder itself.
Result<std::string> WeightsIn(const std::string& path, const Looker& look) {
  for (const char* below : {"policy/weights", "weights", "policy"}) {
    std::string folder = JoinPath(path, below);
    NXDKIT_ASSIGN(const bool there, look.IsFolder(folder));
    if (there) return folder;
  }
  return path;
}

// An iteration in a folder, and its form.
struct Listed {
  Iteration iteration;
  Form form = Form::kNone;
};

Result<Form> FormBelow(const std::string& path, const Looker& look);

Result<std::vector<Listed>> IterationsIn(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListIfThere(path));
  std::vector<Listed> out;
  for (const std::string& name : names) {
    const auto iteration = IterationOf(name);
    if (!iteration) continue;
    NXDKIT_ASSIGN(const Form form, FormBelow(JoinPath(path, name), look));
    if (form != Form::kNone) out.push_back({*iteration, form});
  }
  std::ranges::stable_sort(out, {}, [](const Listed& each) { return each.iteration.number; });
  return out;
}

// The form of an iteration's folder, or of the one inside a NeMo-RL step.
Result<Form> FormBelow(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const Form form, FormOf(path, look));
  if (form != Form::kNone) return form;
  NXDKIT_ASSIGN(const std::string weights, WeightsIn(path, look));
  if (weights == path) return Form::kNone;
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListIfThere(weights));
  for (const std::string& name : names) {
    if (!IterationOf(name)) continue;
    NXDKIT_ASSIGN(const Form inner, FormOf(JoinPath(weights, name), look));
    if (inner != Form::kNone) return inner;
  }
  return Form::kNone;
}

// The text of the tracker; "" where there is none.
Result<std::string> TrackerOf(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const bool there, look.HasFile(path, kTracker));
  if (!there) return std::string();
  NXDKIT_ASSIGN(std::string text, ReadSmallFile(JoinPath(path, kTracker), kMaxTracker));
  text.resize(text.find_last_not_of(" \r\n") + 1);
  return text;
}

bool IsNamed(const Iteration& iteration, const std::string& tag) {
  if (iteration.name == tag) return true;
  const auto number = ParseNumber<int64_t>(tag);
  return number && iteration.number == number;
}

std::string NamesOf(const std::vector<Listed>& listed) {
  std::vector<std::string> names;
  for (auto each = listed.rbegin(); each != listed.rend(); ++each)
    names.push_back(each->iteration.name);
  return FirstNames(names, 5);
}

class Finder {
 public:
  Finder(const std::string& path, const Looker& look) : look_(look) { out_.root = path; }

  Result<Found> Run(const std::optional<std::string>& tag) {
    const std::string& path = out_.root;
    NXDKIT_ASSIGN(const Form form, FormOf(path, look_));
    if (form == Form::kOther) return Refusal(path, look_);
    if (form != Form::kNone) {
      NXDKIT_TRY(NoTag(tag));
      if (form == Form::kUnfinished) NXDKIT_TRY(Doubt(path));
      return Take(path, "Megatron-LM");
    }
    NXDKIT_ASSIGN(const bool contents, look_.HasFile(path, kContents));
    NXDKIT_ASSIGN(const bool old, look_.IsFolder(JoinPath(path, kDistFolder)));
    if (contents || old) {
      NXDKIT_TRY(NoTag(tag));
      return contents ? FromContents() : FromVerl();
    }
    return FromIterations(path, tag);
  }

 private:
  Status NoTag(const std::optional<std::string>& tag) const {
    if (!tag) return OkStatus();
    return BadUsage("--tag {} is asked for, and this is one checkpoint itself", EscapeControl(*tag))
        .in(out_.root);
  }

  // The warning for a user who named such a folder: its contents are read.
  Status Doubt(const std::string& path) {
    out_.warnings.push_back(Unfinished(path).ToString());
    return OkStatus();
  }

  Result<Found> Take(const std::string& folder, const char* layout) {
    out_.model = out_.optimizer = folder;
    out_.layout = layout;
    for (const std::string& each :
         {folder, ParentPath(folder), JoinPath(ParentPath(folder), kHuggingFace),
          JoinPath(ParentPath(folder), "hf"), ParentPath(ParentPath(folder))})
      out_.config_folders.push_back(each);
    return std::move(out_);
  }

  Result<Found> FromVerl() {
    const std::string folder = JoinPath(out_.root, kDistFolder);
    NXDKIT_ASSIGN(const Form form, FormOf(folder, look_));
    if (form == Form::kOther) return Refusal(folder, look_);
    if (form == Form::kNone)
      return NotFound("there is no distributed checkpoint in {}", kDistFolder).in(out_.root);
    if (form == Form::kUnfinished) NXDKIT_TRY(Doubt(folder));
    out_.config_folders.push_back(JoinPath(out_.root, kHuggingFace));
    return Take(folder, "verl");
  }

  // verl's list of what it saved, and where.
  Result<Found> FromContents() {
    const std::string file = JoinPath(out_.root, kContents);
    NXDKIT_ASSIGN(const Json json, ReadJsonFile(file, kMaxJson));
    const Json* contents = JsonFind(json, "contents");
    if (!contents || !contents->is_object())
      return Corrupt("found no list of contents").in(file).member("contents");
    NXDKIT_ASSIGN(out_.model, PathOf(*contents, "model", file));
    NXDKIT_ASSIGN(out_.optimizer, PathOf(*contents, "optimizer", file));
    const std::string hf = JoinPath(JoinPath(out_.root, "model"), kHuggingFace);
    if (out_.model.empty())
      return NotFound("the model was not saved as a distributed checkpoint")
          .in(file)
          .hint(fmt::format("it may be the model in {}: name that folder", hf));
    out_.config_folders = {hf, JoinPath(out_.root, kHuggingFace), out_.root};
    out_.layout = "verl";
    return std::move(out_);
  }

  Result<std::string> PathOf(const Json& contents, const char* what, const std::string& file) {
    const Json* item = JsonFind(contents, what);
    const Json* path = item && item->is_object() ? JsonFind(*item, "path") : nullptr;
    const Json* format = item && item->is_object() ? JsonFind(*item, "format") : nullptr;
    if (!path || !path->is_string()) return std::string();
    if (format && format->is_string() && *format != "megatron_dist_checkpoint")
      return std::string();
    const auto name = path->get<std::string>();
    if (name.empty() || name.starts_with('/') || name.find("..") != std::string::npos)
      return Corrupt("found \"{}\", expected a folder below it", EscapeControl(name))
          .in(file)
          .member(fmt::format("contents.{}.path", what));
    std::string folder = JoinPath(out_.root, name);
    NXDKIT_ASSIGN(const Form form, FormOf(folder, look_));
    if (form == Form::kOther) return Refusal(folder, look_);
    if (form == Form::kNone)
      return NotFound("there is no distributed checkpoint, and {} names it", kContents).in(folder);
    if (form == Form::kUnfinished) NXDKIT_TRY(Doubt(folder));
    return folder;
  }

  Result<Found> FromIterations(const std::string& path, const std::optional<std::string>& tag) {
    std::string folder = path;
    const char* layout = "Megatron-LM";
    NXDKIT_ASSIGN(std::vector<Listed> listed, IterationsIn(folder, look_));
    if (listed.empty()) {
      out_.config_folders = {path, JoinPath(path, "policy/tokenizer")};
      NXDKIT_ASSIGN(folder, WeightsIn(path, look_));
      NXDKIT_TRY(IterationsIn(folder, look_).To(listed));
      layout = "NeMo-RL";
    }
    if (listed.empty()) return NotFound("there is no checkpoint of Megatron-Core").in(path);
    NXDKIT_ASSIGN(const Listed chosen, Choose(folder, listed, tag));
    std::string inside = JoinPath(folder, chosen.iteration.name);
    if (listed.size() > 1 && out_.choice) out_.choice->path = inside;
    NXDKIT_ASSIGN(const Form form, FormOf(inside, look_));
    if (form == Form::kNone) {  // a step of NeMo-RL's
      out_.config_folders = {inside, JoinPath(inside, "policy/tokenizer")};
      NXDKIT_ASSIGN(const std::string weights, WeightsIn(inside, look_));
      NXDKIT_ASSIGN(const std::vector<Listed> inner, IterationsIn(weights, look_));
      inside = JoinPath(weights, inner.back().iteration.name);
      layout = "NeMo-RL";
    }
    if (chosen.form == Form::kOther) return Refusal(inside, look_);
    if (chosen.form == Form::kUnfinished) NXDKIT_TRY(Doubt(inside));
    return Take(inside, layout);
  }

  Result<Listed> Choose(const std::string& folder, const std::vector<Listed>& listed,
                        const std::optional<std::string>& tag) {
    const auto chosen = [&](const Listed& each, const char* by) {
      if (listed.size() > 1) out_.choice = Choice{each.iteration.name, listed.size(), by};
      return each;
    };
    const auto named = [&](const std::string& name) {
      return std::ranges::find_if(listed,
                                  [&](const auto& each) { return IsNamed(each.iteration, name); });
    };
    if (tag) {
      const auto found = named(*tag);
      if (found != listed.end()) return chosen(*found, "option");
      return NotFound("there is no iteration {}", EscapeControl(*tag))
          .in(folder)
          .hint(fmt::format("there is {}", NamesOf(listed)));
    }
    NXDKIT_ASSIGN(const std::string tracker, TrackerOf(folder, look_));
    const auto tracked = tracker.empty() ? listed.end() : named(tracker);
    const Listed* newest = nullptr;
    for (const Listed& each : listed)
      if (each.form == Form::kWhole) newest = &each;
    if (tracked != listed.end() && (tracked->form != Form::kUnfinished || !newest)) {
      if (newest && newest->iteration.number > tracked->iteration.number)
        out_.warnings.push_back(fmt::format(
            "{} names {}, and {} is there too: the newer one is passed over",
            JoinPath(folder, kTracker), EscapeControl(tracker), newest->iteration.name));
      return chosen(*tracked, "tracker");
    }
    if (!tracker.empty() && newest)
      out_.warnings.push_back(
          fmt::format("{} names {}, which is {}; {}, the newest that is whole, is taken",
                      JoinPath(folder, kTracker), EscapeControl(tracker),
                      tracked == listed.end() ? "not there" : "not whole", newest->iteration.name));
    return chosen(newest ? *newest : listed.back(), "number");
  }

  const Looker& look_;
  Found out_;
};

}  // namespace

Result<bool> HasCheckpoint(const std::string& path, const Looker& look) {
  NXDKIT_ASSIGN(const std::string backend, BackendOf(path, look));
  if (!backend.empty()) return true;
  NXDKIT_ASSIGN(const bool common, look.HasFile(path, "common.pt"));
  NXDKIT_ASSIGN(const bool metadata, look.HasFile(path, ".metadata"));
  // Only Megatron uses this name for a folder.
  const bool named =
      metadata && IterationOf(BaseName(path)) && !BaseName(path).starts_with("step_");
  if ((common && metadata) || named) return true;
  NXDKIT_ASSIGN(const bool contents, look.HasFile(path, kContents));
  if (contents) return true;
  NXDKIT_ASSIGN(const Form verl, FormOf(JoinPath(path, kDistFolder), look));
  if (verl != Form::kNone) return true;
  for (const std::string& folder :
       {path, JoinPath(path, "weights"), JoinPath(path, "policy/weights")}) {
    NXDKIT_ASSIGN(const std::vector<Listed> listed, IterationsIn(folder, look));
    const auto is_ours = [](const Listed& each) { return each.form != Form::kUnfinished; };
    if (std::ranges::any_of(listed, is_ours)) return true;
    NXDKIT_ASSIGN(const bool tracker, look.HasFile(folder, kTracker));
    if (tracker && !listed.empty()) return true;
  }
  return false;
}

Result<Found> Find(const std::string& path, const std::optional<std::string>& tag,
                   const Looker& look) {
  return Finder(path, look).Run(tag);
}

}  // namespace nxdkit::megatron
