// PRIVATE to formats: identifies a path that holds no artifact, and says what to do about it.
#pragma once

#include <optional>
#include <string>

#include "formats/artifact/words.h"
#include "lib/base/error.h"
#include "lib/system/looker.h"

namespace nxdkit::kinds {

// Nothing exists at `path`: kNotFound, with the nearest name in its folder.
Error NothingThere(const std::string& path);

// A file of another format, by its first bytes and its name, kUnsupported; or a broken download,
// kCorrupt. nullopt if it is not known.
std::optional<Error> KnownStranger(const std::string& path);

// The same for a file that is of no kind: kUnsupported also for an unknown one.
Error StrangeFile(const std::string& path, const Looker& look);

// A folder that is of no kind, by the names in it: another program's checkpoint, an unfinished
// download, a folder with artifacts one or two folders deeper, or one inside an artifact.
Error StrangeFolder(const std::string& path, const Looker& look);

}  // namespace nxdkit::kinds
