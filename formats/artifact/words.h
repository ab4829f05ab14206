// Names of artifact, from which kinds and ops are built, for use there without their namespace.
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
