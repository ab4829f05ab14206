// PRIVATE to formats/ops: where an output is made, and how it becomes visible. A conversion goes to
// one destination: Begin, the executor into its sink, Finish, Publish. Dropped before Publish, it
// leaves nothing that could be taken for a whole output.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "formats/ops/convert/conversion.h"

namespace nxdkit::ops {

// Where what was made can be opened before it is published.
struct MadePlace {
  std::string path;
  std::string weights;  // as the hint "slot"
};

class Destination {
 public:
  // Both must outlive it; the conversion's files are used up.
  Destination(const ConvertRequest& request, Conversion& conversion)
      : request_(request), conversion_(conversion) {}
  virtual ~Destination() = default;

  // What Begin would refuse; changes nothing.
  virtual Status Check() { return OkStatus(); }
  // Takes the place. The sink takes the conversion; nullptr when it is all written already.
  virtual Result<Sink*> Begin(const Workload& workload, ConvertReport& report) = 0;
  // The conversion was interrupted: what is written stays for --resume.
  virtual void Keep() {}
  // Completes what was written. nullopt: the output is not whole, others have their part to do.
  virtual Result<std::optional<MadePlace>> Finish(ConvertReport& report) = 0;
  // The output is good: shows it.
  virtual Status Publish(ConvertReport& report) = 0;

  // Instead of all that: a whole output stands there, and is the same.
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

// The small files: configuration and tokenizer files; markers last. A bundle's weights get their
// slot.
Status WriteSideFiles(const OutputPlan& output, const std::string& folder, bool sync);

}  // namespace nxdkit::ops
