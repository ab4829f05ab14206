// Opens a checkpoint of any kind, lists its tensors and reads the first one.   open PATH
#include <cstdio>
#include <vector>

#include "formats/kinds/open.h"

namespace {

int Fail(const nxdkit::Error& error) {
  std::fprintf(stderr, "%s\n", error.ToString().c_str());
  return nxdkit::ExitCode(error.code());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  // Without a kind the path is recognised by its contents. Only the structure is read.
  const auto artifact = nxdkit::kinds::OpenArtifact(argv[1], nullptr, {});
  if (!artifact) return Fail(artifact.error());
  for (const nxdkit::TensorFile& file : artifact->files)
    for (const nxdkit::StoredTensor& tensor : file.tensors)
      std::printf("%s %s %s\n", tensor.name.c_str(), std::string(Name(tensor.dtype)).c_str(),
                  nxdkit::ShapeText(tensor.shape).c_str());
  std::printf("%s: %zu tensors\n", std::string(artifact->kind->name).c_str(),
              artifact->tensor_count());
  if (artifact->files.empty() || artifact->files[0].tensors.empty()) return 0;

  const nxdkit::StoredTensor& first = artifact->files[0].tensors[0];
  if (!nxdkit::IsPacked(first)) return 0;  // a view: its elements have gaps between them
  const auto bytes = nxdkit::PackedBytes(first.dtype, first.shape);
  if (!bytes) return Fail(bytes.error());
  std::vector<std::byte> memory(*bytes);
  if (const auto read = first.storage->ReadAt(first.offset, memory); !read)
    return Fail(read.error());
  std::printf("%s: %zu bytes are read\n", first.name.c_str(), memory.size());
  return 0;
}
