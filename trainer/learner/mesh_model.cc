#include "trainer/learner/mesh_model.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <new>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "formats/kinds/table.h"
#include "formats/ops/convert/convert.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"
#include "trainer/comm/reduce.h"
#include "trainer/learner/followers.h"
#include "trainer/learner/gradient_reducer.h"
#include "trainer/learner/led_losses.h"
#include "trainer/learner/peer_reads.h"

namespace nxdkit::trainer {
namespace {

// An NFS client may not see a new file for up to a minute.
constexpr auto kLongestLook = std::chrono::seconds(90);
constexpr auto kLookAgain = std::chrono::milliseconds(200);

// One rank of the mesh.
struct Rank {
  Mesh mesh;
  std::unique_ptr<Decoder> decoder;
  std::unique_ptr<RankOptimizer> optimizer;
  std::vector<Bucket> buckets;  // for weights and gradients, in the optimizer's cut
  std::unique_ptr<GradientReducer> reducer;
  int64_t open_end = 0;  // the end of the gradients not yet final in this update
};

// Copies the values of a micro-batch's tokens to the places of their rows.
void Unpack(std::span<const Row> rows, std::span<const size_t> micro, std::span<const float> values,
            RowValues& to) {
  for (const size_t r : micro) {
    const std::span<const float> own = values.first(rows[r].response.size());
    to[r].assign(own.begin(), own.end());
    values = values.subspan(own.size());
  }
}

// Each rank of the group has the values of its share of the rows; afterwards all have all.
Status GatherRows(Comm& dp, std::span<const Row> rows, RowValues& values) {
  if (rows.empty()) return OkStatus();
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

// kUsage when they do not match the mesh.
Result<std::vector<int>> RanksOfProcesses(const MeshOptions& options) {
  const int ranks = options.tp * options.dp, processes = Processes(options);
  std::vector<int> of_process = options.ranks_of_process;
  if (of_process.empty() && ranks % processes != 0)
    return BadUsage("{} ranks cannot be divided over {} processes", ranks, processes);
  if (of_process.empty()) of_process.assign(static_cast<size_t>(processes), ranks / processes);
  if (std::ssize(of_process) != processes || of_process.front() < 1 ||
      std::reduce(of_process.begin(), of_process.end()) != ranks)
    return Error(Errc::kInternal, "the ranks of the processes do not add up to the mesh");
  if (const int most = std::ranges::max(of_process); processes > 1 && most > kMostRanksOfProcess)
    return Unsupported("{} ranks in one of {} processes, {} are supported", most, processes,
                       kMostRanksOfProcess);
  return of_process;
}

}  // namespace

struct MeshModel::State {
  State(const DecoderConfig& config_in, const MeshOptions& options_in,
        const std::vector<int>& ranks_of_process)
      : config(config_in),
        options(options_in),
        ends_of_process(ranks_of_process),
        ranks(static_cast<size_t>(ranks_of_process[static_cast<size_t>(Process())])),
        world(ranks_of_process, 1, options.transport) {
    std::partial_sum(ends_of_process.begin(), ends_of_process.end(), ends_of_process.begin());
  }
  // The ranks' threads communicate in the world.
  ~State() {
    for (Rank& rank : ranks) rank.reducer.reset();
  }

  // The index of a rank of the mesh among those of this process.
  size_t IndexOf(int mesh_rank) const {
    const int end = ends_of_process[static_cast<size_t>(Process())];
    return static_cast<size_t>(mesh_rank) + ranks.size() - static_cast<size_t>(end);
  }
  size_t IndexOf(const Comm& comm) const { return IndexOf(comm.rank()); }
  Rank& of(const Comm& comm) { return ranks[IndexOf(comm)]; }

