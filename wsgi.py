"""What gunicorn serves."""

from app import create_app
from app.settings import Settings

app = create_app(Settings.from_env())
