// PRIVATE to formats: what a path is that holds no artifact, and what to do about it.
#pragma once

#include <optional>
#include <string>

#include "formats/artifact/words.h"
#include "lib/base/error.h"
#include "lib/system/looker.h"

namespace nxdkit::kinds {

// Nothing lies at `path`: kNotFound, with the nearest name that its folder has.
Error NothingThere(const std::string& path);

// A file of another format, by its first bytes and its name, kUnsupported; or what did not arrive,
// kCorrupt. nullopt: it is none that is known.
std::optional<Error> KnownStranger(const std::string& path);

// The same for a file that is of no kind: kUnsupported for one that is not known, too.
Error StrangeFile(const std::string& path, const Looker& look);

// A folder that is of no kind, by the names in it: another program's checkpoint, a download that
// is not finished, a folder with artifacts one or two folders deeper, or inside of one.
Error StrangeFolder(const std::string& path, const Looker& look);

}  // namespace nxdkit::kinds
