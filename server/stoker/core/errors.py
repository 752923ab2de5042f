"""Everything that can go wrong on purpose, and llama-server's name and status for it.

    ServerError
    ├── InvalidRequest        400 invalid_request_error
    ├── ContextExceeded       400 exceed_context_size_error
    ├── Unauthorized          401 authentication_error
    ├── Forbidden             403 permission_error
    ├── NotFound              404 not_found_error
    ├── ServerFault           500 server_error
    ├── NotSupported          501 not_supported_error
    └── Unavailable           503 unavailable_error
    StartError                the process cannot start: one line, exit status 1

The status is a hint for the edge; nothing here imports HTTP.
"""

from enum import StrEnum


class ErrorKind(StrEnum):
    INVALID_REQUEST = "invalid_request_error"
    CONTEXT = "exceed_context_size_error"
    AUTHENTICATION = "authentication_error"
    PERMISSION = "permission_error"
    NOT_FOUND = "not_found_error"
    SERVER = "server_error"
    NOT_SUPPORTED = "not_supported_error"
    UNAVAILABLE = "unavailable_error"


class ServerError(Exception):
    """Abstract: raise a leaf."""

    kind: ErrorKind = ErrorKind.SERVER
    status: int = 500

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidRequest(ServerError):
    kind, status = ErrorKind.INVALID_REQUEST, 400


class ContextExceeded(ServerError):
    """The prompt alone fills the slot; carries both numbers for the envelope."""

    kind, status = ErrorKind.CONTEXT, 400

    def __init__(self, n_prompt_tokens: int, n_ctx: int) -> None:
        super().__init__(
            f"request ({n_prompt_tokens} tokens) exceeds the available context size ({n_ctx} tokens), try increasing it"
        )
        self.n_prompt_tokens = n_prompt_tokens
        self.n_ctx = n_ctx


class Unauthorized(ServerError):
    kind, status = ErrorKind.AUTHENTICATION, 401


class Forbidden(ServerError):
    kind, status = ErrorKind.PERMISSION, 403


class NotFound(ServerError):
    kind, status = ErrorKind.NOT_FOUND, 404


class ServerFault(ServerError):
    kind, status = ErrorKind.SERVER, 500


class NotSupported(ServerError):
    kind, status = ErrorKind.NOT_SUPPORTED, 501


class Unavailable(ServerError):
    """503; `retry_after` is in seconds and becomes the header of that name."""

    kind, status = ErrorKind.UNAVAILABLE, 503

    def __init__(self, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


def as_server_error(error: Exception) -> ServerError:
    """Whatever the engine raised, as something that an answer can say."""
    return error if isinstance(error, ServerError) else ServerFault(f"the engine failed: {error}")


class StartError(Exception):
    """The server or a command cannot start; its text is one line that names the cause and the remedy."""
