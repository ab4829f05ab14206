#include "trainer/learner/mesh_model.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "lib/base/errors.h"
#include "trainer/comm/reduce.h"

namespace nxdkit::trainer {
namespace {

// One rank of the mesh.
struct Rank {
  Mesh mesh;
  std::unique_ptr<Decoder> decoder;
  std::unique_ptr<RankOptimizer> optimizer;
  FlatCut cut;  // of weights and gradients, over the data-parallel ranks, as the optimizer has it
};

FlatCut CutOf(std::span<const FlatRange> ranges) {
  FlatCut cut;
  for (const FlatRange& range : ranges) cut.ends.push_back(static_cast<size_t>(range.end));
  return cut;
}

// The ranges that data-parallel ranks hold of one array, together.
void Append(RankMemory& whole, const RankMemory& more) {
  whole.parts.insert(whole.parts.end(), more.parts.begin(), more.parts.end());
}

// Values of the tokens of a micro-batch, each row's to its place.
void Unpack(std::span<const Row> rows, std::span<const size_t> micro, std::span<const float> values,
            RowValues& to) {
  for (const size_t r : micro) {
    const std::span<const float> own = values.first(rows[r].response.size());
    to[r].assign(own.begin(), own.end());
    values = values.subspan(own.size());
  }
}

// Each rank of the group has the values of its share of the rows; all get all.
Status GatherRows(Comm& dp, std::span<const Row> rows, RowValues& values) {
  const size_t share = rows.size() / static_cast<size_t>(dp.size());
  FlatCut cut;
  std::vector<float> flat;
  for (size_t r = 0; r < rows.size(); ++r) {
    values[r].resize(rows[r].response.size());
    flat.insert(flat.end(), values[r].begin(), values[r].end());
    if ((r + 1) % share == 0) cut.ends.push_back(flat.size());
  }
  NXDKIT_TRY(AllGatherParts(dp, std::as_writable_bytes(std::span(flat)), sizeof(float), cut));
  std::span<const float> rest(flat);
  for (std::vector<float>& row : values) {
    std::ranges::copy(rest.first(row.size()), row.begin());
    rest = rest.subspan(row.size());
  }
  return OkStatus();
}

int Processes(const MeshOptions& options) {
  return options.transport == nullptr ? 1 : options.transport->processes();
}

}  // namespace

struct MeshModel::State {
  State(const DecoderConfig& config_in, const MeshOptions& options_in)
      : config(config_in),
        options(options_in),
        ranks(static_cast<size_t>(options.tp * options.dp / Processes(options))),
        world(static_cast<int>(ranks.size()), 1, options.transport) {}

  // Of the ranks of this process.
  size_t IndexOf(const Comm& comm) const { return static_cast<size_t>(comm.rank()) % ranks.size(); }
  Rank& of(const Comm& comm) { return ranks[IndexOf(comm)]; }

  Status Load(const ops::BoundArtifact& source) {
    return world.Run([&](Comm& comm) -> Status {
      Rank& rank = of(comm);
      NXDKIT_ASSIGN(rank.mesh, Mesh::Make(comm, options.tp));
      NXDKIT_ASSIGN(Decoder decoder, Decoder::Make(config, options.decoder, *rank.mesh.tp));
      rank.decoder = std::make_unique<Decoder>(std::move(decoder));
      if (options.decoder.trainable) {
        NXDKIT_TRY(MakeOptimizer(rank));
        if (const std::optional<RankMemory> masters = rank.optimizer->masters()) {
          NXDKIT_TRY(LoadWeights(source, config.model, {*masters}, {}));
          rank.optimizer->MastersChanged();
          return GatherWeights(rank);
        }
      }
      NXDKIT_TRY(LoadWeights(source, config.model, {MemoryOf(rank)}, {}));
      rank.decoder->weights().Changed();
      return OkStatus();
    });
  }

  Status MakeOptimizer(Rank& rank) const {
    const ParamTable& table = rank.decoder->table();
    const std::vector<FlatRange> ranges = CutForOptimizer(table, options.dp);
    rank.cut = CutOf(ranges);
    NXDKIT_ASSIGN(RankOptimizer optimizer,
                  RankOptimizer::Make(options.optimizer, table,
                                      ranges[static_cast<size_t>(rank.mesh.dp_rank())],
                                      rank.decoder->weights()));
    rank.optimizer = std::make_unique<RankOptimizer>(std::move(optimizer));
    return OkStatus();
  }

