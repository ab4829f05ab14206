// A mesh of a tiny model, over threads or over the processes of a launcher, prints the bits of its
// results; tests/tools/mpi_test.cc compares them.
//
//   mesh_probe PLUGIN TP DP [die|hang PROCESS]
//   mesh_probe PLUGIN TP DP led     process 0 leads the others; without others it does all itself
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <bit>
#include <cstdlib>
#include <optional>

#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "tests/trainer/learner/some_rows.h"
#include "tests/trainer/model/model_lab.h"
#include "trainer/comm/mpi_transport.h"
#include "trainer/learner/follow.h"
#include "trainer/learner/followers.h"
#include "trainer/learner/mesh_model.h"

namespace nxdkit::trainer {
namespace {

// FNV-1a of the bits.
uint64_t HashOf(const RowValues& values) {
  uint64_t hash = 14695981039346656037u;
  for (const std::vector<float>& row : values)
    for (const float value : row) hash = (hash ^ std::bit_cast<uint32_t>(value)) * 1099511628211u;
  return hash;
}

struct Fault {
  std::string kind;
  int process = -1;
  void Strike(int process_now) const {
    if (process_now != process) return;
    if (kind == "die") ::raise(SIGKILL);
    if (kind == "hang") ::sleep(1000);
  }
};

Status Run(const std::string& plugin, MeshOptions options, const Fault& fault) {
  std::unique_ptr<Transport> transport;
  if (LaunchedProcesses() > 1) {
    NXDKIT_ASSIGN(transport, StartMpi({plugin, std::chrono::seconds(fault.kind.empty() ? 60 : 4)}));
  }
  options.transport = transport.get();
  const int process = transport ? transport->process() : 0;
  const ModelLab lab{testing_util::TinyQwen3()};
  NXDKIT_ASSIGN(const std::unique_ptr<MeshModel> model,
                MeshModel::Make(lab.config(), options, lab.source()));
  const std::vector<Row> rows = SomeRows();
  std::vector<std::vector<size_t>> shares(static_cast<size_t>(options.dp));
  for (size_t r = 0; r < rows.size(); ++r) shares[r * shares.size() / rows.size()].push_back(r);
  for (int step = 0; step < 5; ++step) {
    if (step == 3) fault.Strike(process);
    NXDKIT_ASSIGN(const UpdateResult updated, model->Update(rows, shares, SomeLoss, 1e-2));
    NXDKIT_ASSIGN(const RowOutputs outputs, model->Evaluate(rows));
    if (process == 0)
      fmt::print("step {} norm {:a} outputs {:016x} entropies {:016x}\n", step, updated.grad_norm,
                 HashOf(outputs.outputs), HashOf(outputs.entropies));
  }
  return OkStatus();
}

Status CompareFiles(const std::string& folder, const std::string& other) {
  for (const char* part : {"model", "optim"}) {
    NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(folder + "/" + part));
    for (const std::string& name : names) {
      const std::string path = std::string("/") + part + "/" + name;
      NXDKIT_ASSIGN(const std::string one, ReadSmallFile(folder + path, 1 << 30));
      NXDKIT_ASSIGN(const std::string two, ReadSmallFile(other + path, 1 << 30));
      if (one != two) return Error(Errc::kFindings, "the files differ").in(path);
    }
  }
  return OkStatus();
}

// Learns, saves, continues; and another model resumes from the saved state.
Status Lead(MeshOptions options, Transport* transport) {
  std::optional<Leader> leader;
  if (transport != nullptr) leader.emplace(*transport);
  const ModelLab lab{testing_util::TinyQwen3()};
  const testing_util::Scratch scratch;
  options.transport = transport;
  options.led = transport != nullptr;
  options.leader = leader ? &*leader : nullptr;
  options.origin.path = lab.source().artifact.path;
  const std::vector<Row> rows = SomeRows();
  std::vector<std::vector<size_t>> shares(static_cast<size_t>(options.dp));
  for (size_t r = 0; r < rows.size(); ++r) shares[r * shares.size() / rows.size()].push_back(r);
  const auto step = [&](MeshModel& model, const char* name) -> Status {
    NXDKIT_ASSIGN(const UpdateResult updated, model.Update(rows, shares, SomeLoss, 1e-2));
    NXDKIT_ASSIGN(const RowOutputs outputs, model.Evaluate(rows));
    fmt::print("{} norm {:a} outputs {:016x}\n", name, updated.grad_norm, HashOf(outputs.outputs));
    return OkStatus();
  };
  {
    NXDKIT_ASSIGN(const auto model, MeshModel::Make(lab.config(), options, lab.source()));
    for (int i = 0; i < 3; ++i) NXDKIT_TRY(step(*model, "first"));
    // By this process, which reads what others hold, and by all together.
    const ops::Artifact& base = lab.source().artifact;
    NXDKIT_TRY(model->WriteTag(base, {scratch.Path("alone")}, false));
    NXDKIT_TRY(model->WriteTag(base, {scratch.Path("tag")}, true));
    NXDKIT_TRY(CompareFiles(scratch.Path("alone"), scratch.Path("tag")));
    NXDKIT_TRY(step(*model, "further"));
    NXDKIT_ASSIGN(const auto second, MeshModel::Make(lab.config(), options, lab.source()));
    NXDKIT_TRY(second->Restore(scratch.Path("tag"), {}));
    NXDKIT_TRY(step(*second, "restored"));
  }
  return leader ? leader->TellAll({{"call", "end"}}) : OkStatus();
}

Status RunLed(const std::string& plugin, const MeshOptions& options) {
  std::unique_ptr<Transport> transport;
  if (LaunchedProcesses() > 1) {
    NXDKIT_ASSIGN(transport, StartMpi({plugin, std::chrono::seconds(60)}));
  }
  if (transport != nullptr && transport->process() > 0) return Follow(*transport);
  return Lead(options, transport.get());
}

}  // namespace
}  // namespace nxdkit::trainer

int main(int argc, char** argv) {
  using namespace nxdkit::trainer;
  if (argc < 4) return 2;
  MeshOptions options;
  options.tp = std::atoi(argv[2]);
  options.dp = std::atoi(argv[3]);
  options.update.max_tokens = options.experience.max_tokens = 40;
  options.decoder.compute = nxdkit::Dtype::kBF16;
  const Fault fault = argc > 5 ? Fault{argv[4], std::atoi(argv[5])} : Fault{};
  const bool led = argc == 5 && std::string(argv[4]) == "led";
  const nxdkit::Status status = led ? RunLed(argv[1], options) : Run(argv[1], options, fault);
  std::fflush(stdout);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.error().ToString().c_str());
  ::_exit(75);  // not through MPI, which needs the network that may have failed
}
