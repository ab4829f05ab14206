#include "formats/kinds/dcp/dcp_state.h"

#include <algorithm>

namespace nxdkit::ops {
namespace {

class DcpObjects : public RunObjects {
 public:
  explicit DcpObjects(std::shared_ptr<const dcp::Folder> folder) : folder_(std::move(folder)) {}

  const std::string& path() const override { return folder_->path; }
  std::vector<std::string> Keys() const override {
    std::vector<std::string> keys;
    for (const dcp::ObjectEntry& object : folder_->metadata.objects) keys.push_back(object.key);
    return keys;
  }
  Result<torch::PickleValue> Read(std::string_view key) const override {
    const auto& objects = folder_->metadata.objects;
    const auto found = std::ranges::find(objects, key, &dcp::ObjectEntry::key);
    NXDKIT_CHECK(found != objects.end());
    return dcp::ReadObjectValue(*folder_, *found);
  }

 private:
  std::shared_ptr<const dcp::Folder> folder_;
};

const DcpState* StateOf(const Artifact& artifact) {
  return dynamic_cast<const DcpState*>(artifact.state.get());
}

}  // namespace

const dcp::Folder* DcpFolderOf(const Artifact& artifact) {
  const DcpState* const state = StateOf(artifact);
  return state ? state->folder.get() : nullptr;
}

std::shared_ptr<const RunObjects> DcpObjectsOf(const Artifact& artifact) {
  return std::make_shared<DcpObjects>(StateOf(artifact)->folder);
}

}  // namespace nxdkit::ops
