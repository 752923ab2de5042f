from stoker.routes.respond import JSON, json_response, plain_response


def test_a_json_answer_says_its_charset_and_carries_more_headers() -> None:
    response = json_response({"a": "漢"}, status=404, headers={"X-A": "b"})
    assert (response.status_code, response.body) == (404, '{"a":"漢"}'.encode())
    assert (response.headers["content-type"], response.headers["x-a"]) == (JSON, "b")


def test_another_types_header_is_sent_as_it_is() -> None:
    assert plain_response(b"x", "text/html").headers["content-type"] == "text/html"
