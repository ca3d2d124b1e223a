"""The gateway as gunicorn serves it, and one route more that counts what a worker holds."""

import gc
import os

import flask
from greenlet import greenlet

from app import create_app
from app.settings import Settings

app = create_app(Settings.from_env())


@app.get("/counts")
def count() -> flask.Response:
    """Every open file, running greenlet and thread, those of this request among them."""
    gc.collect()  # what only a cycle holds is no leak
    return flask.jsonify(
        pid=os.getpid(),
        fds=len(os.listdir("/proc/self/fd")),
        greenlets=sum(isinstance(each, greenlet) and bool(each) for each in gc.get_objects()),
        threads=len(os.listdir("/proc/self/task")),
    )
