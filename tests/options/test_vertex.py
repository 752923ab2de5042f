import pytest

from stoker.core.errors import StartError
from stoker.options.vertex import Vertex, read
from stoker.settings import settings

MODE = {"AIP_MODE": "PREDICTION"}


def test_only_the_prediction_mode_counts() -> None:
    assert read({}) is None
    assert read({"AIP_MODE": "TRAINING", "AIP_HTTP_PORT": "x"}) is None
    assert read(MODE) == Vertex("/predict", "", 8080)


def test_paths_begin_with_a_slash_and_empty_variables_are_none() -> None:
    asked = {**MODE, "AIP_PREDICT_ROUTE": "p/q", "AIP_HEALTH_ROUTE": "/h", "AIP_HTTP_PORT": "9"}
    assert read(asked) == Vertex("/p/q", "/h", 9)
    assert read({**MODE, "AIP_PREDICT_ROUTE": "", "AIP_HEALTH_ROUTE": "", "AIP_HTTP_PORT": ""}) == Vertex()


@pytest.mark.parametrize("port", ["x", "0", "65536", "-1", "٣"])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    with pytest.raises(StartError, match="AIP_HTTP_PORT takes a port"):
        read({**MODE, "AIP_HTTP_PORT": port})


def test_the_port_beats_the_command_lines() -> None:
    made = settings((), {**MODE, "AIP_HTTP_PORT": "9000"})
    assert (made.port, made.vertex) == (9000, Vertex(port=9000))
    assert settings((), {}).vertex is None
