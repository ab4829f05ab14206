// PRIVATE: a kernel of a vLLM Neuron tree: nki/<32 hex>.json, and the binary that it names. Facts:
// FORMAT.md, read from source, not run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "lib/json/json.h"

namespace nxdkit::neff {

inline constexpr int64_t kKernelSchema = 1;

struct LiteKernel {
  std::string path;  // the file's
  std::string text;  // the whole file
  Json json;
  std::string config;  // dumped_config, base64
  std::string binary;  // absolute path in the configuration
  std::string copy;    // kernel_binary: a path below nki/; "" if absent
};
// kCorrupt, with the key, if it is not such a file; kUnsupported for another schema.
Result<LiteKernel> ReadLiteKernel(const std::string& path);

// The file's text with another path of the binary.
Result<std::string> KernelWithBinary(const LiteKernel& kernel, const std::string& binary);
// Equal texts are the same kernel, wherever the binaries are.
std::string KernelWithoutPaths(const LiteKernel& kernel);

// The path of the kernel's binary, for a tree that came from elsewhere: the copy that the file
// names; the absolute path, which the engine uses, if it is in the tree or in one of `folders`,
// links resolved; otherwise, because base names collide, nki/binaries/<name of the binary>. "" when
// none of these exists.
Result<std::string> FindKernelBinary(const std::string& root, const std::string& binary,
                                     const std::string& copy,
                                     const std::vector<std::string>& folders);

std::string KernelFolder(const std::string& root);
std::string KernelBinaryFolder(const std::string& root);
// "nki/<key>.lock" for "nki/<key>.json": a flock
std::string KernelLockPath(std::string_view file);
// Base names of the kernels' files in nki/, sorted; empty if there is no such folder.
Result<std::vector<std::string>> ListLiteKernels(const std::string& root);

}  // namespace nxdkit::neff