  // Every data-parallel rank has changed its range.
  Status GatherWeights(Rank& rank) {
    Weights& weights = rank.decoder->weights();
    const auto element = static_cast<size_t>(ElementBytes(weights.dtype()));
    const std::span<std::byte> bytes(weights.bytes(),
                                     static_cast<size_t>(rank.decoder->table().size) * element);
    NXDKIT_TRY(AllGatherParts(*rank.mesh.dp, bytes, element, rank.cut));
    weights.Changed();
    return OkStatus();
  }

  Status RunMicroBatches(Rank& rank, std::span<const Row> rows, std::span<const size_t> share,
                         const Loss& loss) {
    std::vector<float> outputs, gradient;
    for (const std::vector<size_t>& micro :
         MicroBatches(rows, share, options.update.max_tokens, options.update.max_rows)) {
      const Batch batch = PackRows(rows, micro);
      outputs.resize(batch.targets.size());
      gradient.assign(batch.targets.size(), 0);
      NXDKIT_TRY(rank.decoder->Forward(batch, options.temperature, true, outputs, nullptr));
      NXDKIT_TRY(loss(rank.mesh.dp_rank(), rank.mesh.tp_rank() == 0, micro, outputs, gradient));
      NXDKIT_TRY(rank.decoder->Backward(batch, gradient));
    }
    return OkStatus();
  }

  Result<UpdateResult> Step(Rank& rank, double lr) {
    const std::span<float> gradients = rank.decoder->gradients();
    NXDKIT_TRY(rank.decoder->SumPartialGradients());
    NXDKIT_TRY(ReduceScatterSum(*rank.mesh.dp, gradients, rank.cut));
    const FlatRange& range = rank.optimizer->range();
    const std::span<const float> own =
        gradients.subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.size()));
    std::vector<double> terms = SquaredNormTerms(rank.decoder->table(), range, own);
    NXDKIT_TRY(AllReduceSum(*rank.mesh.dp, std::span(terms)));
    double squared = SumOfTerms(terms);
    NXDKIT_TRY(AllReduceSum(*rank.mesh.tp, std::span(&squared, size_t{1})));
    const GradientClip clip = ClipGradient(squared, options.max_grad_norm);
    if (!clip.skip) {
      rank.optimizer->Step({lr, clip.scale}, own);
      NXDKIT_TRY(GatherWeights(rank));
    }
    return UpdateResult{clip.norm, clip.skip};
  }

  RankMemory MemoryOf(Rank& rank) {
    return {&rank.decoder->table(), rank.decoder->weights().bytes(),
            rank.decoder->weights().dtype()};
  }

  const DecoderConfig& config;
  const MeshOptions options;
  std::vector<Rank> ranks;
  ThreadWorld world;  // last: its threads hold what the ranks use
};

Result<std::unique_ptr<MeshModel>> MeshModel::Make(const DecoderConfig& config,
                                                   const MeshOptions& options,
                                                   const ops::BoundArtifact& source) {
  if (options.tp * options.dp % Processes(options) != 0)
    return BadUsage("{} ranks cannot be divided over {} processes", options.tp * options.dp,
                    Processes(options));
  try {
    auto state = std::make_unique<State>(config, options);
    NXDKIT_TRY(state->Load(source));
    return std::unique_ptr<MeshModel>(new MeshModel(std::move(state)));
  } catch (const std::bad_alloc&) {
    return OverLimit("not enough memory for the model and its optimizer");
  }
}

MeshModel::MeshModel(std::unique_ptr<State> state) : state_(std::move(state)) {}
MeshModel::~MeshModel() = default;
const MeshOptions& MeshModel::options() const { return state_->options; }
const DecoderConfig& MeshModel::config() const { return state_->config; }

