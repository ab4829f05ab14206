// The functions of nxdkit.h that a program of the commands needs.
#include <string>

#include "tools/cli/report.h"
#include "tools/commands.h"
#include "tools/library/nxdkit.h"
#include "tools/library/umbrella.h"

uint32_t nxdkit_abi(void) { return NXDKIT_ABI; }

const char* nxdkit_version(void) { return nxdkit::tool::ToolVersion(); }

int nxdkit_main(const char* name, int argc, char** argv) {
  const std::string asked = name != nullptr ? name : argc > 0 ? argv[0] : "";
  const nxdkit::tool::Command* const command =
      nxdkit::tool::FindCommand(asked.substr(asked.rfind('/') + 1));
  return command ? nxdkit::tool::RunTool(argc, argv, *command)
                 : nxdkit::tool::RunUmbrella(argc, argv);
}
