#include "formats/fsdp/open.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "formats/dcp/folder_files.h"
#include "formats/dcp/shard_entries.h"
#include "formats/fsdp/read_extra.h"
#include "formats/fsdp/read_model.h"
#include "formats/fsdp/read_optimizer.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::fsdp {
namespace {

using Allowed = torch::ReadOptions::Allowed;

class Opener {
 public:
  Opener(const std::string& path, const Looker& look, const OpenOptions& options)
      : look_(look), options_(options) {
    out_.path = path;
    out_.form = dcp::FolderForm::kRankFiles;
  }

  Result<Opened> Run() {
    NXDKIT_ASSIGN(facts_.set, FindRankSet(out_.path, look_, options_.world));
    for (const std::string& warning : facts_.set.warnings) AddWarning(out_, warning);
    NXDKIT_TRY(CheckThere(FilePart::kModel, !options_.partial));
    // A run may have been saved without its optimizer.
    const bool any_optimizer = !facts_.set.of(FilePart::kOptimizer).empty();
    NXDKIT_TRY(CheckThere(FilePart::kOptimizer, options_.optimizer && any_optimizer));
    NXDKIT_TRY(OpenFiles());
    NXDKIT_TRY(ReadModel());
    const size_t tensors = out_.tensors.size(), objects = out_.metadata.objects.size();
    if (!options_.partial) NXDKIT_TRY(CheckFrom(0));
    Status optimizer = ReadOptimizer();
    if (optimizer.ok()) optimizer = CheckFrom(tensors);
    if (optimizer.ok()) optimizer = dcp::CheckScalars(out_);
    if (!optimizer.ok() && (options_.optimizer || optimizer.error().code() == Errc::kIo))
      return std::move(optimizer).error();
    if (!optimizer.ok()) {
      AddWarning(out_, fmt::format("the optimizer's state cannot be read: {}",
                                   optimizer.error().ToString()));
      out_.tensors.resize(tensors);
      for (const int rank : facts_.set.of(FilePart::kOptimizer))
        files_.files[files_.Number(FileName(FilePart::kOptimizer, facts_.set.world, rank))]
            .tensors.clear();
      out_.metadata.objects.resize(objects);
      facts_.form = OptimizerForm::kNone;
    }
    Status extra = ReadExtra();
    if (!extra.ok() && (options_.optimizer || extra.error().code() == Errc::kIo))
      return std::move(extra).error();
    if (!extra.ok()) AddWarning(out_, extra.error().ToString());
    FindBuffers();
    out_.files = std::move(files_.files);
    return Opened{std::move(out_), std::move(facts_)};
  }

 private:
  // The parts of every tensor from number `first` on must cover it.
  Status CheckFrom(size_t first) const {
    for (size_t i = first; i < out_.tensors.size(); ++i)
      NXDKIT_TRY(dcp::CheckCover(out_.tensors[i]).in(out_.path).on(out_.tensors[i].key));
    return OkStatus();
  }

  // Every rank must have a file of the part; an optional part may also have no file at all.
  Status CheckThere(FilePart part, bool must) {
    if (facts_.set.IsWhole(part)) return OkStatus();
    Status status = CheckWhole(facts_.set, part);
    if (must) return status;
    if (!facts_.set.of(part).empty() || part == FilePart::kModel)
      AddWarning(out_, status.error().ToString());
    return OkStatus();
  }

  Status OpenFiles() {
    std::set<std::string> names;
    facts_.rank_bytes.resize(static_cast<size_t>(facts_.set.world));
    for (const FilePart part : {FilePart::kModel, FilePart::kOptimizer, FilePart::kExtraState})
      for (const int rank : facts_.set.of(part))
        names.insert(FileName(part, facts_.set.world, rank));
    NXDKIT_ASSIGN(files_, dcp::FolderFiles::Open(out_.path, names, out_.path));
    for (const FilePart part : {FilePart::kModel, FilePart::kOptimizer, FilePart::kExtraState})
      for (const int rank : facts_.set.of(part))
        facts_.rank_bytes[static_cast<size_t>(rank)] +=
            files_.files[files_.Number(FileName(part, facts_.set.world, rank))].file_bytes;
    return OkStatus();
  }

