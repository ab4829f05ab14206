#include "formats/hardware/fit.h"

#include <fmt/format.h>

#include <algorithm>

namespace nxdkit::hardware {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr int64_t kWarnPercent = 85;

// The product of sizes that readers have bounded, but not against each other.
uint64_t Product(std::initializer_list<int64_t> factors) {
  unsigned __int128 product = 1;
  for (const int64_t factor : factors)
    product = std::min<unsigned __int128>(
        product * static_cast<unsigned __int128>(std::max<int64_t>(factor, 0)), UINT64_MAX);
  return static_cast<uint64_t>(product);
}

uint64_t Sum(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

uint64_t Reserve(uint64_t core_bytes) { return std::max(kGiB * 3 / 2, core_bytes / 10); }

int64_t Percent(uint64_t part, uint64_t whole) {
  return static_cast<int64_t>((static_cast<unsigned __int128>(part) * 100 + whole / 2) / whole);
}

bool IsIn(std::span<const int64_t> sizes, int64_t size) {
  return std::ranges::find(sizes, size) != sizes.end();
}

Fit Begin(const Instance& instance) {
  Fit fit;
  fit.instance = instance.name;
  fit.cores = instance.cores;
  fit.core_bytes = instance.bytes_per_core();
  fit.reserve_bytes = Reserve(fit.core_bytes);
  return fit;
}

void JudgeMemory(Fit& fit) {
  const uint64_t used = fit.used_bytes();
  if (used > fit.core_bytes)
    fit.problems.push_back(fmt::format("{}: more than a core has", FitText(fit)));
  else if (Percent(used, fit.core_bytes) > kWarnPercent ||
           Sum(used, fit.reserve_bytes) > fit.core_bytes)
    fit.warnings.push_back(fmt::format(
        "{}: the rest may be too little for the compiled code and its scratch, about {}",
        FitText(fit), GibText(fit.reserve_bytes)));
}

std::vector<MemoryRow> RowsOf(const RolloutUse& use) {
  return {{"weights", use.weight_bytes}, {"KV cache", use.cache_bytes(), Grows::kWithCache}};
}

Fit JudgeRollout(const Instance& instance, const RolloutUse& use) {
  Fit fit = Begin(instance);
  fit.rows = RowsOf(use);
  fit.data_parallel = std::max<int64_t>(1, instance.cores / std::max<int64_t>(1, use.tp));
  if (use.tp > instance.cores)
    fit.problems.push_back(
        fmt::format("{} ranks, and {} has {} cores", use.tp, instance.name, instance.cores));
  else if (instance.sizes_known && !IsIn(instance.inference_tp, use.tp))
    fit.problems.push_back(fmt::format("NxD Inference does not accept tp {} on {}; it accepts {}",
                                       use.tp, instance.name,
                                       fmt::join(instance.inference_tp, ", ")));
  JudgeMemory(fit);
  return fit;
}

constexpr int64_t kWeightBytes = 2;

uint64_t Times(uint64_t elements, int64_t bytes) {
  constexpr auto kMost = static_cast<uint64_t>(INT64_MAX);
  return Product({static_cast<int64_t>(std::min(elements, kMost)), bytes});
}

uint64_t OptimizerBytes(uint64_t elements, States states, int64_t over) {
  return Times(elements, BytesOf(states).optimizer) /
         static_cast<uint64_t>(std::max<int64_t>(1, over));
}

std::string_view StatesText(States states) {
  constexpr std::string_view kTexts[] = {"mixed precision", "all states in bfloat16",
                                         "all states in bfloat16, a compensation among them"};
  return kTexts[static_cast<size_t>(states)];
}

std::vector<MemoryRow> RowsOf(const TrainingUse& use, int64_t data_parallel) {
  const uint64_t p = use.rank_elements;
  const auto over_tp = [&](std::initializer_list<int64_t> factors) {
    return Product(factors) / static_cast<uint64_t>(use.tp);
  };
  const int64_t layers = (use.layers + use.pp - 1) / use.pp;
  const int64_t row = (use.sequence + use.cp - 1) / use.cp;
  const int64_t tokens = use.micro_batch * row;
  // Recomputed: each layer's input, and the activations of one layer.
  const uint64_t activations = use.recompute ? Sum(over_tp({2, tokens, use.hidden, layers}),
                                                   over_tp({34, tokens, use.hidden}))
                                             : over_tp({34, tokens, use.hidden, layers});
  std::vector<MemoryRow> rows = {
      {"weights", Times(p, kWeightBytes)},
      {"gradients", Times(p, BytesOf(use.states).gradient)},
      {"optimizer", OptimizerBytes(p, use.states, use.zero1 ? data_parallel : 1)},
      {"activations", activations, Grows::kWithMicroBatch},
      {"logits", over_tp({3 * 4, std::max(use.micro_batch, use.scored), row, use.vocab}),
       Grows::kWithMicroBatch}};
  rows.insert(rows.end(), use.beside.begin(), use.beside.end());
  return rows;
}

std::string Assumed(const TrainingUse& use, int64_t data_parallel) {
  return fmt::format(
      "{}micro-batches of {} tokens, {}, {}, activations recomputed {}",
      use.nodes > 1 ? fmt::format("{} nodes, ", use.nodes) : "", use.micro_batch * use.sequence,
      use.zero1 ? fmt::format("ZeRO-1 over {} data parallel ranks", data_parallel) : "no ZeRO-1",
      StatesText(use.states), use.recompute ? "layer by layer" : "selectively");
}

Fit JudgeTraining(const Instance& instance, const TrainingUse& use) {
  Fit fit = Begin(instance);
  const int64_t model_parallel = use.tp * use.pp * use.cp;
  const int64_t there = instance.cores * use.nodes;
  const int64_t world = use.cores > 0 ? use.cores : there;
  fit.data_parallel = std::max<int64_t>(1, world / model_parallel);
  fit.rows = RowsOf(use, fit.data_parallel);
  fit.assumed = Assumed(use, fit.data_parallel);
  if (instance.sizes_known && instance.workers.empty())
    fit.problems.push_back(fmt::format("{} is for inference only", instance.name));
  else if (use.cores_beside > 0 && world + use.cores_beside > there)
    fit.problems.push_back(fmt::format("{} cores are to train and {} to roll out, and {} has {}",
                                       world, use.cores_beside, instance.name, there));
  else if (world > there)
    fit.problems.push_back(
        fmt::format("{} cores are to train, and {} has {}", world, instance.name, there));
  else if (world % model_parallel != 0)
    fit.problems.push_back(fmt::format(
        "tp {} x pp {}{} does not divide the {} cores of {} x {}", use.tp, use.pp,
        use.cp > 1 ? fmt::format(" x cp {}", use.cp) : "", world, use.nodes, instance.name));
  else if (instance.sizes_known && !IsIn(instance.workers, use.tp))
    fit.problems.push_back(fmt::format(
        "the collectives of {} do not accept tp {} in training (replica groups); they accept {}",
        instance.name, use.tp, fmt::join(instance.workers, ", ")));
  else if (instance.sizes_known && use.nodes == 1 && !IsIn(instance.workers, world))
    fit.warnings.push_back(fmt::format("jobs of NxD Training on {} have {} workers, not {}",
                                       instance.name, fmt::join(instance.workers, ", "), world));
  JudgeMemory(fit);
  return fit;
}

// The lever of the largest row, where memory is insufficient.
std::string_view LeverOf(const Fit& fit, const Levers& levers) {
  if (fit.used_bytes() <= fit.core_bytes) return levers.parallel;
  const Grows grows = std::ranges::max_element(fit.rows, {}, &MemoryRow::bytes)->grows;
  if (grows == Grows::kWithMicroBatch) return levers.micro_batch;
  return grows == Grows::kWithCache ? levers.cache : levers.parallel;
}

template <typename Use>
Fit Judged(const Instance& instance, const Use& use, Fit (*judge)(const Instance&, const Use&)) {
  Fit fit = judge(instance, use);
  for (const Instance& other : Instances())
    if (judge(other, use).problems.empty()) {
      fit.smallest = other.name;
      break;
    }
  return fit;
}

}  // namespace

std::string GibText(uint64_t bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / static_cast<double>(kGiB));
}

