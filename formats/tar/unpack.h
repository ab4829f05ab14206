// PRIVATE: what is in an archive, as files again.
#pragma once

#include "formats/tar/transport.h"

namespace nxdkit::tar {

struct UnpackRequest {
  std::string archive;  // kStream: from standard input
  std::string output;   // the folder, or the file
  int strip = 0;        // leading parts of every name that are dropped
  bool force = false;
  bool sync = true;
  Hooks hooks = {};
};

// kUsage when the archive is of a file (see Pack), and there is a folder where it would be.
Result<TransportReport> Unpack(const UnpackRequest& request);

}  // namespace nxdkit::tar
