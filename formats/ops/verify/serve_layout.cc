#include "formats/ops/verify/serve_layout.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "formats/hardware/instance.h"
#include "formats/ops/verify/one_layer.h"
#include "formats/vllm_neuron/rank_tensors.h"
#include "lib/base/parallel.h"
#include "lib/base/text.h"

namespace nxdkit::ops {
namespace {

using models::Param;
using models::Role;

// "3", "60 to 63", "1, 3 and 62 more"
std::string CoresText(const std::vector<int>& cores) {
  const bool run = cores.back() - cores.front() + 1 == static_cast<int>(cores.size());
  if (cores.size() == 1) return std::to_string(cores.front());
  if (run) return fmt::format("{} to {}", cores.front(), cores.back());
  return fmt::format("{}, {} and {} more", cores[0], cores[1], cores.size() - 2);
}

// The memory of a core of the chip, as software sees cores by default; 0 if it is not known.
uint64_t CoreBytes(std::string_view chip) {
  uint64_t most = 0;
  for (const hardware::Instance& instance : hardware::Instances())
    if (instance.platform == chip) most = std::max(most, instance.bytes_per_core());
  return most;
}

class LayoutCheck {
 public:
  LayoutCheck(const ServedFolder& folder, const models::Model& model, const ServedScheme& scheme,
              const ServeRequest& request, ServeReport& report)
      : folder_(folder),
        model_(model),
        one_(FirstOfLayers(model)),
        scheme_(scheme),
        request_(request),
        report_(report) {
    for (const Param& param : one_.model.params) rest_.push_back({WholeBox(param.shape)});
    for (const models::Alias& alias : model.config.aliases)
      if (const auto of = model.Find(alias.of))
        heads_.emplace(alias.name, Head{*of, {WholeBox(model.params[*of].shape)}});
  }

  Status Run() {
    if (!CheckSizes()) return OkStatus();
    const int jobs = std::max(request_.run.jobs, 1);
    for (int core = 0; core < cores(); core += jobs)
      NXDKIT_TRY(TakeCores(core, std::min(jobs, cores() - core)));
    ListLoads();
    const size_t before = report_.findings.size();
    ReportZeros();
    ReportLost();
    if (report_.findings.size() == before && IsComplete())
      report_.checks.push_back(fmt::format(
          "layout: every element of every parameter is on one of {} cores or more", cores()));
    ReportPadding();
    ReportBytes();
    return OkStatus();
  }

 private:
  int cores() const { return request_.geometry.cores(); }
  void Add(Finding finding) { report_.findings.push_back(std::move(finding)); }

  Finding Of(const std::string& name, Finding finding) const {
    const StoredTensor* stored = folder_.Find(name);
    return std::move(finding)
        .in(stored ? stored->storage->path() : folder_.artifact.path)
        .on(name)
        .of(name);
  }

  // Whether every parameter is in the folder with the shape that config.json gives: the layout of
  // others would not describe the stored ones.
  bool IsComplete() const {
    return std::ranges::all_of(model_.params, [&](const Param& param) {
      const StoredTensor* stored = folder_.Find(param.name);
      return stored && stored->shape == param.shape;
    });
  }

  // Whether the sizes have a layout.
  bool CheckSizes() {
    bool has_layout = true;
    for (const vllm_neuron::SizeFault& fault :
         vllm_neuron::SizeFaults(model_.config, request_.geometry)) {
      if (fault.is_advice) {
        report_.warnings.push_back(fault.message);
        continue;
      }
      Add(Finding(fault.check, fault.message)
              .in(folder_.artifact.config_path)
              .differs(fault.found, fault.expected));
      has_layout &= fault.has_layout;
    }
    return has_layout;
  }

  // Laid out in parallel, and taken one after the other.
  Status TakeCores(int first, int count) {
    if (request_.run.poll) NXDKIT_TRY(request_.run.poll());
    std::vector<std::vector<TensorLayout>> tensors(static_cast<size_t>(count));
    NXDKIT_TRY(ParallelFor(tensors.size(), count, [&](size_t i) {
      return vllm_neuron::CoreTensors(one_.model, request_.geometry, first + static_cast<int>(i))
          .To(tensors[i]);
    }));
    for (int i = 0; i < count; ++i) NXDKIT_TRY(Take(first + i, tensors[static_cast<size_t>(i)]));
    return OkStatus();
  }

