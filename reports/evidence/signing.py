"""The signature on a sealed report's PDF: PAdES-B-B as an incremental update (method §11).

The printed bytes stay in front of the signature unchanged; they alone are the same each time. The
key comes from a file (`HEADROOM_SIGNING_KEY`), else one is made at the first signature: then the
certificate says that it is self-signed, and proves only that this installation signed.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings

from finops.trail.models import Entry
from reports.models import Seal

FIELD = "HeadroomSeal"
PRINTED = "report printed"
YEARS = 10
_PREVIOUS = re.compile(rb"/Prev\s+(\d+)")
_OWN = "Headroom self-signed"


class NoKey(RuntimeError):
    """The signing key cannot be read; the text says which file and why."""


@dataclass(slots=True)
class Signature:
    """What a PDF's signature says; `signed_length` is how many bytes were printed before it."""

    text: str = "not signed"
    signed_length: int | None = None
    problems: list[str] = field(default_factory=list)


def sign(content: bytes, *, reason: str) -> bytes:
    """The PDF with a signature added at its end. Raises NoKey."""
    from pyhanko.pdf_utils.incremental_writer import IncrementalPdfFileWriter
    from pyhanko.sign import fields, signers

    metadata = signers.PdfSignatureMetadata(
        field_name=FIELD,
        subfilter=fields.SigSeedSubFilter.PADES,
        md_algorithm="sha256",
        reason=reason,
    )
    writer = IncrementalPdfFileWriter(io.BytesIO(content))
    target: Any = signers.PdfSigner(metadata, signer=_signer()).sign_pdf(writer)
    signed: bytes = target.getvalue()
    assert signed.startswith(content), "a signature never touches what was printed"
    return signed


def examine(content: bytes) -> Signature:
    """Whether a PDF's signature is whole and covers all of it, and by whom it is."""
    from pyhanko.pdf_utils.reader import PdfFileReader

    found = Signature()
    try:
        signatures = PdfFileReader(io.BytesIO(content)).embedded_signatures
        if not signatures:
            return found
        found.signed_length = _printed_length(content)
        _validate(signatures[-1], found)
    except Exception as error:  # noqa: BLE001 - a PDF may come from anywhere and break anything
        found.problems.append(f"the PDF cannot be read: {type(error).__name__}: {error}"[:200])
    return found


def _validate(signature: Any, found: Signature) -> None:
    from pyhanko.sign.validation import validate_pdf_signature
    from pyhanko_certvalidator import ValidationContext

    own = _certificates()
    context = ValidationContext(trust_roots=own, allow_fetching=False)
    status = validate_pdf_signature(signature, context)
    name = signature.signer_cert.subject.human_friendly
    if not (status.intact and status.valid):
        found.problems.append("the signature does not fit the bytes")
    coverage = status.coverage.name if status.coverage else "NONE"
    if coverage not in ("ENTIRE_FILE", "ENTIRE_REVISION"):
        found.problems.append("the signature does not cover the whole file")
    elif coverage != "ENTIRE_FILE":
        found.problems.append("something was added after the signature")
    if not status.trusted:
        found.problems.append("the signature is not by this installation's certificate")
    found.text = f"signed by {name}; SHA-256 of the certificate {_fingerprint(signature)}"


def _fingerprint(signature: Any) -> str:
    return str(signature.signer_cert.sha256_fingerprint).replace(" ", "").lower()


def _printed_length(content: bytes) -> int | None:
    """Where the printed bytes end and the signature's update begins."""
    found = _PREVIOUS.findall(content)
    if not found:
        return None
    end = content.find(b"%%EOF", int(found[-1]))
    if end < 0:
        return None
    end += len(b"%%EOF")
    return end + (content[end : end + 1] == b"\n")


def identifier_of(content: bytes) -> str:
    """The digest a printed report bears in its file identifier; empty when there is none."""
    from pyhanko.pdf_utils.reader import PdfFileReader

    try:
        identifier = PdfFileReader(io.BytesIO(content)).trailer["/ID"][0]
    except Exception:  # noqa: BLE001 - as above
        return ""
    return bytes(identifier.original_bytes).hex()


def printings_of(seal: Seal) -> set[str]:
    """SHA-256 of the unsigned bytes printed from a seal, as the trail has them; where it has none,
    as this version prints them now."""
    from reports import paper
    from reports.queries.standing import standing

    entries = Entry.objects.filter(action=PRINTED, detail__seal=seal.digest)
    told = {str(entry.detail.get("unsigned_sha256")) for entry in entries}
    if told:
        return told
    stand = standing(seal.report)
    return {hashlib.sha256(paper.pdf(stand, size=size)).hexdigest() for size in paper.SIZES}


def signed_here(seal: Seal, content: bytes) -> bool:
    """Whether the trail has these signed bytes. A signature leaves some of its own bytes (the
    filling of its place) uncovered, so only the digest of the whole file says that it is whole."""
    found = hashlib.sha256(content).hexdigest()
    return Entry.objects.filter(
        action=PRINTED, detail__seal=seal.digest, detail__signed_sha256=found
    ).exists()


# -- the key -------------------------------------------------------------------------------------


def _paths() -> tuple[Path, Path]:
    """The key and the certificate: both in the named file, or the pair made here."""
    if named := os.environ.get("HEADROOM_SIGNING_KEY"):
        path = Path(named).expanduser()
        return path, Path(os.environ.get("HEADROOM_SIGNING_CERTIFICATE") or path).expanduser()
    folder = Path(settings.DATA) / "signing"
    return folder / "key.pem", folder / "certificate.pem"


def _signer() -> Any:
    from pyhanko.sign import signers

    key, certificate = _paths()
    if not os.environ.get("HEADROOM_SIGNING_KEY"):
        _make_pair(key, certificate)
    password = os.environ.get("HEADROOM_SIGNING_PASSWORD")
    try:
        signer = signers.SimpleSigner.load(
            str(key), str(certificate), key_passphrase=password.encode() if password else None
        )
    except (OSError, ValueError, TypeError) as error:
        raise NoKey(f"The signing key {key} cannot be read: {error}") from error
    if signer is None:
        raise NoKey(f"The signing key {key} or its certificate {certificate} cannot be read.")
    return signer


def _certificates() -> list[Any]:
    """The certificates that signatures of this installation bear."""
    from pyhanko.keys import load_certs_from_pemder

    path = _paths()[1]
    return list(load_certs_from_pemder([str(path)])) if path.exists() else []


def _make_pair(key_path: Path, certificate_path: Path) -> None:
    """A key of its own for this installation, once; its certificate is called self-signed."""
    if certificate_path.exists():
        return
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, settings.ORGANISATION[:64]),
            x509.NameAttribute(NameOID.COMMON_NAME, _OWN),
        ]
    )
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=365 * YEARS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True, content_commitment=True, key_cert_sign=True,
                key_encipherment=False, data_encipherment=False, key_agreement=False,
                crl_sign=False, encipher_only=False, decipher_only=False,
            ),
            critical=True,
        )
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    _write(key_path, private, 0o600)
    _write(certificate_path, certificate.public_bytes(serialization.Encoding.PEM), 0o644)


def _write(path: Path, content: bytes, mode: int) -> None:
    handle = os.open(path.with_suffix(".new"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    path.with_suffix(".new").replace(path)
