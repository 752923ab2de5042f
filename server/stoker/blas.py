"""Finds OpenBLAS and loads it before MLX is imported.

MLX's Linux CPU wheel carries the reference BLAS. A library loaded with RTLD_GLOBAL stands before
it in the dynamic linker's search order, so MLX then calls OpenBLAS instead, an order of magnitude
faster for prompts. This module imports no MLX and must be called before anything that does.
"""

import ctypes
import ctypes.util
import sys
from dataclasses import dataclass

SONAMES = ("libopenblas.so.0", "libopenblasp.so.0", "libopenblas.so")
HOW_TO = "install OpenBLAS for faster prompts (Debian: apt install libopenblas0-pthread) and start again"


@dataclass(frozen=True, slots=True)
class Blas:
    """What MLX multiplies with on the CPU."""

    library: str | None
    """The library that `load` put before MLX's own; None: MLX keeps what it was built with."""
    line: str
    """One line for the start-up log: what is in use and, if that is slow, how to get better."""


class _Origin(ctypes.Structure):
    """`Dl_info` of dladdr(3)."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def load() -> Blas:
    """Load OpenBLAS for the whole process if there is one; a second call reports the first one's work."""
    if sys.platform == "darwin":
        return Blas(None, "BLAS: Accelerate, part of macOS")
    if sys.platform != "linux":
        return Blas(None, "BLAS: as MLX was built")
    if found := provider():
        return Blas(found, f"BLAS: {found}")
    if "mlx.core" in sys.modules:
        return Blas(None, "BLAS: MLX's own, slow on a CPU: mlx was imported before OpenBLAS could be loaded")
    if _load_globally() and (found := provider()):
        return Blas(found, f"BLAS: {found}")
    return Blas(None, f"BLAS: MLX's own, slow on a CPU: {HOW_TO}")


def provider() -> str | None:
    """Path of the library whose `cblas_sgemm` every later import finds first, None if there is none."""
    program = ctypes.CDLL(None)
    try:
        function = program.cblas_sgemm
        find_origin = program.dladdr
    except AttributeError:
        return None
    origin = _Origin()
    if not find_origin(ctypes.cast(function, ctypes.c_void_p), ctypes.byref(origin)) or origin.file is None:
        return None
    return str(origin.file, "utf-8", "replace")


def _load_globally() -> bool:
    # find_library starts a compiler or ldconfig and takes a while: the usual names first.
    return any(_opens(name) for name in SONAMES) or _opens(ctypes.util.find_library("openblas"))


def _opens(name: str | None) -> bool:
    if name is None:
        return False
    try:
        ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    return True