  Status Load(const artifact::BoundArtifact& source) {
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
    rank.buckets = MakeBuckets(table, options.dp, options.least_bucket);
    NXDKIT_ASSIGN(
        RankOptimizer optimizer,
        RankOptimizer::Make(options.optimizer, table, SharesOf(rank.buckets, rank.mesh.dp_rank()),
                            rank.decoder->weights()));
    rank.optimizer = std::make_unique<RankOptimizer>(std::move(optimizer));
    const bool background =
        options.overlap == Overlap::kAlways ||
        (options.overlap == Overlap::kOverProcesses && !rank.mesh.dp->is_local());
    rank.reducer = std::make_unique<GradientReducer>(
        *rank.mesh.dp_background, rank.decoder->gradients(), rank.buckets, background);
    return OkStatus();
  }

  // Collects the weights after every data-parallel rank has changed its range.
  Status GatherWeights(Rank& rank) {
    Weights& weights = rank.decoder->weights();
    const auto element = static_cast<size_t>(ElementBytes(weights.dtype()));
    for (const Bucket& bucket : rank.buckets) {
      const std::span<std::byte> bytes(
          weights.bytes() + static_cast<size_t>(bucket.range.begin) * element,
          static_cast<size_t>(bucket.range.size()) * element);
      NXDKIT_TRY(AllGatherParts(*rank.mesh.dp, bytes, element, bucket.cut));
    }
    weights.Changed();
    return OkStatus();
  }

  Status RunMicroBatches(Rank& rank, std::span<const Row> rows, std::span<const size_t> share,
                         const Loss& loss) {
    std::vector<float> outputs, gradient;
    rank.open_end = rank.decoder->table().size;
    const std::vector<std::vector<size_t>> micros =
        MicroBatches(rows, share, options.update.max_tokens, options.update.max_rows);
    const auto on_final = [&](int64_t offset) { return FinalFrom(rank, offset); };
    for (const std::vector<size_t>& micro : micros) {
      const Batch batch = PackRows(rows, micro);
      outputs.resize(batch.targets.size());
      gradient.assign(batch.targets.size(), 0);
      NXDKIT_TRY(rank.decoder->Forward(batch, options.temperature, true, outputs, nullptr));
      NXDKIT_TRY(LossOf(rank, micro, outputs, gradient, loss));
      const bool last = &micro == &micros.back();
      NXDKIT_TRY(
          rank.decoder->Backward(batch, gradient, last ? Decoder::OnFinal(on_final) : nullptr));
    }
    return FinalFrom(rank, 0);
  }

  static Status FinalFrom(Rank& rank, int64_t offset) {
    NXDKIT_TRY(rank.decoder->SumPartialGradients({offset, rank.open_end}));
    rank.open_end = offset;
    rank.reducer->FinalFrom(offset);
    return OkStatus();
  }

  // Every rank of a tensor-parallel group has the same outputs and needs the same gradient.
  Status LossOf(Rank& rank, std::span<const size_t> micro, std::span<const float> outputs,
                std::span<float> gradient, const Loss& loss) const {
    const bool first = rank.mesh.tp_rank() == 0;
    if (!options.led || IsOfLeader(rank.mesh.dp_rank()))
      return loss(rank.mesh.dp_rank(), first, micro, outputs, gradient);
    if (first) NXDKIT_TRY(loss(rank.mesh.dp_rank(), true, micro, outputs, gradient));
    const FlatCut all = {std::vector<size_t>(static_cast<size_t>(options.tp), gradient.size())};
    return AllGatherParts(*rank.mesh.tp, std::as_writable_bytes(gradient), sizeof(float), all);
  }

  int Process() const { return options.transport == nullptr ? 0 : options.transport->process(); }
  int ProcessOf(int mesh_rank) const {
    return static_cast<int>(std::ranges::upper_bound(ends_of_process, mesh_rank) -
                            ends_of_process.begin());
  }
  // Whether all of the tensor-parallel group is in process 0.
  bool IsOfLeader(int dp_rank) const { return ProcessOf((dp_rank + 1) * options.tp - 1) == 0; }
  bool IsHere(int mesh_rank) const { return ProcessOf(mesh_rank) == Process(); }
  Rank& Own(int mesh_rank) { return ranks[IndexOf(mesh_rank)]; }