  Status Take(int core, const std::vector<TensorLayout>& tensors) {
    std::vector<bool> seen(one_.model.params.size());
    uint64_t bytes = 0;
    for (size_t t = 0; t < tensors.size(); ++t) {
      const TensorLayout& tensor = tensors[t];
      NXDKIT_ASSIGN(const uint64_t packed, PackedBytes(DtypeOf(tensor), tensor.shape));
      bytes += packed * static_cast<uint64_t>(one_.Times(tensor.name));
      if (core == 0) AddLoad(tensor);
      if (!tensor.fills.empty()) loads_[t].zero_cores.push_back(core);
      const auto head = heads_.find(tensor.name);
      for (const Piece& piece : tensor.pieces) {
        seen[piece.param] = true;
        Cover(piece, head == heads_.end() ? rest_[piece.param] : head->second.rest);
      }
    }
    report_.least_bytes = core == 0 ? bytes : std::min(report_.least_bytes, bytes);
    report_.most_bytes = std::max(report_.most_bytes, bytes);
    NoteZeros(core, seen);
    return OkStatus();
  }

  void AddLoad(const TensorLayout& tensor) {
    LoadedParam load{tensor.name, tensor.shape, DtypeOf(tensor), {}, {}};
    for (const uint32_t param : ParamsOf(tensor))
      load.from.push_back(one_.model.params[param].name);
    loads_.push_back(std::move(load));
  }

  // The parameters of the layer that represents all of them are next to each other.
  void ListLoads() {
    for (auto it = loads_.begin(); it != loads_.end();) {
      const int64_t times = one_.Times(it->name);
      const auto end = std::find_if(it, loads_.end(), [&](const LoadedParam& load) {
        return one_.Times(load.name) != times;
      });
      for (int64_t layer = 0; layer < times; ++layer)
        for (auto load = it; load != end; ++load) report_.loads.push_back(LoadOf(*load, layer));
      it = end;
    }
  }

  static LoadedParam LoadOf(LoadedParam load, int64_t layer) {
    if (layer == 0) return load;
    load.name = InLayer(load.name, layer);
    for (std::string& name : load.from) name = InLayer(name, layer);
    return load;
  }

  Dtype DtypeOf(const TensorLayout& tensor) const {
    if (tensor.dtype || tensor.pieces.empty()) return tensor.dtype.value_or(report_.dtype);
    const Param& first = one_.model.params[tensor.pieces.front().param];
    return IsQuantised(first, scheme_) ? Dtype::kF8E4M3 : report_.dtype;
  }

  static void Cover(const Piece& piece, std::vector<Box>& rest) {
    if (rest.empty()) return;
    std::vector<Box> left;
    for (const Box& box : rest)
      for (Box& part : Subtract(box, piece.logical)) left.push_back(std::move(part));
    rest = std::move(left);
  }

  // A key or value of which a core holds nothing is zero there.
  void NoteZeros(int core, const std::vector<bool>& seen) {
    for (uint32_t i = 0; i < one_.model.params.size(); ++i) {
      const Param& param = one_.model.params[i];
      const bool key = param.role == Role::kKey || param.role == Role::kValue;
      if (key && param.shape.size() == 2 && !seen[i]) zeros_[i].push_back(core);
    }
  }

  void ReportZeros() {
    for (uint32_t i = 0; i < model_.params.size(); ++i) {
      const auto found = zeros_.find(one_.of[i]);
      if (found == zeros_.end()) continue;
      const std::vector<int>& at = found->second;
      const Param& param = model_.params[i];
      Finding finding(
          "zeros",
          fmt::format("layer {}: zeros instead of {} heads on core{} {}: {} key heads on tp "
                      "{}, and the loader asks for head r / {}",
                      param.layer, param.role == Role::kKey ? "key" : "value",
                      at.size() == 1 ? "" : "s", CoresText(at), model_.config.kv_heads,
                      request_.geometry.tp, request_.geometry.tp / model_.config.kv_heads));
      finding.count = static_cast<int64_t>(at.size());
      Add(Of(param.name, std::move(finding))
              .at_rank(vllm_neuron::CoreOf(request_.geometry, at.front()).rank));
    }
  }

