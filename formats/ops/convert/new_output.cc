#include "formats/ops/convert/new_output.h"

#include "lib/system/copy_file.h"
#include "lib/system/file.h"
#include "lib/system/paths.h"
#include "lib/system/staging.h"

namespace nxdkit::ops {
namespace {

class NewOutputFolder : public Destination {
 public:
  NewOutputFolder(const ConvertRequest& request, Conversion& conversion)
      : request_(request), conversion_(conversion) {}

  Result<Sink*> Begin(const Workload& workload, ConvertReport& report) override {
    OutputPlan& output = conversion_.output;
    NXDKIT_ASSIGN(Staging staging, Staging::Begin(request_.output, {.replace = request_.force,
                                                                    .resume = request_.resume,
                                                                    .folder = !output.single_file,
                                                                    .sync = request_.sync}));
    staging_.emplace(std::move(staging));
    WriteSink::Options options{.sync = request_.sync, .jobs = request_.run.jobs, .fingerprint = ""};
    // A single file has no folder to keep a journal in.
    if (!output.single_file) options.fingerprint = Fingerprint(conversion_, workload);
    NXDKIT_ASSIGN(
        sink_, WriteSink::Begin(staging_->path(), output.layout, std::move(output.files), options));
    report.resumed_tasks = sink_->resumed_tasks();
    return sink_.get();
  }

  void Keep() override { staging_->Keep(); }

  Result<std::optional<MadePlace>> Finish(ConvertReport&) override {
    NXDKIT_TRY(sink_->Finish());
    NXDKIT_TRY(WriteSideFiles(conversion_.output, staging_->path(), request_.sync));
    return std::optional(MadePlace{staging_->path(), ""});
  }

  Status Publish(ConvertReport&) override { return staging_->Publish(); }

 private:
  const ConvertRequest& request_;
  Conversion& conversion_;
  std::optional<Staging> staging_;
  std::unique_ptr<WriteSink> sink_;
};

}  // namespace

std::unique_ptr<Destination> MakeNewOutput(const ConvertRequest& request, Conversion& conversion) {
  return std::make_unique<NewOutputFolder>(request, conversion);
}

Status WriteText(const std::string& path, const std::string& contents, bool sync) {
  NXDKIT_ASSIGN(File file, File::OpenWrite(path));
  NXDKIT_TRY(file.Allocate(contents.size()));
  NXDKIT_TRY(file.WriteAt(0, std::as_bytes(std::span(contents.data(), contents.size()))));
  if (sync) NXDKIT_TRY(file.Sync());
  return file.Close();
}

Status WriteSideFiles(const OutputPlan& output, const std::string& folder, bool sync) {
  for (const auto& [path, from] : output.copies)
    NXDKIT_TRY(CopyFile(from, JoinPath(folder, path), sync));
  for (const auto& [path, contents] : output.texts)
    NXDKIT_TRY(WriteText(JoinPath(folder, path), contents, sync));
  return OkStatus();
}

}  // namespace nxdkit::ops
