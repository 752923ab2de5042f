from stoker.routes.controls import Controls


def test_a_completion_is_known_by_its_id_while_it_runs() -> None:
    controls, told = Controls(), list[int]()

    def end(request: int) -> bool:
        told.append(request)
        return request == 2

    assert "no running completion" in controls.end_thought("a", end)
    controls.enter("a", [1, 2])
    assert controls.end_thought("a", end) == ""
    assert told == [1, 2]
    controls.leave("a")
    controls.leave("a")
    assert "no running completion" in controls.end_thought("a", end)


def test_one_that_does_not_think_says_so() -> None:
    controls = Controls()
    controls.enter("a", [1])
    assert controls.end_thought("a", lambda _: False) == "the completion is not reasoning"
