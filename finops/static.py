"""How static files are stored: under a name with their digest, and compressed."""

from typing import Any

from whitenoise.compress import Compressor
from whitenoise.storage import CompressedManifestStaticFilesStorage


class Storage(CompressedManifestStaticFilesStorage):
    """Compresses with gzip only: brotli takes ten times as long at the first start."""

    manifest_strict = False  # a file that is missing costs its looks, not the page

    def create_compressor(self, **kwargs: Any) -> Compressor:
        return Compressor(**kwargs, use_brotli=False)
