// PRIVATE to tools/: --explain of the commands that convert.
#pragma once

#include <optional>
#include <string>

#include "formats/ops/convert/convert.h"
#include "tools/cli/option_table.h"
#include "tools/cli/tool.h"

namespace nxdkit::tool {

struct ExplainArgs {
  std::optional<std::string> tensor;  // a name or a pattern; "": all
  std::optional<std::string> html;
};

void AddExplainOptions(OptionTable& table, ExplainArgs& args);

// Takes back a word that --explain, which may stand alone, has taken from INPUT and OUTPUT: one of
// them is missing then, or INPUT is not there, and the word is a path that exists. With --explain
// the output may be left out: its name is then "output".
Status SettleExplain(ExplainArgs& args, std::string& input, std::string& output);

// The plan of the request as a picture and in words, as JSON, and with --html as a page.
Result<ToolAnswer> AnswerExplain(const ops::ConvertRequest& request, const ExplainArgs& args,
                                 ToolContext& context);

}  // namespace nxdkit::tool
