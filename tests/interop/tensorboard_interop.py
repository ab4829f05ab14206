#!/usr/bin/env python3
"""TensorBoard itself reads our event files, and its messages have the bytes of ours."""
import argparse
import math
import os
import subprocess
import sys
import tempfile

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, tensor_shape_pb2, types_pb2


def check(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: found {found!r}, expected {expected!r}")
    print(f"  {what}: {found!r}"[:90])


def messages():
    shape = tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=1)])
    text = summary_pb2.Summary.Value(
        tag="t",
        tensor=tensor_pb2.TensorProto(
            dtype=types_pb2.DT_STRING, tensor_shape=shape, string_val=[b"hi"]),
        metadata=summary_pb2.SummaryMetadata(
            plugin_data=summary_pb2.SummaryMetadata.PluginData(plugin_name="text")))
    scalars = [summary_pb2.Summary.Value(tag="a/b", simple_value=0.5),
               summary_pb2.Summary.Value(tag="c", simple_value=-1)]
    return {
        "version": event_pb2.Event(wall_time=1.5, file_version="brain.Event:2"),
        "scalars": event_pb2.Event(
            wall_time=1.5, step=300, summary=summary_pb2.Summary(value=scalars)),
        "text": event_pb2.Event(wall_time=1.5, step=1, summary=summary_pb2.Summary(value=[text])),
        "restart": event_pb2.Event(
            wall_time=1.5, step=8,
            session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START)),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin-dir", required=True)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        printed = subprocess.run([os.path.join(arguments.bin_dir, "event_probe"), folder],
                                 check=True, capture_output=True, text=True).stdout
        ours = dict(line.split() for line in printed.splitlines())
        for name, message in messages().items():
            check(f"bytes of {name}", ours[name],
                  message.SerializeToString(deterministic=True).hex())

        files = sorted(os.path.join(folder, name) for name in os.listdir(folder))
        check("files", len(files), 2)
        # The loader checks both checksums of each frame, and stops at a bad one.
        check("events of the first file", len(list(RawEventFileLoader(files[0]).Load())), 7)
        check("events of the second file", len(list(RawEventFileLoader(files[1]).Load())), 3)

        first = EventAccumulator(files[0])
        first.Reload()
        loss = first.Scalars("actor/pg_loss")
        check("steps", [event.step for event in loss], [1, 2, 300, 70000])
        check("values", [event.value for event in loss],
              [0.25, 0.5, 75.0, 17500.0])
        check("nan", math.isnan(first.Scalars("odd/nan")[0].value), True)
        text = first.Tensors("config")[0].tensor_proto.string_val[0].decode()
        check("text", text, "lr: 1.0e-05\n\n**bold** \u221a")
        check("plugin", first.SummaryMetadata("config").plugin_data.plugin_name, "text")

        run = EventAccumulator(folder)
        run.Reload()
        check("steps after the resume", [event.step for event in run.Scalars("actor/pg_loss")],
              [1, 2, 300, 301])
    print("tensorboard reads what we write")


if __name__ == "__main__":
    main()
