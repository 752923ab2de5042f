"""The one home of the monotonic clock: every stamp in the server is comparable with every other."""

import time
from collections.abc import Callable

Clock = Callable[[], float]

now: Clock = time.monotonic
