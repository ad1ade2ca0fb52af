#!/bin/sh
# Says what the image has of others, from its lock file, with the tools in the virtual environment $1:
#   deploy/sbom.cdx.json            every package, version and hash (CycloneDX)
#   deploy/THIRD_PARTY_NOTICES.md   every package's licence
set -eu

venv=$1
cd "$(dirname "$0")/.."
lock=deploy/requirements-run.lock

# The default index is named, as the lock file names none: what a build takes from a mirror is the same by its hash.
"$venv/bin/python" -W ignore -m cyclonedx_py requirements "$lock" --pyproject pyproject.toml --output-reproducible \
  --output-format JSON --output-file deploy/sbom.cdx.json

names=$(sed -nE "/sys_platform == 'win32'/d; s/^([a-z0-9][A-Za-z0-9._-]*)==.*/\1/p" "$lock") # not what other systems need
{
  cat <<'END'
# Third-party notices

What the image installs beside Perpetua itself (Apache-2.0, `LICENSE`), by `deploy/notices.sh`; `sbom.cdx.json` is the
same as a bill of materials. In the image both are in `/opt/perpetua/share/doc/perpetua`, and each package's licence, in full and with
its notices, is in `/opt/perpetua/lib/python3.12/site-packages/NAME-VERSION.dist-info`. The base image's packages are Debian's, with their
licences in `/usr/share/doc`.

**crc32c is under the LGPL** (2.1 or later), and is not part of Perpetua: it is imported at run time, unmodified, from a package of
its own that you may replace by your own build of it, without building anything else anew: `python -m pip --python
/opt/perpetua/bin/python install YOUR-CRC32C.whl` (in an image, in a layer on top). Only `crc32c.crc32c(data, value)`, the CRC-32C
of bytes, is called. Its source is at <https://pypi.org/project/crc32c/#files>.

END
  # shellcheck disable=SC2086 # one argument for each name
  "$venv/bin/pip-licenses" --packages $names --format=markdown --with-urls --order=name
} > deploy/THIRD_PARTY_NOTICES.md
