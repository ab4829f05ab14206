// PRIVATE: a kernel of a vLLM Neuron tree: nki/<32 hex>.json, and the binary that it names. Facts:
// FORMAT.md beside this file, read from source, not run.
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
  std::string text;  // all of it
  Json json;
  std::string config;  // dumped_config, base64
  std::string binary;  // absolute path in it
  std::string copy;    // kernel_binary: a path below nki/; "" where the file has none
};
// kCorrupt, with the key, for what is no such file; kUnsupported for another schema.
Result<LiteKernel> ReadLiteKernel(const std::string& path);

// The file's text with another path of the binary.
Result<std::string> KernelWithBinary(const LiteKernel& kernel, const std::string& binary);
// Equal texts: the same kernel, wherever the binaries lie.
std::string KernelWithoutPaths(const LiteKernel& kernel);

// Path of the binary that belongs to the kernel, for a tree that came from elsewhere: the copy that
// the file names; the absolute path, which is the engine's own, where that is in the tree or in one
// of `folders`, links resolved; else, because base names collide, nki/binaries/<name of the
// binary>. "" when it is nowhere of these.
Result<std::string> FindKernelBinary(const std::string& root, const std::string& binary,
                                     const std::string& copy,
                                     const std::vector<std::string>& folders);

std::string KernelFolder(const std::string& root);
std::string KernelBinaryFolder(const std::string& root);
// "nki/<key>.lock" of "nki/<key>.json": a flock
std::string KernelLockPath(std::string_view file);
// Base names of the kernels' files in nki/, sorted; none where there is no such folder.
Result<std::vector<std::string>> ListLiteKernels(const std::string& root);

}  // namespace nxdkit::neff
