// One array of NumPy's format 1.0 as a file of one tensor: the bytes of the toy kind.
//
//   "\x93NUMPY\x01\x00", u16 length, a header that is a Python dict, spaces up to "\n"; data
//
// Source: numpy.lib.format's own description. NumPy writes the keys in this order, with these
// spaces; another order is refused.
#pragma once

#include <memory>
#include <string>

#include "lib/system/file_cache.h"
#include "lib/tensor/tensor.h"

namespace nxdkit::npy {

// Recognised by the first bytes; false for anything but a regular file.
Result<bool> LooksLikeNpy(const std::string& path);

// Reads the header, never the data; `name` becomes the tensor's. The file is opened again through
// `cache` when its data is read. kCorrupt with the offset: a truncated file, or a shape that does
// not match the bytes after the header. kUnsupported: a dtype other than '<f4' and '<f2', Fortran
// order.
Result<TensorFile> OpenNpy(const std::string& path, std::string name,
                           const std::shared_ptr<FileCache>& cache);

}  // namespace nxdkit::npy
