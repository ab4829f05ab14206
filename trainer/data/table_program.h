// PRIVATE to trainer/data. The text of table_rows.py, embedded so that this program needs no file.
#pragma once

namespace nxdkit::trainer {

extern const char* const kTableProgram;

}  // namespace nxdkit::trainer
