#include "formats/zero/universal.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"
#include "lib/system/look.h"

namespace nxdkit::zero {
namespace {

constexpr char kMaster[] = "fp32";
constexpr char kStep[] = "step";
constexpr char kOptions[] = "optimizer_state.pt";
constexpr std::string_view kEnd = ".pt";
constexpr int64_t kMostPadding = 1 << 20;  // the most ranks of a stage 3 source

class UniversalReader {
 public:
  UniversalReader(TagState& tag, const UniversalFiles& files)
      : tag_(tag), model_(tag.model()), files_(files), entries_(tag.entries) {
    if (model_.groups)
      for (const std::vector<NamedShape>& group : *model_.groups)
        for (const NamedShape& each : group) shapes_.emplace(each.name, each.shape);
  }

  Status AddWeights() {
    tag_.facts.form = "universal";
    for (const auto& [name, shape] : shapes_)
      if (!files_.params.contains(name) && !tag_.IsAlias(name))
        return Corrupt("param_shapes has the parameter, but there is no folder for it in {}",
                       kUniversalFolder)
            .in(tag_.files.path)
            .on(name);
    NXDKIT_TRY(AddModule());
    size_t count = 0;
    for (const auto& [name, kept] : files_.params) {
      if (tag_.IsAlias(name)) continue;
      ++count;
      ++(IsTrained(name) ? tag_.facts.trained : tag_.facts.frozen);
      if (!entries_.Has(name)) NXDKIT_TRY(AddTensor(name, kMaster, name));
    }
    // A second name has a file of its own, made from the rounded weight.
    for (const auto& [alias, name] : model_.aliases)
      if (files_.params.contains(name) && !entries_.Has(alias))
        NXDKIT_TRY(AddTensor(name, kMaster, alias));
    tag_.facts.proofs.push_back(
        fmt::format("{} parameters have a folder each, the {} trained ones "
                    "are those of param_shapes",
                    count, tag_.facts.trained));
    return OkStatus();
  }

  Status AddState() {
    for (const auto& [name, kept] : files_.params)
      if (!tag_.IsAlias(name) && IsTrained(name)) NXDKIT_TRY(AddKept(name, kept));
    return AddAllOptions();
  }

 private:
  bool IsTrained(const std::string& name) const {
    return shapes_.empty() ? files_.params.at(name).size() > 1 : shapes_.contains(name);
  }

  Status AddModule() {
    for (const NamedTensor& tensor : model_.module) {
      const bool buffer = model_.buffers.contains(tensor.name);
      tag_.facts.buffers += buffer;
      if (buffer || *ElementCount(tensor.stored.shape) > 0)
        NXDKIT_TRY(entries_.AddWhole(tag_.files.models.at(0), tensor.name, tensor.stored));
      else
        tag_.facts.dtypes[tensor.name] = tensor.stored.dtype;
    }
    return OkStatus();
  }

  // {"param": tensor, "cat_dim": 0}, or a tensor.
  Result<StoredTensor> ReadTensor(const std::string& param, const std::string& what) {
    const std::string name = UniversalFiles::FileName(param, what);
    NXDKIT_ASSIGN(const torch::Archive archive, entries_.Read(name, 0));
    const torch::PickleValue* value =
        archive.root.dict() ? archive.root.Find("param") : &archive.root;
    if (!value || !value->tensor()) return Corrupt("there is no \"param\"").in(archive.path);
    return InShape(archive.tensors.at(value->tensor()->index), param).in(archive.path);
  }

  // A stage 3 source leaves tensors flat, and padded for its ranks.
  Result<StoredTensor> InShape(StoredTensor stored, const std::string& param) const {
    const auto found = shapes_.find(param);
    if (found == shapes_.end() || stored.shape == found->second || stored.shape.size() != 1)
      return stored;
    const int64_t count = *ElementCount(found->second);
    const int64_t padding = stored.shape[0] - count;
    if (!IsPacked(stored) || padding < 0 || padding > kMostPadding)
      return Corrupt("{} elements found, the parameter has {}", stored.shape[0], count).on(param);
    stored.shape = found->second;
    stored.strides = RowMajorStrides(stored.shape);
    return stored;
  }

  Status AddTensor(const std::string& param, const std::string& what, const std::string& key) {
    NXDKIT_ASSIGN(const StoredTensor stored, ReadTensor(param, what));
    return entries_.AddWhole(UniversalFiles::FileName(param, what), key, stored);
  }

