"""MONAI Label's application behind the guard, for its ``--uvicorn_app``."""

from guard import Guard
from monailabel.app import app as label
from monailabel.config import settings

app = Guard(label, settings.MONAI_LABEL_STUDIES)
