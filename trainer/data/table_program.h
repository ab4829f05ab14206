// PRIVATE to trainer/data. The text of table_rows.py, so that it is wherever this program is.
#pragma once

namespace nxdkit::trainer {

extern const char* const kTableProgram;

}  // namespace nxdkit::trainer
