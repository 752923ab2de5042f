"""What all tests share. OpenBLAS goes first, as in the commands: nothing above it may import MLX."""

from stoker import blas

BLAS = blas.load()

import os  # noqa: E402
from pathlib import Path  # noqa: E402

import hypothesis  # noqa: E402
import pytest  # noqa: E402

from stoker.core.errors import StartError  # noqa: E402
from stoker.models.fetch import cache_directory, default_model  # noqa: E402

hypothesis.settings.register_profile("shared machine", deadline=None)  # a stall of the machine is no failure
hypothesis.settings.load_profile("shared machine")


@pytest.fixture(scope="session")
def blas_in_use() -> blas.Blas:
    return BLAS


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """The default model's file, from the user's cache or fetched into it."""
    try:
        return default_model(cache_directory(os.environ), progress=False)
    except StartError as error:
        pytest.skip(str(error))