  Status AddKept(const std::string& name, const std::set<std::string>& kept) {
    NXDKIT_TRY(AddTensor(name, kMaster, StateKey(name, dcp::kMasterWeights)));
    for (const std::string& what : kept) {
      if (what == kMaster) continue;
      if (what != kStep) {
        NXDKIT_TRY(AddTensor(name, what, StateKey(name, what)));
        continue;
      }
      NXDKIT_ASSIGN(const StoredTensor stored, ReadTensor(name, what));
      NXDKIT_ASSIGN(const double step, ReadSingle(stored).on(name));
      NXDKIT_TRY(entries_.AddStep(UniversalFiles::FileName(name, what), name, step));
    }
    return OkStatus();
  }

  // param_groups has no names: the groups are those of the model's file. With a stage 3 source the
  // steps are here too, and the options list the flat groups that they belong to.
  Status AddAllOptions() {
    if (!files_.has_options || !model_.groups) return OkStatus();
    const std::string name = std::string(kUniversalFolder) + "/" + kOptions;
    NXDKIT_ASSIGN(const torch::Archive archive, entries_.Read(name, 0));
    const torch::PickleValue* inner = archive.root.Find("optimizer_state_dict");
    if (!inner) inner = archive.root.Find("base_optimizer_state");
    const torch::PickleValue* groups = archive.root.Find("param_groups");
    if (!groups && inner) groups = inner->Find("param_groups");
    if (!groups || !groups->list()) return OkStatus();
    const std::vector<size_t> of = GroupsOfFlats(*groups->list(), model_.groups->size());
    for (size_t g = 0; g < model_.groups->size(); ++g) {
      const size_t options = of[g];
      NXDKIT_ASSIGN(const std::optional<double> step, StepOf(archive, inner, g).in(archive.path));
      if (tag_.facts.groups.size() <= options) tag_.facts.groups.resize(options + 1);
      for (const NamedShape& each : (*model_.groups)[g]) {
        if (options < groups->list()->size()) {
          NXDKIT_ASSIGN(const torch::PickleValue said,
                        WithNumbers(archive, (*groups->list())[options]).in(archive.path));
          NXDKIT_TRY(entries_.AddOptions(each.name, said));
        }
        const auto kept = files_.params.find(each.name);
        if (step && kept != files_.params.end() && !kept->second.contains(kStep))
          NXDKIT_TRY(entries_.AddStep(name, each.name, *step));
        tag_.facts.groups[options].push_back(each.name);
      }
    }
    return OkStatus();
  }

  // The step of a flat group, from its state in the options' file.
  static Result<std::optional<double>> StepOf(const torch::Archive& archive,
                                              const torch::PickleValue* optimizer, size_t group) {
    const torch::PickleValue* states = optimizer ? optimizer->Find("state") : nullptr;
    if (states && states->dict())
      for (const auto& [number, state] : *states->dict())
        if (number.integer() && *number.integer() == static_cast<int64_t>(group))
          return StepIn(archive, state);
    return std::optional<double>();
  }

  TagState& tag_;
  const ModelFile& model_;
  const UniversalFiles& files_;
  TagEntries& entries_;
  std::map<std::string, Shape> shapes_;  // of the trained parameters
};

}  // namespace

std::string UniversalFiles::FileName(const std::string& param, const std::string& what) {
  return fmt::format("{}/{}/{}{}", kUniversalFolder, param, what, kEnd);
}

std::vector<std::string> UniversalFiles::FileNames() const {
  std::vector<std::string> names;
  for (const auto& [param, kept] : params)
    for (const std::string& what : kept) names.push_back(FileName(param, what));
  if (has_options) names.push_back(std::string(kUniversalFolder) + "/" + kOptions);
  return names;
}

Result<UniversalFiles> ListUniversal(const std::string& tag) {
  UniversalFiles out;
  const Looker look;
  const std::string folder = JoinPath(tag, kUniversalFolder);
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListFolder(folder));
  for (const std::string& name : names) {
    NXDKIT_ASSIGN(const bool is_folder, look.IsFolder(JoinPath(folder, name)));
    if (name == kOptions) out.has_options = true;
    if (!is_folder) continue;
    NXDKIT_ASSIGN(const std::vector<std::string> files, look.ListFolder(JoinPath(folder, name)));
    for (const std::string& file : files)
      if (file.ends_with(kEnd)) out.params[name].insert(file.substr(0, file.size() - kEnd.size()));
    if (!out.params[name].contains(kMaster))
      return Corrupt("there is no fp32.pt in the folder of the parameter").in(folder).on(name);
  }
  return out;
}

Status AddUniversalWeights(TagState& tag, const UniversalFiles& files) {
  return UniversalReader(tag, files).AddWeights();
}

Status AddUniversalState(TagState& tag, const UniversalFiles& files) {
  return UniversalReader(tag, files).AddState();
}

}  // namespace nxdkit::zero