  Result<UpdateResult> Step(Rank& rank, double lr) {
    NXDKIT_TRY(rank.reducer->Finish());
    const std::span<const float> gradients = rank.decoder->gradients();
    std::vector<double> terms =
        SquaredNormTerms(rank.decoder->table(), rank.optimizer->ranges(), gradients);
    NXDKIT_TRY(AllReduceSum(*rank.mesh.dp, std::span(terms)));
    double squared = SumOfTerms(terms);
    NXDKIT_TRY(AllReduceSum(*rank.mesh.tp, std::span(&squared, size_t{1})));
    const GradientClip clip = ClipGradient(squared, options.max_grad_norm);
    if (!clip.skip) {
      rank.optimizer->Step({lr, clip.scale}, gradients);
      NXDKIT_TRY(GatherWeights(rank));
    }
    return UpdateResult{clip.norm, clip.skip};
  }

  // The error of a call in which all ranks took part.
  Error Failed(const Status& status) const {
    if (options.leader != nullptr) options.leader->CallFailed();
    return status.error();
  }

  RankMemory MemoryOf(Rank& rank) {
    return {&rank.decoder->table(), rank.decoder->weights().bytes(),
            rank.decoder->weights().dtype()};
  }

  // Part of an array of a rank of the mesh: its memory here, or a way to read it from its process.
  RankMemory::Part PartOf(const ArrayName& name, const FlatRange& range, std::byte* here) {
    if (IsHere(name.rank)) return {range, here};
    const auto read = [this, name](uint64_t offset, std::span<std::byte> to) -> Status {
      const int process = ProcessOf(name.rank);
      if (peers != nullptr)
        return peers->Read(process, {name.rank, name.array, name.part, offset}, to);
      return options.leader->Ask(ProcessOf(name.rank),
                                 {{"call", "read"},
                                  {"id", id},
                                  {"rank", name.rank},
                                  {"array", name.array},
                                  {"part", name.part},
                                  {"begin", offset},
                                  {"size", to.size()}},
                                 to);
    };
    return {range, nullptr, read};
  }

  // Writes all files, or this process's share of what several processes write.
  Status WriteFiles(MeshModel& model, const artifact::Artifact& base, const TagRequest& request,
                    const std::optional<ops::Part>& part) {
    OptimizerMemory optimizer = model.optimizer();
    optimizer.lr = request.lr;
    ops::ConvertRequest convert;
    convert.source = [&]() -> Result<artifact::BoundArtifact> {
      return BindTraining(base, config.model, model.weights(),
                          request.model_only ? nullptr : &optimizer);
    };
    convert.to = &kinds::kNxd;
    convert.output = request.folder;
    convert.options.Set("tp", options.tp);
    convert.options.Set("dp", options.dp);
    convert.options.Set("hw", "trn1");
    convert.run.jobs = request.jobs;
    convert.run.max_memory = kNoMemoryCap;
    convert.run.poll = request.poll;
    if (part) convert.place = *part;
    NXDKIT_TRY(ops::Convert(convert));
    return OkStatus();
  }

  // All shares are written; a network file system may show them only after a while.
  Status CombineShares(MeshModel& model, const artifact::Artifact& base, const TagRequest& request,
                       ops::Part part) {
    part.puts_together = true;
    const auto begin = std::chrono::steady_clock::now();
    while (true) {
      NXDKIT_TRY(WriteFiles(model, base, request, part));
      NXDKIT_ASSIGN(const bool there, IsFolder(request.folder));
      if (there) return OkStatus();
      if (std::chrono::steady_clock::now() - begin > kLongestLook)
        return Error(Errc::kIo,
                     "all processes have written their shares, but not all of them can be seen")
            .in(request.folder);
      std::this_thread::sleep_for(kLookAgain);
    }
  }