  void ReportLost() {
    std::map<int, std::vector<uint32_t>> experts;  // of each layer
    for (uint32_t i = 0; i < model_.params.size(); ++i) {
      const std::vector<Box>& rest = rest_[one_.of[i]];
      if (rest.empty()) continue;
      if (model_.params[i].expert >= 0)
        experts[model_.params[i].layer].push_back(i);
      else
        Add(LostFinding(model_.params[i].name, model_.params[i].shape, rest));
    }
    for (const auto& [name, head] : heads_)
      if (!head.rest.empty()) Add(LostFinding(name, model_.params[head.param].shape, head.rest));
    for (const auto& [layer, lost] : experts) {
      Finding finding("lost", fmt::format("{} tensors of layer {}'s experts are on no core",
                                          lost.size(), layer));
      finding.count = static_cast<int64_t>(lost.size());
      Add(Of(model_.params[lost.front()].name, std::move(finding)));
    }
  }

  Finding LostFinding(const std::string& name, const Shape& shape,
                      const std::vector<Box>& rest) const {
    std::string message = "the engine has no parameter for it: it is passed over";
    const Box& first = rest.front();
    if (first != WholeBox(shape))
      message = fmt::format(
          "rows {} to {} of {} are on no core: the loader gives each rank {} / {} "
          "rows, rounded down",
          first.lo[0], first.lo[0] + first.extent[0] - 1, shape[0], shape[0], request_.geometry.tp);
    Finding finding("lost", std::move(message));
    for (const Box& box : rest) finding.count += box.Volume() / (shape.size() > 1 ? shape[1] : 1);
    return Of(name, std::move(finding));
  }

  void ReportPadding() {
    const int64_t tp = request_.geometry.tp;
    const int64_t rows = (model_.config.vocab + tp - 1) / tp;
    if (rows * tp > model_.config.vocab)
      report_.checks.push_back(fmt::format("embed_tokens: {} rows a core, {} of zeros at the end",
                                           rows, rows * tp - model_.config.vocab));
  }

  void ReportBytes() {
    report_.checks.push_back(
        fmt::format("weights: {} on each of {} cores{}", HumanBytes(report_.most_bytes), cores(),
                    report_.least_bytes == report_.most_bytes ? "" : " at the most"));
    const uint64_t core = CoreBytes(vllm_neuron::TargetName(request_.target));
    if (core == 0 || report_.most_bytes <= core) return;
    Add(Finding("memory", fmt::format("the weights alone take {} of a core with {}",
                                      HumanBytes(report_.most_bytes), HumanBytes(core)))
            .in(folder_.artifact.path)
            .differs(std::to_string(report_.most_bytes), fmt::format("at most {}", core)));
  }

  // The head of a tied model, which is a parameter of the engine.
  struct Head {
    uint32_t param = 0;  // the embedding
    std::vector<Box> rest;
  };

  const ServedFolder& folder_;
  const models::Model& model_;
  const OneLayer one_;  // of the model: the part that is laid out
  const ServedScheme& scheme_;
  const ServeRequest& request_;
  ServeReport& report_;
  std::map<std::string, Head> heads_;
  std::vector<LoadedParam> loads_;              // of the first core's layout
  std::vector<std::vector<Box>> rest_;          // for each parameter of one_, the boxes on no core
  std::map<uint32_t, std::vector<int>> zeros_;  // for its keys and values, the cores without them
};

}  // namespace

Status CheckServedLayout(const ServedFolder& folder, const models::Model& model,
                         const ServedScheme& scheme, const ServeRequest& request,
                         ServeReport& report) {
  return LayoutCheck(folder, model, scheme, request, report).Run();
}

}  // namespace nxdkit::ops