Result<RowOutputs> MeshModel::Evaluate(std::span<const Row> rows) {
  State& s = *state_;
  const size_t dp = static_cast<size_t>(s.options.dp);
  if (rows.size() % dp != 0)
    return BadUsage("{} rows cannot be divided over {} data parallel ranks", rows.size(), dp);
  const bool has_entropies = s.config.model.config.labels == 0;
  RowOutputs out;
  out.outputs.resize(rows.size());
  if (has_entropies) out.entropies.resize(rows.size());
  // Over processes every rank gathers what its data-parallel group has.
  std::vector<RowOutputs> partial(s.options.transport == nullptr ? 0 : s.ranks.size(), out);
  const Status ran = s.world.Run([&](Comm& comm) -> Status {
    Rank& rank = s.of(comm);
    std::vector<size_t> share(rows.size() / dp);
    std::iota(share.begin(), share.end(), static_cast<size_t>(rank.mesh.dp_rank()) * share.size());
    std::vector<float> outputs, entropies;
    for (const std::vector<size_t>& micro : MicroBatches(
             rows, share, s.options.experience.max_tokens, s.options.experience.max_rows)) {
      const Batch batch = PackRows(rows, micro);
      outputs.resize(batch.targets.size());
      entropies.resize(batch.targets.size());
      NXDKIT_TRY(rank.decoder->Forward(batch, s.options.temperature, false, outputs,
                                       has_entropies ? entropies.data() : nullptr));
      if (rank.mesh.tp_rank() != 0 && s.options.transport == nullptr) continue;
      RowOutputs& to = s.options.transport == nullptr ? out : partial[s.IndexOf(comm)];
      Unpack(rows, micro, outputs, to.outputs);
      if (has_entropies) Unpack(rows, micro, entropies, to.entropies);
    }
    if (s.options.transport == nullptr) return OkStatus();
    RowOutputs& own = partial[s.IndexOf(comm)];
    NXDKIT_TRY(GatherRows(*rank.mesh.dp, rows, own.outputs));
    if (has_entropies) NXDKIT_TRY(GatherRows(*rank.mesh.dp, rows, own.entropies));
    if (s.IndexOf(comm) == 0) out = std::move(own);
    return OkStatus();
  });
  if (!ran.ok()) return ran.error();
  return out;
}

Result<UpdateResult> MeshModel::Update(std::span<const Row> rows,
                                       const std::vector<std::vector<size_t>>& shares,
                                       const Loss& loss, double lr) {
  State& s = *state_;
  NXDKIT_CHECK(static_cast<int>(shares.size()) == s.options.dp);
  UpdateResult result;
  const Status ran = s.world.Run([&](Comm& comm) -> Status {
    Rank& rank = s.of(comm);
    std::ranges::fill(rank.decoder->gradients(), 0.0f);
    NXDKIT_TRY(
        s.RunMicroBatches(rank, rows, shares[static_cast<size_t>(rank.mesh.dp_rank())], loss));
    NXDKIT_ASSIGN(const UpdateResult mine, s.Step(rank, lr));
    if (s.IndexOf(comm) == 0) result = mine;
    return OkStatus();
  });
  if (!ran.ok()) return ran.error();
  return result;
}

std::vector<RankMemory> MeshModel::weights() {
  std::vector<RankMemory> memory;
  for (int rank = 0; rank < state_->options.tp; ++rank)
    memory.push_back(state_->MemoryOf(state_->ranks[static_cast<size_t>(rank)]));
  return memory;
}

OptimizerMemory MeshModel::optimizer() {
  OptimizerMemory memory;
  const auto tp = static_cast<size_t>(state_->options.tp);
  for (size_t r = 0; r < state_->ranks.size(); ++r) {
    RankOptimizer& optimizer = *state_->ranks[r].optimizer;
    const auto add = [&](std::vector<RankMemory>& ranks, const RankMemory& part) {
      if (r < tp)
        ranks.push_back(part);
      else
        Append(ranks[r % tp], part);
    };
    const std::vector<RankOptimizer::Entry> entries = optimizer.entries();
    memory.entries.resize(entries.size());
    for (size_t e = 0; e < entries.size(); ++e) {
      memory.entries[e].name = entries[e].name;
      add(memory.entries[e].ranks, entries[e].memory);
    }
    if (const auto masters = optimizer.masters()) add(memory.masters, *masters);
    memory.step = optimizer.step();
  }
  const AdamOptions& adam = state_->options.optimizer.adam;
  memory.betas = {adam.beta1, adam.beta2};
  memory.eps = adam.epsilon;
  memory.weight_decay = adam.weight_decay;
  return memory;
}

// The files are read once; the other data-parallel ranks copy the weights that the first ones got.
Status MeshModel::Restore(const std::string& tag_folder, const ops::RunOptions& run) {
  State& s = *state_;
  OptimizerMemory first = optimizer();
  NXDKIT_TRY(LoadTraining(tag_folder, s.config.model, weights(), first, run));
  for (size_t r = 0; r < s.ranks.size(); ++r) {
    Rank& from = s.ranks[r % static_cast<size_t>(s.options.tp)];
    Rank& to = s.ranks[r];
    Weights& weights = to.decoder->weights();
    if (&from != &to)
      std::copy_n(from.decoder->weights().bytes(),
                  to.decoder->table().size * ElementBytes(weights.dtype()), weights.bytes());
    to.optimizer->set_step(first.step);
    weights.Changed();
  }
  return OkStatus();
}

}  // namespace nxdkit::trainer
