import re

from stoker import __version__
from stoker.core.build import build_info


def test_the_build_string_has_llama_servers_form_with_our_version_for_the_commit() -> None:
    assert re.fullmatch(r"b\d+-\S+", build_info())
    assert build_info() == f"b10621-stoker{__version__}"
