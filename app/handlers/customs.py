"""What the API asks of every request, and whose requests are asked for less."""

from __future__ import annotations

from dataclasses import dataclass

import flask


@dataclass(frozen=True, slots=True)
class Customs:
    asks_key: bool = True
    #: Whether it matters by what name and from which page the gateway is called.
    asks_way: bool = True
    #: Whether of all pages only our own may ask.
    is_ours: bool = False
    #: Whether its requests are the API's use, as told in `/v1/usage` and `/metrics`.
    is_counted: bool = True


OF_THE_API = Customs()
OF_THE_PANEL = Customs(is_ours=True, is_counted=False)
#: Whatever stands below it, there or not, is the page's.
PAGE = "/ui/"
#: By blueprint.
CUSTOMS = {
    # Asked by supervisors every few seconds, by whatever name they have for it.
    "health": Customs(asks_key=False, asks_way=False, is_counted=False),
    # It asks for the key itself, of those who need one.
    "metrics": Customs(asks_key=False, is_counted=False),
    # The page opens for anyone; what it shows is the panel's.
    "pages": Customs(asks_key=False, is_counted=False),
    "panel": OF_THE_PANEL,
}


def find_customs(request: flask.Request) -> Customs:
    blueprint = request.blueprint
    if blueprint is None:  # no such route, or no such method there
        return OF_THE_PANEL if request.path.startswith(PAGE) else OF_THE_API
    return CUSTOMS.get(blueprint, OF_THE_API)
