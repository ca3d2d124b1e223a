"""The gateway with a sampler in its worker: of its CPU time, so and so often, the stack that runs.

`POST /sampler/start` begins, `POST /sampler/stop` tells the stacks as lines of `outer;…;inner count`, as they
are read by what draws flame graphs. A sample in C is the Python function's that called it.
"""

import collections
import signal
import sysconfig
from collections.abc import Iterable
from types import FrameType
from typing import Any

from tests.bench.servers import ROOT
from wsgi import app

PERIOD_S = 0.001
#: Where names of files begin.
FOLDERS = (sysconfig.get_path("purelib"), sysconfig.get_path("stdlib"), str(ROOT))


class Sampler:
    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped
        self._stacks: collections.Counter[str] = collections.Counter()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        match environ["PATH_INFO"]:
            case "/sampler/start":
                return self._answer(start_response, self.start())
            case "/sampler/stop":
                return self._answer(start_response, self.stop())
            case _:
                answer: Iterable[bytes] = self._wrapped(environ, start_response)
                return answer

    @staticmethod
    def _answer(start_response: Any, text: str) -> list[bytes]:
        start_response("200 OK", [("content-length", str(len(text.encode())))])
        return [text.encode()]

    def start(self) -> str:
        self._stacks.clear()
        signal.set_wakeup_fd(-1)  # gunicorn's is not for a thousand signals a second
        signal.signal(signal.SIGPROF, self._note)
        signal.setitimer(signal.ITIMER_PROF, PERIOD_S, PERIOD_S)
        return ""

    def stop(self) -> str:
        signal.setitimer(signal.ITIMER_PROF, 0)
        return "\n".join(f"{stack} {count}" for stack, count in self._stacks.items())

    def _note(self, number: int, frame: FrameType | None) -> None:
        names = []
        while frame is not None:
            names.append(name_function(frame))
            frame = frame.f_back
        self._stacks[";".join(reversed(names))] += 1


def name_function(frame: FrameType) -> str:
    code = frame.f_code
    path = code.co_filename
    folder = next((folder for folder in FOLDERS if path.startswith(folder)), "")
    return f"{path.removeprefix(folder).lstrip('/')}:{code.co_qualname}".replace(" ", "")


app.wsgi_app = Sampler(app.wsgi_app)  # type: ignore[method-assign]
