// Recognises and opens whatever holds a model's weights.
#pragma once

#include <string>
#include <string_view>

#include "formats/artifact/bound.h"
#include "formats/kinds/kind.h"

namespace nxdkit::kinds {

const Kind* KindFromName(std::string_view name);  // nullptr: there is none

// Which kind the path is; kUnsupported when it is none of them. Here and below "ORG/NAME", where
// nothing of this name lies here, is the model in the hub's cache (formats/hf/hub_cache.h). Who
// asks several of these questions hands the same Looker to all.
Result<const Kind*> Recognise(const std::string& path, const Looker& look = {});

// Opens structure and configuration, not the layout: works for families without a table too.
// `kind`: nullptr for what Recognise says. With hints.memory nothing is opened or recognised.
Result<Artifact> OpenArtifact(const std::string& path, const Kind* kind, const InputHints& hints,
                              const Looker& look = {});

// Maps every stored tensor to parameters. kUnsupported for a tensor that the family does not know,
// kCorrupt for shapes that are not the layout's. A family without a table can be bound only where
// tensors have the parameters' names. Parameters that are stored nowhere show up in BuildPlan.
Result<BoundArtifact> Bind(Artifact artifact, const InputHints& hints);

// Open and Bind, with hints.lora merged.
Result<BoundArtifact> OpenAndBind(const std::string& path, const Kind* kind,
                                  const InputHints& hints, const Looker& look = {});

// kUsage for what is said of an input of `kind` and has a meaning for other kinds only: who said it
// takes the path for something else.
Status CheckHints(const Kind& kind, const std::string& path, const InputHints& hints);

// The same for what holds no model's weights: nothing can be said of it.
Status CheckNoHints(const std::string& path, const InputHints& hints);

}  // namespace nxdkit::kinds