StateBytes BytesOf(States states) {
  constexpr StateBytes kBytes[] = {{4, 12}, {2, 4}, {2, 6}};
  return kBytes[static_cast<size_t>(states)];
}

uint64_t TrainedBytes(uint64_t elements, States states, int64_t optimizer_over) {
  return Sum(Times(elements, kWeightBytes + BytesOf(states).gradient),
             OptimizerBytes(elements, states, optimizer_over));
}

uint64_t RolloutUse::cache_bytes() const {
  return Product({2, layers, batch, sequence, kv_heads_per_rank, head_dim, element_bytes});
}

uint64_t Fit::used_bytes() const {
  uint64_t sum = 0;
  for (const MemoryRow& row : rows) sum = Sum(sum, row.bytes);
  return sum;
}

Fit FitRollout(const Instance& instance, const RolloutUse& use) {
  return Judged(instance, use, &JudgeRollout);
}

Fit FitTraining(const Instance& instance, const TrainingUse& use) {
  return Judged(instance, use, &JudgeTraining);
}

Status CheckFit(const Fit& fit, const Levers& levers) {
  if (fit.problems.empty()) return OkStatus();
  return Error(Errc::kFindings,
               fmt::format("does not fit {}: {}", fit.instance, fmt::join(fit.problems, "; ")))
      .hint(fit.smallest.empty()
                ? fmt::format("no instance takes it in this layout: try another {}",
                              LeverOf(fit, levers))
                : fmt::format("the smallest instance that takes it in this layout is {}",
                              fit.smallest));
}

std::string FitText(const Fit& fit) {
  std::string text;
  for (const MemoryRow& row : fit.rows)
    text += fmt::format("{}{} {}", text.empty() ? "" : " + ", row.what, GibText(row.bytes));
  return fmt::format("{} = {} of {} a core ({} %)", text, GibText(fit.used_bytes()),
                     GibText(fit.core_bytes), Percent(fit.used_bytes(), fit.core_bytes));
}

}  // namespace nxdkit::hardware
