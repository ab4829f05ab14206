// PRIVATE to formats/ops: where an output is made, and how it becomes visible. A conversion goes to
// one destination: Begin, the executor into its sink, Finish, Publish. Destroyed before Publish, it
// leaves nothing that could be taken for a complete output.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "formats/ops/convert/conversion.h"

namespace nxdkit::ops {

// The place where the output can be opened before it is published.
struct MadePlace {
  std::string path;
  std::string weights;  // as the hint "slot"
};

class Destination {
 public:
  // Both must outlive it; the conversion's files are moved out.
  Destination(const ConvertRequest& request, Conversion& conversion)
      : request_(request), conversion_(conversion) {}
  virtual ~Destination() = default;

  // The error that Begin would return; changes nothing.
  virtual Status Check() { return OkStatus(); }
  // Claims the place. The conversion is written to the sink; nullptr if it is already all written.
  virtual Result<Sink*> Begin(const Workload& workload, ConvertReport& report) = 0;
  // The conversion was interrupted: the written files stay for --resume.
  virtual void Keep() {}
  // Completes the files. nullopt: the output is not complete, other processes have their parts to
  // do.
  virtual Result<std::optional<MadePlace>> Finish(ConvertReport& report) = 0;
  // The output is good: makes it visible.
  virtual Status Publish(ConvertReport& report) = 0;

  // Instead of all that: a complete output exists, and is the same.
  virtual void Stands(ConvertReport& report, bool /*dry_run*/) { report.already_published = true; }

 protected:
  // The sink that writes the conversion's files into `folder`.
  Result<std::unique_ptr<WriteSink>> WriteInto(const std::string& folder,
                                               std::string fingerprint = "");

  const ConvertRequest& request_;
  Conversion& conversion_;
};

// A whole output, built aside and published by one rename.
std::unique_ptr<Destination> MakeNewOutput(const ConvertRequest& request, Conversion& conversion);

// New weights for a bundle that is in use, written into a slot, then made current by one rename.
std::unique_ptr<Destination> MakeSlot(const ConvertRequest& request, Conversion& conversion);

// Writes the small files: configuration and tokenizer files; markers last. A bundle's weights get
// their slot.
Status WriteSideFiles(const OutputPlan& output, const std::string& folder, bool sync);

}  // namespace nxdkit::ops
