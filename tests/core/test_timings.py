from stoker.core.timings import Stopwatch, Timings


def test_the_prompt_ends_with_the_first_token_and_generation_with_the_last() -> None:
    watch = Stopwatch(1.0)
    watch.token(1.5)
    watch.token(2.5)
    timings = watch.read(cached=2, prompt=10, predicted=2)
    assert timings == Timings(2, 10, 500.0, 2, 1000.0)
    assert timings.prompt_per_token_ms == 50.0
    assert timings.prompt_per_second == 20.0
    assert timings.predicted_per_token_ms == 1000.0
    assert timings.predicted_per_second == 1.0


def test_a_prompt_that_ended_before_its_first_token_leaves_that_tokens_time_to_the_generation() -> None:
    watch = Stopwatch(1.0)
    watch.prompt_read(1.5)
    watch.token(2.0)
    watch.token(2.0)
    timings = watch.read(cached=0, prompt=10, predicted=2)
    assert (timings.prompt_ms, timings.predicted_ms, timings.predicted_per_second) == (500.0, 500.0, 2.0)


def test_one_token_has_no_rate_and_the_least_duration() -> None:
    watch = Stopwatch(1.0)
    watch.token(1.5)
    timings = watch.read(cached=0, prompt=1, predicted=1)
    assert (timings.predicted_ms, timings.predicted_per_second, timings.predicted_per_token_ms) == (0.001, 0.0, 0.0)


def test_an_unfinished_prompt_has_generated_nothing() -> None:
    timings = Stopwatch(1.0).read(cached=0, prompt=4, predicted=0)
    assert (timings.prompt_ms, timings.predicted_ms, timings.prompt_per_second) == (0.0, 0.0, 0.0)


def test_nothing_at_all_divides_by_nothing() -> None:
    assert (Timings().prompt_per_token_ms, Timings().predicted_per_second) == (0.0, 0.0)


def test_durations_have_microsecond_resolution() -> None:
    watch = Stopwatch(0.0)
    watch.token(0.0123456789)
    assert watch.read(cached=0, prompt=1, predicted=1).prompt_ms == 12.346