  // Reads the files of a part, rank after rank.
  template <typename Take>
  Status ForRanks(FilePart part, Allowed allowed, const Take& take) {
    for (const int rank : facts_.set.of(part)) {
      const std::string name = FileName(part, facts_.set.world, rank);
      const uint32_t file = files_.Number(name);
      NXDKIT_TRY(ReadOne({part, facts_.set.world, rank}, file, allowed, take)
                     .in(JoinPath(out_.path, name)));
    }
    return OkStatus();
  }
  template <typename Take>
  Status ReadOne(const RankFileName& name, uint32_t file, Allowed allowed, const Take& take) {
    Result<torch::Archive> archive = ReadRankArchive(files_, file, allowed, name, out_);
    // An object of another class is accepted: these files are carried over as they are.
    if (!archive.ok() && name.part == FilePart::kExtraState &&
        archive.error().code() == Errc::kUnsupported) {
      AddWarning(out_, fmt::format("a rank's scheduler and random numbers are not read: {}",
                                   archive.error().ToString()));
      return OkStatus();
    }
    if (!archive.ok()) return std::move(archive).error();
    return take(*archive, file, name.rank);
  }

  Status ReadModel() {
    ModelReader reader(entries_, facts_);
    NXDKIT_TRY(ForRanks(FilePart::kModel, Allowed::kDistributed,
                        [&](const torch::Archive& archive, uint32_t file, int rank) {
                          return reader.Add(archive, file, rank);
                        }));
    return reader.Finish(facts_.set.of(FilePart::kModel).size()).in(out_.path);
  }

  // Buffers are the tensors that are not cut where weights are; where nothing is cut, those that
  // the optimizer does not have.
  void FindBuffers() {
    const bool any_placed = std::ranges::any_of(facts_.tensors, &ModelTensor::placed);
    std::set<std::string_view> trained;
    for (const std::vector<std::string>& group : facts_.groups)
      trained.insert(group.begin(), group.end());
    if (!any_placed && trained.empty()) return;
    for (const ModelTensor& tensor : facts_.tensors)
      if (any_placed ? !tensor.placed : !trained.contains(tensor.name))
        out_.whole_keys.insert(tensor.name);
  }

  Status ReadOptimizer() {
    if (!facts_.set.IsWhole(FilePart::kOptimizer)) return OkStatus();
    OptimizerReader reader(entries_, facts_, options_.optimizer);
    NXDKIT_TRY(ForRanks(FilePart::kOptimizer, Allowed::kDistributed,
                        [&](const torch::Archive& archive, uint32_t file, int rank) {
                          return reader.Add(archive, file, rank);
                        }));
    return reader.Finish().in(out_.path);
  }

  Status ReadExtra() {
    ExtraReader reader(entries_);
    const auto take = [&](const torch::Archive& archive, uint32_t, int rank) {
      return reader.Add(archive, rank);
    };
    return ForRanks(FilePart::kExtraState, Allowed::kRunState, take);
  }

  Looker look_;
  OpenOptions options_;
  dcp::Folder out_;
  dcp::FolderFiles files_;
  Facts facts_;
  dcp::ShardEntries entries_{out_, files_};
};

}  // namespace

std::string_view FormName(OptimizerForm form) {
  static constexpr std::array<std::string_view, 5> kNames = {"none", "by name", "by number",
                                                             "flat units", "slices of parameters"};
  return kNames[static_cast<size_t>(form)];
}

Result<Opened> Open(const std::string& path, const Looker& look, const OpenOptions& options) {
  return Opener(path, look, options).Run();
}

}  // namespace nxdkit::fsdp