  Status MakeTables() {
    for (int t = 0; t < options.tp; ++t) {
      NXDKIT_ASSIGN(ParamTable table, MakeParamTable(config.model, options.tp, t));
      tables.push_back(std::move(table));
    }
    return OkStatus();
  }

  const DecoderConfig& config;
  const MeshOptions options;
  int64_t id = 0;                    // among the leader's models
  std::vector<ParamTable> tables;    // for all tensor-parallel ranks
  std::vector<int> ends_of_process;  // for each process, the rank of the mesh after its last one
  std::vector<Rank> ranks;           // the ranks of this process
  PeerReads* peers = nullptr;        // while all processes write a tag together
  ThreadWorld world;                 // last: its threads use the ranks
};

Result<std::unique_ptr<MeshModel>> MeshModel::Make(const DecoderConfig& config,
                                                   const MeshOptions& options,
                                                   const artifact::BoundArtifact& source) {
  NXDKIT_ASSIGN(const std::vector<int> ranks_of_process, RanksOfProcesses(options));
  try {
    auto state = std::make_unique<State>(config, options, ranks_of_process);
    NXDKIT_TRY(state->MakeTables());
    if (options.leader != nullptr) {
      state->id = options.leader->NextId();
      NXDKIT_TRY(options.leader->TellAll({{"call", "make"},
                                          {"id", state->id},
                                          {"source", options.origin.path},
                                          {"config", source.artifact.config_text},
                                          {"critic", options.origin.critic},
                                          {"seed", options.origin.seed},
                                          {"options", OptionsMessage(options)}}));
    }
    if (const Status loaded = state->Load(source); !loaded.ok()) return state->Failed(loaded);
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
  if (s.options.leader != nullptr)
    NXDKIT_TRY(s.options.leader->TellAll(
        {{"call", "evaluate"}, {"id", s.id}, {"rows", RowsMessage(rows)}}));
  const bool has_entropies = s.config.model.config.labels == 0;
  RowOutputs out;
  out.outputs.resize(rows.size());
  if (has_entropies) out.entropies.resize(rows.size());
  // Over processes every rank gathers the outputs of its data-parallel group.
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
  if (!ran.ok()) return s.Failed(ran);
  return out;
}

Result<UpdateResult> MeshModel::Update(std::span<const Row> rows,
                                       const std::vector<std::vector<size_t>>& shares,
                                       const Loss& loss, double lr) {
  State& s = *state_;
  NXDKIT_CHECK(static_cast<int>(shares.size()) == s.options.dp);
  HeldLoss held(loss);
  std::optional<LossServers> servers;
  if (s.options.leader != nullptr) {
    Json sent = Json::array();
    for (const std::vector<size_t>& share : shares)
      sent.push_back(Bytes(std::span<const size_t>(share)));
    NXDKIT_TRY(s.options.leader->TellAll({{"call", "update"},
                                          {"id", s.id},
                                          {"lr", lr},
                                          {"rows", RowsMessage(rows)},
                                          {"shares", sent}}));
    servers.emplace(*s.options.transport, held);
    for (int d = 0; d < s.options.dp; ++d)
      if (const int process = s.ProcessOf(d * s.options.tp); process != 0)
        servers->Serve(process, d);
  }
  const Loss used = servers ? Loss(std::ref(held)) : loss;
  UpdateResult result;
  const Status ran = s.world.Run([&](Comm& comm) -> Status {
    Rank& rank = s.of(comm);
    std::ranges::fill(rank.decoder->gradients(), 0.0f);
    NXDKIT_TRY(
        s.RunMicroBatches(rank, rows, shares[static_cast<size_t>(rank.mesh.dp_rank())], used));
    NXDKIT_ASSIGN(const UpdateResult mine, s.Step(rank, lr));
    if (s.IndexOf(comm) == 0) result = mine;
    return OkStatus();
  });
  if (servers)
    if (Status served = servers->End(ran.ok()); !served.ok()) return s.Failed(served);
  if (!ran.ok()) return s.Failed(ran);
  NXDKIT_TRY(held.first());
  return result;
}

std::vector<RankMemory> MeshModel::weights() {
  State& s = *state_;
  std::vector<RankMemory> memory;
  for (int t = 0; t < s.options.tp; ++t) {
    const ParamTable& table = s.tables[static_cast<size_t>(t)];
    std::byte* here = s.IsHere(t) ? s.Own(t).decoder->weights().bytes() : nullptr;
    memory.push_back({&table, s.options.decoder.compute, {s.PartOf({t}, {0, table.size}, here)}});
  }
  return memory;
}

// The arrays of every rank of the mesh, by their ArrayName: see ReadOwn.
OptimizerMemory MeshModel::optimizer() {
  State& s = *state_;
  OptimizerMemory memory;
  const auto array = [&](int number, auto get, const RankMemory& like) {
    std::vector<RankMemory> all;
    for (int t = 0; t < s.options.tp; ++t) {
      const ParamTable& table = s.tables[static_cast<size_t>(t)];
      const std::vector<Bucket> buckets = MakeBuckets(table, s.options.dp, s.options.least_bucket);
      all.push_back({&table, like.dtype, {}});
      for (size_t b = 0; b < buckets.size(); ++b)
        for (int d = 0; d < s.options.dp; ++d) {
          const int rank = d * s.options.tp + t;
          std::byte* here = s.IsHere(rank) ? get(*s.Own(rank).optimizer).parts[b].data : nullptr;
          all.back().parts.push_back(s.PartOf({rank, number, static_cast<int>(b)},
                                              buckets[b].shares[static_cast<size_t>(d)], here));
        }
    }
    return all;
  };
  RankOptimizer& first = *s.ranks.front().optimizer;
  const std::vector<RankOptimizer::Entry> entries = first.entries();
  for (size_t e = 0; e < entries.size(); ++e)
    memory.entries.push_back(
        {entries[e].name,
         array(
             static_cast<int>(e) + 1, [e](RankOptimizer& o) { return o.entries()[e].memory; },
             entries[e].memory)});
  if (const auto masters = first.masters())
    memory.masters = array(
        static_cast<int>(entries.size()) + 1, [](RankOptimizer& o) { return *o.masters(); },
        *masters);
  memory.step = first.step();
  const AdamOptions& adam = state_->options.optimizer.adam;
  memory.betas = {adam.beta1, adam.beta2};
  memory.eps = adam.epsilon;
  memory.weight_decay = adam.weight_decay;
  return memory;
}

Status MeshModel::ReadOwn(const ArrayName& name, uint64_t offset, std::span<std::byte> to) {
  State& s = *state_;
  if (!s.IsHere(name.rank)) return Error(Errc::kInternal, "a rank of another process");
  Rank& rank = s.Own(name.rank);
  RankMemory memory = s.MemoryOf(rank);
  if (name.array > 0) {
    const std::vector<RankOptimizer::Entry> entries = rank.optimizer->entries();
    const auto entry = static_cast<size_t>(name.array) - 1;
    memory = entry < entries.size() ? entries[entry].memory : *rank.optimizer->masters();
  }
  if (static_cast<size_t>(name.part) >= memory.parts.size())
    return Error(Errc::kInternal, "there is no such part");
  const RankMemory::Part& part = memory.parts[static_cast<size_t>(name.part)];
  const auto bytes = static_cast<uint64_t>(part.range.size() * ElementBytes(memory.dtype));
  if (offset > bytes || to.size() > bytes - offset)
    return Error(Errc::kInternal, "read past the end of a rank's memory");
  std::memcpy(to.data(), part.data + offset, to.size());
  return OkStatus();
}

Status MeshModel::WriteTag(const artifact::Artifact& base, const TagRequest& request,
                           bool together) {
  State& s = *state_;
  if (!together || s.options.leader == nullptr) return s.WriteFiles(*this, base, request, {});
  NXDKIT_TRY(s.options.leader->TellAll({{"call", "write"},
                                        {"id", s.id},
                                        {"folder", request.folder},
                                        {"lr", request.lr},
                                        {"model_only", request.model_only},
                                        {"jobs", request.jobs}}));
  const Status written = WriteShare(base, request);
  return written.ok() ? written : Status(s.Failed(written));
}

Status MeshModel::WriteShare(const artifact::Artifact& base, const TagRequest& request) {
  State& s = *state_;
  // Cores are assigned in order: processes without ranks come last.
  const int processes = s.ProcessOf(s.options.tp * s.options.dp - 1) + 1;
  const int process = s.Process();
  if (process >= processes) return OkStatus();
  const auto read_own = [this](const PeerRead& what, std::span<std::byte> to) {
    return ReadOwn({what.rank, what.array, what.part}, what.offset, to);
  };
  PeerReads peers(*s.options.transport, processes, read_own);
  s.peers = &peers;
  TagRequest whole = request;
  whole.poll = [&] { return peers.Working(); };
  const ops::Part part{
      .index = process, .count = processes, .numbered = true, .puts_together = false};
  const Status written = s.WriteFiles(*this, base, whole, part);
  s.peers = nullptr;
  NXDKIT_TRY(written);
  NXDKIT_TRY(peers.End());
  whole.poll = nullptr;
  return process == 0 ? s.CombineShares(*this, base, whole, part) : OkStatus();
}

std::vector<int> MeshModel::OthersWithRanks() const {
  std::vector<int> others;
  for (int p = 1; p < Processes(state_->options); ++p)
    if (state_->ends_of_process[static_cast<size_t>(p)] >
        state_->ends_of_process[static_cast<size_t>(p) - 1])
      others.push_back(p);
  return others;
}

std::vector<int> MeshModel::LedDataParallelRanks(int process) const {
  std::vector<int> led;
  for (int d = 0; d < state_->options.dp; ++d)
    if (state_->ProcessOf(d * state_->options.tp) == process) led.push_back(d);
  return led;
}

// Every process fills the arrays it holds. Files are read once per process; its other data-parallel
// ranks copy the weights that the first ones got.
Status MeshModel::Restore(const std::string& tag_folder, const artifact::RunOptions& run) {
  State& s = *state_;
  if (s.options.leader != nullptr)
    NXDKIT_TRY(
        s.options.leader->TellAll({{"call", "restore"}, {"id", s.id}, {"folder", tag_folder}}));
  if (s.ranks.empty()) return OkStatus();
  // The first rank here of each tensor-parallel rank.
  std::map<int, Rank*> firsts;
  for (Rank& rank : s.ranks) firsts.emplace(rank.mesh.tp_rank(), &rank);
  std::vector<RankMemory> weights_here;
  for (const auto& [tp, rank] : firsts) weights_here.push_back(s.MemoryOf(*rank));
  OptimizerMemory first = optimizer();
  const auto only_here = [&](std::vector<RankMemory>& all) {
    std::vector<RankMemory> kept;
    for (const auto& [tp, rank] : firsts) kept.push_back(all[static_cast<size_t>(tp)]);
    all = std::move(kept);
  };
  for (OptimizerMemory::Entry& entry : first.entries) only_here(entry.ranks);
  if (!first.masters.empty()) only_here(first.masters);
  NXDKIT_TRY(LoadTraining(tag_folder, s.config.model, weights_here, first, run));
  for (Rank& to : s.ranks) {
    Rank& from = *firsts.at(to.mesh.tp_rank());
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
