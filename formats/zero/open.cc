#include "formats/zero/open.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "formats/dcp/folder_files.h"
#include "formats/zero/stages.h"
#include "formats/zero/tag_entries.h"
#include "formats/zero/tag_state.h"
#include "formats/zero/universal.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::zero {
namespace {

class Opener {
 public:
  Opener(const TagFiles& files, const OpenOptions& options)
      : tag_{files, options, out_, entries_, facts_} {
    out_.path = files.path;
    out_.form = dcp::FolderForm::kRankFiles;
  }

  Result<Opened> Run() {
    NXDKIT_TRY(OpenFiles());
    NXDKIT_TRY(ReadModels());
    Stage3 stage;
    const bool is_stage3 = tag_.files.per_rank && !tag_.files.universal;
    if (tag_.files.universal)
      NXDKIT_TRY(AddUniversal());
    else if (is_stage3)
      NXDKIT_TRY(AddWeights3(tag_).To(stage));
    else
      NXDKIT_TRY(AddWeights12(tag_));
    NXDKIT_TRY(CheckEntries());
    Remember();
    Status state = tag_.files.universal ? AddUniversalState(tag_, universal_)
                   : is_stage3          ? AddState3(tag_, stage)
                                        : AddState12(tag_);
    if (state.ok()) state = CheckEntries();
    if (!state.ok()) NXDKIT_TRY(LeaveState(std::move(state).error()));
    TellFacts();
    out_.files = std::move(files_.files);
    return Opened{std::move(out_), std::move(facts_)};
  }

 private:
  Status OpenFiles() {
    std::set<std::string> names;
    for (const auto* files : {&tag_.files.models, &tag_.files.optimizers})
      for (const auto& [rank, name] : *files) names.insert(name);
    if (tag_.files.universal) {
      NXDKIT_ASSIGN(universal_, ListUniversal(tag_.files.path));
      for (const std::string& name : universal_.FileNames()) names.insert(name);
    }
    return dcp::FolderFiles::Open(tag_.files.path, names, tag_.files.path).To(files_);
  }

  Status ReadModels() {
    for (const auto& [rank, name] : tag_.files.models) {
      NXDKIT_ASSIGN(const torch::Archive archive, entries_.Read(name, rank));
      NXDKIT_ASSIGN(ModelFile model, ReadModelFile(archive).in(archive.path));
      tag_.models.push_back(std::move(model));
    }
    return OkStatus();
  }

  // With a stage 3 source the frozen parameters stay in the ranks' model files.
  Status AddUniversal() {
    NXDKIT_TRY(AddUniversalWeights(tag_, universal_));
    if (!tag_.files.per_rank) return OkStatus();
    const auto world = static_cast<int>(tag_.models.size());
    NXDKIT_TRY(CheckRanks(tag_.files.models, world, "model's", out_.warnings).in(tag_.files.path));
    return AddFrozen3(tag_, world);
  }

  Status CheckEntries() const {
    for (const dcp::StoredEntry& entry : out_.tensors)
      NXDKIT_TRY(dcp::CheckCover(entry).in(out_.path).on(entry.key));
    return dcp::CheckScalars(out_);
  }

  // Notes the tensors without the optimizer's state, for a reader who does not ask for it.
  void Remember() {
    tensors_ = out_.tensors.size();
    for (const TensorFile& file : files_.files) in_files_.push_back(file.tensors.size());
  }
  Status LeaveState(Error error) {
    if (tag_.options.optimizer || error.code() == Errc::kIo) return error;
    AddWarning(out_, fmt::format("the optimizer's state cannot be read: {}", error.ToString()));
    out_.tensors.resize(tensors_);
    out_.metadata.objects.clear();
    for (size_t f = 0; f < in_files_.size(); ++f) files_.files[f].tensors.resize(in_files_[f]);
    return OkStatus();
  }

  void TellFacts() {
    const ModelFile& model = tag_.model();
    facts_.steps = model.steps;
    facts_.version = model.version;
    facts_.others = model.others;
    for (const std::string& buffer : model.buffers) out_.whole_keys.insert(buffer);
    if (!model.scheduler) return;
    for (const auto& [key, value] : *model.scheduler->dict())
      if (key.string())
        out_.metadata.objects.push_back({"lr_scheduler." + *key.string(), {}, value});
  }

  dcp::Folder out_;
  dcp::FolderFiles files_;
  Facts facts_;
  TagEntries entries_{out_, files_};
  TagState tag_;
  UniversalFiles universal_;
  size_t tensors_ = 0;            // entries before the optimizer's
  std::vector<size_t> in_files_;  // each file's tensors before them
};

}  // namespace

Result<Opened> Open(const TagFiles& files, const OpenOptions& options) {
  return Opener(files, options).Run();
}

}  // namespace nxdkit::zero
