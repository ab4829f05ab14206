// Recognises and opens artifacts that hold a model's weights.
#pragma once

#include <string>
#include <string_view>

#include "formats/artifact/bound.h"
#include "formats/kinds/kind.h"

namespace nxdkit::kinds {

const Kind* KindFromName(std::string_view name);  // nullptr if there is none

// The kind of the path; kUnsupported if it is none of them. Here and below "ORG/NAME", if no file
// of this name exists, is the model in the hub's cache (formats/hf/hub_cache.h). Callers with
// several of these questions pass the same Looker to all.
Result<const Kind*> Recognise(const std::string& path, const Looker& look = {});

// Opens structure and configuration, not the layout: works for families without a table too.
// `kind`: nullptr to ask Recognise. With hints.memory nothing is opened or recognised.
Result<Artifact> OpenArtifact(const std::string& path, const Kind* kind, const InputHints& hints,
                              const Looker& look = {});

// Maps every stored tensor to parameters. kUnsupported for a tensor that the family does not know,
// kCorrupt for shapes that do not fit the layout. A family without a table can be bound only if
// tensors have the parameters' names. Parameters that are not stored show up in BuildPlan.
Result<BoundArtifact> Bind(Artifact artifact, const InputHints& hints);

// Open and Bind, with hints.lora merged.
Result<BoundArtifact> OpenAndBind(const std::string& path, const Kind* kind,
                                  const InputHints& hints, const Looker& look = {});

// kUsage for options that have a meaning only for inputs of other kinds: the user takes the path
// for something else.
Status CheckHints(const Kind& kind, const std::string& path, const InputHints& hints);

// The same for files that hold no model's weights: they take no options.
Status CheckNoHints(const std::string& path, const InputHints& hints);

}  // namespace nxdkit::kinds
