#include "tools/pictures/inspect_page.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <unordered_map>
#include <utility>

#include "formats/ops/inspect/tensors.h"
#include "lib/base/text.h"
#include "lib/page/html.h"
#include "lib/page/page.h"
#include "lib/system/paths.h"
#include "tools/inspect/report.h"
#include "tools/pictures/page_names.h"
#include "tools/pictures/tensor_tree.h"

namespace nxdkit::tool {
namespace {

using artifact::TensorSlices;
using ops::Inspection;

constexpr size_t kShownFiles = 1000;
constexpr std::string_view kNotParameters = "not parameters";

std::string_view GroupOf(models::Role role) {
  using models::Role;
  switch (role) {
    case Role::kEmbedding:
    case Role::kLmHead:
    case Role::kScore:
      return "embedding and head";
    case Role::kQuery:
    case Role::kKey:
    case Role::kValue:
    case Role::kOutput:
    case Role::kQueryNorm:
    case Role::kKeyNorm:
      return "attention";
    case Role::kGate:
    case Role::kUp:
    case Role::kDown:
      return "MLP";
    case Role::kRouter:
    case Role::kExpertGate:
    case Role::kExpertUp:
    case Role::kExpertDown:
      return "experts";
    case Role::kFinalNorm:
    case Role::kColumn:
    case Role::kRow:
    case Role::kReplicated:
      return "norms and others";
  }
  return "";
}

// A stored name in each of the files that have it, without a parameter behind it. Tensors that hold
// parameters are left out.
std::vector<TensorSlices> StoredSlices(const Inspection& inspection) {
  std::set<std::pair<uint32_t, std::string_view>> bound;
  if (inspection.bound)
    for (const TensorLayout& tensor : inspection.bound->bound.layout.tensors)
      if (!tensor.pieces.empty()) bound.emplace(tensor.file, tensor.name);
  std::vector<TensorSlices> all;
  std::unordered_map<std::string_view, size_t> numbers;
  for (uint32_t f = 0; f < inspection.artifact.files.size(); ++f)
    for (const StoredTensor& tensor : inspection.artifact.files[f].tensors) {
      if (bound.contains({f, tensor.name})) continue;
      const auto [at, is_new] = numbers.try_emplace(tensor.name, all.size());
      if (is_new) all.emplace_back().name = tensor.name;
      all[at->second].targets.push_back({tensor.name, f, tensor.dtype, tensor.shape});
    }
  return all;
}

std::string FilesText(const Inspection& inspection) {
  const artifact::Artifact& artifact = inspection.artifact;
  std::vector<LayoutFile> files = artifact.ranks;
  files.resize(artifact.files.size());
  for (size_t f = 0; f < files.size(); ++f) files[f].path = artifact.files[f].path;
  std::string text;
  for (const std::string& label : artifact::FileLabels(files))
    text += (text.empty() ? "" : ",") + NameJson(label);
  return "[" + text + "]";
}

// The data of treemap.js: files, whether parameters are known ("bound"), and the tree. `used`:
// bytes that other parts of the page take.
std::string TreeData(const Inspection& inspection, size_t used) {
  const auto& bound = inspection.bound;
  std::vector<TensorSlices> slices;
  if (bound) slices = artifact::HeldSlices(*bound);
  std::ranges::move(StoredSlices(inspection), std::back_inserter(slices));
  std::unordered_map<std::string_view, models::Role> roles;
  if (bound && bound->model)
    for (const models::Param& param : bound->model->params) roles.emplace(param.name, param.role);
  std::vector<TreeTensor> tensors;
  for (const TensorSlices& each : slices) {
    const auto role = roles.find(each.name);
    const bool is_param = !each.sources.empty();
    const std::string_view group = is_param && role != roles.end() ? GroupOf(role->second)
                                   : is_param                      ? "norms and others"
                                   : bound                         ? kNotParameters
                                                                   : Name(each.targets[0].dtype);
    const uint64_t bytes = is_param
                               ? artifact::BoxBytes(each.sources[0].dtype, each.sources[0].shape)
                               : each.target_bytes();
    tensors.push_back({&each, bytes, group});
  }
  const std::string files = FilesText(inspection);
  const size_t room = page::kMostData - std::min(page::kMostData, used + files.size());
  return fmt::format("{{\"files\":{},\"bound\":{},{}}}", files, bound != nullptr,
                     TreeMembers(tensors, room));
}

std::string FactRows(const Inspection& inspection) {
  std::vector<std::vector<std::string>> rows;
  for (const kinds::Fact& fact : FactsOf(inspection).rows)
    if (!fact.label.empty()) rows.push_back({page::Escape(fact.label), page::Escape(fact.text)});
  return page::Table({}, rows);
}

std::string FileRows(const Inspection& inspection) {
  std::vector<std::vector<std::string>> rows;
  const std::vector<TensorFile>& files = inspection.artifact.files;
  for (uint32_t f = 0; f < files.size() && f < kShownFiles; ++f)
    rows.push_back({page::NameHtml(ops::FileLabel(inspection, f)), HumanBytes(files[f].file_bytes),
                    Grouped(files[f].tensors.size())});
  if (rows.empty()) return "";
  const std::string note =
      files.size() > kShownFiles
          ? fmt::format("<p class=\"soft\">The first {} are shown.</p>\n", Grouped(kShownFiles))
          : "";
  return page::Details(Counted(files.size(), "file"),
                       page::Table({"file", "bytes", "tensors"}, rows) + note);
}

}  // namespace

std::string InspectPage(const Inspection& inspection) {
  const std::string& path = inspection.artifact.path;
  page::Page page(BaseName(path) + ": " + inspection.description);
  page.Add(page::Problems(inspection.warnings));
  std::vector<page::Card> cards = {{"bytes", HumanBytes(inspection.bytes)},
                                   {"files", Grouped(inspection.files)}};
  if (inspection.tensors > 0)
    cards.insert(cards.begin(), {{"parameters", Grouped(inspection.parameters)},
                                 {"tensors", Grouped(inspection.tensors)}});
  page.Add(page::Cards(cards));
  const std::string facts = FactRows(inspection) + FileRows(inspection);
  if (inspection.tensors > 0) {
    page.Heading("Tensors by size");
    page.Add(
        "<div id=\"treemap\"></div>\n<div id=\"chosen\"></div>\n"
        "<noscript><p>The picture needs this page's own script.</p></noscript>\n");
    page.AddData("tree", TreeData(inspection, facts.size()));
    page.Use(page::Script::kPlan);
    page.Use(page::Script::kTreemap);
  }
  page.Heading("Facts");
  page.Add(facts);
  if (inspection.tensors > 0) page.Add("<h2>All names</h2>\n<div id=\"tensors\"></div>\n");
  return page.Text();
}

}  // namespace nxdkit::tool
