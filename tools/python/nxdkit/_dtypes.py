"""Element types: safetensors' names for them, and those of torch, numpy and struct."""

from __future__ import annotations

from typing import Dict, NamedTuple, Optional


class Dtype(NamedTuple):
    bits: int
    torch: Optional[str]  # for F4, a type with two elements in each
    numpy: Optional[str]
    ml_dtypes: Optional[str] = None  # numpy's name for it, where ml_dtypes is installed
    format: Optional[str] = None  # the struct module's


DTYPES: Dict[str, Dtype] = {
    "BOOL": Dtype(8, "bool", "bool", None, "?"),
    "U8": Dtype(8, "uint8", "uint8", None, "B"),
    "I8": Dtype(8, "int8", "int8", None, "b"),
    "U16": Dtype(16, "uint16", "uint16", None, "H"),
    "I16": Dtype(16, "int16", "int16", None, "h"),
    "U32": Dtype(32, "uint32", "uint32", None, "I"),
    "I32": Dtype(32, "int32", "int32", None, "i"),
    "U64": Dtype(64, "uint64", "uint64", None, "Q"),
    "I64": Dtype(64, "int64", "int64", None, "q"),
    "F16": Dtype(16, "float16", "float16", None, "e"),
    "F32": Dtype(32, "float32", "float32", None, "f"),
    "F64": Dtype(64, "float64", "float64", None, "d"),
    "BF16": Dtype(16, "bfloat16", "uint16", "bfloat16"),
    "F8_E4M3": Dtype(8, "float8_e4m3fn", "uint8", "float8_e4m3fn"),
    "F8_E5M2": Dtype(8, "float8_e5m2", "uint8", "float8_e5m2"),
    "F8_E8M0": Dtype(8, "float8_e8m0fnu", "uint8", "float8_e8m0fnu"),
    "F8_E4M3FNUZ": Dtype(8, "float8_e4m3fnuz", "uint8", "float8_e4m3fnuz"),
    "F8_E5M2FNUZ": Dtype(8, "float8_e5m2fnuz", "uint8", "float8_e5m2fnuz"),
    "C32": Dtype(32, "complex32", None),
    "C64": Dtype(64, "complex64", "complex64"),
    "C128": Dtype(128, "complex128", "complex128"),
    "F4": Dtype(4, "float4_e2m1fn_x2", "uint8"),
    "F6_E2M3": Dtype(6, None, None),
    "F6_E3M2": Dtype(6, None, None),
}


def bytes_of(dtype: str, elements: int) -> int:
    return (DTYPES[dtype].bits * elements + 7) // 8


def word_of(name: str) -> Optional[str]:
    """The word for torch's or numpy's name of a type ("bfloat16"); None if there is none."""
    for word, row in DTYPES.items():
        if name == row.torch or name == row.ml_dtypes:
            return word
    return None
