"""gunicorn, as `codex-gateway serve` becomes it."""

from gunicorn.app.wsgiapp import WSGIApplication


class Server(WSGIApplication):
    """Imports nothing from the folder it is started in, which may be a project with an `app` of its own."""

    def chdir(self):
        """Stay there, and leave `sys.path` alone: gunicorn would put the folder before everything else."""


if __name__ == "__main__":
    Server("%(prog)s [OPTIONS] [APP_MODULE]").run()
