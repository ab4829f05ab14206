"""The rows of a parquet or arrow file as JSON Lines, for the trainer:
python3 -I -c TEXT FILE PROMPT ANSWER COUNT MEDIA... OTHER...

Only the named columns are read: the prompt, the answer, COUNT that may hold images, and, if the prompt or the
answer is missing, the others; then the rows also contain the names of all existing columns. Exit code 69: there
is no pyarrow.

Isolated (-I), so that no module of the working directory replaces one of these. -I also leaves out places where
pyarrow may be; they are searched last: absolute paths of PYTHONPATH, and the user's own packages unless
PYTHONNOUSERSITE is set. Relative paths (in PYTHONUSERBASE too) would be in the working directory.
"""

import decimal
import json
import os
import site
import sys

sys.path += [place for place in os.environ.get("PYTHONPATH", "").split(":") if place.startswith("/")]
# In a virtual environment they are used only if it is configured so.
if sys.prefix == sys.base_prefix and not os.environ.get("PYTHONNOUSERSITE"):
    if os.path.isabs(site.getuserbase()):
        site.addsitedir(site.getusersitepackages())

try:
    import pyarrow
    import pyarrow.parquet
except ImportError:
    sys.exit(69)


def arrow_batches(path):
    source = pyarrow.memory_map(path)
    try:
        reader = pyarrow.ipc.open_file(source)
        return reader.schema, (reader.get_batch(i) for i in range(reader.num_record_batches))
    except pyarrow.ArrowInvalid:  # a stream, as `datasets` writes
        source.seek(0)
        reader = pyarrow.ipc.open_stream(source)
        return reader.schema, reader


def batches(path, wanted):
    """The names of all columns, and batches with the wanted ones."""
    if path.endswith(".parquet"):
        file = pyarrow.parquet.ParquetFile(path)
        names = file.schema_arrow.names
        return names, file.iter_batches(batch_size=1024, columns=[n for n in wanted if n in names])
    schema, found = arrow_batches(path)
    return schema.names, found


def plain(value):
    """Values that JSON cannot represent: an image's bytes, a date."""
    return str(value) if isinstance(value, decimal.Decimal) else {"type": type(value).__name__}


def main(path, prompt, answer, count, *more):
    media, forms = more[: int(count)], more[int(count) :]
    wanted = list(dict.fromkeys([prompt, answer, *media, *forms]))
    names, found = batches(path, wanted)
    others = []
    if prompt in names and answer in names:
        wanted = [n for n in wanted if n not in forms]
    else:
        others = [n for n in names if n not in wanted]
    for batch in found:
        columns = {n: batch.column(batch.schema.get_field_index(n)) for n in wanted if n in names}
        for i in range(batch.num_rows):
            row = {name: None for name in others}
            for name, column in columns.items():
                value = column[i].as_py()
                # For images, only whether there are any.
                row[name] = value if name not in media else [0] if value else None
            print(json.dumps(row, default=plain))
    sys.stdout.flush()


try:
    main(*sys.argv[1:])
except BrokenPipeError:  # the reader has found a fault in a row
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(1)
except (OSError, pyarrow.ArrowException) as error:
    sys.exit(f"{type(error).__name__}: {error}")
