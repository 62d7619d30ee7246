"""Certificates for tests, made by openssl in a folder of the test."""

import subprocess
from pathlib import Path

NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


def openssl(*args):
    subprocess.run(["openssl", *args], check=True, capture_output=True, timeout=60)


class Authority:
    """A certificate authority that signs any request."""

    def __init__(self, folder, name="ca"):
        self.folder = Path(folder)
        self.name = name
        self.cert = self.folder / f"{name}.pem"
        self.key = self.folder / f"{name}.key"
        openssl("req", "-x509", *NEW_KEY, "-subj", f"/CN={name}", "-days", "2",
                "-keyout", str(self.key), "-out", str(self.cert))

    def sign(self, name, days=2, names="DNS:localhost,IP:127.0.0.1"):
        """Returns the files of a certificate and its key."""
        cert, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        asked = self.folder / f"{name}.csr"
        openssl("req", *NEW_KEY, "-subj", f"/CN={name}", "-addext", f"subjectAltName={names}",
                "-keyout", str(key), "-out", str(asked))
        openssl("x509", "-req", "-in", str(asked), "-CA", str(self.cert), "-CAkey", str(self.key),
                "-CAcreateserial", "-copy_extensions", "copy", "-days", str(days), "-out", str(cert))
        return cert, key
