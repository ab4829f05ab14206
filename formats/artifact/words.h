// The rooms above the core speak its words: what is declared in artifact, and what kinds and the
// use cases are made of, is named without its room there.
#pragma once

namespace nxdkit::artifact {}
namespace nxdkit::training {
using namespace artifact;
}
namespace nxdkit::adapter {
using namespace artifact;
}
namespace nxdkit::kinds {
using namespace artifact;
using namespace training;
using namespace adapter;
struct Kind;  // formats/kinds/kind.h
}  // namespace nxdkit::kinds
namespace nxdkit::ops {
using namespace kinds;
}
