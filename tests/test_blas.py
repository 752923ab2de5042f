import os
import subprocess
import sys

import pytest

from stoker import blas

MULTIPLY = "import mlx.core as mx; mx.eval(mx.ones((64, 64)) @ mx.ones((64, 64)))"


def _run(code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **environ}
    )


@pytest.mark.skipif(sys.platform != "linux", reason="other systems bring a fast BLAS")
class TestOnLinux:
    @pytest.mark.mlx
    def test_mlx_multiplies_with_openblas_once_it_is_loaded(self, blas_in_use: blas.Blas) -> None:
        """The dynamic linker itself says to which library MLX's call of cblas_sgemm was bound."""
        if blas_in_use.library is None:
            pytest.skip(blas_in_use.line)
        said = _run(f"from stoker import blas; blas.load(); {MULTIPLY}", LD_DEBUG="bindings").stderr
        assert "openblas" in _bound_to(said)

    @pytest.mark.mlx
    def test_without_loading_mlx_multiplies_with_its_own(self) -> None:
        assert "openblas" not in _bound_to(_run(MULTIPLY, LD_DEBUG="bindings").stderr)

    @pytest.mark.mlx
    def test_after_mlx_it_says_that_it_is_too_late(self) -> None:
        said = _run("import mlx.core; from stoker import blas; print(blas.load())").stdout
        assert "library=None" in said
        assert "imported before" in said

    def test_the_tests_themselves_run_on_what_is_reported(self, blas_in_use: blas.Blas) -> None:
        assert blas.provider() == blas_in_use.library
        assert blas_in_use.line.startswith("BLAS: ")

    def test_a_second_call_reports_the_first_ones_work(self, blas_in_use: blas.Blas) -> None:
        if blas_in_use.library is None:
            pytest.skip(blas_in_use.line)
        assert blas.load() == blas_in_use

    def test_without_a_library_it_says_how_to_get_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(blas, "SONAMES", ("libnothing-of-that-name.so",))
        monkeypatch.setattr(blas.ctypes.util, "find_library", lambda name: None)
        monkeypatch.setattr(blas, "provider", lambda: None)
        monkeypatch.delitem(sys.modules, "mlx.core", raising=False)
        found = blas.load()
        assert found.library is None
        assert "apt install libopenblas0-pthread" in found.line


@pytest.mark.parametrize(("platform", "says"), [("darwin", "Accelerate"), ("win32", "as MLX was built")])
def test_elsewhere_nothing_is_loaded(platform: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas.sys, "platform", platform)
    found = blas.load()
    assert found.library is None
    assert says in found.line


def _bound_to(said: str) -> str:
    """The target in lines such as `binding file …/libmlx.so [0] to …/libblas.so [0]: normal symbol `cblas_sgemm'`."""
    lines = [line for line in said.splitlines() if "libmlx" in line and "`cblas_sgemm'" in line]
    assert lines, "MLX bound no cblas_sgemm"
    return lines[-1].split(" to ")[1]
