// libarchive's archive_write_set_format.o, of which writing tar needs one function, has the writers
// of all formats in a table, and needs five more libraries for them. These stubs are never called.
#include <archive.h>

extern "C" {

int archive_write_set_format_7zip(struct archive*) { return ARCHIVE_FATAL; }
int archive_write_set_format_mtree(struct archive*) { return ARCHIVE_FATAL; }
int archive_write_set_format_mtree_classic(struct archive*) { return ARCHIVE_FATAL; }
int archive_write_set_format_warc(struct archive*) { return ARCHIVE_FATAL; }
int archive_write_set_format_xar(struct archive*) { return ARCHIVE_FATAL; }
int archive_write_set_format_zip(struct archive*) { return ARCHIVE_FATAL; }

}  // extern "C"
