"""The drafter that comes with the package."""

from stoker.core.counters import Kind
from stoker.models import shipped
from stoker.models.detect import inspect
from stoker.options.drafting import SHIPPED


def test_it_is_a_drafter_of_the_kind_that_the_command_line_expects() -> None:
    found = inspect(shipped.drafter())
    assert found.kind is SHIPPED is Kind.DSPARK
    assert not found.standalone
    assert not found.refused


def test_it_says_where_it_came_from() -> None:
    assert "Apache-2.0" in (shipped.drafter() / "NOTICE.md").read_text("utf-8")
